package main

import (
	"context"
	"log/slog"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

const (
	usualPercent   = 100       // of what is in use that Go lets gather as garbage by itself
	mostPercent    = 400       // with more than this, a call costs hardly less
	collectorPart  = 4         // one in so many bytes of the budget may be garbage
	leastContainer = 256 << 20 // bytes of a container's limit below which nothing is left for more garbage
)

// collector lets more garbage gather than Go does by itself, so that Go collects more
// rarely and each call costs less: four times what is in use rather than once, but no
// more than the collector's share, a quarter of the budget of memory. Where once what is
// in use is more than the share, all is as Go has it.
//
//	in use   garbage at most, with a share of 100 MiB
//	10 MiB   40 MiB    (400 %)
//	50 MiB   100 MiB   (200 %)
//	200 MiB  200 MiB   (100 %)
//
// So the worst case needs no more memory than it would without, and the share is taken
// from nobody: garbage has what requests do not hold at that moment, and what they take
// in use leaves less for it. With a quarter of two thirds of Go's memory limit, garbage
// of the share alone does not reach the limit before the default would, so Go does not
// begin to collect in a hurry any earlier.
//
// What is in use is known after each collection, and then the percentage is set anew. A
// ticker would be too slow: a burst of large requests fills memory within a second.
type collector struct {
	share     int64         // bytes of garbage beyond the usual; zero: Go's percentage stays
	from      string        // what decided the share, for the log
	percent   int           // in force
	collected chan struct{} // holds a value when there was a collection
	inUse     func() int64  // in bytes, as the last collection found
	set       func(percent int) (before int)
}

// newCollector returns a collector for this process.
func newCollector(plan memoryPlan, env config.Environment) *collector {
	c := &collector{collected: make(chan struct{}, 1), inUse: readInUse, set: debug.SetGCPercent}
	c.share, c.from = collectorShare(plan, env)
	return c
}

// collectorShare returns how many bytes a plan leaves to garbage, and why. It is zero
// where Go's own percentage stays: if whoever runs the gateway has set GOGC, and where
// memory is short.
func collectorShare(plan memoryPlan, env config.Environment) (share int64, from string) {
	if percent, _ := env("GOGC"); percent != "" {
		return 0, "GOGC"
	}
	if plan.limit > 0 && plan.limit < ceilingOf(leastContainer) {
		return 0, "little memory"
	}
	budget := plan.budget
	if plan.most > 0 {
		budget = min(budget, plan.most)
	}
	return budget / collectorPart, "the budget of memory"
}

// Run sets the percentage after each collection until ctx ends, and then puts back what
// was set before.
func (c *collector) Run(ctx context.Context) error {
	if c.share == 0 {
		return nil
	}
	before := c.set(usualPercent)
	defer c.set(before)
	c.percent = usualPercent
	for {
		c.adjust()
		c.await()
		if pace.Await(ctx, c.collected) != nil {
			return nil
		}
	}
}

// adjust sets the percentage that suits what is in use.
func (c *collector) adjust() {
	percent := int(min(max(c.share*100/max(c.inUse(), 1), usualPercent), mostPercent))
	if percent != c.percent {
		c.set(percent)
		c.percent = percent
	}
}

// await has the next collection put a value into collected. Nothing refers to the object
// that it makes, so the next collection finds that it is garbage.
func (c *collector) await() {
	runtime.AddCleanup(new(unused), pace.Signal, chan<- struct{}(c.collected))
}

// unused is an object for await. It holds a pointer because Go keeps small objects
// without any together in blocks, and so may find none of them garbage for a long time.
type unused struct{ _ *unused }

// readInUse asks the runtime for what the percentage is of: objects that the last
// collection found in use, and the stacks and global variables that it went through.
// https://go.dev/doc/gc-guide#GOGC
func readInUse() int64 {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/scan/stack:bytes"},
		{Name: "/gc/scan/globals:bytes"},
	}
	metrics.Read(samples)
	sum := int64(0)
	for _, s := range samples {
		sum += int64(s.Value.Uint64()) //nolint:gosec // no process has 2^63 bytes
	}
	return sum
}

// tell logs how much garbage may gather, and what decided that.
func (c *collector) tell(ctx context.Context, log *slog.Logger) {
	percent := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(percent)
	most := slog.Uint64("percent_at_most", percent[0].Value.Uint64())
	switch {
	case c.share > 0:
		most = slog.Int("percent_at_most", mostPercent)
	case percent[0].Value.Uint64() > math.MaxInt32: // the largest number stands for none
		most = slog.String("percent_at_most", "off")
	}
	log.InfoContext(ctx, "garbage collector", most, slog.Int64("share_bytes", c.share),
		slog.String("from", c.from))
}
