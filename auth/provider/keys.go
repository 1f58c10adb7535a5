package provider

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// KeySet finds the key set of a provider by its document, for whoever verifies its access
// tokens and knows one address only. It implements http.RoundTripper.
type KeySet struct {
	Issuer string
	Plain  bool              // as of Config
	Inner  http.RoundTripper // makes the requests
}

var _ http.RoundTripper = KeySet{}

// RoundTrip asks for the document in place of what is asked for, and answers with the key
// set that it leads to.
func (k KeySet) RoundTrip(r *http.Request) (*http.Response, error) {
	document, err := http.NewRequestWithContext(r.Context(), http.MethodGet, DocumentURL(k.Issuer),
		http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := k.Inner.RoundTrip(document)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	_ = response.Body.Close() // all that is wanted was read
	if err != nil || response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get the provider's document: status %d", response.StatusCode)
	}
	var said struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if strictjson.Unmarshal(body, &said) != nil {
		return nil, errors.New("the provider's document is no JSON object")
	}
	if said.Issuer != k.Issuer {
		return nil, otherIssuer(said.Issuer, k.Issuer)
	}
	if err := checkEndpoint(said.Keys, k.Plain); err != nil {
		return nil, fmt.Errorf("jwks_uri of the provider's document: %w", err)
	}
	keys, err := http.NewRequestWithContext(r.Context(), http.MethodGet, said.Keys, http.NoBody)
	if err != nil {
		return nil, err
	}
	keys.Header = r.Header
	return k.Inner.RoundTrip(keys)
}
