package main

import (
	"context"
	"log/slog"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

const (
	scavengeEvery = 5 * time.Second // so often the scavenger looks, and so often it acts at most
	scavengeLeast = 4 << 20         // bytes that are worth a collection
	scavengePart  = 16              // nor is less than one in so many of the bytes in use worth one
	// The gateway is calm while it allocates less than one in so many of what is too
	// much.
	scavengeCalm = 4
)

// scavenger gives memory back to the system when a time of much work is over. Go by
// itself collects garbage only when the heap has grown to its goal, which is high after
// such a time, or after two minutes, and keeps as much as the goal for later. So a
// gateway that has become quiet would look as if it still needed all that it once did,
// and a container beside it would have to do without.
//
// Without it, TestAQuietGatewayGivesBackTheMemoryOfItsBusyTime finds all of 128 MiB of
// garbage resident.
//
// A collection costs time in proportion to what is in use, so there is none without need:
// the gateway must be calm, since a busy one collects by itself and would ask the system
// for the same memory again at once; and what can be given back must be worth it. No call
// waits for it. Use it from one goroutine.
type scavenger struct {
	use   func() memoryInUse
	inUse func() int64 // what is held for clients, in bytes
	free  func()       // collects garbage and gives back what is free
	log   *slog.Logger

	// What was in use after the last time, besides what was held for clients. Zero before
	// the first time, which is soon after the start: to read a large config takes much
	// memory, once.
	own       int64
	allocated int64 // as it was at the last look
}

// memoryInUse is what Go's runtime has from the system, in bytes.
type memoryInUse struct {
	resident  int64 // all that was not given back: objects, garbage, stacks, what is free
	free      int64 // of that, what nothing is in
	allocated int64 // in objects, since the start of the process
}

// newScavenger returns a scavenger for this process.
func newScavenger(inUse func() int64, log *slog.Logger) *scavenger {
	return &scavenger{use: readMemoryInUse, inUse: inUse, free: freeMemory, log: log}
}

// freeMemory collects twice, since what is in a pool of package sync, such as the buffers
// of connections that are closed, survives one collection.
func freeMemory() {
	runtime.GC()
	debug.FreeOSMemory()
}

// Run looks again and again until ctx ends.
func (t *scavenger) Run(ctx context.Context) error {
	for pace.Wait(ctx, scavengeEvery) {
		t.check(ctx)
	}
	return nil
}

// check gives memory back if that is worth it now. What is held for clients is no
// garbage. All else above what was in use after the last time may be garbage, and what is
// free already is too much at any time.
func (t *scavenger) check(ctx context.Context) {
	now := t.use()
	since := now.allocated - t.allocated
	t.allocated = now.allocated
	excess := max(now.resident-t.inUse()-t.own, now.free)
	if excess < max(scavengeLeast, now.resident/scavengePart) || since >= excess/scavengeCalm {
		return
	}
	t.free()
	after := t.use()
	t.own = after.resident - t.inUse()
	t.log.DebugContext(ctx, "memory given back", slog.Int64("before_bytes", now.resident),
		slog.Int64("after_bytes", after.resident))
}

// readMemoryInUse asks the runtime, which stops nothing for it.
func readMemoryInUse() memoryInUse {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/heap/allocs:bytes"},
	}
	metrics.Read(samples)
	n := func(i int) int64 { return int64(samples[i].Value.Uint64()) } //nolint:gosec // no process has 2^63 bytes
	return memoryInUse{resident: n(0) - n(1), free: n(2), allocated: n(3)}
}
