package provider_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

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
	g := newOverGitHub(handled(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Host != "github.com" || r.Method != http.MethodHead {
			t.Errorf("GitHub is asked by %s %s", r.Method, r.URL)
		}
		w.Header().Set("Location", "https://github.com/login")
		w.WriteHeader(status)
	}))
	for code, want := range map[int]bool{
		http.StatusFound: true, http.StatusNotFound: true, http.StatusServiceUnavailable: false,
	} {
		status = code
		if err := g.Reach(t.Context()); (err == nil) != want {
			t.Errorf("GitHub answers %d: reached %v, want %v", code, err == nil, want)
		}
	}
}

// TestAProviderThatRefusesTheClientIsNotReached has a client whose secret has expired,
// which only who redeems a code or refreshes learns, until somebody comes through again.
func TestAProviderThatRefusesTheClientIsNotReached(t *testing.T) {
	f := newFake(plainIssuer)
	p, _ := f.provider(t, nil)
	id, err := f.redeem(t, p)
	if err != nil {
		t.Fatal(err)
	}
	code, _ := f.signIn(t, p)
	for _, step := range []struct {
		status  int
		body    string
		refused bool
	}{
		{503, `{"error":"temporarily_unavailable"}`, false},
		{400, `{"error":"invalid_grant"}`, false},
		{401, `{"error":"invalid_client","error_description":"AADSTS7000222: it has expired"}`, true},
		{503, `{"error":"temporarily_unavailable"}`, true},
		{0, "", false},
		{400, `{"error":"unauthorized_client"}`, true},
	} {
		f.bad = func(path string, _ url.Values) (int, string) {
			if path == "/token" {
				return step.status, step.body
			}
			return 0, ""
		}
		if step.refused && step.status != http.StatusServiceUnavailable {
			_, err := p.Exchange(t.Context(), attempt, code, "")
			if !errors.Is(err, signin.ErrClientRefused) {
				t.Errorf("%d %s: redeemed the code with error %v", step.status, step.body, err)
			}
		} else if _, err := p.Refresh(t.Context(), id.RefreshToken); (err == nil) != (step.status == 0) {
			t.Errorf("%d %s: refresh: error %v", step.status, step.body, err)
		}
		err := p.Reach(t.Context())
		if (err != nil) != step.refused || err != nil && !strings.Contains(err.Error(), "has its secret or key expired?") {
			t.Errorf("%d %s: got error %v, want one: %v", step.status, step.body, err, step.refused)
		}
	}

	g := newOverGitHub(handled(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost {
			w.Write([]byte(`{"error":"incorrect_client_credentials"}`))
		}
	}))
	if err := g.Reach(t.Context()); err != nil {
		t.Errorf("GitHub, before anybody signs in: %v", err)
	}
	_, refused := g.Exchange(t.Context(), attempt, "code", "")
	if err := g.Reach(t.Context()); refused == nil || err == nil {
		t.Errorf("GitHub refuses the client with %v: got error %v", refused, err)
	}
}
