package provider_test

import (
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
		text, err := provider.FetchKeySet(t.Context(), &http.Client{Transport: f}, plainIssuer, c.plain)
		if (err == nil) != c.ok || strings.Contains(string(text), `"kid":"key-1"`) != c.ok {
			t.Errorf("%s: got %s and error %v, want the key set: %t", c.name, text, err, c.ok)
		}
	}
}
