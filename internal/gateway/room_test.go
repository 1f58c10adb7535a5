package gateway

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// TestAnAnswerThatNeverFitsIsNotAQuestionOfTime lets a server answer with more than one
// user may hold while nobody holds anything. The record and the client had it that too
// little memory was left.
func TestAnAnswerThatNeverFitsIsNotAQuestionOfTime(t *testing.T) {
	b := newBench(t)
	b.replace(t, registry.Source{Name: "box", Prefix: "box", Tools: []registry.Offer{{
		Definition: object(`{"name":"bulk","inputSchema":{"type":"object"}}`), Timeout: time.Second,
		Call: func(_ context.Context, c *registry.Call) (mcp.Object, error) {
			return mcp.Object{}, &registry.MemoryError{Server: "box", Err: c.Memory.Resize(1 << 20)}
		},
	}}})
	r := request("box__bulk", `{}`)
	r.Memory = share.New(1 << 20).Reserve(share.User(alice.User()))
	_, failure := b.handleAs(t, b.caller(t, alice), r)
	if stable(failure) != "DB-OUTPUT-MEMORY" || failure.RetryAfter != 0 ||
		!strings.Contains(failure.Message, "larger than one user may ever hold here (limits.memory)") {
		t.Errorf("got %v, retry after %v; want that it never fits", failure, failure.RetryAfter)
	}
	if records := b.records(t); !strings.Contains(records, `"outcome":"unheld","reason":"never"`) {
		t.Errorf("on record is %s, want the reason never", records)
	}
}

// TestArgumentsThatNeverFitAreNotToBeRepeated sends arguments whose values take more
// memory than one user may hold. The client must not be told to try again.
func TestArgumentsThatNeverFitAreNotToBeRepeated(t *testing.T) {
	b := newBench(t)
	b.config.Memory = share.New(1 << 20)
	b.replace(t, registry.Source{Name: "box", Prefix: "box", Tools: []registry.Offer{{
		Definition: object(
			`{"name":"rows","inputSchema":{"type":"object","properties":{"rows":{"items":{"not":{"type":"null"}}}}}}`), Timeout: time.Second,
		Call: func(context.Context, *registry.Call) (mcp.Object, error) { return texts("done"), nil },
	}}})
	arguments := `{"rows":[` + strings.Repeat("1,", 20_000) + `1]}`
	_, _, failure := b.run(t, "box__rows", arguments)
	if stable(failure) != "DB-LIMIT-MEMORY" || failure.Code != mcp.CodeLimited || failure.RetryAfter != 0 ||
		!strings.Contains(failure.Message, "limits.memory") {
		t.Errorf("got %v, want DB-LIMIT-MEMORY without a time", failure)
	}

	b.config.Memory = share.New(64 << 20)
	most := b.config.Memory.Most()
	if err := b.config.Memory.Take(share.User(alice.User()), most); err != nil {
		t.Fatal(err)
	}
	if _, _, failure = b.run(t, "box__rows", arguments); stable(failure) != "DB-LIMIT-MEMORY" ||
		failure.RetryAfter == 0 {
		t.Errorf("while other requests hold all: got %v, want DB-LIMIT-MEMORY with a time", failure)
	}
	b.config.Memory.Give(share.User(alice.User()), most)
	if text, _, failure := b.run(t, "box__rows", arguments); text != "done" {
		t.Errorf("with room: got %q, %v", text, failure)
	}
}

// TestAnAnswerThatIsTooLargeNamesItsLimit lets a tool answer with more structured content
// than the tenant allows. The client is told by which setting.
func TestAnAnswerThatIsTooLargeNamesItsLimit(t *testing.T) {
	b := newBench(t, TenantConfig{
		ID: "acme", Servers: []string{"box"}, Rules: []Rule{{Allow: []string{"*"}}},
		Output: sanitize.Policy{MaxText: 2 << 10},
	})
	b.replace(t, registry.Source{Name: "box", Prefix: "box", Tools: []registry.Offer{{
		Definition: object(`{"name":"bulk","inputSchema":{"type":"object"}}`), Timeout: time.Second,
		Call: func(context.Context, *registry.Call) (mcp.Object, error) {
			return texts("done").With("structuredContent",
				mcp.RawJSON(`{"a":"`+strings.Repeat("x", 2<<10)+`"}`)), nil
		},
	}}})
	if _, _, failure := b.run(t, "box__bulk", `{}`); stable(failure) != "DB-OUTPUT-SIZE" ||
		!strings.Contains(failure.Message, "output.max_text of the tenant allows, 2 KiB") {
		t.Errorf("got %v, want the setting and its value", failure)
	}
}
