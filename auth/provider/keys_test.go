package provider_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/auth/provider"
)

func TestKeySetIsFoundByTheDocument(t *testing.T) {
	for _, c := range []struct {
		name   string
		change map[string]any
		plain  bool
		ok     bool
	}{
		{"good", nil, false, true},
		{"another issuer", map[string]any{"issuer": plainIssuer + "/"}, false, false},
		{"no key set", map[string]any{"jwks_uri": ""}, false, false},
		{"plain http", map[string]any{"jwks_uri": "http://login.example.com/keys"}, false, false},
		{"plain http, allowed", map[string]any{"jwks_uri": "http://login.example.com/keys"}, true, true},
		{"too long", map[string]any{"x": strings.Repeat("a", 2<<20)}, false, false},
	} {
		f := newFake(plainIssuer)
		if c.change != nil {
			f.document = c.change
		}
		client := &http.Client{Transport: provider.KeySet{Issuer: plainIssuer, Plain: c.plain, Inner: f}}
		request := must(http.NewRequestWithContext(t.Context(), http.MethodGet,
			provider.DocumentURL(plainIssuer), http.NoBody))
		response, err := client.Do(request)
		if (err == nil) != c.ok {
			t.Errorf("%s: got error %v, want success %t", c.name, err, c.ok)
			continue
		}
		if err != nil {
			continue
		}
		if body := must(io.ReadAll(response.Body)); !strings.Contains(string(body), `"kid":"key-1"`) {
			t.Errorf("%s: got %s, want the key set", c.name, body)
		}
	}
}
