package pace_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

func TestAllAreDoneAndNoMoreAtOnceThanMayBe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var under, most atomic.Int64
		var done [10]atomic.Int64
		began := time.Now()
		pace.AtOnce(len(done), 4, func(i int) {
			most.Store(max(most.Load(), under.Add(1)))
			time.Sleep(time.Second)
			under.Add(-1)
			done[i].Add(1)
		})
		if took := time.Since(began); most.Load() != 4 || took != 3*time.Second {
			t.Errorf("%d at once in %v, want 4 in 3s", most.Load(), took)
		}
		for i := range done {
			if got := done[i].Load(); got != 1 {
				t.Errorf("%d was done %d times, want once", i, got)
			}
		}
	})
}
