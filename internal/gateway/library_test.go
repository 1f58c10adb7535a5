package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// library is a source of every kind of item, whose answers a test chooses.
type library struct {
	reply func(ctx context.Context, c *registry.Call) (mcp.Object, error)
	uses  []*registry.Call

	updated  map[string]func(uri string) // of open subscriptions, by own URI
	lives    map[string]context.Context
	refuses  error // what a subscription is answered with
	panicked bool  // when a subscription is opened
}

// libraryTime is the time of one use of an item of a library.
const libraryTime = 10 * time.Second

func everything() TenantConfig {
	return TenantConfig{
		ID: "acme", Servers: []string{"lib"},
		Rules: []Rule{{Allow: []string{"*", "prompt:*", "resource:*"}}},
	}
}

// newLibrary returns a gateway with a library as the server lib.
func newLibrary(t testing.TB, tenants ...TenantConfig) (*bench, *library) {
	t.Helper()
	if len(tenants) == 0 {
		tenants = []TenantConfig{everything()}
	}
	return newLibraryOf(t, func(*Config) {}, tenants...)
}

// newLibraryOf is newLibrary with a config that change has changed.
func newLibraryOf(t testing.TB, change func(*Config), tenants ...TenantConfig) (*bench, *library) {
	t.Helper()
	b, l := newBenchOf(t, change, tenants...), &library{
		updated: map[string]func(string){},
		lives:   map[string]context.Context{},
	}
	b.replace(t, l.source("lib"))
	return b, l
}

func (b *bench) replace(t testing.TB, s registry.Source) {
	t.Helper()
	for _, refusal := range b.registry.Replace(s) {
		t.Fatalf("refused: %+v", refusal)
	}
}

func (l *library) source(name string) registry.Source {
	use := func(ctx context.Context, c *registry.Call) (mcp.Object, error) {
		l.uses = append(l.uses, c)
		return l.reply(ctx, c)
	}
	return registry.Source{
		Name: name, Prefix: "lib",
		Tools: []registry.Offer{
			{
				Definition: object(
					`{"name":"ask","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}}}`),
				Timeout: libraryTime, Call: use,
			},
			{
				Definition: object(`{"name":"other","inputSchema":{"type":"object"}}`), Timeout: libraryTime,
				Call: use,
			},
		},
		Prompts: []mcp.Object{
			object(`{"name":"greet","arguments":[{"name":"who","required":true}]}`),
			object(`{"name":"part"}`),
		},
		Resources: []mcp.Object{
			object(`{"name":"a","uri":"file:///a.txt"}`),
			object(`{"name":"b","uri":"file:///b.txt"}`),
		},
		Templates: []mcp.Object{
			object(`{"name":"log","uriTemplate":"file:///logs/{day}"}`),
			object(`{"name":"note","uriTemplate":"file:///notes/{day}"}`),
		},
		Timeout: libraryTime, Use: use, Reads: true, Completes: true, Subscribe: l.subscribe,
	}
}

func (l *library) subscribe(ctx context.Context, _ share.User, uri string, updated func(uri string),
	_ func(),
) error {
	if l.panicked {
		panic("inside")
	}
	l.updated[uri], l.lives[uri] = updated, ctx
	return l.refuses
}

// says makes every use of an item end in that result.
func (l *library) says(result string) {
	l.reply = func(context.Context, *registry.Call) (mcp.Object, error) { return object(result), nil }
}

// fails makes every use of an item end in that error.
func (l *library) fails(err error) {
	l.reply = func(context.Context, *registry.Call) (mcp.Object, error) { return mcp.Object{}, err }
}

// subject is one method, with params that its chain likes and dislikes, and an answer
// that holds a text.
type subject struct {
	method, params, unknown string
	wrong                   string // "": no params of a known item are wrong
	answer                  func(text string) string
}

var subjects = []subject{
	{
		method: mcp.MethodToolsCall, params: `{"name":"lib__ask","arguments":{"n":1}}`,
		unknown: `{"name":"lib__none"}`, wrong: `{"name":"lib__ask","arguments":{"n":"one"}}`,
		answer: func(
			text string,
		) string {
			return `{"content":[{"type":"text","text":` + quote(text) + `}]}`
		},
	},
	{
		method: mcp.MethodPromptsGet, params: `{"name":"lib__greet","arguments":{"who":"you"}}`,
		unknown: `{"name":"lib__none"}`, wrong: `{"name":"lib__greet","arguments":{}}`,
		answer: func(text string) string {
			return `{"messages":[{"role":"user","content":{"type":"text","text":` + quote(text) + `}}]}`
		},
	},
	{
		method: mcp.MethodResourcesRead, params: `{"uri":"mcp.lib+file:///a.txt"}`,
		unknown: `{"uri":"mcp.none+file:///a.txt"}`,
		answer: func(
			text string,
		) string {
			return `{"contents":[{"uri":"file:///a.txt","text":` + quote(text) + `}]}`
		},
	},
	{
		method:  mcp.MethodComplete,
		params:  `{"ref":{"type":"ref/prompt","name":"lib__greet"},"argument":{"name":"who","value":"y"}}`,
		unknown: `{"ref":{"type":"ref/resource","uri":"mcp.lib+file:///none/{day}"},"argument":{"name":"day","value":"y"}}`,
		wrong:   `{"ref":{"type":"ref/prompt","name":"lib__greet"},"argument":{"name":"who"}}`,
		answer:  func(text string) string { return `{"completion":{"values":[` + quote(text) + `]}}` },
	},
}

func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(quoted)
}

func object(text string) mcp.Object {
	o, err := mcp.ParseObject([]byte(text))
	if err != nil {
		panic(err)
	}
	return o
}

// askable is a client that can be asked everything.
func askable() mcp.Object {
	return mcp.CapabilitiesOf(mcp.Revision2607,
		object(`{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`))
}

// ask is a request of a client that can be asked everything.
func ask(method, params string) *Request {
	return &Request{
		ID: "r1", Method: method, Params: object(params), Capabilities: askable(),
		Notify: func(context.Context, mcp.Notification) error { return nil },
	}
}

// handle makes a request as alice.
func (b *bench) handle(t testing.TB, r *Request) (mcp.Object, *mcp.Error) {
	t.Helper()
	c, err := b.Resolve(alice)
	if err != nil {
		t.Fatal(err)
	}
	return b.handleAs(t, c, r)
}

func (b *bench) handleAs(t testing.TB, c Caller, r *Request) (mcp.Object, *mcp.Error) {
	t.Helper()
	result, err := b.Handle(context.Background(), c, r)
	var failure *mcp.Error
	if err != nil && !errors.As(err, &failure) {
		t.Fatalf("%s: error of type %T, want *mcp.Error", r.Method, err)
	}
	return result, failure
}

// stable returns the stable code of an error, "" of none.
func stable(failure *mcp.Error) string {
	if failure == nil {
		return ""
	}
	return failure.StableCode()
}
