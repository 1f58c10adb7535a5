package provider_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/auth/provider"
	"github.com/drawbridge-mcp/drawbridge/auth/signin"
)

// TestReach shows when a provider counts as reached: its document must be there and be of
// the issuer; of GitHub any answer will do that is no fault of its own.
func TestReach(t *testing.T) {
	f := newFake("https://idp.example")
	p, _ := f.provider(t, nil)
	if err := p.Reach(t.Context()); err != nil {
		t.Errorf("a provider that is there: %v", err)
	}
	f.bad = func(path string, _ url.Values) (int, string) { return http.StatusBadGateway, path }
	if err := p.Reach(t.Context()); err == nil {
		t.Error("a provider whose document is not there counts as reached")
	}
	if _, err := p.AuthURL(t.Context(), attempt); err != nil {
		t.Errorf("the document of before does not serve any more: %v", err)
	}
	status := http.StatusFound
	g, err := provider.NewGitHub(provider.Config{
		Name: "github", ClientID: clientID, ClientSecret: secret,
		Client: &http.Client{
			Transport: handled(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Host != "github.com" || r.Method != http.MethodHead {
					t.Errorf("GitHub is asked by %s %s", r.Method, r.URL)
				}
				w.Header().Set("Location", "https://github.com/login")
				w.WriteHeader(status)
			}),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for code, want := range map[int]bool{
		http.StatusFound: true, http.StatusNotFound: true, http.StatusServiceUnavailable: false,
	} {
		status = code
		if err := signin.Reacher(g).Reach(t.Context()); (err == nil) != want {
			t.Errorf("GitHub answers %d: reached %v, want %v", code, err == nil, want)
		}
	}
}
