package server_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
)

// deafOthers are others that stop hearing: whoever tells them something waits for as long as it may.
type deafOthers struct {
	*replicatest.Member
	deaf    atomic.Bool
	waiting atomic.Int64 // who tells
}

func (d *deafOthers) Tell(ctx context.Context, w replica.Word) error {
	if !d.deaf.Load() {
		return d.Member.Tell(ctx, w)
	}
	d.waiting.Add(1)
	defer d.waiting.Add(-1)
	<-ctx.Done()
	return ctx.Err()
}

// deafCrew is a crew of which the first replica tells the deaf.
func deafCrew(t *testing.T) (*crew, *deafOthers) {
	t.Helper()
	c := newCrew(t, func(w *world) { w.config.Others = &deafOthers{Member: w.config.Others.(*replicatest.Member)} })
	return c, c.worlds[0].config.Others.(*deafOthers)
}

// TestWordOutlivedItsServer ends a server that is just telling others that a stream has closed.
func TestWordOutlivedItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, others := deafCrew(t)
		stream := c.get(t, 0, "")
		others.deaf.Store(true)
		stream.conn.Close()
		synctest.Wait()
		if n := others.waiting.Load(); n != 1 {
			t.Fatalf("%d wait for the others, want 1", n)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := c.worlds[0].Run(ctx); err != nil {
			t.Error(err)
		}
		if n := others.waiting.Load(); n != 0 {
			t.Errorf("after Run has returned %d wait for the others, want none", n)
		}
	})
}

// TestADeafReplicaHeldUpWordOfAllSessions: after a fault other replicas were told of one session after the other, and each
// that was not heard held up the next for half a second.
func TestADeafReplicaHeldUpWordOfAllSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, others := deafCrew(t)
		c.worlds[0].run(t)
		const sessions = 20
		for range sessions {
			c.id = c.worlds[0].openAsking(t, mcp.Revision2511)
			c.get(t, 0, "")
		}
		others.deaf.Store(true)
		others.Return()
		synctest.Wait()
		if n := others.waiting.Load(); n < 2 || n >= sessions {
			t.Errorf("word of %d sessions is on its way at once, want several and not that of all %d", n, sessions)
		}
	})
}
