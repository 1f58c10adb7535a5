package auth_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// savedSets is a store in memory.
type savedSets struct {
	mu    sync.Mutex // guards the fields below
	texts map[string][]byte
	fault error
	lives []time.Duration
}

func (s *savedSets) Save(_ context.Context, place string, text []byte, life time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == nil {
		s.texts = map[string][]byte{place: text}
		s.lives = append(s.lives, life)
	}
	return s.fault
}

func (s *savedSets) Load(_ context.Context, place string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.texts[place], s.fault
}

// TestSavedSetServesWhereTheProviderFails starts a second verifier, with the store of the
// first, while the provider fails: it has the keys of the first, for as long as that has
// them and no longer, asks again every two seconds when they are too old, and has the new
// ones as soon as the provider answers.
func TestSavedSetServesWhereTheProviderFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, next := keyOf("k1", newEd()), keyOf("k2", newEd())
		idp, store := &provider{keys: keySet(key)}, &savedSets{}
		cfg := auth.Config{Issuers: []auth.Issuer{fetched(remoteIssuer(), clientOf(idp.answer))}, Store: store}
		runningWith(t, cfg)
		fetched := time.Now().Truncate(time.Second)
		synctest.Wait()
		idp.setDown(true)
		time.Sleep(30 * time.Minute)

		second := runningWith(t, cfg)
		synctest.Wait()
		if got := verify(t, second, tokenOf(key, "alice")); got != "" || !second.HasKeys() {
			t.Errorf("with the saved set: refused as %q, has keys %v", got, second.HasKeys())
		}
		if told := second.KeySets()[0]; !told.Fetched.Equal(fetched) ||
			!told.Until.Equal(fetched.Add(time.Hour)) || told.Problem == nil {
			t.Errorf("told %+v, want the time of the fetch, an hour more, and the problem", told)
		}
		time.Sleep(29 * time.Minute)
		if got := verify(t, second, tokenOf(key, "alice")); got != "" {
			t.Errorf("before keys_stale: refused as %q", got)
		}
		time.Sleep(time.Minute)
		if got := verify(t, second, tokenOf(key, "alice")); got != "unavailable" || second.HasKeys() {
			t.Errorf("after keys_stale: got reason %q, has keys %v, want unavailable and none", got,
				second.HasKeys())
		}
		before := idp.count()
		time.Sleep(time.Minute)
		if n := idp.count() - before; n < 2*30 || n > 2*40 { // of both verifiers
			t.Errorf("%d fetches in a minute without a set, want one of each every two seconds", n)
		}
		idp.publish(next)
		idp.setDown(false)
		time.Sleep(2 * time.Second)
		if got := verify(t, second, tokenOf(next, "alice")); got != "" {
			t.Errorf("after the outage: refused as %q", got)
		}
		synctest.Wait()
		store.mu.Lock()
		defer store.mu.Unlock()
		for _, life := range store.lives {
			if life != time.Hour {
				t.Errorf("saved for %v, want keys_stale", life)
			}
		}
	})
}

// TestSetIsSavedAsSoonAsItCan has a store that fails at first, as Redis before it was
// reached.
func TestSetIsSavedAsSoonAsItCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idp, store := &provider{keys: keySet(keyOf("k1", newEd()))},
			&savedSets{fault: errors.New("not reached yet")}
		runningWith(t, auth.Config{
			Issuers: []auth.Issuer{fetched(remoteIssuer(), clientOf(idp.answer))},
			Store:   store,
		})
		time.Sleep(20 * time.Second)
		store.mu.Lock()
		store.fault = nil
		store.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		store.mu.Lock()
		defer store.mu.Unlock()
		if len(store.lives) != 1 || idp.count() != 1 {
			t.Errorf("saved %d times after %d fetches, want once after one", len(store.lives), idp.count())
		}
	})
}

// TestSavedSetIsNoBetterThanAFetchedOne has a set saved that is removed at the provider,
// one of another time than it may be, one that is none, and a store that fails: no token
// passes that would not without a store.
func TestSavedSetIsNoBetterThanAFetchedOne(t *testing.T) {
	key, next := keyOf("k1", newEd()), keyOf("k2", newEd())
	for _, test := range []struct {
		name   string
		down   bool
		change func(s *savedSets, issuer string)
		want   string
	}{
		{"the provider has other keys", false, func(*savedSets, string) {}, "key"},
		{
			"nothing but a time", true,
			func(s *savedSets, issuer string) { s.texts[issuer] = s.texts[issuer][:8] }, "unavailable",
		},
		{
			"half a time", true, func(s *savedSets, issuer string) { s.texts[issuer] = s.texts[issuer][:3] },
			"unavailable",
		},
		{
			"half a set", true, func(s *savedSets, issuer string) { s.texts[issuer] = s.texts[issuer][:30] },
			"unavailable",
		},
		{
			"a time long ago", true, func(s *savedSets, issuer string) { clear(s.texts[issuer][:8]) },
			"unavailable",
		},
		{"the set of another issuer", true, func(s *savedSets, issuer string) {
			s.texts = map[string][]byte{"x" + issuer: s.texts[issuer]}
		}, "unavailable"},
		{
			"a store that fails", true, func(s *savedSets, _ string) { s.fault = errors.New("down") },
			"unavailable",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				idp, store := &provider{keys: keySet(key)}, &savedSets{}
				cfg := auth.Config{
					Issuers: []auth.Issuer{fetched(remoteIssuer(), clientOf(idp.answer))},
					Store:   store,
				}
				runningWith(t, cfg)
				synctest.Wait()
				idp.publish(next)
				idp.setDown(test.down)
				test.change(store, cfg.Issuers[0].Issuer)
				second := runningWith(t, cfg)
				synctest.Wait()
				if got := verify(t, second, tokenOf(key, "alice")); got != test.want {
					t.Errorf("got reason %q, want %q", got, test.want)
				}
				if second.HasKeys() == test.down {
					t.Errorf("has keys %v while the provider fails %v", second.HasKeys(), test.down)
				}
			})
		})
	}
}
