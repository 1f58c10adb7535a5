package main

import (
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
)

func gogc(value string) config.Environment {
	return func(name string) (string, bool) { return value, name == "GOGC" && value != "" }
}

func TestShareOfTheCollector(t *testing.T) {
	t.Parallel()
	const mib, none = 1 << 20, math.MaxInt64
	for _, test := range []struct {
		name                        string
		setting, container, runtime int64
		gogc                        string
		want                        int64 // in MiB
		from                        string
	}{
		{"nothing limits", 0, 0, none, "", 128, "the budget of memory"},
		{"a container", 0, 1024 * mib, none, "", 153, "the budget of memory"},
		{"the smallest container that leaves something", 0, 256 * mib, none, "", 37, "the budget of memory"},
		{"a smaller one", 0, 255 * mib, none, "", 0, "little memory"},
		{"a small GOMEMLIMIT", 0, 1024 * mib, 200 * mib, "", 0, "little memory"},
		{
			"a reload or a second plan finds the limit of the first", 0, 256 * mib, 224 * mib, "", 37,
			"the budget of memory",
		},
		{"a small budget", 40 * mib, 1024 * mib, none, "", 10, "the budget of memory"},
		{"a budget larger than the container", 4096 * mib, 1024 * mib, none, "", 153, "the budget of memory"},
		{"GOGC", 0, 1024 * mib, none, "100", 0, "GOGC"},
		{"GOGC, off", 0, 0, none, "off", 0, "GOGC"},
	} {
		share, from := collectorShare(planMemory(test.setting, test.container, test.runtime), gogc(test.gogc))
		if share>>20 != test.want || from != test.from {
			t.Errorf("%s: got %d bytes from %s, want %d MiB from %s", test.name, share, from, test.want,
				test.from)
		}
	}
}

// TestGarbageHasNoMoreThanItsShare tries what may be in use against every size of
// container: in use and garbage together come to Go's memory limit no earlier than with
// Go's own percentage.
func TestGarbageHasNoMoreThanItsShare(t *testing.T) {
	t.Parallel()
	for container := int64(256 << 20); container <= 16<<30; container *= 2 {
		plan := planMemory(0, container, math.MaxInt64)
		share, _ := collectorShare(plan, gogc(""))
		for inUse := int64(1 << 20); inUse < plan.limit/2; inUse += inUse / 8 {
			c := &collector{
				share: share, inUse: func() int64 { return inUse },
				set: func(int) int { return 0 },
			}
			c.adjust()
			garbage := inUse * int64(c.percent) / 100
			if garbage > max(inUse, share) || garbage > 4*inUse || inUse+garbage > plan.limit ||
				c.percent < usualPercent {
				t.Errorf("in %d MiB with %d in use: %d %% are %d bytes of garbage, of a share of %d",
					container>>20, inUse, c.percent, garbage, share)
			}
		}
	}
}

func TestThePercentageIsSetOnlyWhenItChanges(t *testing.T) {
	t.Parallel()
	inUse, set := int64(0), []int(nil)
	c := &collector{
		share: 100, inUse: func() int64 { return inUse },
		set: func(percent int) int { set = append(set, percent); return 0 },
	}
	for _, inUse = range []int64{0, 1, 25, 50, 50, 100, 1000, 10} {
		c.adjust()
	}
	if want := []int{400, 200, 100, 400}; !slices.Equal(set, want) {
		t.Errorf("set %v, want %v", set, want)
	}
}

// TestEachCollectionSetsThePercentage is about Go's runtime as it is: the collector hears
// of collections, and what it reads of them is what is in use.
func TestEachCollectionSetsThePercentage(t *testing.T) {
	const much = 256 << 20
	set := make(chan int, 1000)
	c := newCollector(memoryPlan{budget: collectorPart * much / 2}, gogc(""))
	c.set = func(percent int) int { set <- percent; return 77 }
	running := startTask(t.Context(), c.Run)
	block := make([]byte, much)
	percent := <-set // what Run starts with
	until := func(claim string, holds func(percent int) bool) {
		t.Helper()
		for begun := time.Now(); time.Since(begun) < time.Minute; {
			runtime.GC()
			for len(set) > 0 {
				percent = <-set
			}
			if holds(percent) {
				return
			}
		}
		t.Errorf("the percentage was not %s within a minute", claim)
	}
	until("the usual one while much is in use", func(percent int) bool { return percent == usualPercent })
	runtime.KeepAlive(block) // and no longer
	until("more when little is in use", func(percent int) bool { return percent > usualPercent })
	running.stop()
	last := 0
	for len(set) > 0 {
		last = <-set
	}
	if last != 77 {
		t.Errorf("the percentage at the end is %d, want what it was before", last)
	}
}
