package redis_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// pair returns two Stores of one server, and how often they told of another generation.
func pair(t *testing.T, cfg redis.Config) (a, b *redis.Store, told *atomic.Int32) {
	t.Helper()
	told = new(atomic.Int32)
	cfg.Patience = redistest.Patience
	a, b = redis.New(cfg), redis.New(cfg)
	for _, s := range []*redis.Store{a, b} {
		s.OnGeneration(func() { told.Add(1) })
		redistest.Run(t, s)
	}
	return a, b, told
}

// agreed waits until both have the same generation, other than one, and returns it.
func agreed(t *testing.T, a, b *redis.Store, other string) string {
	t.Helper()
	var agreed string
	redistest.Wait(t, func() error {
		x, ok := a.Generation()
		y, too := b.Generation()
		if !ok || !too || x != y || x == other {
			return fmt.Errorf("got generations %q and %q", x, y)
		}
		agreed = x
		return nil
	})
	return agreed
}

// TestGenerationChangesWhenDataIsLost loses the data of a server in each way, with two
// replicas that must agree.
func TestGenerationChangesWhenDataIsLost(t *testing.T) {
	t.Parallel()
	server := redistest.StartOne(t)
	a, b, told := pair(t, redis.Config{Addresses: []string{server.Address}})
	first := agreed(t, a, b, "")
	if len(first) != 32 || told.Load() != 0 {
		t.Errorf("got generation %q, told %d times", first, told.Load())
	}
	last := first
	for i, lose := range []func(){
		func() { server.Exec(t, "FLUSHALL") },
		func() { server.Stop(); server.Begin(t) },
		func() { server.Exec(t, "SET", "db2:generation", "junk") },
		func() { server.Exec(t, "SET", "db2:generation", strings.Repeat("\r\xff", 16)) },
		func() { // in one step: between two, a replica may write another
			server.Exec(t, "EVAL", "redis.call('DEL', KEYS[1]) return redis.call('LPUSH', KEYS[1], 'junk')",
				"1", "db2:generation")
		},
	} {
		lose()
		last = agreed(t, a, b, last)
		want := int32(2 * (i + 1))
		redistest.Wait(t, func() error {
			if got := told.Load(); got != want {
				return fmt.Errorf("loss %d: told %d times, want %d", i, got, want)
			}
			return nil
		})
	}
}

// TestGenerationOutlivesFaults makes faults that lose nothing, among them junk where only
// one replica looks.
func TestGenerationOutlivesFaults(t *testing.T) {
	t.Parallel()
	server := redistest.StartOne(t, "--appendonly", "yes", "--appendfsync", "always")
	proxy := redistest.NewProxy(t, server.Address)
	a, b, told := pair(t, redis.Config{Addresses: []string{proxy.Address}})
	first := agreed(t, a, b, "")
	for _, fault := range []func(){
		func() { proxy.Cut(); redistest.WaitDown(t, a); redistest.WaitDown(t, b); proxy.Heal() },
		func() { server.Stop(); redistest.WaitDown(t, a); redistest.WaitDown(t, b); server.Begin(t) },
	} {
		fault()
		redistest.WaitUp(t, a)
		redistest.WaitUp(t, b)
		if got := agreed(t, a, b, ""); got != first || told.Load() != 0 {
			t.Errorf("got generation %q, want %q; told %d times", got, first, told.Load())
		}
	}
	if ttl := server.Exec(t, "PTTL", "db2:generation"); len(ttl) != len("2592000000") {
		t.Errorf("the generation lives for %s ms", ttl)
	}
}

// TestGenerationOutlivesTheLossOfYoungPulses takes away what replicas wrote since their
// start, as a failover may, and leaves the generation.
func TestGenerationOutlivesTheLossOfYoungPulses(t *testing.T) {
	t.Parallel()
	server := redistest.StartOne(t)
	a, b, told := pair(t, redis.Config{Addresses: []string{server.Address}})
	first := agreed(t, a, b, "")
	const count, lose = "return #redis.call('KEYS', '*pulse*')",
		"return redis.call('DEL', unpack(redis.call('KEYS', '*pulse*')))"
	written := func() error {
		if got := server.Exec(t, "EVAL", count, "0"); got != "2" {
			return fmt.Errorf("got %s pulses, want 2", got)
		}
		return nil
	}
	for range 2 {
		redistest.Wait(t, written)
		server.Exec(t, "EVAL", lose, "0")
	}
	redistest.Wait(t, written)
	if got := agreed(t, a, b, ""); got != first || told.Load() != 0 {
		t.Errorf("got generation %q, want %q; told %d times", got, first, told.Load())
	}
}

// TestFailoverKeepsGeneration kills a master. The Stores go on with what was its replica,
// without a restart.
func TestFailoverKeepsGeneration(t *testing.T) {
	t.Parallel()
	w := redistest.StartWatched(t)
	a, b, told := pair(t, w.Sentinel.Config())
	first := agreed(t, a, b, "")
	redistest.Wait(t, func() error {
		if got := w.Replica.Exec(t, "GET", "db2:generation"); got != first {
			return fmt.Errorf("the replica has %q", got)
		}
		return nil
	})
	w.Master.Stop()
	redistest.WaitDown(t, a)
	redistest.WaitDown(t, b)
	redistest.WaitUp(t, a)
	redistest.WaitUp(t, b)
	if got := agreed(t, a, b, ""); got != first || told.Load() != 0 {
		t.Errorf("got generation %q, want %q; told %d times", got, first, told.Load())
	}
	if role := w.Replica.Exec(t, "ROLE"); !strings.HasPrefix(role, "master") {
		t.Errorf("the replica is %s", role)
	}
	if _, err := a.Do(t.Context(), set()); err != nil {
		t.Error(err)
	}
}

// TestMasterIsUsedWithoutItsSentinel kills the only sentinel. The connection to the
// master goes on being used.
func TestMasterIsUsedWithoutItsSentinel(t *testing.T) {
	t.Parallel()
	w := redistest.StartWatched(t)
	cfg, n := counted(w.Sentinel.Config())
	store := redistest.Run(t, redis.New(cfg))
	old := time.Now().Add(3 * time.Second)
	redistest.Wait(t, func() error {
		if time.Now().Before(old) {
			return errors.New("the link is still new")
		}
		return nil
	})
	before := len(n.openings())
	w.Sentinel.Stop()
	redistest.Wait(t, func() error {
		if len(n.openings()) == before {
			return errors.New("nobody noticed that the sentinel went")
		}
		return nil
	})
	redistest.WaitUp(t, store)
	if _, err := store.Do(t.Context(), set()); err != nil {
		t.Error(err)
	}
}

// TestANodeOfAClusterThatForgetsIsNoticed has each node of a cluster forget by itself.
// Only one of them holds the generation; what others had lost, such as marks of ended
// sessions, was not missed.
func TestANodeOfAClusterThatForgetsIsNoticed(t *testing.T) {
	t.Parallel()
	server := redistest.StartCluster(t)
	a, b, _ := pair(t, server.Config())
	last := agreed(t, a, b, "")
	for _, n := range server.Nodes {
		for _, lose := range []func(){
			func() { n.Exec(t, "FLUSHALL") },
			func() { n.Stop(); n.Begin(t) },
		} {
			lose()
			last = agreed(t, a, b, last)
		}
	}
	for _, s := range []*redis.Store{a, b} {
		redistest.WaitUp(t, s)
	}
	if text, _ := a.Generation(); text != last {
		t.Errorf("got generation %q, want it to stay %q", text, last)
	}
}
