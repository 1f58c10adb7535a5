package signin_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
)

// reload changes the settings that are in force.
func (w *world) reload(change func(*signin.Settings)) {
	next := *w.settings.Load()
	change(&next)
	w.settings.Store(&next)
}

// TestRemovedClientGetsNothing shows that tokens and codes of a client with a secret are
// worth nothing to whoever has no secret, once the operator has removed the client.
func TestRemovedClientGetsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		secret := strings.Repeat("s3cret-", 6)
		w := newWorld(t, func(_ *signin.Config, s *signin.Settings) {
			s.Clients = []clients.Fixed{fixed("web", clients.Fixed{Secret: secret, Redirects: []string{loopback}})}
		})
		b := w.browser(t)
		code := func() string {
			back := w.idp.signIn(t, "ann", b.toProvider(base, query("web", loopback)))
			return parsed(t, b.get(back).Header.Get("Location")).Query().Get("code")
		}
		form := redeem("web", code())
		form.Set("client_secret", secret)
		got := object(t, b.post(base+"/token", form))
		refresh := url.Values{
			"grant_type": {"refresh_token"}, "client_id": {"web"}, "refresh_token": {got["refresh_token"].(string)},
		}
		late := redeem("web", code())
		w.reload(func(s *signin.Settings) { s.Clients = nil })
		for name, form := range map[string]url.Values{"refresh token": refresh, "code": late} {
			if answer := b.post(base+"/token", form); answer.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s without a secret: status %d, want 401: %s", name, answer.StatusCode, read(answer))
			}
		}
	})
}

// TestProviderThatLostATenant shows that a family ends whose provider leads no longer to
// its tenant, though the person cannot be looked up.
func TestProviderThatLostATenant(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.idp.set(func() { w.idp.silent = true })
		c := w.signIn(t, base, "ann", nil)
		time.Sleep(time.Hour)
		_, next := c.mustRefresh(w.server, c.refreshWith)
		w.reload(func(s *signin.Settings) {
			s.Logins = []signin.Login{{
				Provider: s.Logins[0].Provider, Claims: s.Logins[0].Claims, Tenants: []string{"umbrella"},
			}}
		})
		if status, got := c.refresh(w.server, next); status != http.StatusBadRequest || got["error"] != "invalid_grant" {
			t.Errorf("status %d, %v, want an end", status, got)
		}
	})
}

// TestNobodyChoosesAmongNoProviders shows that a client is told, and no person asked,
// that nobody can sign in: with clients for machines alone, or once the operator has
// removed the last provider.
func TestNobodyChoosesAmongNoProviders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser(t)
	id := b.register(base, loopback)
	w.reload(func(s *signin.Settings) { s.Logins = nil })
	to := b.toProvider(base, query(id, loopback))
	if got := parsed(t, to).Query().Get("error"); !strings.HasPrefix(to, loopback+"?") || got != "unauthorized_client" {
		t.Errorf("the browser is sent to %s, want it at the client with unauthorized_client", to)
	}
}
