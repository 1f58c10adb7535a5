package signin_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
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
// every replica and on record once, though the store failed in the middle of the end, or
// could not say that it was written.
func TestEndIsToldThoughTheStoreStumbles(t *testing.T) {
	for reason, end := range map[string]func(*testing.T, *signedIn){
		"revoked": func(t *testing.T, c *signedIn) {
			form := url.Values{"token": {c.refreshWith}, "client_id": {c.id}}
			if answer := c.b.post(base+"/revoke", form); answer.StatusCode != http.StatusOK {
				t.Errorf("status %d, want 200", answer.StatusCode)
			}
		},
		"other_client": func(t *testing.T, c *signedIn) {
			other := c.b.register(base, "http://127.0.0.1/callback")
			form := url.Values{
				"grant_type": {"refresh_token"}, "refresh_token": {c.refreshWith}, "client_id": {other},
			}
			if answer := c.b.post(base+"/token", form); answer.StatusCode != http.StatusBadRequest {
				t.Errorf("status %d, want 400", answer.StatusCode)
			}
		},
	} {
		for name, stumble := range map[string]func(*memory){
			"before replicas are told": func(m *memory) { m.onPut = once("ended", "") },
			"the answer is lost":       func(m *memory) { m.lose = once("family", `"stage":"ended"`) },
		} {
			t.Run(reason+", "+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					w := newWorld(t)
					c := w.signIn(t, base, "ann", nil)
					stumble(w.store)
					end(t, c)
					if _, err := w.verifier(t).Verify(t.Context(), c.access); err == nil {
						t.Error("an access token of the family is taken")
					}
					told, err := w.store.List(t.Context(), store.Query{Kind: "ended"})
					if err != nil || len(told) != 1 {
						t.Errorf("other replicas are told of %d ends, error %v", len(told), err)
					}
					if n := w.counts.get("ended", reason); n != 1 {
						t.Errorf("counted %d ends for the reason, want 1", n)
					}
				})
			})
		}
	}
}

// TestCodeSurvivesALostAnswer shows that a code whose family was written, though the
// store could not say so, is not taken for one that comes twice, and is on record.
func TestCodeSurvivesALostAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.store.lose = once("family", `"stage":"live"`)
		c := w.signIn(t, base, "ann", nil)
		c.mustRefresh(w.server, c.refreshWith)
		if w.counts.get("ended", "code_replay") != 0 {
			t.Errorf("counted %v", w.counts.of)
		}
		if n := strings.Count(w.log.String(), `msg="signed in"`); n != 1 {
			t.Errorf("the log says %d times that somebody has signed in, want once: %s", n, w.log)
		}
	})
}

// TestConsentSurvivesALostAnswer shows that a person gets on whose sign-in or consent was
// written, though the store could not say so.
func TestConsentSurvivesALostAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, stage := range []string{"consent", "code"} {
			w := newWorld(t)
			w.store.lose = once("family", `"stage":"`+stage+`"`)
			w.signIn(t, base, "ann", nil)
		}
	})
}

// hookedStore is a store in which something happens before a record is written.
type hookedStore struct {
	store.Store

	before func(store.Record)
}

func (m hookedStore) Put(ctx context.Context, r store.Record) (int64, error) {
	m.before(r)
	return m.Store.Put(ctx, r)
}

// TestFamilyEndsThoughItsClientComesMeanwhile has a client that refreshes just when its
// family ends. Replicas have been told of the end by then, and refuse its access tokens,
// so that the family must not live on.
func TestFamilyEndsThoughItsClientComesMeanwhile(t *testing.T) {
	var w *world
	var c *signedIn
	for name, end := range map[string]func(t *testing.T){
		"a code that comes twice": func(t *testing.T) {
			b := w.browser(t)
			id := b.register(base, loopback)
			form := redeem(id, w.code(t, b, base, "ann", id, nil))
			got := object(t, b.post(base+"/token", form))
			c = &signedIn{b: b, at: base, id: id, refreshWith: got["refresh_token"].(string)}
			if answer := object(t, b.post(base+"/token", form)); answer["error"] != "invalid_grant" {
				t.Errorf("the second use is answered %v, want invalid_grant", answer)
			}
		},
		"too many sign-ins": func(t *testing.T) {
			c = w.signIn(t, base, "ann", nil)
			for range 100 {
				w.signIn(t, base, "ann", nil)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			met := false
			w = newWorld(t, func(cfg *signin.Config, _ *signin.Settings) {
				cfg.Store = hookedStore{cfg.Store, func(r store.Record) {
					if !met && r.Kind == "ended" {
						met = true
						_, c.refreshWith = c.mustRefresh(w.server, c.refreshWith)
					}
				}}
			})
			end(t)
			if status, got := c.refresh(w.server, c.refreshWith); !met || status != http.StatusBadRequest {
				t.Errorf("a refresh after the end, which met one: %t: status %d, %v", met, status, got["error"])
			}
		})
	}
}

// TestASignOutIsOnRecordOnce has a client that refreshes just when the operator signs its
// person out, so that the end is told to replicas twice.
func TestASignOutIsOnRecordOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.signIn(t, base, "ann", nil)
		var lines atomic.Int32
		var running sync.WaitGroup
		ctx, cancel := contextOf(t)
		for range 2 {
			replica := w.replica(t, func(cfg *signin.Config, _ *signin.Settings) {
				cfg.Audit = func(_ context.Context, r audit.Record) bool {
					if r.Reason == "signed_out" {
						lines.Add(1)
					}
					return true
				}
			})
			running.Go(func() { _ = replica.Run(ctx) })
		}
		time.Sleep(time.Minute)
		told := 0
		command := w.replica(t, func(cfg *signin.Config, _ *signin.Settings) {
			cfg.Records = &counts{} // which nobody reads
			cfg.Store = hookedStore{cfg.Store, func(r store.Record) {
				if r.Kind != "ended" {
					return
				}
				if told++; told == 1 {
					c.mustRefresh(w.server, c.refreshWith)
				}
				time.Sleep(time.Millisecond)
			}}
		})
		if n, err := command.SignOut(t.Context(), idpIssuer, "ann"); n != 1 || err != nil || told != 2 {
			t.Errorf("ended %d, error %v, after replicas were told %d times, want 1 after 2", n, err, told)
		}
		time.Sleep(time.Second)
		if n := lines.Load(); n != 1 {
			t.Errorf("the end is on record %d times, want once", n)
		}
		if n := w.counts.get("ended", "signed_out"); n != 1 {
			t.Errorf("the end is counted %d times, want once", n)
		}
		cancel()
		running.Wait()
	})
}
