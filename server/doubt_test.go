package server_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
)

// doomed is a crew that is subscribed at replica 0. Replica 1 has its stream and is about to die: its mailbox takes word
// that nobody reads any more, and it says nothing more itself.
type doomed struct {
	*crew
	stream *listener
	dead   *atomic.Bool
}

func newDoomed(t *testing.T) doomed {
	t.Helper()
	d := doomed{dead: &atomic.Bool{}}
	d.crew = newCrew(t, func(w *world) {
		w.config.Others = &faultyOthers{w.config.Others, func(w replica.Word) error {
			if d.dead.Load() && (w.Kind == "updated 1" || w.Kind == "silent 1") {
				return errLost
			}
			return nil
		}}
	})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, w := range d.worlds {
		running.Go(func() { _ = w.Run(ctx) })
	}
	t.Cleanup(func() { stop(); running.Wait() })
	d.subscribe(t, 0, "subscribe")
	d.stream = d.get(t, 1, "")
	return d
}

// exit takes a replica out of the fleet. Word finds those that are left from now on.
func (d doomed) exit(at int) {
	d.dead.Store(false)
	d.hub.Leave(d.worlds[at].config.Others.(*faultyOthers).Others.(*replicatest.Member))
}

// TestUpdateWasLostInTheMailboxOfADeadReplica has a resource change when the replica with the stream is dead already, and
// takes word still: the client is told by the next one, unless it has unsubscribed.
func TestUpdateWasLostInTheMailboxOfADeadReplica(t *testing.T) {
	for name, test := range map[string]struct {
		next      int
		meanwhile func(t *testing.T, d doomed)
		want      int
	}{
		"the next is another":                 {2, func(_ *testing.T, d doomed) { d.exit(1) }, 1},
		"the next has the subscription":       {0, func(_ *testing.T, d doomed) { d.exit(1) }, 1},
		"the next comes before anybody knows": {2, func(_ *testing.T, d doomed) { d.dead.Store(false) }, 1},
		"the client comes back late":          {2, func(_ *testing.T, d doomed) { d.exit(1); <-time.After(10 * time.Minute) }, 1},
		"the next dies, too":                  {0, func(t *testing.T, d doomed) { d.get(t, 2, ""); d.exit(1); d.exit(2) }, 1},
		"the client has unsubscribed":         {2, func(t *testing.T, d doomed) { d.exit(1); d.subscribe(t, 2, "unsubscribe") }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDoomed(t)
				d.dead.Store(true)
				d.changeFile(t, 0, "file:///a")
				expectNotices(t, "at the dead replica", d.stream, mcp.NotifyResourceUpdated, 0)
				test.meanwhile(t, d)
				stream := d.get(t, test.next, "")
				expectNotices(t, "at the next replica", stream, mcp.NotifyResourceUpdated, test.want)
			})
		})
	}
}

// TestUpdateWasLostBetweenTheEndOfAStreamAndThatOfItsReplica has a resource change when the stream has ended, and its replica
// has yet to: that one has the change, and takes it along.
func TestUpdateWasLostBetweenTheEndOfAStreamAndThatOfItsReplica(t *testing.T) {
	for name, end := range map[string]func(*testing.T, doomed){
		"it stops": func(t *testing.T, d doomed) {
			d.worlds[1].EndStreams()
			wait(t)
			d.changeFile(t, 0, "file:///a")
		},
		"it is about to say that it is silent": func(t *testing.T, d doomed) {
			d.dead.Store(true)
			d.changeFile(t, 0, "file:///a")
			d.dead.Store(false)
			leave(t, d.stream)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDoomed(t)
				end(t, d)
				expectNotices(t, "the stream that ended", d.stream, mcp.NotifyResourceUpdated, 0)
				d.exit(1)
				stream := d.get(t, 2, "")
				expectNotices(t, "the next", stream, mcp.NotifyResourceUpdated, 1)
			})
		})
	}
}

// TestClientWasToldTwiceForNoReason moves the stream from replica to replica in good order, and lets one end that had told
// long ago: nobody doubts that the client was told.
func TestClientWasToldTwiceForNoReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoomed(t)
		d.changeFile(t, 0, "file:///a")
		text := d.stream.text()
		leave(t, d.stream)
		for _, at := range []int{2, 0, 1} {
			stream := d.get(t, at, lastID(t, text))
			expectNotices(t, "resumed elsewhere", stream, mcp.NotifyResourceUpdated, 0)
			leave(t, stream)
		}
		d.get(t, 1, "")
		<-time.After(10 * time.Minute)
		d.exit(1)
		stream := d.get(t, 2, "")
		expectNotices(t, "much later", stream, mcp.NotifyResourceUpdated, 0)
	})
}

// TestUpdateStayedBehindWhenTheStreamMoved has a stream open at another replica while a change is being brought to the one
// that had it, which does not take it: nobody brought it to the new one.
func TestUpdateStayedBehindWhenTheStreamMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		moved := make(chan struct{})
		c := newCrew(t, func(w *world) {
			w.config.Others = &faultyOthers{w.config.Others, func(w replica.Word) error {
				if w.Kind != "updated 1" || !slow.CompareAndSwap(true, false) {
					return nil
				}
				<-moved
				return replica.ErrGone
			}}
		})
		c.subscribe(t, 0, "subscribe")
		c.get(t, 1, "")
		slow.Store(true)
		c.changeFile(t, 0, "file:///a")
		stream := c.get(t, 2, "")
		close(moved)
		wait(t)
		expectNotices(t, "where the stream is now", stream, mcp.NotifyResourceUpdated, 1)
	})
}
