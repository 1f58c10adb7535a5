package dial

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestContextsAreToldOnlyOfSlowRequests is inside the package because its clock must be a
// fake one, under which real connections do not work.
func TestContextsAreToldOnlyOfSlowRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newCanceler()
		var cuts atomic.Int32
		begin := func() (*conn, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			c := &conn{cut: func() { cuts.Add(1) }}
			l.add(ctx, c)
			return c, cancel
		}
		quick, left := begin()
		slow, leaves := begin()
		gone, cancel := begin()
		cancel() // while it is young
		if !l.remove(quick) {
			t.Error("an answered request was cut")
		}
		time.Sleep(2 * sweepInterval)
		synctest.Wait()
		if cuts.Load() != 1 || l.remove(gone) {
			t.Errorf("a context that ended early cut %d connections, want its own", cuts.Load())
		}
		if len(l.young) != 0 || l.waits {
			t.Errorf("%d requests are still young, timer: %v; want none", len(l.young), l.waits)
		}
		leaves()
		synctest.Wait()
		if cuts.Load() != 2 || l.remove(slow) {
			t.Error("a context that ended later did not cut its connection at once")
		}
		left()
		again, end := begin()
		time.Sleep(2 * sweepInterval)
		if !l.remove(again) {
			t.Error("a slow request that was answered was cut")
		}
		end()
		synctest.Wait()
		if cuts.Load() != 2 {
			t.Error("a context cut a connection that its request had left")
		}
	})
}

// TestCancelerLooksAfterWhoeverIsLeft removes requests in another order than they came.
func TestCancelerLooksAfterWhoeverIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newCanceler()
		ctx, cancel := context.WithCancel(t.Context())
		var cut [5]atomic.Bool
		var conns [5]*conn
		for i := range conns {
			conns[i] = &conn{cut: func() { cut[i].Store(true) }}
			l.add(ctx, conns[i])
		}
		for _, i := range []int{1, 4} {
			l.remove(conns[i])
		}
		time.Sleep(sweepInterval)
		synctest.Wait()
		l.remove(conns[0])
		cancel()
		time.Sleep(2 * sweepInterval)
		synctest.Wait()
		for i, want := range []bool{false, false, true, true, false} {
			if cut[i].Load() != want {
				t.Errorf("connection %d was cut: %v, want %v", i, !want, want)
			}
		}
		for _, i := range []int{2, 3} {
			l.remove(conns[i])
		}
	})
}
