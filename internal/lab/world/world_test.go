package world_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// patience is for what must happen on a machine whose processors are busy.
const patience = 2 * time.Minute

var program string // the gateway

// TestMain also plays a process that is killed with its world.
func TestMain(m *testing.M) {
	if dir := os.Getenv(asOther); dir != "" {
		_, _ = fmt.Fprintln(os.Stderr, beOther(dir))
		os.Exit(1)
	}
	dir, err := os.MkdirTemp("", "drawbridge-world-")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "drawbridge")
	code := 1
	if err := must.Try(func() { world.Build(context.Background(), program) }); err == nil {
		code = m.Run()
	} else {
		_, _ = fmt.Fprintln(os.Stderr, err)
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// echo is a server of revision 2026-07-28 with a tool.
func echo() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			ID     json.RawMessage
			Method string
		}
		if json.NewDecoder(r.Body).Decode(&call) != nil || call.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result := map[string]any{"resultType": "complete"}
		switch call.Method {
		case "server/discover":
			result["supportedVersions"], result["capabilities"] = []string{"2026-07-28"},
				map[string]any{"tools": map[string]any{}}
			result["serverInfo"] = map[string]any{"name": "echo", "version": "1"}
		case "tools/list":
			result["tools"] = []any{map[string]any{
				"name":        "echo",
				"inputSchema": map[string]any{"type": "object"},
			}}
			result["ttlMs"], result["cacheScope"] = 1000, "public"
		case "tools/call":
			result["content"] = []any{map[string]any{"type": "text", "text": "done"}}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": call.ID, "result": result})
	}))
}

// needs passes a test over where a program is not installed, unless CI is true.
func needs(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		_, here := exec.LookPath(name)
		_, there := exec.LookPath("/usr/sbin/" + name)
		if here != nil && there != nil && os.Getenv("CI") != "true" {
			t.Skip(name + " is not installed; .ci/setup installs it")
		}
	}
}

// tryStart starts a world with a server, which ends with the test.
func tryStart(t *testing.T, c world.Config) (*world.World, error) {
	t.Helper()
	needs(t, c.Balancer, "redis-server")
	server := echo()
	t.Cleanup(server.Close)
	c.Dir, c.Program, c.Upstreams = t.TempDir(), program,
		map[string]string{"echo": server.Listener.Addr().String() + "/mcp"}
	w, err := must.Got(func() *world.World { return world.Start(within(t), c) })
	if err == nil {
		t.Cleanup(w.Close)
	}
	return w, err
}

func start(t *testing.T, c world.Config) *world.World {
	t.Helper()
	w, err := tryStart(t, c)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	t.Cleanup(stop)
	return ctx
}

// call calls the tool at an address, with a nonce by which its record is known. Anything
// but its answer is an error.
func call(ctx context.Context, url, token string) error {
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo__echo","arguments":{"nonce":"` +
		ledger.New().Ask(ledger.Question{}).String() + `"},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/mcp", strings.NewReader(body))
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer " + token, "Content-Type": "application/json",
		"Accept":               "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo__echo",
	} {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !bytes.Contains(answer, []byte(`"done"`)) {
		return fmt.Errorf("status %d, %w: %s", response.StatusCode, err, answer)
	}
	return nil
}

func works(t *testing.T, url, token string) {
	t.Helper()
	if err := call(within(t), url, token); err != nil {
		t.Fatalf("%s: %v", url, err)
	}
}

// unready waits until Ready says what is wrong.
func unready(t *testing.T, w *world.World, want string) {
	t.Helper()
	for all := within(t); ; {
		ctx, stop := context.WithTimeout(all, 300*time.Millisecond)
		err := must.Try(func() { w.Ready(ctx) })
		stop()
		if err != nil && strings.Contains(err.Error(), want) {
			return
		}
		if all.Err() != nil {
			t.Fatalf("got %v, want %s", err, want)
		}
	}
}

func TestAWorldOfEachBalancer(t *testing.T) {
	t.Parallel()
	for _, balancer := range []string{"nginx", "haproxy"} {
		t.Run(balancer, func(t *testing.T) {
			t.Parallel()
			w := start(t, world.Config{Balancer: balancer, Replicas: 3, Redis: "one"})
			for _, tenant := range []string{"red", "blue"} {
				for _, r := range w.Replicas {
					works(t, "http://"+r.Address, w.Token(tenant, "alice"))
					works(t, w.URL, w.Token(tenant, "bob"))
				}
			}
			records, err := must.Got(w.Audit)
			if err != nil || len(records) != 12 {
				t.Errorf("got %d records and %v, want one of each of 12 calls", len(records), err)
			}
		})
	}
}

// TestReplicasComeAndGo stops, kills, freezes and adds replicas, and changes their
// configs.
func TestReplicasComeAndGo(t *testing.T) {
	t.Parallel()
	w := start(t, world.Config{Balancer: "nginx", Replicas: 2, Redis: "one", Direct: true})
	ctx, token, r := within(t), w.Token("red", "alice"), w.Replicas[0]
	if exit, err := r.Stop(ctx); exit != 0 || err != nil {
		t.Fatalf("stop: got %d and %v, want 0", exit, err)
	}
	for range 4 {
		works(t, w.URL, token) // the other one serves
	}
	r.Wrapper, r.Env = []string{"prlimit", "--nofile=321"}, []string{"GOMEMLIMIT=123MiB"}
	r.AuditTo(filepath.Join(r.Dir, "second.jsonl"))
	r.Start(ctx)
	works(t, "http://"+r.Address, token)
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", r.PID()))
	if err != nil || !strings.Contains(string(limits), "321") {
		t.Errorf("got %s and %v, want a limit of 321 open files", limits, err)
	}
	if bound := r.Metric(ctx, "go_gc_gomemlimit_bytes"); bound != 123<<20 {
		t.Errorf("got a memory limit of %v, want 123 MiB", bound)
	}
	if usage, err := must.Got(func() world.Usage { return r.Usage(ctx) }); err != nil || usage.Descriptors == 0 || usage.Goroutines == 0 ||
		usage.Resident < 1<<20 || usage.Heap < 1<<20 {
		t.Errorf("got %+v and %v, want something of each", usage, err)
	}
	w.Replicas[1].Kill()
	if added := w.Add(ctx); added.Name != "replica-2" {
		t.Fatalf("add: got %v", added)
	}
	w.Ready(ctx)
	works(t, w.URL, token)
	if records, err := must.Got(w.Audit); err != nil || len(records) != 6 {
		t.Errorf("got %d records and %v, want those of all six calls", len(records), err)
	}
}

func TestRewriteWaitsUntilTheConfigIsTakenOrRefused(t *testing.T) {
	t.Parallel()
	w := start(t, world.Config{Balancer: "nginx", Replicas: 1, Redis: "one"})
	ctx, r := within(t), w.Replicas[0]
	err := must.Try(func() {
		r.Rewrite(
			ctx, func(
				config string,
			) string {
				return strings.ReplaceAll(config, "concurrency: 1,", "concurrency: none,")
			})
	})
	if !errors.Is(err, world.ErrRefused) || !strings.Contains(err.Error(), "none") {
		t.Errorf("got %v, want that the config was refused, and why", err)
	}
	err = must.Try(func() {
		r.Rewrite(ctx, func(config string) string {
			config = strings.ReplaceAll(config, "concurrency: none,", "concurrency: 1,")
			return strings.ReplaceAll(config, `{allow: ["*"`, `{allow: ["echo__nothing"`)
		})
	})
	if err != nil {
		t.Error(err)
	}
	if err := call(ctx, w.URL, w.Token("red", "alice")); err == nil {
		t.Error("the tool could be called, which is not allowed any more")
	}
	if !strings.Contains(r.Words(), "config refused") {
		t.Errorf("the log says %s", r.Words())
	}
}

// TestReadyNamesThePartThatIsNot breaks one part after the other, and mends it.
func TestReadyNamesThePartThatIsNot(t *testing.T) {
	t.Parallel()
	w := start(t, world.Config{Balancer: "haproxy", Replicas: 2, Redis: "one"})
	r := w.Replicas[1]
	one := w.Redis.Nodes[0]
	for want, fault := range map[string]struct{ begin, end func() }{
		"redis does not run":           {func() { one.Kill() }, func() { one.Begin(within(t)) }},
		"redis: ":                      {func() { one.Freeze() }, func() { one.Thaw() }},
		"replica-1 does not use Redis": {r.Redis.Cut, r.Redis.Heal},
		"replica-1: Get":               {func() { r.Freeze() }, func() { r.Thaw() }},
	} {
		fault.begin()
		unready(t, w, want)
		fault.end()
		w.Ready(within(t))
	}
	works(t, w.URL, w.Token("blue", "alice"))
}

// TestEachKindOfRedis kills the master, or a node, and begins it again.
func TestEachKindOfRedis(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"watched", "cluster"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := start(t, world.Config{Balancer: "nginx", Replicas: 2, Redis: kind})
			ctx := within(t)
			before := w.Redis.Master(ctx)
			before.Kill()
			works(t, w.URL, w.Token("red", "alice")) // whatever is wrong with Redis
			if kind == "watched" {
				world.Until(ctx, func() {
					if w.Redis.Master(ctx) == before {
						panic(errors.New("the master is the one that was killed"))
					}
				})
			}
			before.Begin(ctx)
			w.Ready(ctx)
			works(t, w.URL, w.Token("red", "alice"))
		})
	}
}
