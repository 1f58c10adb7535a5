package main

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/server/admin"
)

// login is an issuer on loopback that serves a set of one Ed25519 key, until it is told
// to fail.
type login struct {
	server  *httptest.Server
	key     atomic.Pointer[auth.Key]
	failing atomic.Bool
	fetches atomic.Int64
}

func newLogin(t *testing.T) *login {
	l := &login{}
	l.rotate()
	l.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		l.fetches.Add(1)
		if l.failing.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		key := l.key.Load()
		x := base64.RawURLEncoding.EncodeToString(key.Public.(ed25519.PublicKey))
		fmt.Fprintf(w, `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":%q,"x":%q}]}`, key.ID, x)
	}))
	t.Cleanup(l.server.Close)
	return l
}

// rotate puts another key in the place of the one that is served.
func (l *login) rotate() {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err)
	}
	l.key.Store(&auth.Key{ID: fmt.Sprintf("%x", public[:8]), Public: public, Private: private})
}

func (l *login) issuer() config.Issuer {
	return config.Issuer{Issuer: auth.Issuer{
		Issuer: "https://login.example/", Algorithms: []string{"EdDSA"}, Audiences: []string{"us"},
		Tenant: "acme", JWKSURL: l.server.URL,
	}, PrivateAddresses: true}
}

func (l *login) token(t *testing.T) string {
	t.Helper()
	token, err := auth.Sign(*l.key.Load(), "EdDSA", auth.Claims{
		Issuer: "https://login.example/", Subject: "alice", Audience: "us", IssuedAt: time.Now(),
		Expiry: time.Now().Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// started returns verifiers of the issuers that run until the test ends.
func started(t *testing.T, changed func(), issuers ...config.Issuer) *verifiers {
	t.Helper()
	v, err := newVerifiers(issuers, keySetStorage{}, slog.New(slog.DiscardHandler), changed)
	if err != nil {
		t.Fatal(err)
	}
	v.start(t.Context())
	t.Cleanup(v.wait)
	return v
}

// reloaded puts a config with these issuers in the place of the one before.
func reloaded(t *testing.T, v *verifiers, issuers ...config.Issuer) {
	t.Helper()
	next, err := v.verifier(issuers)
	if err != nil {
		t.Fatal(err)
	}
	v.replace(t.Context(), issuers, next)
}

// TestAReloadJudgesThoseWhoCameBefore changes the issuers while the login does not
// answer: what an earlier verifier has accepted goes on if it still may, and at once no
// longer if it may not.
func TestAReloadJudgesThoseWhoCameBefore(t *testing.T) {
	l := newLogin(t)
	var told atomic.Int64
	v := started(t, func() { told.Add(1) }, l.issuer())
	token := l.token(t)
	p, err := v.verify(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	l.failing.Store(true)
	more := l.issuer()
	more.Audiences = []string{"us", "them"}
	other := l.issuer()
	other.Tenant = "globex"
	public := more
	public.PrivateAddresses = false
	for _, test := range []struct {
		name    string
		issuers []config.Issuer
		want    bool
	}{
		{"as it was", []config.Issuer{l.issuer()}, true},
		{"one audience more", []config.Issuer{more}, true},
		{"another tenant", []config.Issuer{other}, false},
		{"the first tenant again", []config.Issuer{more}, true},
		{"no such issuer", nil, false},
	} {
		before := told.Load()
		unchanged := len(test.issuers) > 0 && test.name == "as it was"
		reloaded(t, v, test.issuers...)
		if err := v.recheck(p); (err == nil) != test.want {
			t.Errorf("%s: judged %v, want it accepted: %v", test.name, err, test.want)
		}
		if told.Load() == before && !unchanged {
			t.Errorf("%s: nobody was told", test.name)
		}
	}
	reloaded(t, v, more)
	reloaded(t, v, public)
	eventually(t, "who came by a set that may not be fetched there is refused",
		func() bool { return v.recheck(p) != nil })
}

// TestAReloadWithAnotherAddressEndsNothing moves the key set to another address, which
// takes a while to answer: whoever the same key has let in goes on, without a moment in
// between.
func TestAReloadWithAnotherAddressEndsNothing(t *testing.T) {
	l, answer := newLogin(t), make(chan struct{})
	serve := l.server.Config.Handler
	l.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			<-answer
		}
		serve.ServeHTTP(w, r)
	})
	var v *verifiers
	var p auth.Principal
	var let atomic.Bool // p came in
	var told, refused atomic.Int64
	v = started(t, func() {
		told.Add(1)
		if let.Load() && v.recheck(p) != nil {
			refused.Add(1)
		}
	}, l.issuer())
	var err error
	if p, err = v.verify(t.Context(), l.token(t)); err != nil {
		t.Fatal(err)
	}
	let.Store(true)
	moved := l.issuer()
	moved.JWKSURL += "/moved"
	before := told.Load()
	reloaded(t, v, moved)
	if err := v.recheck(p); err != nil {
		t.Errorf("while the new address is asked: %v, want whoever came in to go on", err)
	}
	close(answer)
	eventually(t, "callers are judged by the keys of the new address",
		func() bool { return told.Load() >= before+2 })
	if n := refused.Load(); n > 0 {
		t.Errorf("refused %d times, want never", n)
	}
}

// TestAReloadFetchesKeysAtOnce removes a key and reloads: with the same issuers and with
// others, and while the login does not answer, when a reload must neither fail nor wait.
func TestAReloadFetchesKeysAtOnce(t *testing.T) {
	l := newLogin(t)
	seldom := l.issuer()
	seldom.KeysRefresh = 24 * time.Hour
	var told atomic.Int64
	v := started(t, func() { told.Add(1) }, seldom)
	other := seldom
	other.Audiences = []string{"us", "them"}
	for _, next := range []config.Issuer{seldom, other, other, seldom} {
		token := l.token(t)
		p, err := v.verify(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		l.rotate()
		reloaded(t, v, next)
		eventually(t, "the principal of a removed key is refused", func() bool { return v.recheck(p) != nil })
		if _, err := v.verify(t.Context(), token); err == nil {
			t.Error("the token of a removed key is accepted")
		}
	}
	if told.Load() < 5 {
		t.Errorf("told %d times, want once at least of each set", told.Load())
	}
	token := l.token(t)
	l.failing.Store(true)
	l.rotate()
	fetches := l.fetches.Load()
	reloaded(t, v, seldom)
	if _, err := v.verify(t.Context(), token); err != nil {
		t.Errorf("while the login does not answer: %v", err)
	}
	eventually(t, "the login is asked", func() bool { return l.fetches.Load() > fetches })
}

// TestAReloadKeepsTheVerifierOfTheSameIssuers reloads with an issuer as the gateway's own
// sign-in makes it, whose functions nothing can compare.
func TestAReloadKeepsTheVerifierOfTheSameIssuers(t *testing.T) {
	l := newLogin(t)
	signIn := &auth.Own{
		Keys:       func() *auth.PublicKeys { return auth.NewPublicKeys(1, *l.key.Load()) },
		Revoked:    func(string) bool { return false },
		OpenSealed: func(string) []byte { return nil },
		TokenOf:    func(context.Context, string) (string, error) { return "", auth.ErrSubjectGone },
	}
	own := func(keepToken bool) config.Issuer {
		return config.Issuer{Issuer: auth.Issuer{
			Issuer: "https://gw.example/", Algorithms: []string{"EdDSA"}, Audiences: []string{"us"},
			Tenant: "acme", KeepClaims: []string{"groups"}, KeepToken: keepToken, Own: signIn,
		}}
	}
	v := started(t, func() {}, own(true))
	first := v.current.Load()
	if reloaded(t, v, own(true)); v.current.Load() != first {
		t.Error("the same issuer has another verifier after a reload")
	}
	if reloaded(t, v, own(false)); v.current.Load() == first {
		t.Error("an issuer that gives no tokens any more has the verifier from before")
	}
}

// waiting is a context that tells when somebody waits for its end.
type waiting struct {
	context.Context //nolint:containedctx // it is one

	waits chan struct{}
}

func (w waiting) Done() <-chan struct{} {
	select {
	case w.waits <- struct{}{}:
	default: // it was told
	}
	return w.Context.Done()
}

// TestACallerWhoWaitsForKeysOutlastsAReload reloads while the first fetch of a key set is
// under way, for which a caller waits.
func TestACallerWhoWaitsForKeysOutlastsAReload(t *testing.T) {
	l := newLogin(t)
	asked, answer := make(chan struct{}, 8), make(chan struct{})
	serve := l.server.Config.Handler
	l.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-answer:
			serve.ServeHTTP(w, r)
		case <-r.Context().Done(): // the fetch was ended
		}
	})
	v := started(t, func() {}, l.issuer())
	<-asked
	token := l.token(t)
	judged, ctx := make(chan error, 1), waiting{t.Context(), make(chan struct{}, 1)}
	go func() {
		_, err := v.verify(ctx, token)
		judged <- err
	}()
	<-ctx.waits
	other := l.issuer()
	other.Audiences = []string{"us", "them"}
	reloaded(t, v, other)
	<-asked // by the new verifier
	close(answer)
	if err := <-judged; err != nil {
		t.Errorf("got %v, want the token accepted", err)
	}
}

// TestReadyzTellsOfKeys shows what the operator reads while an issuer does not answer,
// before and after its keys are too old, and when it publishes a key that is refused.
func TestReadyzTellsOfKeys(t *testing.T) {
	since := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name string
		set  auth.KeySet
		want []string
	}{
		{"all is well", auth.KeySet{Fetched: since, Until: since.Add(time.Hour)}, nil},
		{"it is fetched for the first time", auth.KeySet{}, nil},
		{
			"failing",
			auth.KeySet{
				Fetched: since, Until: since.Add(time.Hour), Failing: since.Add(time.Minute),
				Problem: errors.New("status 502"),
			},
			[]string{"issuer a: its keys cannot be fetched: status 502 (since 2026-11-22T12:01:00Z); the last ones serve until 2026-11-22T13:00:00Z, also those that it has removed"},
		},
		{
			"no keys",
			auth.KeySet{Failing: since, Problem: errors.New("status 502")},
			[]string{"issuer a: its keys cannot be fetched: status 502 (since 2026-11-22T12:00:00Z); there are none, so its tokens are refused"},
		},
		{"a key refused", auth.KeySet{
			Fetched: since, Until: since.Add(time.Hour),
			Refused: []string{`key "k": why`},
		}, []string{`issuer a: refused key "k": why`}},
	} {
		test.set.Issuer = "a"
		issuers, warnings := viewKeys([]auth.KeySet{test.set}, nil)
		if !slices.Equal(warnings, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, warnings, test.want)
		}
		if got := issuers["a"]; got.Until != test.set.Until || got.Fetched != test.set.Fetched ||
			got.Failing != test.set.Failing {
			t.Errorf("%s: got %+v, want the times of %+v", test.name, got, test.set)
		}
	}
}

// TestMetricsTellOfKeys has one issuer whose keys are there, and one that has not
// answered for an hour and had none before.
func TestMetricsTellOfKeys(t *testing.T) {
	got := map[string][]float64{}
	synctest.Test(t, func(*testing.T) {
		tellKeySets([]auth.KeySet{
			{Issuer: "a", Until: time.Now().Add(time.Hour)},
			{Issuer: "b", Failing: time.Now().Add(-time.Hour - 300*time.Millisecond)},
		}, func(issuer string, values ...float64) { got[issuer] = values })
	})
	if diff := cmp.Diff(map[string][]float64{"a": {1, 0}, "b": {0, 3600}}, got); diff != "" {
		t.Errorf("usable, and failing for so many seconds (-want +got):\n%s", diff)
	}
}

// TestReadyzTellsOfClaimsThatNoTokenHas lets an hour pass in which no token has the
// claims that the issuer's config names: /readyz tells of them until the issuer is
// another.
func TestReadyzTellsOfClaimsThatNoTokenHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		public, private, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		iss := config.Issuer{Issuer: auth.Issuer{
			Issuer: "https://login.example/", Algorithms: []string{"EdDSA"}, Audiences: []string{"us"},
			Tenant:      "acme",
			ScopeClaims: []string{"realm_access.roles"}, Keys: []auth.Key{{Public: public, Private: private}},
		}}
		ctx, cancel := context.WithCancel(t.Context())
		v, err := newVerifiers([]config.Issuer{iss}, keySetStorage{}, slog.New(slog.DiscardHandler), func() {})
		if err != nil {
			t.Fatal(err)
		}
		v.start(ctx)
		defer v.wait()
		defer cancel()
		for i := range 5 {
			token, err := auth.Sign(iss.Keys[0], "EdDSA", auth.Claims{
				Issuer: iss.Issuer.Issuer, Subject: fmt.Sprint("user", i), Audience: "us",
				IssuedAt: time.Now(), Expiry: time.Now().Add(time.Hour),
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := v.verify(ctx, token); err != nil {
				t.Fatal(err)
			}
		}
		warnings := func() []string {
			var view admin.View
			judgeIssuers(&view, v.current.Load())
			return view.Warnings
		}
		if got := warnings(); len(got) != 0 {
			t.Errorf("at once: got %q, want nothing", got)
		}
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		const want = `issuer https://login.example/: none of the 5 tokens of an hour had the claim "realm_access.roles": let scopes.claims name `
		if got := warnings(); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("after an hour: got %q, want one that begins with %q", got, want)
		}
		mended := iss
		mended.ScopeClaims = []string{"roles"}
		next, err := v.verifier([]config.Issuer{mended})
		if err != nil {
			t.Fatal(err)
		}
		v.replace(ctx, []config.Issuer{mended}, next)
		if got := warnings(); len(got) != 0 {
			t.Errorf("after a reload with another claim: got %q, want nothing", got)
		}
	})
}

// TestPrivateKeySetsMayBeSpeltInAnyWay has addresses that a request spells otherwise.
func TestPrivateKeySetsMayBeSpeltInAnyWay(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"keys":[]}`) // whoever gets half of it fails
	}))
	defer web.Close()
	for _, address := range []string{
		web.URL, web.URL + "/Our Realm/keys", web.URL + "/schlüssel", web.URL + "/a%28b%29?c=d",
		strings.Replace(web.URL, "http", "HTTP", 1) + "/keys",
	} {
		iss := config.Issuer{Issuer: auth.Issuer{JWKSURL: address}, PrivateAddresses: true}
		if set, err := withKeySet(iss).Fetch(t.Context()); err != nil {
			t.Errorf("%s: got %q and %v", address, set, err)
		}
		iss.PrivateAddresses = false
		if set, err := withKeySet(iss).Fetch(t.Context()); err == nil {
			t.Errorf("%s: got %q without private_addresses", address, set)
		}
	}
	// nobody listens there as a rule, but the connection is tried
	empty := config.Issuer{Issuer: auth.Issuer{JWKSURL: "http://127.0.0.1:/keys"}, PrivateAddresses: true}
	if _, err := withKeySet(empty).Fetch(t.Context()); errors.Is(err, dial.ErrProhibited) {
		t.Errorf("%s: got %v, in spite of private_addresses", empty.JWKSURL, err)
	}
}

// TestOnlineReadsKeysAsTheGatewayDoes tries a key set with a key that is refused: the
// others serve, and so the config is good.
func TestOnlineReadsKeysAsTheGatewayDoes(t *testing.T) {
	l := newLogin(t)
	serve := l.server.Config.Handler
	l.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		set := httptest.NewRecorder()
		serve.ServeHTTP(set, r)
		fmt.Fprint(w, strings.Replace(set.Body.String(), "[", `[{"kty":"oct","kid":"shared","k":"c2VjcmV0"},`, 1))
	})
	message, err := tryKeySet(t.Context(), withKeySet(l.issuer()))
	if err != nil || !strings.Contains(message, `refused key "shared"`) {
		t.Errorf("got %q, %v, want the refused key named and no error", message, err)
	}
	other := l.issuer()
	other.Algorithms = []string{"RS256"}
	if _, err = tryKeySet(t.Context(), withKeySet(other)); err == nil || !strings.Contains(err.Error(), `key "shared"`) {
		t.Errorf("where no key serves: got %v, want an error that names the refused key, too", err)
	}
}

// TestHangupFetchesKeys runs the program: a token whose key was removed is refused after
// SIGHUP, although keys are fetched once a day, and also when the config is broken; and
// /readyz tells of a login that does not answer.
func TestHangupFetchesKeys(t *testing.T) {
	l := newLogin(t)
	r := &recorder{directory: t.TempDir()}
	addresses := [2]string{}
	for i := range addresses {
		address, err := freeport.Address()
		if err != nil {
			t.Fatal(err)
		}
		addresses[i] = address
	}
	r.url, r.operator = "http://"+addresses[0]+"/mcp", addresses[1]
	text := fmt.Sprintf(`listen: %s
operator: %s
issuers:
  - {issuer: "https://login.example/", jwks_url: %q, private_addresses: true, keys_refresh: 24h, algorithms: [EdDSA], audiences: [us], tenant: acme}
tenants:
  acme: {servers: [toolbox], rules: [{allow: ["*"]}]}
servers:
  toolbox: {builtin: [calculate]}
`, addresses[0], addresses[1], l.server.URL)
	write := func(text string) {
		if err := os.WriteFile(r.path("drawbridge.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	r.start(t, nil)
	r.ready(t, http.StatusOK, `"issuers":{"https://login.example/":{"fetched":"`)
	refused := func(token string) bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url,
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode == http.StatusUnauthorized
	}
	for _, broken := range []string{"", "nonsense: true\n"} {
		token := l.token(t)
		if refused(token) {
			t.Fatal("a good token is refused")
		}
		l.rotate()
		if broken != "" {
			write(text + broken)
		}
		if err := r.process.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the token of a removed key is refused", func() bool { return refused(token) })
	}
	l.failing.Store(true)
	if err := r.process.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	r.ready(t, http.StatusOK,
		"issuer https://login.example/: its keys cannot be fetched: fetch key set: status 502")
}
