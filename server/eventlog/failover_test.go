package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
)

// route is one stream that is written at one replica and read at another while faults
// happen.
type route struct {
	name string
	read atomic.Int64 // events
	lost atomic.Bool  // the reader was told that it cannot know what follows
}

// write appends an event now and then until ctx ends: their texts count from zero.
func (r *route) write(ctx context.Context, t *testing.T, l eventlog.Log) {
	for n := 0; ctx.Err() == nil; n++ {
		if _, err := l.Append(context.Background(), of("s"), r.name, fmt.Append(nil, r.name, " ", n),
			false); err != nil {
			t.Errorf("append to %s, which began here: %v", r.name, err)
			return
		}
		wait(ctx, 5*time.Millisecond)
	}
}

// follow reads the stream until ctx ends or it is lost. Each event must be the one after
// the one before.
func (r *route) follow(ctx context.Context, t *testing.T, l eventlog.Log) {
	after := eventlog.FirstID(r.name)
	for ctx.Err() == nil {
		events, _, err := l.Read(context.Background(), of("s"), r.name, after)
		switch {
		case errors.Is(err, eventlog.ErrUnknown):
			r.lost.Store(true)
			return
		case err != nil && !errors.Is(err, redis.ErrDown):
			t.Errorf("read %s: %v", r.name, err)
		}
		for _, e := range events {
			if want := fmt.Sprint(r.name, " ", r.read.Load()); string(e.Data) != want {
				t.Errorf("got %q, want %q", e.Data, want)
				return
			}
			r.read.Add(1)
			after = e.ID
		}
		wait(ctx, 5*time.Millisecond)
	}
}

// wait returns after d, or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// through writes at a and reads at b while fault happens, which is over when it returns.
// Each stream goes on at both, or its reader is told that it cannot; lost is how many
// are. A fact that was kept is still there, and a session that had ended stays so.
func through(t *testing.T, a, b *resident, fault func()) (lost int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	var routes []*route
	for n := range 8 {
		r := &route{name: fmt.Sprint("p", n)}
		begin(t, a, "s", r.name, true)
		group.Go(func() { r.write(ctx, t, a) })
		group.Go(func() { r.follow(ctx, t, b) })
		routes = append(routes, r)
	}
	each := func(what string, more int64) {
		t.Helper()
		for _, r := range routes {
			from := r.read.Load()
			eventually(
				t, what, func() bool { return t.Failed() || r.lost.Load() || r.read.Load() > from+more })
		}
	}
	each("events are read elsewhere", 20)
	fault()
	for _, r := range []*resident{a, b} {
		redistest.WaitUp(t, r.store)
		r.member.Return()
	}
	each("the stream goes on elsewhere, or is lost", 20)
	for _, r := range routes {
		if r.lost.Load() {
			lost++
		}
	}
	return lost
}

// TestStreamsThroughAFailover kills the master of a sentinel while it is used.
func TestStreamsThroughAFailover(t *testing.T) {
	t.Parallel()
	w := redistest.StartWatched(t, "--min-replicas-to-write", "1", "--min-replicas-max-lag", "10")
	h := &house{server: w.Sentinel, ring: seal.RandomRing()}
	a, b := h.join(t), h.join(t)
	begin(t, a, "kept", "p1", true)
	redistest.Wait(t, func() error {
		if w.Replica.Exec(t, "EXISTS", "db2:{acme}:stream:p1:kept") != "1" {
			return errors.New("the replica has no copy")
		}
		return nil
	})
	lost := through(t, a, b, func() { w.FailOver(t) })
	t.Logf("%d streams cannot be resumed", lost)
}

// TestAMovedSlotLosesNoStreams moves the slot of the tenant to another node of a cluster,
// and has the nodes forget their scripts: no stream is lost, though scripts are refused
// whose keys are at two nodes.
func TestAMovedSlotLosesNoStreams(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	h := &house{server: c, ring: seal.RandomRing()}
	a, b := h.join(t), h.join(t)
	if lost := through(t, a, b, func() {
		c.Exec(t, "SCRIPT", "FLUSH")
		c.Move(t, "db2:{acme}:")
	}); lost != 0 {
		t.Errorf("%d streams cannot be resumed, want none", lost)
	}
}

// TestStreamsThroughFaults makes each fault while a server is used.
func TestStreamsThroughFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range redistest.Faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &house{server: redistest.StartOne(t), ring: seal.RandomRing()}
			a, b := h.join(t), h.join(t)
			through(t, a, b, func() { fault(t, h.server, a.store) })
		})
	}
}
