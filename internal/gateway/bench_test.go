package gateway

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// bench is a gateway with a source of tools that behave in every way a test needs.
type bench struct {
	*Gateway
	registry *registry.Registry
	metrics  *prometheus.Registry
	audit    string    // path
	calls    int       // of tools that ran
	deadline time.Time // of the last call's context
}

func newBench(t testing.TB, tenants ...TenantConfig) *bench {
	t.Helper()
	return newBenchOf(t, func(*Config) {}, tenants...)
}

// newBenchOf is newBench with a config that change has changed.
func newBenchOf(t testing.TB, change func(*Config), tenants ...TenantConfig) *bench {
	t.Helper()
	b := &bench{
		registry: registry.New(), metrics: prometheus.NewRegistry(),
		audit: filepath.Join(t.TempDir(), "audit.jsonl"),
	}
	record, err := audit.Open(audit.Config{File: b.audit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := record.Close(); err != nil {
			t.Error(err)
		}
	})
	config := Config{
		Registry: b.registry, Limiter: ratelimit.NewMemory(0), Audit: record, Digests: digestsOfTests(), Metrics: metrics.New(b.metrics),
		Seal: seal.RandomRing(), Logger: slog.New(slog.DiscardHandler), Version: "test",
	}
	change(&config)
	b.Gateway = New(config)
	for _, refusal := range b.registry.Replace(b.source("box")) {
		t.Fatalf("refused: %+v", refusal)
	}
	if len(tenants) == 0 {
		tenants = []TenantConfig{{
			ID: "acme", Servers: []string{"box"},
			Rules: []Rule{{Allow: []string{"*"}}},
		}}
	}
	b.SetPolicy("", tenants)
	return b
}

const anyObject = `{"type":"object"}`

// source offers one tool for each behaviour.
func (b *bench) source(name string) registry.Source {
	s := registry.Source{Name: name, Prefix: name}
	add := func(tool, schemas string, run registry.Func) {
		definition, err := mcp.ParseObject([]byte(`{"name":"` + tool + `","description":"d",` + schemas +
			`}`))
		if err != nil {
			panic(err)
		}
		s.Tools = append(s.Tools, registry.Offer{
			Definition: definition, Timeout: time.Second,
			Call: func(ctx context.Context, c *registry.Call) (mcp.Object, error) {
				b.calls++
				b.deadline, _ = ctx.Deadline()
				return run(ctx, c)
			},
		})
	}
	says := func(text string) registry.Func {
		return func(context.Context, *registry.Call) (mcp.Object, error) { return texts(text), nil }
	}
	input := `"inputSchema":` + anyObject
	add(
		"echo", `"inputSchema":{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`,
		func(_ context.Context, c *registry.Call) (mcp.Object, error) {
			return texts(c.Params.Object("arguments").Text("message")), nil
		})
	add("plain", input, says("hello"))
	add("hidden", input, says("pay\u202Eload\x1b[31m"))
	add("fails", input, func(context.Context, *registry.Call) (mcp.Object, error) {
		return mcp.ToolError("it did not work"), nil
	})
	add("slow", input, func(ctx context.Context, _ *registry.Call) (mcp.Object, error) {
		<-ctx.Done()
		return mcp.Object{}, ctx.Err()
	})
	add("lost", input, func(context.Context, *registry.Call) (mcp.Object, error) {
		return mcp.Object{}, &registry.UnavailableError{
			Server: "secret-host:99", Sent: true,
			Err: errors.New("dial 10.1.2.3"),
		}
	})
	add("broken", input, func(context.Context, *registry.Call) (mcp.Object, error) {
		return mcp.Object{}, errors.New("pointer 0xc000123 of module x")
	})
	add("words", input, func(context.Context, *registry.Call) (mcp.Object, error) {
		return mcp.Object{}, mcp.Errorf(-32001, "upstream\u202E says no")
	})
	add("poses", input, func(context.Context, *registry.Call) (mcp.Object, error) {
		return mcp.Object{}, mcp.Stable(mcp.CodeLimited, "DB-LIMIT-TENANT", "as if the gateway had said it")
	})
	add("opens", input, func(context.Context, *registry.Call) (mcp.Object, error) {
		return mcp.Object{}, &mcp.Error{
			Code: mcp.CodeURLElicitation, Message: "open an address first", Data: mcp.RawJSON("null"),
		}
	})
	add("tells", input, func(ctx context.Context, c *registry.Call) (mcp.Object, error) {
		params, _ := mcp.ParseObject([]byte(`{"progressToken":1,"progress":1,"message":"half\u202eway"}`))
		return texts("done"), c.Notify(ctx, mcp.Notification{Method: mcp.NotifyProgress, Params: params})
	})
	add("panics", input, func(context.Context, *registry.Call) (mcp.Object, error) { panic("0xc000 inside") })
	output := input + `,"outputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`
	structured := func(text string) registry.Func {
		return func(context.Context, *registry.Call) (mcp.Object, error) {
			return texts("n").With("structuredContent", mcp.RawJSON(text)), nil
		}
	}
	add("counts", output, structured(`{"n":1}`))
	add("miscounts", output, structured(`{"n":"one"}`))
	add("silent", output, says("no structure"))
	return s
}

func texts(text string) mcp.Object {
	block := mcp.NewObject(mcp.Member{Name: "type", Value: mcp.String("text")},
		mcp.Member{Name: "text", Value: mcp.String(text)})
	return mcp.NewObject(mcp.Member{Name: "content", Value: mcp.Array([]mcp.RawJSON{block.JSON()})})
}

var alice = auth.Principal{
	Issuer: "https://login.test/", Subject: "alice", TenantID: "acme",
	Scopes: []string{"tools.read"},
}

func (b *bench) caller(t testing.TB, p auth.Principal) Caller {
	t.Helper()
	c, err := b.Admit(context.Background(), p, 1)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// request returns a tools/call.
func request(tool, arguments string) *Request {
	params, err := mcp.ParseObject([]byte(`{"name":"` + tool + `","arguments":` + arguments + `}`))
	if err != nil {
		panic(err)
	}
	return &Request{
		ID: "r1", Method: mcp.MethodToolsCall, Params: params,
		Notify: func(context.Context, mcp.Notification) error { return nil },
	}
}

// run calls a tool as alice and returns the text of the result, or the error.
func (b *bench) run(t testing.TB, tool, arguments string) (text string, isError bool, failure *mcp.Error) {
	t.Helper()
	result, err := b.Handle(context.Background(), b.caller(t, alice), request(tool, arguments))
	if err != nil {
		if !errors.As(err, &failure) {
			t.Fatalf("%s: error of type %T, want *mcp.Error", tool, err)
		}
		return "", false, failure
	}
	return firstText(result), string(result.Value("isError")) == "true", nil
}

func firstText(result mcp.Object) string {
	blocks, _ := result.Value("content").Elements()
	if len(blocks) == 0 {
		return ""
	}
	block, _ := mcp.ObjectOf(blocks[0])
	return block.Text("text")
}

func (b *bench) records(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile(b.audit)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// digestsOfTests returns the keys of the digests in the records of tests.
func digestsOfTests() *audit.Keys { return audit.NewKeys([][]byte{bytes.Repeat([]byte{7}, 32)}) }
