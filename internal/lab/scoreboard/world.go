package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/server"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
)

// audience is what tokens of the world are for.
const audience = "https://mcp.test/mcp"

// secrets are the shared secrets of the two issuers, and one of nobody.
var secrets = map[string]string{
	"https://one.test/": "kP4v9ZrTq2Lx8Wm1Ns6Yb3Hc7Jd5Gf0A",
	"https://two.test/": "Xe2Rw8Uo4Ia7Pz1Sk9Dl3Fm6Gn5Hb0Vc",
	"":                  "Qm7Nb3Vc9Xz1Lk5Jh8Gf2Ds6Ap4Oi0Uy",
}

// person is one of the principals: two issuers, two tenants, two users, two clients.
type person struct{ issuer, tenant, user, client string }

// people are eight, of whom each differs from the first in one thing, or in several.
var people = []person{
	{"https://one.test/", "acme", "alice", "app"},
	{"https://one.test/", "acme", "alice", "other"},
	{"https://one.test/", "acme", "bob", "app"},
	{"https://one.test/", "globex", "alice", "app"},
	{"https://two.test/", "acme", "alice", "app"},
	{"https://two.test/", "globex", "alice", "app"},
	{"https://one.test/", "globex", "bob", "other"},
	{"https://two.test/", "acme", "bob", "other"},
}

func (p person) String() string {
	return strings.Join([]string{strings.TrimPrefix(p.issuer, "https://"), p.tenant, p.user, p.client}, " ")
}

// marker stands in everything that the world's server says to this person, and in nothing
// else.
func (p person) marker() string {
	return "marker-" + base64.RawURLEncoding.EncodeToString([]byte(p.String()))
}

func markerOf(p auth.Principal) string {
	return person{p.Issuer, p.TenantID, p.Subject, p.ClientID}.marker()
}

// claims are those of the person's token.
func (p person) claims() map[string]any {
	now := time.Now()
	return map[string]any{
		"iss": p.issuer, "sub": p.user, "aud": audience, "org": p.tenant, "azp": p.client,
		"iat": now.Add(-time.Minute).Unix(), "exp": now.Add(20 * time.Hour).Unix(),
	}
}

// token returns the person's bearer token.
func (p person) token() string {
	s := p.signer()
	return s.token(s.header(), s.claims())
}

// world is the gateway of the product in this process, with its door and all of its
// chain, real tokens of two issuers, two tenants, and a server that both of them have.
// Its limits are so wide that no refusal comes from them.
type world struct {
	http.Handler

	server  *server.Server
	metrics *prometheus.Registry
	denied  atomic.Int64 // uses of what no rule allows, that were not added to a tally yet
	panics  int          // that were
	close   func()
}

// newWorld opens a world. close ends it.
func newWorld() *world {
	w := &world{metrics: prometheus.NewRegistry()}
	verifier := newVerifier()
	recorder, ring, quiet := metrics.New(w.metrics), seal.RandomRing(), slog.New(slog.DiscardHandler)
	catalogue := registry.New()
	for _, source := range w.sources() {
		for _, refusal := range catalogue.Replace(source) {
			panic(fmt.Errorf("%s: %w", refusal.Item, refusal.Err))
		}
	}
	desk := gateway.New(gateway.Config{
		Registry: catalogue, Limiter: ratelimit.NewMemory(0), Metrics: recorder, Seal: ring, Logger: quiet,
		PageSize: 2, Version: "scoreboard",
	})
	desk.SetPolicy("", tenants())
	settings := server.Settings{
		PublicURL:            "https://mcp.test",
		AuthorizationServers: []server.AuthorizationServer{{Issuer: "https://one.test/"}},
		AllowedOrigins:       []string{"https://app.test"}, AllowedHosts: []string{"mcp.test"},
		TrustedProxies: []netip.Prefix{},
	}
	w.server = server.New(server.Config{
		Gateway: desk, Verify: verifier.Verify, Recheck: verifier.Recheck, Seal: ring,
		Log:    eventlog.NewMemory(eventlog.MemoryConfig{}),
		Logger: quiet, Metrics: recorder, Version: "scoreboard",
		Settings: func() server.Settings { return settings }, LegacySSE: true,
	})
	w.Handler = w.server.Handler()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, run := range []func(context.Context) error{desk.Run, w.server.Run, verifier.Run} {
		all.Go(func() { _ = run(ctx) }) // they return nil when ctx ends
	}
	w.close = func() {
		w.server.EndStreams()
		cancel()
		all.Wait()
	}
	return w
}

func newVerifier() *auth.Verifier {
	var issuers []auth.Issuer
	for _, s := range append(signers(), people[0].signer(), people[4].signer()) {
		issuers = append(issuers, auth.Issuer{
			Issuer: s.person.issuer, Algorithms: []string{s.algorithm}, Audiences: []string{audience},
			Keys:        []auth.Key{s.key()},
			TenantClaim: "org", TenantsAllowed: []string{"acme", "globex"},
		})
	}
	return must.Have(auth.New(auth.Config{Issuers: issuers}))
}

func tenants() []gateway.TenantConfig {
	plenty, many := ratelimit.Limit{Rate: 1e9, Burst: 1e9}, 1<<20
	limits := gateway.Limits{
		Requests: &plenty, Calls: &plenty, UserCalls: &plenty, Concurrency: &many, Streams: &many,
		Sessions: &many, UserSessions: &many,
	}
	rules := []gateway.Rule{{
		Allow: []string{"*", "prompt:*", "resource:*"}, Deny: []string{
			"*evil", "prompt:*evil",
			"resource:box:file:///secret/*", "resource:box:file:///secret",
		},
		MayMatchNothing: true,
	}}
	return []gateway.TenantConfig{
		{ID: "acme", Servers: []string{"box", "ofacme"}, Rules: rules, Limits: limits},
		{ID: "globex", Servers: []string{"box", "ofglobex"}, Rules: rules, Limits: limits},
	}
}

// object is a text of this program.
func object(text string) mcp.Object { return must.Have(mcp.ParseObject([]byte(text))) }

// exposed begins the URIs of the server that both tenants have, as clients see them.
const exposed = "mcp.box+"

// echoSchema has a bound of each kind, so that arguments can be wrong in many ways.
const echoSchema = `{"type":"object","additionalProperties":false,"required":["text"],` +
	`"properties":{"text":{"type":"string","maxLength":200},` +
	`"n":{"type":"integer","minimum":0,"maximum":1000},"flag":{"type":"boolean"},` +
	`"mode":{"enum":["a","b"]},"list":{"type":"array","maxItems":4,"items":{"type":"string"}}}}`

// anything is the schema of a tool that takes whatever it gets.
const anything = `{"type":"object"}`

// tool is one of a server. More are further members of its definition.
func tool(name, schema, more string, form mcp.Tasks, call registry.Func) registry.Offer {
	return registry.Offer{
		Definition: object(`{"name":"` + name + `","inputSchema":` + schema + more + `}`),
		Timeout:    time.Minute, Tasks: form, Call: call,
	}
}

// sources are the servers: one of both tenants, and one of each.
func (w *world) sources() []registry.Source {
	box := registry.Source{
		Name: "box", Prefix: "box", Reads: true, Completes: true, Timeout: time.Minute, Use: w.use,
		Prompts: []mcp.Object{
			object(`{"name":"greet"}`), object(`{"name":"second"}`),
			object(`{"name":"third"}`), object(`{"name":"evil"}`),
		},
		Resources: []mcp.Object{
			object(`{"uri":"file:///open/a","name":"a"}`),
			object(`{"uri":"file:///open/b","name":"b"}`), object(`{"uri":"file:///open/c","name":"c"}`),
			object(`{"uri":"file:///secret/k","name":"k"}`),
		},
		Templates: []mcp.Object{
			object(`{"uriTemplate":"file:///open/{a}","name":"t"}`),
			object(`{"uriTemplate":"file:///x/{a}","name":"u"}`),
			object(`{"uriTemplate":"file:///y/{a}","name":"v"}`),
		},
		Subscribe: func(context.Context, share.User, string, func(string), func()) error { return nil },
		Tools: []registry.Offer{
			tool("echo", echoSchema, "", 0, echo),
			tool("headed",
				`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`, "", 0,
				echo),
			tool("progress", anything, "", 0, progress),
			tool("ask", anything, "", 0, ask),
			tool("given", anything, "", mcp.TasksGiven, given),
			tool("asked", anything, `,"execution":{"taskSupport":"required"}`, mcp.TasksAsked, asked),
			tool("evil", anything, "", 0, func(context.Context, *registry.Call) (mcp.Object, error) {
				w.denied.Add(1)
				return mcp.TextResult("this must not run"), nil
			}),
		},
	}
	all := []registry.Source{box}
	for _, tenant := range []string{"acme", "globex"} {
		own := func(_ context.Context, c *registry.Call) (mcp.Object, error) {
			if c.Principal.TenantID != tenant {
				w.denied.Add(1)
			}
			return mcp.TextResult(markerOf(c.Principal)), nil
		}
		all = append(all, registry.Source{
			Name: "of" + tenant, Prefix: "of" + tenant,
			Tools: []registry.Offer{tool("own", anything, "", 0, own)},
		})
	}
	return all
}

// use serves prompts, resources and completions.
func (w *world) use(_ context.Context, c *registry.Call) (mcp.Object, error) {
	if c.Method == mcp.MethodPromptsGet && c.Target == "evil" ||
		c.Method == mcp.MethodResourcesRead && isSecret(c.Target) {
		w.denied.Add(1)
	}
	marker := markerOf(c.Principal)
	return object(cmp.Or(map[string]string{
		mcp.MethodPromptsGet:    `{"messages":[{"role":"user","content":{"type":"text","text":"` + marker + `"}}]}`,
		mcp.MethodResourcesRead: `{"contents":[{"uri":` + write(c.Target) + `,"text":"` + marker + `"}]}`,
	}[c.Method], `{"completion":{"values":["x"]}}`)), nil
}

// isSecret reads a URI as a careless server would: decoded until nothing is left to
// decode, without dots and empty segments, and whatever the host.
func isSecret(uri string) bool {
	for range 4 {
		if decoded, err := url.PathUnescape(uri); err == nil {
			uri = decoded
		}
	}
	_, rest, _ := strings.Cut(uri, ":")
	if after, has := strings.CutPrefix(rest, "//"); has {
		rest = after[max(0, strings.IndexByte(after, '/')):]
	}
	rest, _, _ = strings.Cut(rest, "?")
	rest, _, _ = strings.Cut(rest, "#")
	clean := path.Clean("/" + strings.TrimRight(rest, " \x00"))
	return clean == "/secret" || strings.HasPrefix(clean, "/secret/")
}

func echo(_ context.Context, c *registry.Call) (mcp.Object, error) {
	return mcp.TextResult(markerOf(c.Principal)), nil
}

func progress(ctx context.Context, c *registry.Call) (mcp.Object, error) {
	for n := range int64(2) {
		if err := c.Notify(ctx, mcp.Notification{Method: mcp.NotifyProgress, Params: mcp.NewObject(
			mcp.Member{Name: "progressToken", Value: c.Params.Object("_meta").Value("progressToken")},
			mcp.Member{Name: "progress", Value: mcp.Int(n)},
			mcp.Member{Name: "message", Value: mcp.String(markerOf(c.Principal))},
		)}); err != nil {
			return mcp.Object{}, err
		}
	}
	return mcp.TextResult(markerOf(c.Principal)), nil
}

// ask asks its caller one thing, and answers with what it heard.
func ask(_ context.Context, c *registry.Call) (mcp.Object, error) {
	if c.Params.Has("inputResponses") || len(c.Refusals) > 0 {
		return mcp.TextResult(markerOf(c.Principal) + string(c.Params.Value("inputResponses"))), nil
	}
	question := `{"method":"elicitation/create","params":{"message":"` + markerOf(c.Principal) +
		`","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}`
	if c.InSession { // sessions of all revisions can be asked this
		question = `{"method":"sampling/createMessage","params":{"maxTokens":9,"messages":[{"role":"user","content":{"type":"text","text":"` + markerOf(c.Principal) + `"}}]}}`
	}
	return object(`{"resultType":"input_required","requestState":"s","inputRequests":{"q":` + question +
		`}}`), nil
}

// given becomes a task of 2026-07-28, when the client knows them.
func given(_ context.Context, c *registry.Call) (mcp.Object, error) {
	switch {
	case c.Task != "":
		return object(
			`{"taskId":"own","status":"completed","ttlMs":null,"result":{"content":[{"type":"text","text":"` +
				markerOf(c.Principal) + `"}]}}`), nil
	case c.Tasks == mcp.TasksGiven:
		return object(`{"resultType":"task","taskId":"own","status":"working","ttlMs":null}`), nil
	}
	return mcp.TextResult(markerOf(c.Principal)), nil
}

// asked becomes a task of 2025-11-25.
func asked(_ context.Context, c *registry.Call) (mcp.Object, error) {
	switch c.Method {
	case mcp.MethodToolsCall:
		return object(`{"resultType":"task","task":{"taskId":"own","status":"working","ttl":60000}}`), nil
	case mcp.MethodTasksResult:
		return mcp.TextResult(markerOf(c.Principal)), nil
	}
	return object(`{"taskId":"` + c.Task + `","status":"working","ttl":60000,"statusMessage":"` +
		markerOf(c.Principal) + `"}`), nil
}
