package replica_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/lifetime/lifetimetest"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

// newGroup returns a group that does not run yet.
func newGroup(t *testing.T, server *redistest.Server, ring *seal.Ring) *replica.Group {
	t.Helper()
	g, err := replica.NewGroup(replica.GroupConfig{
		Store: server.Store(t), Seal: ring, Logger: slog.New(slog.DiscardHandler),
		Count: replicatest.Uncounted{}, Listen: ":0",
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// join runs a group until the test ends, or stop is called, and returns when others know
// it. heard gets what comes, and returned is called by OnReturn.
func join(t *testing.T, server *redistest.Server, ring *seal.Ring, heard func(replica.ID, replica.Message),
	returned ...func(),
) (g *replica.Group, stop func()) {
	t.Helper()
	g = newGroup(t, server, ring)
	g.Handle("news 1", func(_ context.Context, from replica.ID, w replica.Message) ([]byte, error) {
		heard(from, w)
		return nil, nil
	})
	known := make(chan struct{}, 1)
	for _, f := range append(returned, func() { known <- struct{}{} }) {
		g.OnReturn(f)
	}
	stop = lifetimetest.Run(t, g.Run)
	<-known
	go func() {
		for {
			select {
			case <-known:
			case <-t.Context().Done():
				return
			}
		}
	}()
	return g, stop
}

func ignore(replica.ID, replica.Message) {}

// knows waits until one replica knows the other.
func knows(t *testing.T, g *replica.Group, other replica.ID) {
	t.Helper()
	redistest.Wait(t, func() error {
		if !g.IsThere(other) {
			return errors.New("the replicas do not know each other")
		}
		return nil
	})
}

func TestWordComesInOrder(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	const words = 1000
	var got []string
	var sender replica.ID
	a, _ := join(t, server, ring, func(replica.ID, replica.Message) { t.Error("word came to who sent it") })
	b, _ := join(t, server, ring, func(from replica.ID, w replica.Message) {
		if from != sender || w.Tenant != "acme" {
			t.Errorf("got word from %s for %s", from, w.Tenant)
		}
		got = append(got, w.Parts...)
	})
	sender = a.Self()
	knows(t, a, b.Self())
	for i := range words {
		if _, err := a.Send(t.Context(), b.Self(), replica.Message{
			Kind: "news 1", Tenant: "acme",
			Parts: []string{strconv.Itoa(i)},
		}); err != nil {
			t.Fatal(err)
		}
		if len(got) != i+1 || got[i] != strconv.Itoa(i) { // it was handled before Send returned
			t.Fatalf("word %d: got %v", i, got)
		}
	}
	if _, err := a.Send(t.Context(), replica.NewID(), replica.Message{Kind: "news 1"}); !errors.Is(err,
		replica.ErrUnreached) {
		t.Errorf("to nobody: got %v", err)
	}
}

// TestWordComesWithoutRedis stops the server: what replicas know of each other holds.
func TestWordComesWithoutRedis(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	var heard atomic.Int64
	a, _ := join(t, server, ring, ignore)
	b, _ := join(t, server, ring, func(replica.ID, replica.Message) { heard.Add(1) })
	knows(t, a, b.Self())
	server.Stop()
	if _, err := a.Send(t.Context(), b.Self(), replica.Message{Kind: "news 1"}); err != nil ||
		heard.Load() != 1 {
		t.Errorf("got %v, heard %d times", err, heard.Load())
	}
}

// TestReplicaIsKnownBeforeItServes lets one replica after the other join. Each that has
// must be known to all that had before, or these would take over what it leads. Who has
// not asked for as long as a lease takes nothing over.
func TestReplicaIsKnownBeforeItServes(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	var before []*replica.Group
	for range 5 {
		next, _ := join(t, server, ring, ignore)
		redistest.Wait(t, func() error {
			if !next.Joined() {
				return errors.New("the replica has not joined")
			}
			return nil
		})
		for _, g := range before {
			if _, leads := g.Leads(); leads && !g.IsThere(next.Self()) {
				t.Errorf("%s serves, and %s does not know it", next.Self(), g.Self())
			}
		}
		before = append(before, next)
	}
}

// TestReplicaThatHasEndedIsNotThere looks at what is left of one that has stopped.
func TestReplicaThatHasEndedIsNotThere(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	a, _ := join(t, server, ring, ignore)
	b, stop := join(t, server, ring, ignore)
	knows(t, a, b.Self())
	peer, _ := a.Peer(string(b.Self()))
	stop()
	redistest.Wait(t, func() error {
		if a.IsThere(b.Self()) {
			return errors.New("it is there still")
		}
		return nil
	})
	if _, err := a.Send(t.Context(), b.Self(), replica.Message{Kind: "news 1"}); !errors.Is(err,
		replica.ErrUnreached) {
		t.Errorf("to it: got %v, want that it is gone", err)
	}
	if got := server.Exec(t, "HGET", "db2:replicas", string(b.Self())); !strings.Contains(got, " left ") {
		t.Errorf("redis has %q of it, want that it has left", got)
	}
	if peer.Life.Err() == nil {
		t.Error("who waits for it waits on")
	}
}

// TestPlacesThatWereLostAreMadeAgain loses, or spoils, what Redis has of replicas. They
// go on, and are told that others may not have known them.
func TestPlacesThatWereLostAreMadeAgain(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	var returns atomic.Int64
	a, _ := join(t, server, ring, ignore)
	b, _ := join(t, server, ring, ignore, func() { returns.Add(1) })
	for name, lose := range map[string]func(){
		"all": func() { server.Exec(t, "FLUSHALL") },
		"one": func() { server.Exec(t, "HDEL", "db2:replicas", string(b.Self())) },
		"of another type": func() {
			server.Exec(t, "DEL", "db2:replicas")
			server.Exec(t, "SET", "db2:replicas", "junk")
		},
		"after a restart": func() { server.Stop(); server.Begin(t) },
		"of another form": func() { server.Exec(t, "HSET", "db2:replicas", string(b.Self()), "junk") },
	} {
		before := returns.Load()
		lose()
		redistest.Wait(t, func() error {
			if returns.Load() == before {
				return errors.New(name + ": it has not noticed that others did not know of it")
			}
			return nil
		})
		knows(t, a, b.Self())
		redistest.Wait(
			t, func() error {
				_, err := a.Send(t.Context(), b.Self(), replica.Message{Kind: "news 1"})
				return err
			})
	}
}

// TestWhoIsNotReachedIsNamed has a replica tell others an address at which nobody is.
func TestWhoIsNotReachedIsNamed(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	const nowhere = "127.0.0.9:1"
	hidden, err := replica.NewGroup(replica.GroupConfig{
		Store: server.Store(t), Seal: ring, Logger: slog.New(slog.DiscardHandler),
		Count: replicatest.Uncounted{}, Listen: ":0", Address: nowhere,
	})
	if err != nil {
		t.Fatal(err)
	}
	lifetimetest.Run(t, hidden.Run)
	a, _ := join(t, server, ring, ignore)
	knows(t, a, hidden.Self())
	if got := a.Unreached(); len(got) != 1 || got[0] != nowhere {
		t.Errorf("got %v, want %s", got, nowhere)
	}
}

// TestNobodyBelievesAnAddressOfAnyone writes replicas into Redis that are none, and
// another address for one that is.
func TestNobodyBelievesAnAddressOfAnyone(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	b, _ := join(t, server, ring, ignore)
	forged, stolen := replica.NewID(), replica.NewID()
	const write = `
		local time = redis.call('TIME')
		local now = string.format('%.0f', time[1] * 1000)
		redis.call('HSET', KEYS[1], ARGV[1], now .. ' 1 lives 127.0.0.1:1',
			ARGV[2], redis.call('HGET', KEYS[1], ARGV[3]))`
	a, _ := join(t, server, ring, ignore)
	redistest.Wait(t, func() error {
		server.Exec(t, "EVAL", write, "1", "db2:replicas", string(forged), string(stolen), string(b.Self()))
		if got := a.Unreadable(); got != 2 {
			return fmt.Errorf("got %d unreadable", got)
		}
		return nil
	})
	knows(t, a, b.Self())
	if a.IsThere(forged) || a.IsThere(stolen) || a.Count() != 2 {
		t.Errorf("of %d replicas that are known, some are forged", a.Count())
	}
}

// TestALaterVersionIsNoticed lets a replica of a later version live beside this one for a
// while, in whose entries there is something that this one does not know.
func TestALaterVersionIsNoticed(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	m, _ := join(t, server, ring, ignore)
	if m.IsNewerThere() {
		t.Error("a later version is said to run, and this one is alone")
	}
	const enter = `
		local time = redis.call('TIME')
		local now = string.format('%.0f', time[1] * 1000)
		redis.call('HSET', KEYS[1], ARGV[1], now .. ARGV[3], 'somebody', now .. ARGV[3] .. ' still',
			ARGV[2], now .. ' many lives')`
	later := fmt.Sprintf(" %d lives something else", replica.Formats+1)
	ids := []string{string(replica.NewID()), string(replica.NewID())}
	redistest.Wait(t, func() error {
		server.Exec(t, "EVAL", enter, "1", "db2:replicas", ids[0], ids[1], later)
		if !m.IsNewerThere() || m.Count() != 1 || m.Unreadable() != 0 {
			return fmt.Errorf("newer: %v, %d in all, %d unreadable", m.IsNewerThere(), m.Count(), m.Unreadable())
		}
		return nil
	})
	redistest.Wait(t, func() error { // nobody renews it
		if m.IsNewerThere() {
			return errors.New("what has gone is still there")
		}
		return nil
	})
}

// TestWordOfAKindThatIsNotKnown is told by a later version. Who told it must not believe
// that it was heeded.
func TestWordOfAKindThatIsNotKnown(t *testing.T) {
	t.Parallel()
	server, ring := redistest.Start(t), seal.RandomRing()
	a, _ := join(t, server, ring, ignore)
	b, _ := join(t, server, ring, ignore)
	knows(t, a, b.Self())
	if _, err := a.Send(t.Context(), b.Self(), replica.Message{Kind: "news 2", Tenant: "acme"}); err == nil {
		t.Error("word that nobody understands counts as heeded")
	}
}
