package signin_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

// once returns a function that is errUnavailable for the first record of a kind whose
// value has a text in it.
func once(kind, text string) func(store.Record) error {
	failed := false
	return func(r store.Record) error {
		if failed || r.Kind != kind || !strings.Contains(string(r.Value), text) {
			return nil
		}
		failed = true
		return errUnavailable
	}
}

// TestEndIsToldThoughTheStoreStumbles shows that a family which has ended is known to
// every replica, though the store failed in the middle of the end.
func TestEndIsToldThoughTheStoreStumbles(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *signedIn){
		"revoked": func(t *testing.T, c *signedIn) {
			form := url.Values{"token": {c.refreshWith}, "client_id": {c.id}}
			if answer := c.b.post(base+"/revoke", form); answer.StatusCode != http.StatusOK {
				t.Errorf("status %d, want 200", answer.StatusCode)
			}
		},
		"stolen": func(t *testing.T, c *signedIn) {
			other := c.b.register(base, "http://127.0.0.1/callback")
			form := url.Values{
				"grant_type": {"refresh_token"}, "refresh_token": {c.refreshWith}, "client_id": {other},
			}
			if answer := c.b.post(base+"/token", form); answer.StatusCode != http.StatusBadRequest {
				t.Errorf("status %d, want 400", answer.StatusCode)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := newWorld(t)
				c := w.signIn(t, base, "ann", nil)
				w.store.onPut = once("ended", "")
				end(t, c)
				if _, err := w.verifier(t).Verify(t.Context(), c.access); err == nil {
					t.Error("an access token of the family is taken")
				}
				told, err := w.store.List(t.Context(), store.Query{Kind: "ended"})
				if err != nil || len(told) != 1 {
					t.Errorf("other replicas are told of %d ends, error %v", len(told), err)
				}
			})
		})
	}
}

// TestCodeSurvivesALostAnswer shows that a code whose family was written, though the
// store could not say so, is not taken for one that comes twice.
func TestCodeSurvivesALostAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.store.lose = once("family", `"stage":"live"`)
		c := w.signIn(t, base, "ann", nil)
		c.mustRefresh(w.server, c.refreshWith)
		if w.counts.get("ended", "code_replay") != 0 {
			t.Errorf("counted %v", w.counts.of)
		}
	})
}
