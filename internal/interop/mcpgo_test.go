package interop_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"
)

const (
	legacyRevision = "2025-11-25"
	midCall        = "who accept" // what a tool that asks in the middle of its call ends with
	midSample      = "think therefore"
	inResult       = "whose accept" // and one that asks through its result
)

// asks calls the tools that ask and says whether those that ask in the middle of a call
// were answered. The one that asks through its result always must be.
func (c *mcpGoClient) asks(t *testing.T, prefix string, inTheMiddle bool) {
	t.Helper()
	for tool, want := range map[string]string{"who": midCall, "think": midSample} {
		if text, failed := c.use(t, prefix+tool, map[string]any{}); failed == inTheMiddle || inTheMiddle &&
			!strings.HasPrefix(text, want) {
			t.Errorf("%s%s by %s: got %q, failed %v, want it to work: %v", prefix, tool, c.revision, text,
				failed, inTheMiddle)
		}
	}
	if text, failed := c.use(t, prefix+"whose", map[string]any{}); failed ||
		!strings.HasPrefix(text, inResult) {
		t.Errorf("%swhose by %s: got %q, failed %v, want %q", prefix, c.revision, text, failed, inResult)
	}
}

// TestMCPGoServersAskAsTheyDoDirectly has servers of mcp-go, which speak both eras, ask a
// client of each era: directly, and through the gateway with every revision that the
// config can name for them.
func TestMCPGoServersAskAsTheyDoDirectly(t *testing.T) {
	t.Parallel()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	url := mcpGoOverHTTP(t)
	stdio := fmt.Sprintf("command: %q, env: {%s: mcp-go}", binary, childRole)
	var servers strings.Builder
	for name, revision := range map[string]string{
		"any": "auto", "old": legacyRevision,
		"new": modernRevision,
	} {
		fmt.Fprintf(&servers, "  web-%s: {url: %q, private_addresses: true, revision: %s}\n", name, url,
			revision)
		fmt.Fprintf(&servers, "  kid-%s: {%s, revision: %s}\n", name, stdio, revision)
	}
	g := serve(t, tenant(servers.String()))
	token := g.token(t)
	for _, test := range []struct {
		revision, server string // the client's and what the server's name ends in; "": directly
		inTheMiddle      bool
	}{
		{legacyRevision, "", true},
		{modernRevision, "", false},
		{legacyRevision, "any", true},
		{modernRevision, "any", false},
		{legacyRevision, "old", true},
		{modernRevision, "old", true},
		{legacyRevision, "new", false},
		{modernRevision, "new", false},
	} {
		t.Run(test.revision+" "+test.server, func(t *testing.T) {
			t.Parallel()
			if test.server == "" {
				mcpGo(t, url, "", test.revision).asks(t, "", test.inTheMiddle)
				link := transport.NewStdio(binary, []string{childRole + "=mcp-go"})
				beginMCPGo(t, link, test.revision).asks(t, "", test.inTheMiddle)
				return
			}
			client := mcpGo(t, g.url, token, test.revision)
			client.asks(t, "web-"+test.server+"__", test.inTheMiddle)
			client.asks(t, "kid-"+test.server+"__", test.inTheMiddle)
		})
	}
}

// TestMCPGoGoesThroughItsStory lets clients of mcp-go of both eras list, call, hear
// progress and learn of a changed list, of a server of mcp-go.
func TestMCPGoGoesThroughItsStory(t *testing.T) {
	t.Parallel()
	g := serve(t, tenant(fmt.Sprintf("  go: {url: %q, private_addresses: true}\n", mcpGoOverHTTP(t))))
	token := g.token(t)
	for _, revision := range []string{legacyRevision, modernRevision} {
		t.Run(revision, func(t *testing.T) {
			c := mcpGo(t, g.url, token, revision)
			if names := c.names(t); !slices.Contains(names, "go__greet") {
				t.Errorf("tools: got %v, want go__greet among them", names)
			}
			if text, failed := c.use(t, "go__greet", map[string]any{"a": 1}); failed ||
				text != "hello with 1 arguments" {
				t.Errorf("greet: got %q, failed %v", text, failed)
			}
			// sent as null
			if text, failed := c.use(t, "go__greet", map[string]any(nil)); failed ||
				text != "hello with 0 arguments" {
				t.Errorf("greet without arguments: got %q, failed %v", text, failed)
			}
			// What the server tells together with the answer, on another stream than it,
			// may come too late, also to a direct client.
			eventually(t, "progress of all steps is heard", func() bool {
				if text, failed := c.use(t, "go__steps", map[string]any{}); failed || text != "stepped" {
					t.Errorf("steps: got %q, failed %v", text, failed)
				}
				progress, _ := c.heard()
				return slices.Contains(progress, 1) && slices.Contains(progress, 2) &&
					slices.Contains(progress, 3)
			})
			more := "more-" + revision
			if text, failed := c.use(t, "go__grow", map[string]any{"name": more}); failed {
				t.Fatalf("grow: got %q", text)
			}
			eventually(t, "the changed list is announced", func() bool {
				_, changes := c.heard()
				return changes > 0
			})
			eventually(t, "the new tool is listed",
				func() bool { return slices.Contains(c.names(t), "go__"+more) })
		})
	}
}
