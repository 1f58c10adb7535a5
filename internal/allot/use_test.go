package allot_test

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/allot"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// TestUseIsOfAllTenants takes a slot of each of two tenants, and looks again when Redis
// is gone.
func TestUseIsOfAllTenants(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a := join(t, server.Store(t), "a", 3, 100)
	if got := a.Use(); got[allot.Calls] != (allot.Use{}) || len(got) != 2 {
		t.Errorf("at the start: got %+v, want nothing of both kinds", got)
	}
	if !a.take(t.Context()) || !a.More(t.Context(), allot.Calls, "globex", 4) {
		t.Fatal("a place was refused")
	}
	shows := func(what string, held int) {
		t.Helper()
		until(t, what, func() bool { // each tenant has one slot taken, as the holder says of any
			all := a.Use()
			return all[allot.Calls] == (allot.Use{Granted: held, Taken: 2}) &&
				all[allot.Streams] == (allot.Use{})
		})
	}
	shows("it holds the smallest block of one, and all of the other", 8+4)
	server.Stop()
	shows("it holds its share of each", 33+1)
}
