//go:build !race

package gateway

import (
	"context"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Ceilings of how many allocations a request makes at the desk, as counted. To exceed one
// is to make every call of every tenant slower: look where the new allocation comes from
// (go test -memprofile), and raise the ceiling only for what a call cannot do without.
const (
	// A tools/call of a tool that answers with a result made before: of its context, of
	// the lines of the audit, of the metrics, of the functions that the tool is given,
	// and of what the client is told.
	callAllocations = 6
	// The admission of a caller, which every request needs before anything else: its key
	// and its bucket.
	admitAllocations = 2
	// What becomes of a call that ends with an error whose words are ready: of a look at
	// its stable code.
	errorAllocations = 2
)

// TestAllocationsOfACall counts those of the whole chain of stages, with requests of both
// eras.
func TestAllocationsOfACall(t *testing.T) {
	made := texts("hello")
	for name, change := range map[string]func(*Request){
		"modern": func(r *Request) { r.LogLevel, _ = mcp.LevelOf("info") },
		"legacy": func(r *Request) { r.InSession, r.Client, r.Capabilities = true, "a client", askable() },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, plentiful())
			b.replace(t, echoing(onePropertySchema, made))
			ctx, cancel := context.WithCancel(t.Context()) // that of a client may end
			defer cancel()
			caller, r := b.caller(t, alice), request("fixed__do", onePropertyArguments)
			change(r)
			atMost(t, callAllocations, func() {
				if _, err := b.Handle(ctx, caller, r); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

func TestAllocationsOfAnAdmission(t *testing.T) {
	b := newBench(t, plentiful())
	atMost(t, admitAllocations, func() {
		if _, err := b.Admit(t.Context(), alice, 1); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAllocationsOfAnError looks up errors whose words are ready: the entries of the
// table that stand before theirs make no words of their own.
func TestAllocationsOfAnError(t *testing.T) {
	refused := mcp.Stable(mcp.CodeInvalidParams, "DB-PARAMS", "Invalid params: arguments must be an object")
	for name, err := range map[string]error{"refused": refused, "stopped": ErrStopped} {
		t.Run(name, func(t *testing.T) {
			atMost(t, errorAllocations, func() { _ = failureOf(err) })
		})
	}
}

// atMost checks that f makes no more than most allocations on average.
func atMost(t *testing.T, most float64, f func()) {
	t.Helper()
	got := testing.AllocsPerRun(500, f)
	if got > most {
		t.Errorf("got %v allocations, want at most %v", got, most)
	}
	t.Logf("%v allocations, of at most %v", got, most)
}
