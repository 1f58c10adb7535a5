package gateway

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// TestWhatTakesLongWaitsForItsTurn holds the only slot while a call is made. The call must stop before the part that
// takes long, and end well when the slot is free.
func TestWhatTakesLongWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	const dear = `{"type":"object","properties":{"text":{"pattern":"^[a-z]{900}"}}}`
	long := strings.Repeat("a", 4_000)
	for name, test := range map[string]struct {
		schemas           string
		arguments, answer string // answer is structured content
		waits, before     bool   // before the tool runs
	}{
		"a small call":            {`"inputSchema":{"type":"object"}`, `{"n":1}`, `{"n":1}`, false, false},
		"a long text":             {`"inputSchema":{"type":"object"}`, `{"text":"` + long + `"}`, `{"n":1}`, false, false},
		"dear patterns":           {`"inputSchema":` + dear, `{"text":"` + long + `"}`, `{"n":1}`, true, true},
		"many values":             {`"inputSchema":{"type":"object","properties":{"rows":{"items":{"not":{"type":"null"}}}}}`, `{"rows":[` + strings.Repeat("1,", 4000) + `1]}`, `{"n":1}`, true, true},
		"a large answer":          {`"inputSchema":{"type":"object"}`, `{}`, `{"text":"` + strings.Repeat("a", 100_000) + `"}`, true, false},
		"an answer hard to check": {`"inputSchema":{"type":"object"},"outputSchema":` + dear, `{}`, `{"text":"` + long + `"}`, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, TenantConfig{ID: "acme", Servers: []string{"heavy"}, Rules: []Rule{{Allow: []string{"*"}}}})
				b.config.Turns = fairqueue.New(1)
				ran := false
				definition, err := mcp.ParseObject([]byte(`{"name":"do",` + test.schemas + `}`))
				if err != nil {
					t.Fatal(err)
				}
				refused := b.registry.Replace(registry.Source{Name: "heavy", Prefix: "heavy", Tools: []registry.Offer{{
					Definition: definition, Timeout: time.Hour,
					Call: func(context.Context, *registry.Call) (mcp.Object, error) {
						ran = true
						return texts("done").With("structuredContent", mcp.RawJSON(test.answer)), nil
					},
				}}})
				if len(refused) > 0 {
					t.Fatal(refused)
				}
				free, err := b.config.Turns.Enter(t.Context(), share.User{TenantID: "other"}, time.Hour)
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() {
					_, err := b.Handle(t.Context(), b.caller(t, alice), request("heavy__do", test.arguments))
					ended <- err
				}()
				synctest.Wait()
				if waits := b.config.Turns.Waiting()["acme"] == 1; waits != test.waits || ran == (test.waits && test.before) {
					t.Errorf("waits: %v, the tool ran: %v, want that it waits: %v, before the tool runs: %v", waits, ran, test.waits, test.before)
				}
				free()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if b.config.Turns.Busy() != 0 || len(b.config.Turns.Waiting()) != 0 {
					t.Error("a slot is held, or waited for, after the call")
				}
			})
		})
	}
}

// TestAnAnswerThatCannotBeCleanedInTimeIsATimeout: a call that was made is not refused because others work, and its
// client is not told to make it again.
func TestAnAnswerThatCannotBeCleanedInTimeIsATimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.config.Turns = fairqueue.New(1)
		free, err := b.config.Turns.Enter(t.Context(), share.User{TenantID: "other"}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		defer free()
		_, _, failure := b.run(t, "box__echo", `{"message":"`+strings.Repeat("a", 60_000)+`"}`)
		if failure == nil || failure.StableCode() != "DB-TIMEOUT" || failure.RetryAfter != 0 {
			t.Errorf("got %+v, want DB-TIMEOUT", failure)
		}
	})
}
