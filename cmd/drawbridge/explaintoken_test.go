package main

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/accesskey"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// TestTheGatewayTakesTheTokensThatExplainSays asks explain and a whole gateway about
// generated tokens, access keys and tokens of the gateway's own sign-in, at addresses of
// generated configs. What the record of the gateway has is compared with what is said.
func TestTheGatewayTakesTheTokensThatExplainSays(t *testing.T) {
	t.Parallel()
	configs := 1000 // with ten requests each
	if testing.Short() {
		configs = 40
	}
	dir := t.TempDir()
	kept := filepath.Join(dir, "kept")
	texts := accessKeys(t, kept)
	endings := map[string]int{}
	for seed := range configs {
		s := &tokenScenario{scenario: scenario{Rand: rand.New(rand.NewPCG(uint64(seed), 31))}, kept: kept, texts: texts}
		s.run(t, filepath.Join(dir, fmt.Sprint(seed)), endings)
	}
	for _, ending := range []string{
		"ok", "forbidden", "DB-TENANT-CHOICE", "DB-NOT-FOUND",
		"key: ok", "key: unauthenticated, key", "key: unauthenticated, malformed",
		"own: ok", "own: unauthenticated, signature", "own: unauthenticated, expired", "own: unauthenticated, claims",
		"unauthenticated, issuer", "unauthenticated, audience", "unauthenticated, expired", "unauthenticated, early",
		"unauthenticated, lifetime", "unauthenticated, tenant", "unauthenticated, claims", "unauthenticated, signature",
		"unauthenticated, algorithm", "unauthenticated, malformed",
	} {
		if endings[ending] < configs/100+1 {
			t.Errorf("%d requests ended so: %s; the generator has to make more of them: %v", endings[ending],
				ending, endings)
		}
	}
}

// longKey is long enough for every algorithm.
const longKey = signingKey + "f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99"

// tokenScenario is a config with entries of issuers, and a gateway that has it in force.
type tokenScenario struct {
	scenario

	entries []genEntry
	keys    bool // access keys are taken
	signsIn bool

	kept  string   // the folder of what all gateways keep
	texts []string // access keys, of which the last is revoked
	dir   string
	cfg   *config.Config
	parts *parts
	asked []*askedAt        // all requests
	told  map[string]*entry // the record, by request
}

// genEntry is one entry of issuers.
type genEntry struct {
	line                  int
	issuer, audience      string
	tenant                string            // "": claim tells
	claim                 string            // of the tenant
	tenants               map[string]string // by what the claim says
	scopes, subject, name string            // claims; "": the standard ones
	mapped                bool              // the scope r stands for read
	require               bool              // the claim realm.verified must be true
	life                  time.Duration     // zero: as by default
}

// askedAt is one request with a token at an address.
type askedAt struct {
	kind, token, tenant string // the tenant of the address; "": /mcp
	tool, said, err     string
	entry               *genEntry // that the token is for; nil: none
	id, code            string    // of the answer; code "": it is no error
	status              int
}

var tenantsOfTokens = []string{"acme", "globex"}

// issuers writes entries, of which two may have one name.
func (s *tokenScenario) issuers() {
	s.write("issuers:")
	names := [][2]string{{"https://a.example/", "us"}, {"https://a.example/", "them"}, {"https://b.example/", "us"}}
	s.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names[:1+s.IntN(len(names))] {
		e := genEntry{line: s.line + 1, issuer: name[0], audience: name[1]}
		text := fmt.Sprintf("issuer: %q, hmac_secret_file: secret, algorithms: [HS256], audiences: [%s]", e.issuer, e.audience)
		switch s.IntN(3) {
		case 0:
			e.tenant = s.one(tenantsOfTokens...)
			text += ", tenant: " + e.tenant
		case 1:
			e.claim, e.tenants = "groups", map[string]string{"5c6": "acme", "9f1": s.one(tenantsOfTokens...)}
			text += fmt.Sprintf(`, tenants: {claim: groups, map: {"5c6": acme, "9f1": %s}}`, e.tenants["9f1"])
		default:
			e.claim, e.tenants = "org.team", map[string]string{}
			allowed := s.some(1, tenantsOfTokens...)
			for _, id := range allowed {
				e.tenants[id] = id
			}
			text += ", tenants: {claim: org.team}, tenants_allowed: [" + strings.Join(allowed, ", ") + "]"
		}
		if s.IntN(3) == 0 {
			e.scopes, e.mapped = "realm.roles", s.IntN(2) == 0
			text += ", scopes: {claims: [realm.roles]"
			if e.mapped {
				text += ", map: {r: read}"
			}
			text += "}"
		}
		if s.IntN(3) == 0 {
			e.require = true
			text += ", require: {realm.verified: true}"
		}
		if s.IntN(3) == 0 {
			e.subject, e.name = "oid", "email"
			text += ", subject_claim: oid, name_claim: email"
		}
		if s.IntN(3) == 0 {
			e.life = 2 * time.Hour
			text += ", max_token_life: 2h"
		}
		s.write("  - {%s}", text)
		s.entries = append(s.entries, e)
	}
	if s.signsIn {
		s.write("  - github: {client_id: gw, client_secret_file: secret, tenants: {claim: orgs, map: {x: acme}}}")
	}
}

// config writes a config of two tenants with one server.
func (s *tokenScenario) config() {
	s.keys, s.signsIn = s.IntN(2) == 0, s.IntN(2) == 0
	s.write("listen: 127.0.0.1:8080\npublic_url: https://gw.example\naudit: {file: audit.jsonl, sync: interval}\ndata: {dir: %q}", s.kept)
	s.line += 3
	if s.keys {
		s.write("access_keys: on")
	}
	s.issuers()
	for i := range s.entries {
		s.people = append(s.people, s.entries[i].issuer+"#alice", s.entries[i].issuer+"#alice-by-oid")
	}
	slices.Sort(s.people)
	s.people = slices.Compact(s.people)
	s.write("servers:\n  files: {url: \"https://mcp.files.example/mcp\"}\ntenants:")
	s.line += 2
	const all = "{rate: 100000, burst: 1000000}"
	for _, id := range tenantsOfTokens {
		s.write("  %s:\n    servers: [files]\n    limits: {requests: %s, calls: %s, user_calls: %s}\n    rules:", id, all, all, all)
		s.line += 3
		for range 1 + s.IntN(3) {
			s.rule(patternsOf("files"))
		}
	}
}

// run has ten requests explained, and made.
func (s *tokenScenario) run(t *testing.T, dir string, endings map[string]int) {
	t.Helper()
	s.config()
	s.start(t, dir)
	for range 10 {
		a := &askedAt{tool: s.one("files__issue", "files__merge"), tenant: s.one("", "", "acme", "globex")}
		s.credential(t, a)
		s.explain(t, a)
		s.make(a, len(s.asked))
		s.asked = append(s.asked, a)
	}
	if err := errors.Join(s.parts.audit.Close(), s.parts.storing.db.Close()); err != nil {
		t.Fatal(err)
	}
	s.told = map[string]*entry{}
	written := auditFile{name: filepath.Join(dir, "audit.jsonl")}
	if err := written.read(func(e *entry) { s.told[e.RequestID] = e }); written.unread > 0 || err != nil {
		t.Fatalf("%d lines of the audit file are no records, %v", written.unread, err)
	}
	for _, a := range s.asked {
		ending, wrong := s.judge(a)
		if wrong != "" {
			t.Fatalf("%s\n%s\n%s %s at %q, %+v\n%s%s\nthe gateway: %d %s, %+v", wrong, s.text.String(), a.kind, a.token,
				a.tenant, a.entry, a.said, a.err, a.status, a.code, s.told[a.id])
		}
		endings[ending]++
	}
}

// address is a listener that nobody connects to.
type address struct{ net.Listener }

func (address) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080} }

// start puts a gateway together that has the config in force.
func (s *tokenScenario) start(t *testing.T, dir string) {
	t.Helper()
	s.dir = dir
	file := filepath.Join(dir, "drawbridge.yaml")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(file, []byte(s.text.String()), 0o600),
		os.WriteFile(filepath.Join(dir, "secret"), []byte(longKey), 0o600)); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.cfg, err = config.Load(file, config.ProcessEnvironment()); err != nil {
		t.Fatalf("%v\n%s", err, s.text.String())
	}
	s.parts, err = build(s.cfg, memoryPlan{budget: 16 << 20}, slog.New(slog.DiscardHandler), new(slog.LevelVar),
		listeners{clients: address{}})
	if err != nil {
		t.Fatal(err)
	}
	offer(t, s.parts.fleet.catalogue, s.cfg)
}

// accessKeys makes keys in a folder, and revokes the last.
func accessKeys(t *testing.T, dir string) (texts []string) {
	t.Helper()
	cfg := &config.Config{Data: config.Data{Dir: dir}}
	ring, err := newRing(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db, err := openStore(cfg, ring, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	book := accesskey.Book{Store: db}
	var key accesskey.Key
	for _, scopes := range [][]string{nil, {"read"}, {"read", "write"}, {"write"}} {
		made := accesskey.Key{Tenant: tenantsOfTokens[len(texts)%2], Subject: "ci", Scopes: scopes}
		var text string
		if text, key, err = book.Create(t.Context(), made, time.Hour); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	if _, err := book.Revoke(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	return texts
}

// credential makes what a request is made with.
func (s *tokenScenario) credential(t *testing.T, a *askedAt) {
	t.Helper()
	switch n := s.IntN(10); {
	case n < 2 && s.keys:
		a.kind, a.token = "key", s.one(s.texts...)
		if s.IntN(4) == 0 { // another letter, of which the checksum does not know
			a.token = a.token[:20] + strings.Map(func(c rune) rune { return c ^ 1 }, a.token[20:21]) + a.token[21:]
		}
	case n < 2:
		a.kind, a.token = "no keys", s.texts[0] // which nobody takes
	case n < 5 && s.signsIn:
		a.kind, a.token = "own", s.ownToken(t)
	default:
		s.token(t, a)
	}
}

// ownToken returns a token as the sign-in of the gateway gives it out.
func (s *tokenScenario) ownToken(t *testing.T) string {
	t.Helper()
	private := ed25519.NewKeyFromSeed(s.parts.ring.Derive("access tokens, EdDSA")[0])
	key := auth.Key{Public: private.Public(), Private: private}
	key.ID = base64.RawURLEncoding.EncodeToString(key.Public.(ed25519.PublicKey)[:9])
	at, tenant := s.one("", "/t/acme", "/t/globex"), s.one(tenantsOfTokens...)
	if at != "" {
		tenant = at[len("/t/"):]
	}
	c := auth.Claims{
		Issuer: "https://gw.example" + at, Subject: "ann", Audience: "https://gw.example" + at + "/mcp", Type: "at+jwt",
		IssuedAt: time.Now(), Expiry: time.Now().Add(5 * time.Minute),
		Extra: map[string]any{
			auth.OriginClaim: s.one("https://github.com", "https://gw.example"), auth.FamilyClaim: "f1", "tenant": tenant,
			"name": "Ann", "scope": strings.Join(s.some(0, "read", "write"), " "),
		},
	}
	switch s.IntN(8) {
	case 0:
		c.IssuedAt, c.Expiry = time.Now().Add(-time.Hour), time.Now().Add(-50*time.Minute)
	case 1:
		c.Extra[auth.OriginClaim] = "https://elsewhere.example/"
	case 2:
		forged := ed25519.NewKeyFromSeed([]byte(strings.Repeat("f", ed25519.SeedSize)))
		key = auth.Key{ID: key.ID, Public: forged.Public(), Private: forged}
	}
	text, err := auth.Sign(key, "EdDSA", c)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// token returns a token for one of the entries, with at most two things wrong.
func (s *tokenScenario) token(t *testing.T, a *askedAt) {
	t.Helper()
	e := &s.entries[s.IntN(len(s.entries))]
	now := time.Now()
	a.entry = e
	c := auth.Claims{
		Issuer: e.issuer, Subject: "alice", Audience: e.audience, IssuedAt: now.Add(-time.Minute),
		Expiry: now.Add(time.Hour), Extra: map[string]any{"jti": fmt.Sprint(s.Uint64())},
	}
	put := func(path string, value any) {
		if path != "" {
			if err := auth.PutClaim(c.Extra, path, value); err != nil {
				t.Fatal(err)
			}
		}
	}
	if e.claim != "" {
		values := s.some(1, slices.Sorted(maps.Keys(e.tenants))...)
		put(e.claim, values)
		if len(values) == 1 && s.IntN(2) == 0 {
			put(e.claim, values[0])
		}
	}
	scopes := "scope"
	if e.scopes != "" {
		scopes = e.scopes
	}
	words := s.some(0, "read", "write")
	if e.mapped {
		words = s.some(0, "r", "write")
	}
	put(scopes, strings.Join(words, " "))
	if e.require {
		put("realm.verified", true)
	}
	put(e.subject, "alice-by-oid")
	put(e.name, s.one("alice@acme.example", ""))
	key, algorithm := auth.Key{Public: []byte(longKey), Private: []byte(longKey)}, "HS256"
	for range s.IntN(3) {
		switch s.IntN(13) {
		case 0:
			c.Issuer = "https://unknown.example/"
		case 1:
			c.Audience = "others" // which the first entry of the issuer refuses
			first := func(other genEntry) bool { return other.issuer == e.issuer }
			a.entry = &s.entries[slices.IndexFunc(s.entries, first)]
		case 2:
			c.IssuedAt, c.Expiry = now.Add(-2*time.Hour), now.Add(-time.Hour)
		case 3:
			c.Extra["nbf"] = now.Add(time.Hour).Unix()
		case 4:
			c.Expiry = now.Add(30 * time.Hour)
		case 5:
			put(e.claim, s.one("initech", ""))
		case 6:
			put(e.claim, 7)
		case 7:
			put(scopes, 7)
		case 8:
			if e.require {
				put("realm.verified", s.one("true", "false"))
			}
		case 9:
			put(e.subject, "")
		case 10:
			key.Private, key.Public = []byte(longKey[1:]+"x"), []byte(longKey[1:]+"x")
		case 11:
			algorithm = "HS512"
		}
	}
	var err error
	if a.token, err = auth.Sign(key, algorithm, c); err != nil {
		t.Fatal(err)
	}
	if s.IntN(20) == 0 {
		a.token = a.token[:len(a.token)/2]
	}
}

// explain notes what explain says of a request.
func (s *tokenScenario) explain(t *testing.T, a *askedAt) {
	t.Helper()
	file := filepath.Join(s.dir, "token")
	if err := os.WriteFile(file, []byte(a.token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &walk{cfg: s.cfg, asked: asked{tokenFile: file, tenant: a.tenant, tool: a.tool, arguments: `{"title":"x"}`}}
	p, refused, err := w.principal(t.Context())
	if err == nil && refused == nil {
		request, wrong := w.gatewayRequest()
		if err = errors.Join(wrong, oneTenant(&p)); err == nil {
			_, err = w.judge(t.Context(), p, request, deskOf(w.cfg, s.parts.fleet.catalogue))
		}
	}
	a.said = w.out.String()
	if err != nil {
		a.err = err.Error()
	}
}

var codeIn = regexp.MustCompile(`"code":"(DB-[A-Z-]+)"`)

// make makes a request.
func (s *tokenScenario) make(a *askedAt, i int) {
	path := "/mcp"
	if a.tenant != "" {
		path = "/t/" + a.tenant + "/mcp"
	}
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "https://gw.example"+path, strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+a.tool+`","arguments":{"title":"x"},`+askedMeta+`}}`))
	r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", i) // the first refusals of an address have lines of their own
	for name, value := range map[string]string{
		"Authorization": "Bearer " + a.token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		mcp.HeaderProtocolVersion: "2026-07-28", mcp.HeaderMethod: "tools/call", mcp.HeaderName: a.tool,
	} {
		r.Header.Set(name, value)
	}
	answer := httptest.NewRecorder()
	s.parts.server.Handler().ServeHTTP(answer, r)
	a.status, a.id = answer.Code, answer.Header().Get(exchange.RequestIDHeader)
	if found := codeIn.FindStringSubmatch(answer.Body.String()); found != nil {
		a.code = found[1]
	}
}

// judge says how a request ended, and in what explain differs from the gateway.
func (s *tokenScenario) judge(a *askedAt) (ending, wrong string) {
	if a.err != "" {
		if a.code == "" || !strings.Contains(a.err, " "+a.code) {
			return "", "want " + a.code + " in the error"
		}
		return a.code, ""
	}
	e := s.told[a.id]
	if e == nil {
		return "", "there is no record"
	}
	ending = strings.TrimSuffix(e.Outcome+", "+e.Reason, ", ")
	conclusion, walk, _ := strings.Cut(a.said, "\n")
	want := "let through"
	if e.Outcome != "ok" {
		want = "refused: " + ending
		if e.Rule != "" {
			want += ", by " + e.Rule
		}
		want += " (the client reads " + a.code + ")"
	}
	if conclusion != want {
		return "", "want " + want
	}
	var lines []string
	if e.Issuer != "" && a.entry != nil {
		lines = append(lines, fmt.Sprintf("issuer    %s (%s:%d)", e.Issuer, filepath.Join(s.dir, "drawbridge.yaml"), a.entry.line))
	}
	if e.Subject != "" {
		name := ""
		if e.Name != "" {
			name = fmt.Sprintf(" (%q)", e.Name)
		}
		lines = append(lines, fmt.Sprintf("caller    %s#%s%s, with", e.Issuer, e.Subject, name), "tenant    ")
	}
	if e.Claim != "" {
		lines = append(lines, "claim     "+e.Claim+" is ")
	}
	for _, scope := range e.Scopes {
		lines = append(lines, " "+scope)
	}
	for _, line := range lines {
		if !strings.Contains(walk, line) {
			return "", "want the line " + line
		}
	}
	if e.Tenant != "" && !regexp.MustCompile(`tenant    .*\b`+e.Tenant+`\b`).MatchString(walk) {
		return "", "want the tenant " + e.Tenant
	}
	if a.kind != "" {
		return a.kind + ": " + ending, ""
	}
	if e.Outcome == outcomeForbidden {
		return e.Outcome, ""
	}
	return ending, ""
}
