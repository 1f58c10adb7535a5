package auth_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/lifetime/lifetimetest"
)

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func clientOf(f transport) *http.Client { return &http.Client{Transport: f} }

// fetched returns an issuer whose key set a client fetches.
func fetched(issuer auth.Issuer, client *http.Client) auth.Issuer {
	issuer.Place = issuer.Issuer
	issuer.Fetch = func(ctx context.Context) ([]byte, error) {
		return auth.FetchKeySet(ctx, client, issuer.JWKSURL)
	}
	return issuer
}

// provider answers with a key set and notes when it was asked.
type provider struct {
	mu      sync.Mutex // guards the fields below
	keys    []byte
	down    bool
	fetches []time.Time
}

func (p *provider) answer(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fetches = append(p.fetches, time.Now())
	if p.down {
		return nil, errors.New("connection refused")
	}
	return answer(r, p.keys), nil
}

func answer(r *http.Request, body []byte) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body)),
		Header: http.Header{}, Request: r,
	}
}

func (p *provider) publish(keys ...auth.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = keySet(keys...)
}

func (p *provider) setDown(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

func (p *provider) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.fetches)
}

// checkPace fails when two fetches are less than 30 s apart.
func (p *provider) checkPace(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := 1; i < len(p.fetches); i++ {
		if gap := p.fetches[i].Sub(p.fetches[i-1]); gap < 30*time.Second {
			t.Fatalf("fetch %d came %v after the one before, want at least 30 s", i, gap)
		}
	}
}

func remoteIssuer() auth.Issuer {
	issuer := acme(auth.Key{}, "EdDSA")
	issuer.Keys, issuer.JWKSURL = nil, "https://login.acme.example/keys"
	return issuer
}

// running returns a verifier whose key sets are fetched with client until the test, or
// bubble, ends.
func running(t *testing.T, client *http.Client) *auth.Verifier {
	t.Helper()
	return runningWith(t, auth.Config{Issuers: []auth.Issuer{fetched(remoteIssuer(), client)}})
}

// runningWith returns a verifier that runs until the test, or bubble, ends.
func runningWith(t *testing.T, cfg auth.Config) *auth.Verifier {
	t.Helper()
	v, err := auth.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	lifetimetest.Run(t, v.Run)
	return v
}

func tokenOf(key auth.Key, subject string) string {
	head := header("EdDSA").with("kid", strconv.Quote(key.ID))
	return mint(key.Private, head, claims(time.Now()).with("sub", strconv.Quote(subject)))
}

func verify(t *testing.T, v *auth.Verifier, token string) string {
	t.Helper()
	_, err := v.Verify(t.Context(), token)
	return reason(t, token, err)
}

// TestT43UnknownKeyFlood shows that 100,000 tokens with names of keys that do not exist
// cause one fetch every 30 s at most, while good tokens pass.
func TestT43UnknownKeyFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const senders, rounds = 10, 100
		each := 100 // in a round
		if testing.Short() {
			each = 10
		}
		key := keyOf("k1", newEd())
		idp := &provider{keys: keySet(key)}
		v := running(t, clientOf(idp.answer))
		synctest.Wait()
		begun := time.Now()
		payload := encode(claims(begun).String())
		var flood sync.WaitGroup
		for sender := range senders {
			flood.Go(func() {
				for i := range rounds * each {
					if i%each == 0 {
						time.Sleep(3 * time.Second)
					}
					head := fmt.Sprintf(`{"alg":"EdDSA","kid":"x%d.%d"}`, sender, i)
					token := encode(head) + "." + payload + ".AAAA"
					if got := verify(t, v, token); got != "key" {
						t.Errorf("unknown key: got reason %q, want key", got)
						return
					}
				}
			})
		}
		for i := range 50 {
			time.Sleep(time.Second)
			if got := verify(t, v, tokenOf(key, fmt.Sprint("user", i))); got != "" {
				t.Errorf("good token during the flood: %s", got)
			}
		}
		flood.Wait()
		idp.checkPace(t)
		if most := int(time.Since(begun)/(30*time.Second)) + 1; idp.count() > most || idp.count() < 5 {
			t.Errorf("got %d fetches in %v, want 5 to %d", idp.count(), time.Since(begun), most)
		}
	})
}

// TestT43SameUnknownKey shows that one name that does not exist is looked for every 30 s.
func TestT43SameUnknownKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idp := &provider{keys: keySet(keyOf("k1", newEd()))}
		v := running(t, clientOf(idp.answer))
		synctest.Wait()
		stranger := keyOf("k2", newEd())
		for range 300 {
			time.Sleep(time.Second)
			if got := verify(t, v, tokenOf(stranger, "eve")); got != "key" {
				t.Fatalf("got reason %q, want key", got)
			}
		}
		idp.checkPace(t)
		if n := idp.count(); n < 9 || n > 11 {
			t.Errorf("got %d fetches in 5 minutes, want one every 30 s", n)
		}
	})
}

// TestT43RotationUnderLoad changes the key every two minutes while 8 users work: no token
// is refused, and tokens of a key that was removed are.
func TestT43RotationUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := keyOf("k0", newEd())
		var current atomic.Value
		current.Store(key)
		idp := &provider{keys: keySet(key)}
		v := running(t, clientOf(idp.answer))
		ctx, stop := context.WithCancel(t.Context())
		var load sync.WaitGroup
		var calls atomic.Int64
		for user := range 8 {
			load.Go(func() {
				for ctx.Err() == nil {
					token := tokenOf(current.Load().(auth.Key), fmt.Sprint("user", user))
					if got := verify(t, v, token); got != "" {
						t.Errorf("user %d at %v: refused: %s", user, time.Now(), got)
					}
					calls.Add(1)
					time.Sleep(3 * time.Second)
				}
			})
		}
		first := tokenOf(key, "first")
		if got := verify(t, v, first); got != "" {
			t.Fatalf("first token: refused: %s", got)
		}
		for i := range 5 {
			time.Sleep(2 * time.Minute)
			next := keyOf(fmt.Sprint("k", i+1), newEd())
			idp.publish(key, next) // the old one verifies a while longer
			current.Store(next)
			key = next
		}
		time.Sleep(time.Minute)
		stop()
		load.Wait()
		idp.checkPace(t)
		if calls.Load() < 1500 {
			t.Errorf("got %d calls, want more", calls.Load())
		}
		if got := verify(t, v, first); got != "key" {
			t.Errorf("remembered token of a removed key: got reason %q, want key", got)
		}
	})
}

// TestT43Outage shows that the last keys serve for keys_stale while no new ones can be
// had, and that all is well again soon after.
func TestT43Outage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, next := keyOf("k1", newEd()), keyOf("k2", newEd())
		idp := &provider{keys: keySet(key)}
		issuer := remoteIssuer()
		issuer.KeysStale = 24 * time.Hour
		v := runningWith(t, auth.Config{Issuers: []auth.Issuer{fetched(issuer, clientOf(idp.answer))}})
		synctest.Wait()
		idp.setDown(true)
		for range 23 {
			time.Sleep(time.Hour)
			if got := verify(t, v, tokenOf(key, "alice")); got != "" {
				t.Fatalf("refused during the outage: %s", got)
			}
		}
		if got := verify(t, v, tokenOf(next, "alice")); got != "unavailable" {
			t.Errorf("a key we cannot look for: got reason %q, want unavailable", got)
		}
		remembered := tokenOf(key, "bob")
		if got := verify(t, v, remembered); got != "" {
			t.Errorf("refused within 24 hours: %s", got)
		}
		time.Sleep(59 * time.Minute)
		idp.checkPace(t)
		time.Sleep(2 * time.Minute)
		for _, token := range []string{remembered, tokenOf(key, "carol")} {
			if got := verify(t, v, token); got != "unavailable" {
				t.Errorf("after 24 hours: got reason %q, want unavailable", got)
			}
		}
		idp.setDown(false)
		idp.publish(next)
		time.Sleep(2 * time.Second)
		if got := verify(t, v, tokenOf(next, "alice")); got != "" {
			t.Errorf("refused after the outage: %s", got)
		}
		if got := verify(t, v, tokenOf(key, "alice")); got != "key" {
			t.Errorf("a key that is gone: got reason %q, want key", got)
		}
	})
}

// TestRefreshInTheBackground shows that removed keys go without anybody asking.
func TestRefreshInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, other := keyOf("k1", newEd()), keyOf("k2", newEd())
		idp := &provider{keys: keySet(key, other)}
		v := running(t, clientOf(idp.answer))
		token := tokenOf(key, "alice")
		if got := verify(t, v, token); got != "" {
			t.Fatalf("refused: %s", got)
		}
		idp.publish(other)
		time.Sleep(5*time.Minute + time.Second)
		if n := idp.count(); n != 2 {
			t.Errorf("got %d fetches, want 2", n)
		}
		if got := verify(t, v, token); got != "key" {
			t.Errorf("got reason %q, want key", got)
		}
	})
}

// TestManyWaitForOneFetch shows single flight, and that nobody waits longer than its
// context.
func TestManyWaitForOneFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := keyOf("k1", newEd())
		var fetches atomic.Int32
		v := running(t, clientOf(func(r *http.Request) (*http.Response, error) {
			fetches.Add(1)
			time.Sleep(3 * time.Second)
			return answer(r, keySet(key)), nil
		}))
		begun := time.Now()
		var waiting sync.WaitGroup
		for i := range 32 {
			waiting.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				token := tokenOf(key, fmt.Sprint("user", i))
				if i%2 == 0 {
					if got := verify(t, v, token); got != "" {
						t.Errorf("refused: %s", got)
					}
					return
				}
				_, err := v.Verify(ctx, token)
				if got := reason(t, token, err); got != "unavailable" ||
					!errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %q (%v), want unavailable because of the deadline", got, err)
				}
				if waited := time.Since(begun); waited != time.Second {
					t.Errorf("waited %v, want 1 s", waited)
				}
			})
		}
		waiting.Wait()
		if fetches.Load() != 1 {
			t.Errorf("got %d fetches, want 1", fetches.Load())
		}
	})
}

// hanging answers with a key set once; whoever asks later gets no answer.
func hanging(keys []byte) transport {
	var asked atomic.Bool
	return func(r *http.Request) (*http.Response, error) {
		if !asked.Swap(true) {
			return answer(r, keys), nil
		}
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
}

// TestT43UnknownKeysHoldFewPlaces shows that of those who name a key that does not exist
// only some wait for the provider, and that nobody does once it has failed.
func TestT43UnknownKeysHoldFewPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const senders, most = 100, 32
		key := keyOf("k1", newEd())
		v := running(t, clientOf(hanging(keySet(key))))
		synctest.Wait()
		flood := func() int64 {
			var all sync.WaitGroup
			var held atomic.Int64
			begun := time.Now()
			for i := range senders {
				token := tokenOf(keyOf(fmt.Sprint("x", i), newEd()), "eve")
				all.Go(func() {
					if got := verify(t, v, token); got != "unavailable" {
						t.Errorf("got reason %q, want unavailable", got)
					}
					if time.Since(begun) > 0 {
						held.Add(1)
					}
				})
			}
			all.Wait()
			return held.Load()
		}
		time.Sleep(31 * time.Second) // a fetch may be made again
		if got := flood(); got != most {
			t.Errorf("%d of %d waited, want %d", got, senders, most)
		}
		time.Sleep(31 * time.Second)
		if got := flood(); got != 0 {
			t.Errorf("%d of %d waited for a provider that has failed, want none", got, senders)
		}
		if got := verify(t, v, tokenOf(key, "alice")); got != "" {
			t.Errorf("good token: %s", got)
		}
	})
}

// TestSilentProvider shows that a provider that never answers, or never ends its answer,
// holds nobody for long.
func TestSilentProvider(t *testing.T) {
	bodies := map[string]transport{
		"no answer": func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
		"no end": func(r *http.Request) (*http.Response, error) {
			response := answer(r, nil)
			response.Body = io.NopCloser(slowBody(func() error { return r.Context().Err() }))
			return response, nil
		},
	}
	for name, silent := range bodies {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := running(t, clientOf(silent))
				begun := time.Now()
				if got := verify(t, v, tokenOf(keyOf("k1", newEd()), "alice")); got != "unavailable" {
					t.Errorf("got reason %q, want unavailable", got)
				}
				if waited := time.Since(begun); waited > 6*time.Second {
					t.Errorf("waited %v, want 6 s at most", waited)
				}
			})
		})
	}
}

// slowBody yields a blank a second until it returns an error.
type slowBody func() error

func (d slowBody) Read(p []byte) (int, error) {
	time.Sleep(time.Second)
	p[0] = ' '
	return 1, d()
}

// TestWithoutRun shows what happens before Run runs and after it has ended: a bounded
// wait, and none.
func TestWithoutRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := keyOf("k1", newEd())
		idp := &provider{keys: keySet(key)}
		v, err := auth.New(auth.Config{Issuers: []auth.Issuer{fetched(remoteIssuer(), clientOf(idp.answer))}})
		if err != nil {
			t.Fatal(err)
		}
		token := tokenOf(key, "alice")
		begun := time.Now()
		if got := verify(t, v, token); got != "unavailable" || time.Since(begun) > 10*time.Second {
			t.Errorf("before: got reason %q after %v, want unavailable within 10 s", got, time.Since(begun))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := v.Run(ctx); err != nil {
			t.Error(err)
		}
		begun = time.Now()
		if got := verify(t, v, token); got != "unavailable" || time.Since(begun) > 0 {
			t.Errorf("after: got reason %q after %v, want unavailable at once", got, time.Since(begun))
		}
	})
}

// TestT43HostileAnswers serves, over a real connection, what is no key set; a good one at
// another address must not help.
func TestT43HostileAnswers(t *testing.T) {
	private := newEd()
	key := keyOf("k", private)
	good := keySet(key)
	var bomb bytes.Buffer
	zip := gzip.NewWriter(&bomb)
	zip.Write(good)
	blanks := bytes.Repeat([]byte(" "), 1<<20)
	for range 16 {
		zip.Write(blanks)
	}
	zip.Close()
	var sent atomic.Int64 // of the answer that never ends
	handlers := map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter,
			r *http.Request,
		) {
			http.Redirect(w, r, "/good", http.StatusFound)
		},
		"status 500": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			w.Write(good)
		},
		"status 203": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNonAuthoritativeInfo)
			w.Write(good)
		},
		"compressed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(bomb.Bytes())
		},
		"torn": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100000")
			w.Write(good)
		},
		"never ends": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				n, _ := w.Write(blanks)
				sent.Add(int64(n))
			}
		},
		"hangs up": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"secret keys": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"keys":[{"kty":"oct","kid":"k","k":%q}]}`, encode(string(secret)))
		},
	}
	for name, body := range badSets(newEC()) {
		handlers[name] = func(w http.ResponseWriter, _ *http.Request) { w.Write(body) }
	}
	for name, handler := range handlers {
		t.Run(name, func(t *testing.T) {
			var strayed atomic.Bool
			mux := http.NewServeMux()
			mux.HandleFunc("/keys", handler)
			mux.HandleFunc("/good", func(w http.ResponseWriter,
				_ *http.Request,
			) {
				strayed.Store(true)
				w.Write(good)
			})
			server := httptest.NewServer(mux)
			defer server.Close()
			issuer := acme(auth.Key{}, "EdDSA", "HS256")
			issuer.Keys, issuer.JWKSURL = nil, server.URL+"/keys"
			v, err := auth.New(auth.Config{Issuers: []auth.Issuer{fetched(issuer, server.Client())}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- v.Run(ctx) }()
			for _, token := range []string{
				tokenOf(key, "alice"),
				mint(secret, header("HS256").with("kid", `"k"`), claims(time.Now())),
			} {
				want := "unavailable"
				if name == "secret keys" {
					want = "key" // the set itself is sound, and empty for us
				}
				if got := verify(t, v, token); got != want {
					t.Errorf("got reason %q, want %q", got, want)
				}
			}
			if strayed.Load() {
				t.Error("followed the redirect")
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	if sent.Load() > 32<<20 {
		t.Errorf("took %d bytes of an answer that never ends, want 256 KB and what is in buffers",
			sent.Load())
	}
}
