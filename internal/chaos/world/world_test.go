package world_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/chaos/world"
)

// patience is for what must happen on a machine whose processors are busy.
const patience = 2 * time.Minute

var program string // the gateway

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "drawbridge-world-")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "drawbridge")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", program, "github.com/drawbridge-mcp/drawbridge/cmd/drawbridge")
	code := 1
	if output, err := build.CombinedOutput(); err == nil {
		code = m.Run()
	} else {
		_, _ = fmt.Fprintf(os.Stderr, "%v\n%s", err, output)
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// echo is a server of revision 2026-07-28 with a tool.
func echo(t *testing.T) (address string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
			result["supportedVersions"], result["capabilities"] = []string{"2026-07-28"}, map[string]any{"tools": map[string]any{}}
			result["serverInfo"] = map[string]any{"name": "echo", "version": "1"}
		case "tools/list":
			result["tools"] = []any{map[string]any{"name": "echo", "inputSchema": map[string]any{"type": "object"}}}
			result["ttlMs"], result["cacheScope"] = 1000, "public"
		case "tools/call":
			result["content"] = []any{map[string]any{"type": "text", "text": "done"}}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": call.ID, "result": result})
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func start(t *testing.T, c world.Config) *world.World {
	t.Helper()
	c.Dir, c.Program, c.Upstreams = t.TempDir(), program, map[string]string{"echo": echo(t) + "/mcp"}
	w, err := world.Start(within(t), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	t.Cleanup(stop)
	return ctx
}

// call calls the tool at an address and returns the status and the answer.
func call(t *testing.T, url, token string) (status int, answer string) {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo__echo","arguments":{},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	request, err := http.NewRequestWithContext(within(t), http.MethodPost, url+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer " + token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo__echo",
	} {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	var text bytes.Buffer
	_, _ = text.ReadFrom(response.Body)
	return response.StatusCode, text.String()
}

func works(t *testing.T, url, token string) {
	t.Helper()
	if status, answer := call(t, url, token); status != http.StatusOK || !strings.Contains(answer, `"done"`) {
		t.Fatalf("%s: got %d %s, want the answer of the tool", url, status, answer)
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
			records, err := w.Audit()
			if err != nil || len(records) != 12 {
				t.Errorf("got %d records and %v, want one of each of 12 calls", len(records), err)
			}
		})
	}
}
