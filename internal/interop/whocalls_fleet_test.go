package interop_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// rotatingIssuer signs tokens of people with one of two keys, and serves both: like
// others it shows the next key long before that signs.
type rotatingIssuer struct {
	name, url string
	keys      [2]auth.Key
	turned    atomic.Bool  // the second key signs
	second    atomic.Int64 // tokens that it signed
}

func newRotatingIssuer(t *testing.T) *rotatingIssuer {
	t.Helper()
	i := &rotatingIssuer{name: "https://rotating.test/"}
	var set struct {
		Keys []any `json:"keys"`
	}
	for n := range i.keys {
		public, private, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		i.keys[n] = auth.Key{ID: fmt.Sprint("key-", n), Public: public, Private: private}
		set.Keys = append(set.Keys, map[string]string{
			"kty": "OKP", "crv": "Ed25519", "kid": i.keys[n].ID, "use": "sig", "alg": "EdDSA",
			"x": base64.RawURLEncoding.EncodeToString(public),
		})
	}
	i.url = abrupt(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(set) // whoever asked may be gone
	}))
	return i
}

// token returns one for somebody.
func (i *rotatingIssuer) token(t *testing.T, g *gateway, w who) string {
	t.Helper()
	key := i.keys[0]
	if i.turned.Load() {
		key = i.keys[1]
		i.second.Add(1)
	}
	token, err := auth.Sign(key, "EdDSA", auth.Claims{
		Issuer: i.name, Subject: w.subject, Audience: g.url, IssuedAt: time.Now(), Expiry: time.Now().Add(time.Hour),
		Extra: map[string]any{"org": w.tenant},
	})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// knownFleet is three replicas before three servers, each of which is told in its own way
// who calls.
type knownFleet struct {
	*gateway

	issuer  *rotatingIssuer
	servers map[string]*whoServer
	secrets [][]byte // of the gateway; the first seals and signs

	calls   atomic.Int64 // that were answered
	repeats atomic.Int64
	kills   atomic.Int64
	broken  atomic.Bool // a replica is away: requests to it fail
}

func newKnownFleet(t *testing.T) *knownFleet {
	t.Helper()
	f := &knownFleet{gateway: settleFleet(t), issuer: newRotatingIssuer(t)}
	f.addSecret()
	f.writeSecrets(t)
	login := oidcProvider(t, map[string]any{"exchange": map[string]any{"keys": f.issuer.url, "secret": hmacSecret}})
	f.servers = map[string]*whoServer{
		// the keys of a replica that goes on: nginx asks no other in place of one that is
		// gone
		"crm": whoServes(t, map[string]any{
			"sdk": 2, "modern": true, "keys": "http://" + f.replicas[0].addr + "/identity/jwks", "issuer": "http://" + f.addr, "audience": "crm",
		}),
		"erp": whoServes(t, map[string]any{"sdk": 1, "whose": login + "/whose"}),
		"hr":  whoServes(t, map[string]any{"sdk": 2, "whose": login + "/whose"}),
	}
	secret := filepath.Join(f.dir, "client-secret")
	if err := os.WriteFile(secret, []byte("a-client-secret-of-some-length"), 0o600); err != nil {
		t.Fatal(err)
	}
	client := fmt.Sprintf("issuer: %q, client_id: drawbridge, client_secret_file: %q", login, secret)
	entry := "  %s: {url: %q, private_addresses: true, auth: {%s}}\n"
	servers := fmt.Sprintf(entry, "crm", f.servers["crm"].url, "identity: {audience: crm}") +
		fmt.Sprintf(entry, "erp", f.servers["erp"].url, "token_exchange: {"+client+", audience: erp}") +
		fmt.Sprintf(entry, "hr", f.servers["hr"].url, "client_credentials: {"+client+"}")
	for _, one := range f.replicas {
		one.write(t, one.head()+fmt.Sprintf(`allowed_hosts: [127.0.0.1]
issuers:
  - {issuer: %q, jwks_url: %q, private_addresses: true, algorithms: [EdDSA], tenants: {claim: org}, tenants_allowed: [acme, globex]}
  - {issuer: "https://issuer.test/", hmac_secret_file: secret, algorithms: [HS256], tenants: {claim: org}, tenants_allowed: [acme, globex]}
audit: {file: audit.jsonl}
`, f.issuer.name, f.issuer.url)+twoTenants(`{allow: ["*"]}`, servers))
	}
	f.run(t)
	t.Cleanup(f.crash)
	return f
}

// addSecret makes another secret of the gateway, behind the others.
func (f *knownFleet) addSecret() {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	f.secrets = append(f.secrets, secret)
}

// writeSecrets writes the file at one stroke.
func (f *knownFleet) writeSecrets(t *testing.T) {
	t.Helper()
	var text strings.Builder
	for _, secret := range f.secrets {
		text.WriteString(base64.StdEncoding.EncodeToString(secret) + "\n")
	}
	if err := errors.Join(os.WriteFile(f.keys()+".next", []byte(text.String()), 0o600),
		os.Rename(f.keys()+".next", f.keys())); err != nil {
		t.Fatal(err)
	}
}

// haveSecrets waits until each replica has as many secrets as the file, and seals with
// another than before if there is one.
func (f *knownFleet) haveSecrets(t *testing.T, before string) (sealing string) {
	t.Helper()
	for _, one := range f.replicas {
		eventually(t, "a replica has the new keys", func() bool {
			count := 0
			for line := range strings.Lines(metric(t, one, "drawbridge_seal_keys{")) {
				count++
				if strings.Contains(line, `use="seal"`) {
					sealing = line
				}
			}
			return count == len(f.secrets) && sealing != before
		})
	}
	return sealing
}

// turmoil kills a replica and rotates the keys of the gateway and of an issuer, each when
// so many calls of all were made.
func (f *knownFleet) turmoil(ctx context.Context, t *testing.T, all int64) {
	t.Helper()
	at := func(percent int64) {
		for f.calls.Load() < all*percent/100 && ctx.Err() == nil {
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
	at(15)
	f.addSecret()
	f.writeSecrets(t)
	sealing := f.haveSecrets(t, "")
	at(30)
	f.broken.Store(true)
	f.kills.Add(1)
	f.replicas[1].kill()
	at(45)
	f.replicas[1].launch(t)
	f.replicas[1].hasServers(t)
	f.broken.Store(false)
	f.secrets[0], f.secrets[1] = f.secrets[1], f.secrets[0]
	f.writeSecrets(t)
	f.haveSecrets(t, sealing)
	at(60)
	f.issuer.turned.Store(true)
}

// mostTries is how often somebody makes a call that is refused because others are late.
const mostTries = 10

// isLate tells whether a server, or whoever gives tokens for it, did not answer in time,
// as on a machine that a hundred people and other tests keep busy.
func isLate(err error) bool {
	return slices.ContainsFunc([]string{"DB-UPSTREAM-DOWN", "DB-UPSTREAM-TOKEN-DOWN", "DB-TIMEOUT"},
		func(code string) bool { return strings.Contains(err.Error(), code) })
}

// person is one who calls all three servers in turn.
func (f *knownFleet) person(ctx context.Context, t *testing.T, w who, revision string, calls int) {
	token := func() string {
		if w.issuer == f.issuer.name {
			return f.issuer.token(t, f.gateway, w)
		}
		return f.mint(w)
	}
	s := f.as(w, revision)
	s.token = token()
	if err := s.open(ctx); err != nil {
		t.Errorf("%v: %v", w, err)
		return
	}
	for i := range calls {
		if i == calls*3/4 {
			for !f.issuer.turned.Load() && ctx.Err() == nil {
				time.Sleep(5 * time.Millisecond)
			}
			s.token = token() // signed with the issuer's new key
		}
		server := []string{"crm", "erp", "hr"}[i%3]
		want := w.identity()
		if server == "hr" {
			want = "" // is told only that the gateway calls
		}
		marker := fmt.Sprint(w.identity(), " ", i)
		for tries := 1; ; tries++ {
			kills, away := f.kills.Load(), f.broken.Load()
			got, err := whoAsks(ctx, s, server, marker)
			if err == nil {
				if strings.TrimSpace(got) != want {
					t.Errorf("a call of %s to %s was one of %q", marker, server, got)
				}
				break
			}
			failed := !away && f.kills.Load() == kills && (!isLate(err) || tries == mostTries)
			if ctx.Err() != nil || failed {
				t.Errorf("%s of %s to %s, with all replicas there: %v", revision, marker, server, err)
				return
			}
			f.repeats.Add(1)
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
		}
		f.calls.Add(1)
	}
}

// TestFleetTellsServersWhoCalls has a hundred users of two tenants and two issuers, whose
// subjects are the same, call three servers through three replicas. One replica is killed
// meanwhile, and the keys of the gateway and of an issuer are rotated. What the servers
// themselves have in their logs is each call under its own user.
func TestFleetTellsServersWhoCalls(t *testing.T) {
	t.Parallel()
	f := newKnownFleet(t)
	calls := 10_000
	if testing.Short() { // make nightly has all of them
		calls = 600
	}
	const people = 100
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	began := time.Now()
	var all sync.WaitGroup
	for i := range people {
		w := who{
			tenant: []string{"acme", "globex"}[i%2], issuer: []string{f.issuer.name, "https://issuer.test/"}[i/2%2],
			subject: fmt.Sprint("user-", i/4),
		}
		revision := []string{modernRevision, "2025-11-25"}[i/4%2]
		all.Go(func() { f.person(ctx, t, w, revision, calls/people) })
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		all.Wait()
		cancel()
	}()
	f.turmoil(ctx, t, int64(calls))
	<-over
	t.Logf("%d calls and %d repeats of them in %v", f.calls.Load(), f.repeats.Load(), time.Since(began))
	if f.calls.Load() != int64(calls) {
		t.Errorf("%d calls were answered, want %d", f.calls.Load(), calls)
	}
	eventually(t, "the logs of the servers are read", func() bool {
		read := map[string]bool{}
		for _, s := range f.servers {
			for _, line := range s.lines(t) {
				read[line.Marker] = true
			}
		}
		return len(read) >= calls
	})
	seen := map[string]bool{}
	for name, s := range f.servers {
		users := map[string]string{}
		for _, line := range s.lines(t) {
			got := strings.TrimSpace(line.Tenant + " " + line.Sub)
			if line.Refused != "" {
				t.Errorf("%s refused a token: %s", name, line.Refused)
				continue
			}
			if name != "hr" && !strings.HasPrefix(line.Marker, got+" ") || got == "" != (name == "hr") {
				t.Errorf("%s has the call %q under %q", name, line.Marker, got)
			}
			if before := users[line.Session]; name == "erp" && before != "" && before != got {
				t.Errorf("%s has one session of %q and %q", name, before, got)
			}
			users[line.Session], seen[line.Marker] = got, true
		}
	}
	if f.issuer.second.Load() == 0 || f.repeats.Load() == 0 {
		t.Error("nothing was tried with the issuer's next key, or while a replica was away")
	}
	if len(seen) != calls {
		t.Errorf("the servers have %d calls, want %d", len(seen), calls)
	}
	f.unhurt(t)
}
