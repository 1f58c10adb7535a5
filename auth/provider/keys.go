package provider

import (
	"context"
	"fmt"
	"net/http"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// FetchKeySet gets the text of a provider's key set by its document, for whoever verifies
// its access tokens and knows its issuer alone. client is as that of Config, and plain as
// Plain there.
func FetchKeySet(ctx context.Context, client *http.Client, issuer string, plain bool) ([]byte, error) {
	bounded := *client
	bounded.Transport = &transport{inner: client.Transport}
	_, said, err := documentOf(oidc.ClientContext(ctx, &bounded), issuer)
	if err != nil {
		return nil, err
	}
	if err := checkEndpoint(said.Keys, plain); err != nil {
		return nil, fmt.Errorf("jwks_uri of the provider's document: %w", err)
	}
	return auth.FetchKeySet(ctx, client, said.Keys)
}
