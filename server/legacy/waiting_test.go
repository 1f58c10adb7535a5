package legacy

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// TestAWaitingCallHoldsWhatItsSlotCovered has calls wait: one whose request was covered
// by the slot that it gives back, and one whose request is counted by itself already.
func TestAWaitingCallHoldsWhatItsSlotCovered(t *testing.T) {
	t.Parallel()
	caller := gateway.Caller{Principal: auth.Principal{TenantID: "acme", Subject: "alice"}}
	for size, want := range map[int64]int64{0: share.Covered, 1: 0, 1 << 20: 0} {
		memory := share.New(1 << 30)
		release := newWaiting(memory).enter(caller, size)
		if release == nil {
			t.Fatalf("%d bytes: there is no slot", size)
		}
		if got := memory.InUse(); got != want {
			t.Errorf("%d bytes: %d are counted, want %d", size, got, want)
		}
		if release(); memory.InUse() != 0 {
			t.Errorf("%d bytes: %d are counted afterwards", size, memory.InUse())
		}
	}
}
