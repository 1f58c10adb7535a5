package credential_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// TestReplicasAskForATokenOnce has three replicas exchange tokens of the same people, all
// at once. Each token is asked for by one of them, is in Redis sealed, and is nobody
// else's. Without Redis each asks for itself.
func TestReplicasAskForATokenOnce(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, func(w http.ResponseWriter, form url.Values, n int) {
		subject := form.Get("subject_token")
		give(w, fmt.Sprintf("canary-%d-of-%x", n, subject[max(0, len(subject)-8):]), 600)
	})
	served, ring := redistest.Start(t), seal.RandomRing()
	const other = "https://other.example/"
	people := newTokenIssuer(t, issuer, other)
	client := e.client(t)
	var replicas []*credential.Source
	for range 3 {
		store := served.Store(t)
		replicas = append(replicas, source(t, credential.Config{
			Server: "erp", Spec: credential.Spec{Exchange: &credential.Exchange{Client: client, Audience: "erp"}},
			Shared: &credential.Shared{Store: store, Seal: ring, Quota: share.New(16 << 20)},
		}))
		wait(t, func() bool { return store.Up() == nil })
	}
	const users = 10
	var all sync.WaitGroup
	var mu sync.Mutex
	got := map[string]map[string]bool{}
	callers := map[string]*auth.Principal{}
	for i := range users {
		iss, tenant := []string{issuer, other}[i%2], []string{"acme", "globex"}[i/2%2]
		callers[fmt.Sprint("user-", i)], _ = people.caller(iss, fmt.Sprint("user-", i/4), tenant, nil)
	}
	for _, replica := range replicas {
		for subject, p := range callers {
			all.Go(func() {
				g, err := replica.For(t.Context(), p)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if got[subject] == nil {
					got[subject] = map[string]bool{}
				}
				got[subject][bearerOf(t, g)] = true
			})
		}
		all.Go(func() {
			if _, err := replica.For(t.Context(), nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := len(e.asked()); n != users+1 {
		t.Errorf("got %d requests for %d people and the gateway at three replicas, want %d", n, users, users+1)
	}
	seen := map[string]string{}
	for subject, tokens := range got {
		if len(tokens) != 1 {
			t.Errorf("got %d tokens for %s, want one", len(tokens), subject)
		}
		for token := range tokens {
			if other, twice := seen[token]; twice {
				t.Errorf("got one token for %s and %s", subject, other)
			}
			seen[token] = subject
		}
	}
	for key := range strings.FieldsSeq(served.Exec(t, "KEYS", "*credential*")) {
		if text := served.Exec(t, "GET", key); strings.Contains(text, "canary") || strings.Contains(key, "user-") {
			t.Errorf("got %q at %s in clear", text, key)
		}
	}
	one := callers["user-0"]
	held := grant(t, replicas[0], one)
	if again := grant(t, replicas[1], one); bearerOf(t, again) != bearerOf(t, held) {
		t.Error("got another token at another replica")
	}
	served.Stop()
	wait(t, func() bool {
		fresh, _ := people.caller(issuer, "late", "acme", nil)
		_, err := replicas[2].For(t.Context(), fresh)
		return err == nil
	})
}

// TestTokenThatRedisDoesNotTakeCostsNoQuota fills Redis: what was given is used, and what
// would have been kept counts for nobody.
func TestTokenThatRedisDoesNotTakeCostsNoQuota(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, func(w http.ResponseWriter, _ url.Values, _ int) { give(w, "given", 600) })
	served := redistest.Start(t)
	store, quota := served.Store(t), share.New(16<<20)
	people := newTokenIssuer(t, issuer)
	s := source(t, credential.Config{
		Spec:   credential.Spec{Exchange: &credential.Exchange{Client: e.client(t), Audience: "erp"}},
		Shared: &credential.Shared{Store: store, Seal: seal.RandomRing(), Quota: quota},
	})
	wait(t, func() bool { return store.Up() == nil })
	ann, _ := people.caller(issuer, "ann", "acme", nil)
	if got := bearerOf(t, grant(t, s, ann)); got != "given" || quota.InUse() == 0 {
		t.Fatalf("got %s and %d bytes held, want a token that is kept", got, quota.InUse())
	}
	held := quota.InUse()
	served.Exec(t, "CONFIG", "SET", "maxmemory", "1")
	bob, _ := people.caller(issuer, "bob", "acme", nil)
	if got := bearerOf(t, grant(t, s, bob)); got != "given" || quota.InUse() != held {
		t.Errorf("got %s and %d bytes held, want %d", got, quota.InUse(), held)
	}
}

// TestTokenThatReplacesAnotherIsCountedOnce has a server refuse each token: of a
// credential there is one in Redis, and that one alone counts.
func TestTokenThatReplacesAnotherIsCountedOnce(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, func(w http.ResponseWriter, _ url.Values, n int) {
		give(w, fmt.Sprintf("given-%02d", n), 600)
	})
	store, quota, client := redistest.Start(t).Store(t), share.New(16<<20), e.client(t)
	var later atomic.Int64 // nanoseconds by which the clock is ahead
	s := source(t, credential.Config{
		Spec:   credential.Spec{ClientCredentials: &client},
		Shared: &credential.Shared{Store: store, Seal: seal.RandomRing(), Quota: quota},
		Now:    func() time.Time { return time.Now().Add(time.Duration(later.Load())) },
	})
	wait(t, func() bool { return store.Up() == nil })
	given := grant(t, s, nil)
	held := quota.InUse()
	for range 5 {
		later.Add(int64(11 * time.Second))
		if !given.Refused() {
			t.Fatal("another token is not asked for")
		}
		before := bearerOf(t, given)
		if given = grant(t, s, nil); bearerOf(t, given) == before {
			t.Fatalf("got %s again", before)
		}
	}
	if got := quota.InUse(); held == 0 || got != held {
		t.Errorf("got %d bytes held, want %d", got, held)
	}
}
