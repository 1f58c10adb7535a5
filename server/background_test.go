package server_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
)

// deafOthers are others that stop hearing: whoever tells them something waits for as long
// as it may.
type deafOthers struct {
	*replicatest.Member
	deaf    atomic.Bool
	deafTo  atomic.Pointer[replica.ID] // hears nothing; nil: all hear
	waiting atomic.Int64               // who tells
}

func (d *deafOthers) Send(ctx context.Context, to replica.ID, w replica.Message) ([]byte, error) {
	if one := d.deafTo.Load(); !d.deaf.Load() && (one == nil || *one != to) {
		return d.Member.Send(ctx, to, w)
	}
	d.waiting.Add(1)
	defer d.waiting.Add(-1)
	ctx, stop := context.WithTimeout(ctx, sessions.NoticeTime) // as replica.Others says
	defer stop()
	<-ctx.Done()
	return nil, ctx.Err()
}

// deafFleet is a fleet of which the second replica tells the deaf.
func deafFleet(t *testing.T) (*changingFleet, *deafOthers) {
	t.Helper()
	c := newChangingFleet(
		t, func(w *world) { w.config.Others = &deafOthers{Member: w.config.Others.(*replicatest.Member)} })
	return c, c.worlds[1].config.Others.(*deafOthers)
}

// TestWordEndsWithItsServer ends a server that is just telling the primary of a session
// that a stream has closed.
func TestWordEndsWithItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, others := deafFleet(t)
		stream := c.get(t, 1, "")
		others.deaf.Store(true)
		stream.conn.Close()
		synctest.Wait()
		if n := others.waiting.Load(); n != 1 {
			t.Fatalf("%d wait for the others, want 1", n)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := c.worlds[1].Run(ctx); err != nil {
			t.Error(err)
		}
		if n := others.waiting.Load(); n != 0 {
			t.Errorf("after Run has returned %d wait for the others, want none", n)
		}
	})
}

// TestADeafReplicaHoldsUpNoOther has lists change at the primary of many sessions, whose
// streams are at two replicas. One of these hears nothing: the clients of the other are
// told at once, and the deaf one is told of all of its sessions in one word.
func TestADeafReplicaHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChangingFleet(
			t, func(
				w *world,
			) {
				w.config.Others = &deafOthers{Member: w.config.Others.(*replicatest.Member)}
			})
		others := c.worlds[0].config.Others.(*deafOthers)
		const sessions = 20
		var hearing []*listener
		for range sessions {
			c.id = c.worlds[0].openAsking(t, mcp.Revision2511)
			c.get(t, 1, "")
			c.id = c.worlds[0].openAsking(t, mcp.Revision2511)
			hearing = append(hearing, c.get(t, 2, ""))
		}
		deaf := c.worlds[1].config.Others.Self()
		others.deafTo.Store(&deaf)
		c.changePrompts(t, 0)
		for _, stream := range hearing {
			expectNotices(t, "at the replica that hears", stream, mcp.NotifyPromptsChanged, 1)
		}
		if n := others.waiting.Load(); n != 1 {
			t.Errorf("%d words are on their way to the deaf one, want 1", n)
		}
		<-time.After(time.Minute)
	})
}
