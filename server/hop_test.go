//go:build !race

package server_test

import (
	"bytes"
	"errors"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lifetime/lifetimetest"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
)

// hopAllocations is how many times memory may be allocated for a legacy tools/call that
// comes to another replica than the one that leads its session, beyond those of one that
// comes to that. It is what was measured and about 6 %: a busy machine adds some.
const hopAllocations = 31

// twoHouses returns two replicas of one gateway, each with everything that a call meets.
func twoHouses(t testing.TB) (two [2]house) {
	t.Helper()
	served, ring, server := redistest.Start(t), seal.RandomRing(), bareServer(t, false)
	verifier, token := issuer(t)
	var groups []*replica.Group
	for i := range two {
		store := redis.New(served.Config())
		var group *replica.Group
		var log *eventlog.Redis
		two[i] = newHouse(t, server, func(w *world) {
			group = newGroup(t, replica.GroupConfig{Store: store, Seal: ring, Logger: w.config.Logger})
			log = eventlog.NewRedis(eventlog.RedisConfig{
				Store: store, Seal: ring, Others: group,
			})
			w.config.Verify, w.config.Recheck = verifier.Verify, verifier.Recheck
			w.config.Seal, w.config.Log, w.config.Others = ring, log, group
			w.config.Entries = recordsOf(store, ring, group)
		})
		two[i].token = token
		groups = append(groups, group)
		redistest.Run(t, store)
		lifetimetest.Run(t, group.Run, log.Run)
	}
	redistest.Wait(t, func() error {
		for _, one := range groups {
			for _, other := range groups {
				if !one.IsThere(other.Self()) {
					return errors.New("a replica does not know the other")
				}
			}
		}
		return nil
	})
	return two
}

// hopClients makes the same legacy call at the replica that leads its session, and at
// another.
type hopClients struct {
	here, elsewhere *bareClient
	call            []byte
}

func newHopClients(t testing.TB) *hopClients {
	t.Helper()
	two := twoHouses(t)
	h := &hopClients{here: dialHouse(t, two[0]), elsewhere: dialHouse(t, two[1])}
	h.call = h.here.calls(t, false)
	for range 300 { // pools fill, and buffers grow to what they need
		here, elsewhere := bytes.Clone(h.here.exchange(t, h.call)), h.elsewhere.exchange(t, h.call)
		if _, a, _ := bytes.Cut(here, []byte("\r\n\r\n")); !bytes.HasSuffix(elsewhere, a) {
			t.Fatalf("elsewhere the answer is %s, want %s", elsewhere, here)
		}
	}
	return h
}

// TestAllocationsOfAHop bounds what it costs in allocations that a call is forwarded.
func TestAllocationsOfAHop(t *testing.T) {
	h := newHopClients(t)
	here := perCall(2000, func() { h.here.exchange(t, h.call) })
	elsewhere := perCall(2000, func() { h.elsewhere.exchange(t, h.call) })
	t.Logf("%.1f allocations a call, and %.1f if it is forwarded", here, elsewhere)
	if got := elsewhere - here; got > hopAllocations {
		t.Errorf("got %.1f allocations of a hop, want at most %d", got, hopAllocations)
	}
}

// BenchmarkHop shows what a call costs that is forwarded, beside the same call that is
// not: processor time of client, replicas and server together, and allocations. Calls of
// both kinds take turns, so that what else the machine does disturbs both.
func BenchmarkHop(b *testing.B) {
	h := newHopClients(b)
	const batch = 20
	var here, elsewhere processCost
	calls := 0
	for b.Loop() {
		here.add(func() {
			for range batch {
				h.here.exchange(b, h.call)
			}
		})
		elsewhere.add(func() {
			for range batch {
				h.elsewhere.exchange(b, h.call)
			}
		})
		calls += batch
	}
	each := func(of float64) float64 { return of / float64(calls) }
	b.ReportMetric(0, "ns/op") // of two batches, which says nothing
	b.ReportMetric(each(here.processor.Seconds()*1e6), "µs-here")
	b.ReportMetric(each(elsewhere.processor.Seconds()*1e6), "µs-forwarded")
	b.ReportMetric(elsewhere.processor.Seconds()/here.processor.Seconds(), "forwarded/here")
	b.ReportMetric(each(float64(elsewhere.allocations-here.allocations)), "allocs-of-hop")
	b.ReportMetric(each(float64(elsewhere.bytes-here.bytes)), "B-of-hop")
}

// processCost is what was used of the process.
type processCost struct {
	processor          time.Duration
	allocations, bytes uint64
}

func (s *processCost) add(do func()) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := processorTime()
	do()
	s.processor += processorTime() - began
	runtime.ReadMemStats(&after)
	s.allocations += after.Mallocs - before.Mallocs
	s.bytes += after.TotalAlloc - before.TotalAlloc
}

// processorTime is how long this process has been on processors.
func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
