package upstream_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/leaktest"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/process"
)

// fakeServer is the variable that turns the test binary into a stdio server.
const fakeServer = "DRAWBRIDGE_FAKE_SERVER"

// keepWord makes the test binary the keeper of a child, as the program's command of that
// name does.
const keepWord = "keep"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == keepWord {
		process.Keep(os.Args[2:])
	}
	if kind := os.Getenv(fakeServer); kind != "" {
		serveFake(kind)
		return
	}
	os.Setenv("DRAWBRIDGE_CANARY", "canary-of-the-gateway") // must not reach a child
	// unless told otherwise: most tests wait for children
	flag.Set("test.parallel", "8")
	leaktest.Main(m)
}

// limit is how long a test waits for what must happen, also on a machine with much else
// to do.
const limit = 2 * time.Minute

// soon is less than what would pass if nobody but the checks, every 30 s, brought
// something about.
const soon = 20 * time.Second

// rig is one upstream that runs, and what became known of it.
type rig struct {
	t    testing.TB
	reg  *registry.Registry
	name string
	up   *upstream.Upstream
	cfg  upstream.Config
	stop func()

	mu     sync.Mutex // guards the fields below
	states []upstream.Status
	counts map[upstream.Anomaly]int
	news   chan struct{}
}

func command(kind string, args ...string) upstream.Config {
	var keeper []string
	if runtime.GOOS == "linux" {
		keeper = []string{os.Args[0], keepWord}
	}
	return upstream.Config{
		Command: os.Args[0], Args: args, Keeper: keeper,
		// else with -race each end takes a second
		Env: map[string]string{fakeServer: kind, "GORACE": "atexit_sleep_ms=0"},
	}
}

// newClient returns a client as the program gives to an upstream.
func newClient(t testing.TB) *http.Client {
	client := dial.Client(dial.Config{PrivateAddresses: true})
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func newRig(t testing.TB, cfg upstream.Config, reg *registry.Registry) *rig {
	t.Helper()
	if reg == nil {
		reg = registry.New()
	}
	if cfg.Name == "" {
		cfg.Name = "up"
	}
	r := &rig{t: t, reg: reg, name: cfg.Name, counts: map[upstream.Anomaly]int{}, news: make(chan struct{})}
	if cfg.URL != "" && cfg.Client == nil {
		cfg.Client = newClient(t)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Version = "1.2.3"
	cfg.Status = func(s upstream.Status) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.states = append(r.states, s)
		r.wake()
	}
	cfg.Count = func(kind upstream.Anomaly, n int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.counts[kind] += n
		r.wake()
	}
	r.cfg = cfg
	r.up = upstream.New(cfg, reg)
	return r
}

func (r *rig) wake() {
	close(r.news)
	r.news = make(chan struct{})
}

// start runs an upstream until the test ends.
func start(t testing.TB, cfg upstream.Config) *rig {
	t.Helper()
	r := newRig(t, cfg, nil)
	r.run()
	return r
}

func (r *rig) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.up.Run(ctx); err != nil {
			r.t.Errorf("Run: got error %v, want none", err)
		}
	}()
	r.stop = func() {
		cancel()
		select {
		case <-done:
		case <-time.After(limit):
			r.t.Error("Run did not end with its context")
		}
	}
	r.t.Cleanup(r.stop)
}

// until waits for a claim about the upstream's state.
func (r *rig) until(what string, claim func() bool) {
	r.t.Helper()
	deadline := time.After(limit)
	for {
		changed := r.reg.Changed()
		r.mu.Lock()
		news := r.news
		r.mu.Unlock()
		if claim() {
			return
		}
		select {
		case <-changed:
		case <-news:
		case <-deadline:
			r.t.Fatalf("waited in vain until %s; tools %v, status %+v", what, r.tools(), r.last())
		}
	}
}

func (r *rig) untilUp() {
	r.t.Helper()
	r.until("the upstream is up", func() bool { return r.last().Up })
}

func (r *rig) untilTool(name string) {
	r.t.Helper()
	r.until("there is a tool "+name, func() bool { return r.last().Up && slices.Contains(r.tools(), name) })
}

func (r *rig) last() upstream.Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.states) == 0 {
		return upstream.Status{}
	}
	return r.states[len(r.states)-1]
}

func (r *rig) count(kind upstream.Anomaly) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[kind]
}

// tools returns the tools that are listed.
func (r *rig) tools() []string {
	var names []string
	view := r.reg.Catalogue().View([]string{r.name})
	for _, tool := range view.Tools {
		if view.Lists(r.name) {
			names = append(names, tool.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (r *rig) tool(name string) *registry.Tool {
	r.t.Helper()
	for _, tool := range r.reg.Catalogue().View([]string{r.name}).Tools {
		if tool.Name == name {
			return tool
		}
	}
	r.t.Fatalf("no tool %q among %v", name, r.tools())
	return nil
}

// server returns the server without a network that the upstream talks to.
func (r *rig) server() *wired { return r.cfg.Client.Transport.(*wired) }

// call calls a tool with params given as JSON.
func (r *rig) call(ctx context.Context, tool, params string,
	notify func(mcp.Notification),
) (mcp.Object, error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return r.tool(tool).Call(ctx, request(r.t, params, notify))
}

func request(t testing.TB, params string, notify func(mcp.Notification)) *registry.Call {
	t.Helper()
	object, err := mcp.ParseObject([]byte(params))
	if err != nil {
		t.Fatalf("params %s: %v", params, err)
	}
	return &registry.Call{Params: object, Notify: func(_ context.Context, n mcp.Notification) error {
		if notify != nil {
			notify(n)
		}
		return nil
	}}
}

// await receives from a channel, in bounded time.
func await[T any](t testing.TB, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(limit):
		t.Fatal("waited in vain for another goroutine")
	}
	return value
}

// must calls a tool and returns the result as text.
func (r *rig) must(tool, params string) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	result, err := r.call(ctx, tool, params, nil)
	if err != nil {
		r.t.Fatalf("call %s: %v (%v)", tool, err, cause(err))
	}
	return string(result.JSON())
}

// cause digs out what an error hides.
func cause(err error) string {
	text := ""
	for u := err; u != nil; {
		text = fmt.Sprintf("%s: %v", text, u)
		unwrapper, ok := u.(interface{ Unwrap() error })
		if !ok {
			break
		}
		u = unwrapper.Unwrap()
	}
	return text
}

func text(result mcp.Object) string {
	blocks, _ := result.Value("content").Elements()
	if len(blocks) == 0 {
		return ""
	}
	block, _ := mcp.ObjectOf(blocks[0])
	return block.Text("text")
}
