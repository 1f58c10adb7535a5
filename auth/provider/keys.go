package provider

import (
	"fmt"
	"net/http"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
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
	client := dial.Client(dial.Config{})
	client.Transport = &transport{inner: k.Inner, now: time.Now}
	_, said, err := documentOf(oidc.ClientContext(r.Context(), client), k.Issuer)
	if err != nil {
		return nil, err
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
