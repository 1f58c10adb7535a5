package main

import (
	"log/slog"
	"sync"
	"testing"
)

// scavengerOn returns a scavenger whose figures the test chooses, in MiB. Giving back
// leaves the least resident memory.
func scavengerOn(now *memoryInUse, held *int64, least int64) (t *scavenger, times *int) {
	times = new(int)
	return &scavenger{
		use: func() memoryInUse {
			return memoryInUse{
				resident: now.resident << 20, free: now.free << 20,
				allocated: now.allocated << 20,
			}
		},
		inUse: func() int64 { return *held << 20 },
		free:  func() { *times++; now.resident, now.free = min(now.resident, least+*held), 0 },
		log:   slog.New(slog.DiscardHandler),
	}, times
}

// TestMemoryIsGivenBackOnlyWhenItIsWorthIt looks at a gateway again and again that works,
// becomes quiet, and lets go of what it held for clients.
func TestMemoryIsGivenBackOnlyWhenItIsWorthIt(t *testing.T) {
	t.Parallel()
	var now memoryInUse
	var held int64
	scavenger, times := scavengerOn(&now, &held, 20)
	for _, step := range []struct {
		name  string
		now   memoryInUse
		held  int64
		times int // since the start
	}{
		{"just started, with what the config took", memoryInUse{resident: 40, allocated: 100}, 0, 0},
		{"started", memoryInUse{resident: 40, allocated: 101}, 0, 1},
		{"nothing more", memoryInUse{resident: 20, allocated: 102}, 0, 1},
		{"too little", memoryInUse{resident: 23, allocated: 102}, 0, 1},
		{"much work", memoryInUse{resident: 110, allocated: 5000}, 40, 1},
		{"the last of the work", memoryInUse{resident: 110, allocated: 5020}, 40, 1},
		{"quiet, and what is held is no garbage", memoryInUse{resident: 110, allocated: 5022}, 40, 2},
		{"still held", memoryInUse{resident: 60, allocated: 5023}, 40, 2},
		{"let go", memoryInUse{resident: 60, allocated: 5024}, 0, 3},
		{"collected by Go itself, and kept", memoryInUse{resident: 20, free: 9, allocated: 5025}, 0, 4},
	} {
		now, held = step.now, step.held
		scavenger.check(t.Context())
		if *times != step.times {
			t.Errorf("%s: given back %d times, want %d", step.name, *times, step.times)
		}
	}
}

func TestALargeHeapIsNotCollectedForLittle(t *testing.T) {
	t.Parallel()
	now, held := memoryInUse{resident: 4000}, int64(0)
	scavenger, times := scavengerOn(&now, &held, 4000)
	scavenger.check(t.Context())
	for resident, want := range map[int64]int{4200: 1, 4300: 2} {
		*times, now.resident = 1, resident
		scavenger.check(t.Context())
		if *times != want {
			t.Errorf("%d MiB besides 4000: given back %d times, want %d", resident-4000, *times-1, want-1)
		}
	}
}

// TestAQuietGatewayGivesBackTheMemoryOfItsBusyTime is about Go's runtime as it is:
// without the scavenger it keeps the memory of garbage until the next collection, which
// in a quiet process comes after two minutes.
func TestAQuietGatewayGivesBackTheMemoryOfItsBusyTime(t *testing.T) {
	const much = 128 << 20
	scavenger := newScavenger(func() int64 { return 0 }, slog.New(slog.DiscardHandler))
	scavenger.own = scavenger.use().resident
	block := make([]byte, much)
	for i := 0; i < much; i += 4096 {
		block[i] = 1
	}
	busy := scavenger.use().resident
	if busy < much {
		t.Fatalf("%d bytes are resident with %d in use", busy, much)
	}
	scavenger.check(t.Context()) // it sees that much was allocated
	if got := scavenger.use().resident; got < busy-much/2 || block[much-4096] != 1 {
		t.Errorf("what is in use was given back: %d bytes are left of %d", got, busy)
	}
	for range 3 { // it sees that nothing is allocated any more, and gives back
		scavenger.check(t.Context())
	}
	if got := scavenger.use().resident; got > busy-much/2 {
		t.Errorf("%d bytes are resident of %d, although nothing is in use", got, busy)
	}
}

func TestFreeingMemoryEmptiesPools(t *testing.T) {
	var pool sync.Pool
	for range 100 { // a few are dropped when races are looked for
		pool.Put(new([4096]byte))
	}
	freeMemory()
	if pool.Get() != nil {
		t.Error("something is in the pool still")
	}
}
