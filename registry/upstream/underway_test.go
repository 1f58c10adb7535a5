package upstream_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// TestProgressOnTheSessionsOwnStreamReachesItsCall has a server tell progress beside the
// response of the call, as mcp-go does. Its token says which call it belongs to.
func TestProgressOnTheSessionsOwnStreamReachesItsCall(t *testing.T) {
	t.Parallel()
	for _, asks := range []string{anyQuestion, ""} {
		visit(t, upstream.Config{}, func(t *testing.T, _ *origin, r *rig) {
			heard := &notes{}
			c := person{"a", "alice", asks, ""}.call(t, "x", "", "", heard)
			c.Params = parse(t, `{"name":"steps","_meta":{"progressToken":"mine"}}`)
			if _, _, got, err := r.round(t.Context(), "steps", c); err != nil || got != "stepped" {
				t.Fatalf("got %q, %v", got, err)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if got := heard.text(); got != "one two" {
				t.Errorf("progress of a caller who can be asked %q: got %q, want what came before the answer",
					asks, got)
			}
		}, readScript(t, "mcpgo-progress"))
	}
}

// TestLogLinesOfAMixingServerReachWhoeverWantsThem has two users of a tenant call at
// once, and a server that tells in one session on whichever response is free, as those of
// mcp-go do. Each user's lines reached the other.
func TestLogLinesOfAMixingServerReachWhoeverWantsThem(t *testing.T) {
	t.Parallel()
	server := mcpgoserver.NewMCPServer("mixing", "1", mcpgoserver.WithToolCapabilities(true), mcpgoserver.WithLogging())
	var all sync.WaitGroup
	all.Add(2)
	server.AddTool(mcpgo.NewTool("log"), func(ctx context.Context, r mcpgo.CallToolRequest,
	) (*mcpgo.CallToolResult, error) {
		all.Done()
		all.Wait()
		for range 20 {
			_ = server.SendNotificationToClient(ctx, mcp.NotifyMessage,
				map[string]any{"level": "info", "data": r.GetString("token", "")})
		}
		return mcpgo.NewToolResultText("ok"), nil
	})
	s := httptest.NewServer(mcpgoserver.NewStreamableHTTPServer(server))
	t.Cleanup(s.Close)
	r := start(t, upstream.Config{URL: s.URL + "/mcp", Revision: mcp.Revision2511})
	r.untilTool("log")
	var calls sync.WaitGroup
	for _, name := range []string{"alice", "bob"} {
		calls.Go(func() {
			heard := &notes{}
			p := person{"a", name, "", "info"}
			if _, _, got, err := r.round(t.Context(), "log", p.call(t, name, "", "", heard)); err != nil ||
				got != "ok" {
				t.Errorf("%s: got %q, %v", name, got, err)
			}
			for line := range strings.FieldsSeq(heard.text()) {
				if line != name {
					t.Errorf("%s heard %q", name, heard.text())
					return
				}
			}
		})
	}
	calls.Wait()
}
