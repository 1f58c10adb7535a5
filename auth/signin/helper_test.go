package signin_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

const (
	base      = "https://gate.example"
	idpIssuer = "https://idp.example/"
	loopback  = "http://127.0.0.1:33418/callback"
	verifier  = "a-verifier-of-pkce-that-is-long-enough-for-the-rfc"
)

// memory is a store that forgets. It can be made to fail.
type memory struct {
	mu      sync.Mutex
	records map[string]store.Record
	version int64
	away    error                    // of every call; nil: it is there
	onPut   func(store.Record) error // asked before each Put; nil: nothing
	lose    func(store.Record) error // asked after each Put has been done; nil: nothing
	most    int                      // records of a tenant and kind; zero: any number
	puts    int
}

var _ store.Store = (*memory)(nil)

var errUnavailable = errors.New("the store is away")

func (m *memory) setAway(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = err
}

func (m *memory) Get(_ context.Context, kind, id string) (store.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.records[kind+"/"+id]
	switch {
	case m.away != nil:
		return store.Record{}, m.away
	case !ok || !time.Now().Before(r.Expires):
		return store.Record{}, store.ErrNotFound
	}
	return r, nil
}

func (m *memory) Put(_ context.Context, r store.Record) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away != nil {
		return 0, m.away
	}
	if m.onPut != nil {
		if err := m.onPut(r); err != nil {
			return 0, err
		}
	}
	old, ok := m.records[r.Kind+"/"+r.ID]
	ok = ok && time.Now().Before(old.Expires)
	if ok != (r.Version != 0) || ok && old.Version != r.Version {
		return 0, store.ErrConflict
	}
	if !ok && m.most > 0 {
		count := 0
		for _, other := range m.records {
			if other.Kind == r.Kind && other.Tenant == r.Tenant {
				count++
			}
		}
		if count >= m.most {
			return 0, store.ErrFull
		}
	}
	m.version++
	m.puts++
	r.Version = m.version
	m.records[r.Kind+"/"+r.ID] = r
	if m.lose != nil {
		if err := m.lose(r); err != nil {
			return 0, err
		}
	}
	return r.Version, nil
}

func (m *memory) Delete(_ context.Context, kind, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.records, kind+"/"+id)
	return m.away
}

func (m *memory) List(_ context.Context, q store.Query) ([]store.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away != nil {
		return nil, m.away
	}
	var found []store.Record
	for _, r := range m.records {
		if r.Kind == q.Kind && (q.Tenant == "" || q.Tenant == r.Tenant) && (q.Owner == "" || q.Owner == r.Owner) &&
			r.ID > q.After &&
			time.Now().Before(r.Expires) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b store.Record) int { return cmp.Compare(a.ID, b.ID) })
	return found[:min(len(found), 1000)], nil
}

func (m *memory) Count(_ context.Context, kind string) (map[string]int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := map[string]int{}
	for _, r := range m.records {
		if r.Kind == kind {
			counts[r.Tenant]++
		}
	}
	return counts, m.away
}

// idp is a provider whose people are who they say in the code. Its refresh tokens are
// good for once, and it notices a second use.
type idp struct {
	name, issuer string

	mu       sync.Mutex
	claims   map[string]string // by person
	refresh  map[string]string // person by refresh token; "": the token was used
	nonces   map[string]string // by code
	lookups  int
	away     error
	silent   bool // gives no refresh tokens
	mute     int  // how many refreshes fail after the token was given
	hold     chan struct{}
	slow     chan struct{} // that each exchange waits for; nil: none does
	sessions string
	life     time.Duration // of the access tokens that it gives; zero: it gives none
	given    int           // access tokens
}

func newIDP(name, issuer string) *idp {
	return &idp{
		name: name, issuer: issuer, refresh: map[string]string{}, nonces: map[string]string{},
		claims: map[string]string{
			"ann": `{"sub":"ann","groups":["acme"],"scope":"read write","email":"ann@acme.example"}`,
			"bob": `{"sub":"bob","groups":["acme","umbrella"],"scope":"read"}`,
			"eve": `{"sub":"eve","groups":["nobody"]}`,
		},
	}
}

func (p *idp) Name() string   { return p.name }
func (p *idp) Issuer() string { return p.issuer }

func (*idp) Reach(context.Context) error { return nil }

func (p *idp) AuthURL(_ context.Context, a signin.Attempt) (string, error) {
	query := url.Values{"state": {a.State}, "nonce": {a.Nonce}, "redirect_uri": {a.Callback}}
	return p.issuer + "authorize?" + query.Encode(), nil
}

func (p *idp) Exchange(_ context.Context, a signin.Attempt, code, _ string) (signin.Identity, error) {
	p.mu.Lock()
	slow := p.slow
	p.mu.Unlock()
	if slow != nil {
		<-slow
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	person, _, _ := strings.Cut(code, ".")
	nonce, known := p.nonces[code]
	delete(p.nonces, code)
	if p.away != nil || !known || nonce != a.Nonce {
		return signin.Identity{}, errors.Join(errors.New("the code is not of this attempt"), p.away)
	}
	return p.identityLocked(person), nil
}

func (p *idp) identityLocked(person string) signin.Identity {
	id := signin.Identity{Claims: []byte(p.claims[person]), Subject: person, SessionID: p.sessions}
	if !p.silent {
		id.RefreshToken = fmt.Sprintf("rt-%s-%d", person, len(p.refresh))
		p.refresh[id.RefreshToken] = person
	}
	if p.life > 0 {
		p.given++
		id.AccessToken, id.Expiry = fmt.Sprintf("at-%s-%d", person, p.given), time.Now().Add(p.life)
	}
	return id
}

func (p *idp) Refresh(ctx context.Context, token string) (signin.Identity, error) {
	p.mu.Lock()
	hold := p.hold
	p.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done(): // the request is cut off, which has arrived
			p.set(func() { p.refresh[token] = "" })
			return signin.Identity{}, signin.ErrUnanswered
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lookups++
	if p.away != nil {
		return signin.Identity{}, p.away
	}
	person := p.refresh[token]
	p.refresh[token] = ""
	if person == "" || p.claims[person] == "" {
		return signin.Identity{}, signin.ErrSignInAgain
	}
	id := p.identityLocked(person)
	if p.mute > 0 {
		p.mute--
		return signin.Identity{RefreshToken: id.RefreshToken}, errUnavailable
	}
	return id, nil
}

func (p *idp) VerifyLogout(_ context.Context, token string) (signin.Logout, error) {
	kind, value, ok := strings.Cut(token, ":")
	switch {
	case !ok:
		return signin.Logout{}, errors.New("no logout token")
	case kind == "sub":
		return signin.Logout{Subject: value, Issued: time.Now()}, nil
	}
	return signin.Logout{SessionID: value, Issued: time.Now()}, nil
}

func (p *idp) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// code lets a person sign in at the provider, for the attempt that the browser was sent
// with, and returns where the browser is sent back to.
func (p *idp) signIn(t testing.TB, person, authURL string) string {
	t.Helper()
	u := parsed(t, authURL)
	p.mu.Lock()
	defer p.mu.Unlock()
	code := fmt.Sprintf("%s.%d", person, len(p.nonces)+len(p.refresh))
	p.nonces[code] = u.Query().Get("nonce")
	back := url.Values{"code": {code}, "state": {u.Query().Get("state")}}
	return u.Query().Get("redirect_uri") + "?" + back.Encode()
}

// counts are the records of the metrics.
type counts struct {
	mu sync.Mutex
	of map[string]int
}

func (c *counts) add(words ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.of[strings.Join(words, " ")]++
}

func (c *counts) get(words ...string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[strings.Join(words, " ")]
}

func (c *counts) SignedIn(provider, outcome string)     { c.add("signed", provider, outcome) }
func (c *counts) SignInRefused(endpoint, reason string) { c.add("refused", endpoint, reason) }
func (c *counts) ClientRegistered()                     { c.add("registered") }
func (c *counts) TokenIssued(grant string)              { c.add("issued", grant) }
func (c *counts) FamilyEnded(reason string)             { c.add("ended", reason) }
func (c *counts) Providers(up map[string]bool) {
	for name, is := range up {
		c.add("reached", name, fmt.Sprint(is))
	}
}

func (c *counts) Families(byTenant map[string]int) {
	for tenant, n := range byTenant {
		c.mu.Lock()
		if c.of == nil {
			c.of = map[string]int{}
		}
		c.of["families "+tenant] = n
		c.mu.Unlock()
	}
}

// world is a server and what is around it.
type world struct {
	server   *signin.Server
	idp      *idp
	store    *memory
	counts   *counts
	log      *strings.Builder
	settings *atomic.Pointer[signin.Settings]
	ring     *seal.Ring
}

// transport answers requests for documents.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func newWorld(t testing.TB, change ...func(*signin.Config, *signin.Settings)) *world {
	t.Helper()
	w := &world{
		idp: newIDP("corp", idpIssuer), store: &memory{records: map[string]store.Record{}},
		ring: seal.RandomRing(), log: &strings.Builder{}, counts: &counts{},
		settings: &atomic.Pointer[signin.Settings]{},
	}
	w.server = w.replica(t, change...)
	return w
}

// replica returns another server over the same store and keys.
func (w *world) replica(t testing.TB, change ...func(*signin.Config, *signin.Settings)) *signin.Server {
	t.Helper()
	settings := &signin.Settings{
		PublicURL: base, Registration: clients.RegistrationOn, Scopes: []string{"admin", "read", "write"},
		Advertised: []string{"admin", "read", "write"},
		Logins:     []signin.Login{loginOf(t, w.idp)},
	}
	cfg := signin.Config{
		Ring: w.ring, Store: w.store, Documents: &http.Client{Transport: transport(
			func(*http.Request) (*http.Response, error) { return nil, errors.New("no network") })},
		IsTenant: regexp.MustCompile(`^[a-z]{1,20}$`).MatchString,
		Settings: func() signin.Settings { return *w.settings.Load() },
		Logger:   slog.New(slog.NewTextHandler(w.log, nil)), Records: w.counts,
		Audit:   func(context.Context, audit.Record) bool { return true },
		Changed: func() {}, Now: time.Now, Hold: signin.UsualHold,
	}
	for _, c := range change {
		c(&cfg, settings)
	}
	w.settings.Store(settings)
	return signin.New(cfg)
}

func loginOf(t testing.TB, p *idp) signin.Login {
	t.Helper()
	reader, err := auth.NewReader(auth.Issuer{
		Issuer:         p.issuer,
		TenantClaim:    "groups",
		TenantsAllowed: []string{"acme", "umbrella"},
		NameClaim:      "email",
	})
	if err != nil {
		t.Fatal(err)
	}
	return signin.Login{Provider: p, Claims: reader, Tenants: []string{"acme", "umbrella"}}
}

// verifier returns a verifier of the server's tokens.
func (w *world) verifier(t testing.TB) *auth.Verifier {
	t.Helper()
	v, err := auth.New(auth.Config{Issuers: w.server.Issuers(*w.settings.Load(), []string{"acme", "umbrella"})})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// browser keeps cookies and speaks to one server. Its zero cookies are none.
type browser struct {
	t       testing.TB
	server  http.Handler
	cookies map[string]string
}

func (w *world) browser(t testing.TB) *browser {
	return &browser{t, w.server, map[string]string{}}
}

// do sends a request and keeps the cookies of the answer.
func (b *browser) do(r *http.Request) *http.Response {
	b.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(b.cookies)) {
		r.AddCookie(&http.Cookie{Name: name, Value: b.cookies[name]})
	}
	recorder := httptest.NewRecorder()
	recorder.Header().Set("X-Request-Id", "REQUEST")
	b.server.ServeHTTP(recorder, r)
	response := recorder.Result()
	for _, cookie := range response.Cookies() {
		if !strings.HasPrefix(cookie.Name, "__Host-") || !cookie.Secure || !cookie.HttpOnly || cookie.Path != "/" ||
			cookie.Domain != "" ||
			cookie.SameSite != http.SameSiteLaxMode {
			b.t.Errorf("the cookie %q is not bound to the host", cookie.Name)
		}
		if cookie.MaxAge < 0 {
			delete(b.cookies, cookie.Name)
		} else {
			b.cookies[cookie.Name] = cookie.Value
		}
	}
	return response
}

func (b *browser) get(address string) *http.Response {
	b.t.Helper()
	return b.do(httptest.NewRequestWithContext(b.t.Context(), http.MethodGet, address, http.NoBody))
}

func (b *browser) post(address string, form url.Values) *http.Response {
	b.t.Helper()
	r := httptest.NewRequestWithContext(
		b.t.Context(),
		http.MethodPost,
		address,
		strings.NewReader(form.Encode()),
	)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return b.do(r)
}

// read returns the text of an answer.
func read(r *http.Response) string {
	var out strings.Builder
	buffer := make([]byte, 4096)
	for {
		n, err := r.Body.Read(buffer)
		out.Write(buffer[:n])
		if err != nil {
			return out.String()
		}
	}
}

// object returns the members of a JSON answer.
func object(t testing.TB, r *http.Response) map[string]any {
	t.Helper()
	text := read(r)
	var members map[string]any
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		t.Fatalf("status %d, no JSON: %q", r.StatusCode, text)
	}
	return members
}

func parsed(t testing.TB, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// register registers a client with these redirect URIs and returns its id.
func (b *browser) register(at string, redirects ...string) string {
	b.t.Helper()
	body, _ := json.Marshal(map[string]any{"client_name": "Test Client", "redirect_uris": redirects})
	r := httptest.NewRequestWithContext(
		b.t.Context(),
		http.MethodPost,
		at+"/register",
		strings.NewReader(string(body)),
	)
	r.Header.Set("Content-Type", "application/json")
	answer := b.do(r)
	if answer.StatusCode != http.StatusCreated {
		b.t.Fatalf("register: status %d: %s", answer.StatusCode, read(answer))
	}
	return object(b.t, answer)["client_id"].(string)
}

func challenge() string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// query returns a good request of authorize.
func query(id, redirect string) url.Values {
	return url.Values{
		"response_type": {"code"}, "client_id": {id}, "redirect_uri": {redirect}, "state": {"client-state"},
		"code_challenge": {challenge()}, "code_challenge_method": {"S256"},
	}
}

// toProvider sends the browser to authorize, and returns where it is sent.
func (b *browser) toProvider(at string, q url.Values) string {
	b.t.Helper()
	answer := b.get(at + "/authorize?" + q.Encode())
	if answer.StatusCode != http.StatusSeeOther {
		b.t.Fatalf("authorize: status %d: %s", answer.StatusCode, read(answer))
	}
	return answer.Header.Get("Location")
}

// inputs are the hidden fields of a form.
var inputs = regexp.MustCompile(`name="(id|proof)" value="([^"]*)"`)

// asked follows a provider's way back to the page that asks for consent, and returns the
// form as it would be sent.
func (b *browser) asked(back string) url.Values {
	b.t.Helper()
	answer := b.get(back)
	if answer.StatusCode != http.StatusSeeOther {
		b.t.Fatalf("callback: status %d: %s", answer.StatusCode, read(answer))
	}
	page := b.get(base + answer.Header.Get("Location"))
	form := url.Values{"decision": {"allow"}}
	for _, match := range inputs.FindAllStringSubmatch(read(page), -1) {
		form.Set(match[1], match[2])
	}
	if page.StatusCode != http.StatusOK || !form.Has("proof") {
		b.t.Fatalf("consent: status %d, form %v", page.StatusCode, form)
	}
	return form
}

var refreshTo = regexp.MustCompile(`http-equiv="refresh" content="0; url=([^"]*)"`)

// movedTo returns where a page sends the browser.
func movedTo(t testing.TB, r *http.Response) *url.URL {
	t.Helper()
	text := read(r)
	match := refreshTo.FindStringSubmatch(text)
	if r.StatusCode != http.StatusOK || match == nil {
		t.Fatalf("status %d, no page that moves on: %s", r.StatusCode, text)
	}
	return parsed(t, html.UnescapeString(match[1]))
}

// code signs a person in and consents, and returns the code that the client gets.
func (w *world) code(t testing.TB, b *browser, at, person, id string, change func(url.Values)) string {
	t.Helper()
	q := query(id, loopback)
	if change != nil {
		change(q)
	}
	form := b.asked(w.idp.signIn(t, person, b.toProvider(at, q)))
	if change != nil {
		change(form)
	}
	to := movedTo(t, b.post(base+"/consent", form))
	if to.Query().Get("state") != "client-state" || to.Query().Get("iss") != at {
		t.Errorf("the answer to the client is %v", to)
	}
	return to.Query().Get("code")
}

// redeem returns a good request for the tokens of a code.
func redeem(id, code string) url.Values {
	return url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "client_id": {id}, "redirect_uri": {loopback},
		"code_verifier": {verifier},
	}
}

// signedIn is a client that has tokens.
type signedIn struct {
	b                   *browser
	at, id              string
	access, refreshWith string
}

// signIn takes a person through everything.
func (w *world) signIn(t testing.TB, at, person string, change func(url.Values)) *signedIn {
	t.Helper()
	b := w.browser(t)
	id := b.register(at, loopback)
	answer := b.post(at+"/token", redeem(id, w.code(t, b, at, person, id, change)))
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("token: status %d: %s", answer.StatusCode, read(answer))
	}
	got := object(t, answer)
	return &signedIn{b, at, id, got["access_token"].(string), got["refresh_token"].(string)}
}

// refresh brings a refresh token to a server.
func (c *signedIn) refresh(server http.Handler, token string) (status int, got map[string]any) {
	c.b.t.Helper()
	b := &browser{c.b.t, server, nil}
	answer := b.post(c.at+"/token", url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {token}, "client_id": {c.id},
	})
	return answer.StatusCode, object(c.b.t, answer)
}

func fixed(id string, c clients.Fixed) clients.Fixed {
	c.ID = id
	return c
}

// contextOf returns a context of the test that can be ended before it.
func contextOf(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}
