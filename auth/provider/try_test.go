package provider_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/auth/provider"
)

// TestTry shows what an operator is told before anybody signs in.
func TestTry(t *testing.T) {
	for _, c := range []struct {
		name     string
		location string // that the authorization endpoint sends to; "": none
		document map[string]any
		scopes   []string
		bad      string // path that is not there
		want     string // in the error; "": there is none
		notes    []string
	}{
		{name: "good", location: callback + "?error=login_required&state=x"},
		{name: "good, at Google", location: callback + "?error=immediate_failed"},
		{name: "unknown callback", want: "register this address there"},
		{
			name: "a callback that begins alike", location: callback + ".evil.example?error=login_required",
			want: "register this address there",
		},
		{
			name:     "a scope that is not allowed",
			location: callback + "?error=invalid_scope&error_description=No+such+scope",
			want:     "invalid_scope: No such scope",
		},
		{name: "no keys", bad: "/keys", want: "status 404"},
		{name: "no document", bad: "/.well-known/openid-configuration", want: "status 404"},
		{
			name: "notes", location: callback + "?error=login_required", scopes: []string{"openid", "groups"},
			document: map[string]any{
				"scopes_supported": []string{"openid"}, "claims_supported": []string{"sub"},
			},
			notes: []string{`the scope "groups"`, "offline_access", `the claim "groups"`, `the claim "realm"`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(plainIssuer)
			f.document = c.document
			f.bad = func(path string, _ url.Values) (int, string) {
				if path == c.bad {
					return http.StatusNotFound, "not here"
				}
				return 0, ""
			}
			f.location = c.location
			p, _ := f.provider(t, func(cfg *provider.Config) {
				if c.scopes != nil {
					cfg.Scopes = c.scopes
				}
			})
			notes, err := p.Try(t.Context(), callback, []string{"groups", "realm", "https://a.example/b"})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
			if len(notes) != len(c.notes) {
				t.Fatalf("got notes %q, want %q", notes, c.notes)
			}
			for i, want := range c.notes {
				if !strings.Contains(notes[i], want) {
					t.Errorf("got note %q, want %q in it", notes[i], want)
				}
			}
		})
	}
}
