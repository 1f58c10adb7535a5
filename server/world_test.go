package server_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/lifetime/lifetimetest"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/server"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// world is a server in front of a real gateway with tools that behave in every way a test
// needs.
type world struct {
	*server.Server
	gateway  *gateway.Gateway
	registry *registry.Registry
	log      *eventlog.Memory
	metrics  *prometheus.Registry
	settings exchange.Settings
	config   server.Config
	tenants  []gateway.TenantConfig
	audit    *audit.Log // nil: nothing is recorded

	mu        sync.Mutex // guards the fields below
	release   chan struct{}
	started   int                       // calls of slow tools
	cancelled int                       // of those, how many ended with their context
	revoked   func(auth.Principal) bool // whose tokens are not accepted any more; nil: nobody's
	store     *redis.Store              // that replicas share; nil: none
	limiter   ratelimit.Limiter         // nil: one in memory
}

// judge refuses tokens that have expired, and those that were revoked.
func (w *world) judge(p auth.Principal) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case time.Now().After(p.Expiry):
		return &auth.Error{Reason: "expired", Issuer: p.Issuer}
	case w.revoked != nil && w.revoked(p):
		return &auth.Error{Reason: "key"}
	}
	return nil
}

// revoke makes tokens worthless, as a change of keys or issuers does.
func (w *world) revoke(whose func(auth.Principal) bool) {
	w.refuse(whose)
	w.Reauthorize()
}

// refuse makes tokens worthless, and tells nobody.
func (w *world) refuse(whose func(auth.Principal) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.revoked = whose
}

// tokens are the bearer tokens of the tests, each with its principal. alice's sisters
// differ from her in one thing.
func principals() map[string]auth.Principal {
	alice := auth.Principal{
		Issuer: "https://issuer.test", Subject: "alice", ClientID: "app",
		TenantID: "acme", Expiry: time.Now().Add(time.Hour),
	}
	change := func(f func(*auth.Principal)) auth.Principal {
		p := alice
		f(&p)
		return p
	}
	return map[string]auth.Principal{
		"alice":        alice,
		"alice-again":  change(func(p *auth.Principal) { p.Expiry = p.Expiry.Add(time.Hour) }),
		"bob":          change(func(p *auth.Principal) { p.Subject = "bob" }),
		"alice-other":  change(func(p *auth.Principal) { p.ClientID = "other" }),
		"alice-issuer": change(func(p *auth.Principal) { p.Issuer = "https://issuer2.test" }),
		"alice-globex": change(func(p *auth.Principal) { p.TenantID = "globex" }),
		"alice-shift":  change(func(p *auth.Principal) { p.Subject, p.ClientID = "alicea", "pp" }),
		"outsider": change(func(p *auth.Principal) {
			p.Issuer, p.Subject, p.TenantID = "https://issuer2.test", "olga", "globex"
		}),
		"stranger": change(func(p *auth.Principal) { p.TenantID = "unserved" }),
		"expired":  change(func(p *auth.Principal) { p.Expiry = time.Now().Add(-time.Minute) }),
		"brief":    change(func(p *auth.Principal) { p.Expiry = time.Now().Add(time.Minute) }),
		"usual":    change(func(p *auth.Principal) { p.TenantID = "usual" }),
		"poor":     change(func(p *auth.Principal) { p.TenantID = "poor" }),
	}
}

// refusals are the bearer tokens of the tests that are refused, each with the reason.
func refusals() map[string]auth.Error {
	all := map[string]auth.Error{
		"keyless": {Reason: "unavailable"},
		"other-audience": {
			Reason: "audience", Issuer: "https://issuer.test",
			Audience: []string{"https://elsewhere.test/mcp", "a\"\r\nX: y"},
			Expected: []string{"https://mcp.test/mcp"},
		},
	}
	for _, reason := range []string{"malformed", "algorithm", "key", "signature", "issuer", "claims"} {
		all["not-understood-"+reason] = auth.Error{
			Reason: reason, Err: errors.New("a detail"),
			Claimed: strings.Repeat("x", 100) + "\u202e\n" + strings.Repeat("y", 100),
		}
	}
	for _, reason := range []string{"expired", "early", "lifetime", "tenant", "claims"} {
		all["genuine-"+reason] = auth.Error{
			Reason: reason, Issuer: "https://issuer.test",
			Err: errors.New("a detail"),
		}
	}
	all["genuine-tenant"] = auth.Error{
		Reason: "tenant", Issuer: "https://issuer.test", Err: errors.New("a detail"),
		Claim: "groups", Found: "[\"a\u202e\"]", Expected: []string{"5c6", "9f1"},
	}
	return all
}

// newWorld opens a world. change may alter it before the server is made.
func newWorld(t testing.TB, change ...func(*world)) *world {
	t.Helper()
	w := &world{registry: registry.New(), metrics: prometheus.NewRegistry(), release: make(chan struct{})}
	none, many, one := ratelimit.Limit{}, ratelimit.Limit{Rate: 1e6, Burst: 1e6}, 1
	plenty := gateway.Limits{Requests: &many, Calls: &many, UserCalls: &many}
	// A link to the doc stands in results, although no server has it.
	all := []gateway.Rule{{Allow: []string{"*", "resource:box:file:///doc"}, MayMatchNothing: true}}
	w.tenants = []gateway.TenantConfig{
		{ID: "acme", Servers: []string{"box"}, Rules: all, Limits: plenty},
		{ID: "globex", Servers: []string{"box"}, Rules: all, Limits: plenty},
		{ID: "usual", Servers: []string{"box"}, Rules: all},
		{ID: "poor", Servers: []string{"box"}, Rules: all, Limits: gateway.Limits{
			Calls:   &none,
			Streams: &one,
		}},
	}
	w.settings = exchange.Settings{
		PublicURL:            "https://mcp.test",
		AuthorizationServers: issuers("https://issuer.test", "https://issuer2.test"),
		AllowedOrigins:       []string{"https://app.test"}, AllowedHosts: []string{"mcp.test", "127.0.0.1"},
	}
	known := principals()
	recorder := metrics.New(w.metrics)
	w.config = server.Config{
		Verify: func(_ context.Context, token string) (auth.Principal, error) {
			if why, refused := refusals()[token]; refused {
				return auth.Principal{}, &why
			}
			p, ok := known[token]
			if !ok {
				return auth.Principal{}, &auth.Error{Reason: "signature"}
			}
			if err := w.judge(p); err != nil {
				return auth.Principal{}, err
			}
			return p, nil
		},
		Recheck: w.judge,
		Seal:    seal.RandomRing(), Logger: slog.New(slog.DiscardHandler), Metrics: recorder, Version: "test",
		Settings: func() exchange.Settings { return w.settings }, LegacySSE: true,
	}
	for _, f := range change {
		f(w)
	}
	if w.config.Log == nil {
		w.log = eventlog.NewMemory(eventlog.MemoryConfig{})
		w.config.Log = w.log
	}
	if w.limiter == nil {
		w.limiter = ratelimit.NewMemory(0)
	}
	w.gateway = gateway.New(gateway.Config{
		Registry: w.registry, Limiter: w.limiter, Audit: w.audit, Metrics: recorder, Seal: w.config.Seal,
		Logger: w.config.Logger, Name: w.config.Card.Name, Version: "test", Memory: w.config.Memory, Turns: w.config.Turns,
		Others: w.config.Others,
	})
	w.config.Gateway = w.gateway
	w.offer(t)
	w.gateway.SetPolicy("", w.tenants)
	w.Server = server.New(w.config)
	w.run(t)
	return w
}

// run runs what runs as long as the world.
func (w *world) run(t testing.TB) {
	lifetimetest.Run(t, w.gateway.Run, w.Run)
}

// offer puts the tools into the catalogue, and besides them empty ones with the given
// names.
func (w *world) offer(t testing.TB, more ...string) {
	t.Helper()
	for _, refusal := range w.registry.Replace(w.source(more...)) {
		t.Fatalf("refused: %+v", refusal)
	}
}

func object(text string) mcp.Object {
	o, err := mcp.ParseObject([]byte(text))
	if err != nil {
		panic(err)
	}
	return o
}

func (w *world) source(more ...string) registry.Source {
	s := registry.Source{Name: "box"}
	add := func(name, rest string, call registry.Func) {
		s.Tools = append(s.Tools, registry.Offer{
			Definition: object(`{"name":"` + name + `",` + rest + `}`), Timeout: 10 * time.Minute, Call: call,
		})
	}
	says := func(result string) registry.Func {
		return func(context.Context, *registry.Call) (mcp.Object, error) { return object(result), nil }
	}
	const anything = `"inputSchema":{"type":"object"}`
	add(
		"echo", `"title":"Echo","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`,
		func(_ context.Context, c *registry.Call) (mcp.Object, error) {
			return textResult(c.Params.Object("arguments").Text("text")), nil
		})
	add(
		"region", `"inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"}}}`,
		says(`{"content":[{"type":"text","text":"from there"}]}`))
	add("rich", anything+`,"outputSchema":{"type":"object"}`,
		says(`{"content":[{"type":"audio","data":"AAAA","mimeType":"audio/wav"},`+
			`{"type":"resource_link","name":"doc","uri":"file:///doc"},{"type":"hologram","x":1}],"structuredContent":{"n":1},"_meta":{"vendor/x":1}}`))
	add("number", anything, says(`{"content":[],"structuredContent":7}`))
	add("fails", anything, says(`{"content":[{"type":"text","text":"it did not work"}],"isError":true}`))
	add("progress", anything, w.progress)
	add("slow", anything, w.slow)
	add("slow_progress", anything, func(ctx context.Context, c *registry.Call) (mcp.Object, error) {
		released := w.begin()
		if err := c.Notify(ctx, progress(c, 0)); err != nil {
			return mcp.Object{}, err
		}
		return w.until(ctx, released)
	})
	for _, name := range more {
		add(name, anything, says(`{"content":[]}`))
	}
	return s
}

func textResult(text string) mcp.Object {
	block := mcp.NewObject(mcp.Member{Name: "type", Value: mcp.String("text")},
		mcp.Member{Name: "text", Value: mcp.String(text)})
	return mcp.NewObject(mcp.Member{Name: "content", Value: mcp.Array([]mcp.RawJSON{block.JSON()})})
}

func progress(c *registry.Call, n int64) mcp.Notification {
	return mcp.Notification{Method: mcp.NotifyProgress, Params: mcp.NewObject(
		mcp.Member{Name: "progressToken", Value: c.Params.Object("_meta").Value("progressToken")},
		mcp.Member{Name: "progress", Value: mcp.Int(n)},
	)}
}

func (w *world) progress(ctx context.Context, c *registry.Call) (mcp.Object, error) {
	for n := range int64(3) {
		if err := c.Notify(ctx, progress(c, n)); err != nil {
			return mcp.Object{}, err
		}
	}
	return textResult("done"), nil
}

// slow waits until the test lets it go.
func (w *world) slow(ctx context.Context, _ *registry.Call) (mcp.Object, error) {
	return w.until(ctx, w.begin())
}

func (w *world) begin() (released <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started++
	return w.release
}

func (w *world) until(ctx context.Context, released <-chan struct{}) (mcp.Object, error) {
	select {
	case <-released:
		return textResult("late"), nil
	case <-ctx.Done():
		w.mu.Lock()
		w.cancelled++
		w.mu.Unlock()
		return mcp.Object{}, ctx.Err()
	}
}

// letGo lets the slow calls go that wait now.
func (w *world) letGo() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.release)
	w.release = make(chan struct{})
}

// counts returns how many slow calls began, and how many of them were cancelled.
func (w *world) counts() (started, cancelled int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.started, w.cancelled
}

// fakeDesk passes on to a real one but where a test says otherwise.
type fakeDesk struct {
	server.Desk
	handle func(ctx context.Context, c gateway.Caller, r *gateway.Request) (mcp.Object, error)
	lists  func(gateway.Digests) gateway.Digests
	files  *files // nil: those of the real one
	refuse func(audit.Record)
	admit  func()
}

func (d *fakeDesk) Admit(ctx context.Context, p auth.Principal, n int) (gateway.Caller, error) {
	if d.admit != nil {
		d.admit()
	}
	return d.Desk.Admit(ctx, p, n)
}

func (d *fakeDesk) Handle(ctx context.Context, c gateway.Caller, r *gateway.Request) (mcp.Object, error) {
	if d.handle != nil {
		return d.handle(ctx, c, r)
	}
	return d.Desk.Handle(ctx, c, r)
}

func (d *fakeDesk) Lists(c gateway.Caller) gateway.Digests {
	if d.lists != nil {
		return d.lists(d.Desk.Lists(c))
	}
	return d.Desk.Lists(c)
}

func (d *fakeDesk) Subscribe(ctx context.Context, c gateway.Caller, r *gateway.Request, uri string,
	updated func(string),
) (gateway.Subscription, error) {
	if d.files != nil {
		return d.files.subscribe(uri, updated)
	}
	return d.Desk.Subscribe(ctx, c, r, uri, updated)
}

func (d *fakeDesk) Reads(c gateway.Caller, uri string) bool {
	if d.files != nil {
		return d.files.reads(uri)
	}
	return d.Desk.Reads(c, uri)
}

func (d *fakeDesk) Refuse(ctx context.Context, r audit.Record) {
	if d.refuse != nil {
		d.refuse(r)
	}
	d.Desk.Refuse(ctx, r)
}

func (d *fakeDesk) Note(ctx context.Context, r audit.Record) {
	if d.refuse != nil {
		d.refuse(r)
	}
	d.Desk.Note(ctx, r)
}

// behind puts a desk that misbehaves before the world's gateway.
func (w *world) behind(d *fakeDesk) {
	d.Desk = w.gateway
	w.Server = server.NewWithDesk(w.config, d)
}

func reader(text string) io.Reader {
	if text == "" {
		return nil
	}
	return strings.NewReader(text)
}
