package auth_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// times draws a keys_refresh and a keys_stale within their bounds, short ones as often as
// long ones.
func times(r *rand.Rand) (refresh, stale time.Duration) {
	between := func(low, high time.Duration) time.Duration {
		return time.Duration(float64(low) * math.Pow(float64(high)/float64(low), r.Float64()))
	}
	refresh = between(10*time.Second, 24*time.Hour).Round(time.Second)
	return refresh, max(refresh, between(refresh, 24*time.Hour).Round(time.Second))
}

// TestARemovedKeyIsRefusedInTime removes the key of a caller at any moment, or lets the
// provider fail from then on, for many settings: within keys_refresh, or keys_stale, the
// token and the principal are refused, and callers were told so.
func TestARemovedKeyIsRefusedInTime(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 150 {
		refresh, stale := times(r)
		fails := r.IntN(2) == 0
		slow := time.Duration(r.Int64N(int64(4 * time.Second))) // how long the provider takes
		moment := 10*time.Second + time.Duration(r.Int64N(int64(3*refresh)))
		synctest.Test(t, func(t *testing.T) {
			key := keyOf("k1", newEd())
			idp := &provider{keys: keySet(key)}
			var told atomic.Int64
			issuer := remoteIssuer()
			issuer.KeysRefresh, issuer.KeysStale = refresh, stale
			v := runningWith(t, auth.Config{
				Issuers: []auth.Issuer{fetched(issuer, clientOf(slowly(idp.answer, slow)))},
				Changed: func() { told.Add(1) },
			})
			time.Sleep(moment)
			token := tokenLiving(key, 23*time.Hour)
			p, err := v.Verify(t.Context(), token)
			if err != nil || v.Recheck(p) != nil || told.Load() != 1 {
				t.Fatalf(
					"refresh %v, stale %v, before: %v, judged %v, told %d times, want once of the first set",
					refresh, stale, err, v.Recheck(p), told.Load())
			}
			bound, want := refresh, "key"
			if fails {
				idp.setDown(true)
				bound, want = stale, "unavailable"
			} else {
				idp.publish(keyOf("k2", newEd()))
			}
			if bound > 22*time.Hour {
				return // the token ends first
			}
			time.Sleep(bound + slow)
			synctest.Wait()
			if got := verify(t, v, token); got != want {
				t.Errorf(
					"refresh %v, stale %v, the provider fails %v: after %v the token is refused as %q, want %q", refresh, stale, fails, bound, got, want)
			}
			if got := reason(t, token, v.Recheck(p)); got != want {
				t.Errorf("refresh %v, stale %v, the provider fails %v: after %v judged %q, want %q", refresh,
					stale, fails, bound, got, want)
			}
			if told.Load() < 2 {
				t.Errorf("refresh %v, stale %v, the provider fails %v: nobody was told", refresh, stale,
					fails)
			}
		})
	}
}

// slowly makes each answer take a while.
func slowly(answer transport, d time.Duration) transport {
	return func(r *http.Request) (*http.Response, error) {
		response, err := answer(r)
		time.Sleep(d)
		return response, err
	}
}

func tokenLiving(key auth.Key, life time.Duration) string {
	head := header("EdDSA").with("kid", `"`+key.ID+`"`)
	return mint(key.Private, head, claims(time.Now()).with("exp", fmt.Sprint(time.Now().Add(life).Unix())))
}

// TestLastKeysServeWhileTheProviderFails shows the other side of keys_stale: until then
// nobody is refused.
func TestLastKeysServeWhileTheProviderFails(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 30 {
		refresh, stale := times(r)
		synctest.Test(t, func(t *testing.T) {
			key := keyOf("k1", newEd())
			idp := &provider{keys: keySet(key)}
			issuer := remoteIssuer()
			issuer.KeysRefresh, issuer.KeysStale = refresh, stale
			v := runningWith(t, auth.Config{Issuers: []auth.Issuer{fetched(issuer, clientOf(idp.answer))}})
			synctest.Wait()
			idp.setDown(true)
			time.Sleep(stale - time.Second)
			if got := verify(t, v, tokenOf(key, "alice")); got != "" {
				t.Errorf("refresh %v, stale %v: refused as %q a second before", refresh, stale, got)
			}
			told := v.KeySets()[0]
			if stale > refresh && (told.Problem == nil || told.Failing.IsZero()) ||
				told.Until.Sub(told.Fetched) != stale {
				t.Errorf("refresh %v, stale %v: told %+v", refresh, stale, told)
			}
			time.Sleep(time.Second)
			if told := v.KeySets()[0]; !told.Until.IsZero() {
				t.Errorf("refresh %v, stale %v: told of keys that serve no more: %+v", refresh, stale, told)
			}
		})
	}
}

// TestRefreshIsAtOnce removes a key a moment after a fetch, and while one is under way
// that has the old keys.
func TestRefreshIsAtOnce(t *testing.T) {
	for _, after := range []time.Duration{
		time.Second, 5 * time.Second, 29 * time.Second,
		4*time.Minute + 59*time.Second,
	} {
		for _, slow := range []time.Duration{0, 3 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				key, next := keyOf("k1", newEd()), keyOf("k2", newEd())
				idp := &provider{keys: keySet(key, next)}
				v := running(t, clientOf(slowly(idp.answer, slow)))
				time.Sleep(after)
				synctest.Wait()
				idp.publish(next)
				begun, before := time.Now(), idp.count()
				for range 10 {
					v.Refresh()
				}
				if time.Since(begun) > 0 {
					t.Errorf("waited for the provider")
				}
				time.Sleep(2 * slow)
				synctest.Wait()
				if got := verify(t, v, tokenOf(key, "alice")); got != "key" {
					t.Errorf("%v after a fetch that takes %v: a removed key: got %q, want key", after, slow,
						got)
				}
				if got := verify(t, v, tokenOf(next, "alice")); got != "" {
					t.Errorf("%v after a fetch that takes %v: refused as %q", after, slow, got)
				}
				// the one under way, and one for all ten
				if fetches := idp.count() - before; slow > 0 && fetches > 2 {
					t.Errorf("%v after a fetch that takes %v: got %d more fetches, want 2 at most", after,
						slow, fetches)
				}
			})
		}
	}
}

// TestKeyTimesWithinBounds asks for times around the bounds, and shows the defaults.
func TestKeyTimesWithinBounds(t *testing.T) {
	for _, test := range []struct {
		refresh, stale time.Duration
		want           string
	}{
		{0, 0, ""},
		{10 * time.Second, 10 * time.Second, ""},
		{24 * time.Hour, 24 * time.Hour, ""},
		{2 * time.Hour, 0, ""},
		{0, 5 * time.Minute, ""},
		{0, 5*time.Minute - 1, "at least as long"},
		{10*time.Second - 1, 0, "every 10s to 24h"},
		{24*time.Hour + 1, 0, "every 10s to 24h"},
		{-1, 0, "every 10s to 24h"},
		{0, 24*time.Hour + 1, "at most 24h"},
		{0, -1, "at least as long"},
	} {
		issuer := remoteIssuer()
		issuer.KeysRefresh, issuer.KeysStale = test.refresh, test.stale
		_, err := auth.New(auth.Config{Issuers: []auth.Issuer{issuer}})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("refresh %v, stale %v: got %v, want %q", test.refresh, test.stale, err, test.want)
		}
	}
}

// TestRemovedKeyOverARealConnection shows with the shortest times, by the real clock and
// over a real connection, that a removed key is refused, and that all keys are when the
// provider has failed for long. It takes ten seconds.
func TestRemovedKeyOverARealConnection(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprintf("the provider fails: %v", fails), func(t *testing.T) {
			t.Parallel()
			key, next := keyOf("k1", newEd()), keyOf("k2", newEd())
			var body atomic.Pointer[[]byte] // nil: the provider fails
			body.Store(new(keySet(key, next)))
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if set := body.Load(); set != nil {
					w.Write(*set)
					return
				}
				w.WriteHeader(http.StatusServiceUnavailable)
			}))
			t.Cleanup(server.Close)
			issuer := remoteIssuer()
			issuer.JWKSURL, issuer.KeysRefresh, issuer.KeysStale = server.URL, 10*time.Second, 10*time.Second
			changed := make(chan struct{}, 1)
			v := runningWith(t, auth.Config{
				Issuers: []auth.Issuer{fetched(issuer, server.Client())},
				Changed: func() {
					select {
					case changed <- struct{}{}:
					default:
					}
				},
			})
			token := tokenOf(key, "alice")
			p, err := v.Verify(t.Context(), token)
			if err != nil {
				t.Fatal(err)
			}
			<-changed // the first set
			want := "key"
			if fails {
				body.Store(nil)
				want = "unavailable"
			} else {
				body.Store(new(keySet(next)))
			}
			select {
			case <-changed:
			case <-time.After(time.Minute):
				t.Fatal("nobody was told within a minute")
			}
			if got := reason(t, token, v.Recheck(p)); got != want {
				t.Errorf("judged %q, want %q", got, want)
			}
			if got := verify(t, v, token); got != want {
				t.Errorf("refused as %q, want %q", got, want)
			}
			if got := verify(t, v, tokenOf(next, "bob")); got != "" && !fails {
				t.Errorf("a token of the other key: refused as %q", got)
			}
		})
	}
}
