package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// memoryFigures is what sessions and event streams cost one contender, and who got a
// change of the list.
type memoryFigures struct {
	start   int64 // bytes, with one session that listed and called
	steps   []memoryStep
	streams int           // how many were open when the list changed
	reached int           // how many of them got the change
	last    time.Duration // after how long the last of these got it
	failed  string        // what went wrong, "" if nothing did
}

// memoryStep is resident memory, in bytes, with so many sessions: when none of those that
// came since the step before had a stream, and when all had one.
type memoryStep struct {
	sessions    int
	without     int64
	withStreams int64
}

// Bounds of what is measured of one contender.
const (
	openingTime = 20 * time.Second // for all sessions of a step, and again for all streams
	changeTime  = 10 * time.Second // until a change of the list counts as lost
	settleTime  = 500 * time.Millisecond
	watchTime   = 5 * time.Minute // longer than all the rest together
	openers     = 8               // sessions or streams that are opened at once
)

// hold opens sessions and streams step by step, says what they cost, and then changes the
// list.
func (l *peersLab) hold(ctx context.Context, c *contender, most int) {
	if c.sessions > 0 {
		most = min(most, c.sessions)
	}
	watch := &watch{}
	defer watch.close()
	if err := must.Try(func() {
		c.memory.start = treeMemory(c.pid())
		for _, size := range []int{most / 10, most} {
			c.step(ctx, watch, size)
		}
	}); err != nil {
		c.memory.failed = short(err.Error())
	}
	if len(watch.callers) > 0 && ctx.Err() == nil {
		l.change(ctx, c, watch)
	}
	l.tell("  %-16s %s", c.name, &c.memory)
}

// String says it in one line of progress.
func (m *memoryFigures) String() string {
	return fmt.Sprintf("%.1f MiB at the start%s; change reached %d of %d, last after %v%s",
		float64(m.start)/(1<<20), page.Rows(m.steps, func(s memoryStep) string {
			return fmt.Sprintf("; %d sessions %.1f MiB, with streams %.1f MiB", s.sessions,
				float64(s.without)/(1<<20), float64(s.withStreams)/(1<<20))
		}), m.reached, m.streams, m.last.Round(time.Millisecond),
		page.Either(m.failed != "", "; "+m.failed, ""))
}

// step opens sessions until there are as many, and then a stream for each of the new
// ones. Where not all could be opened it measures those that could, and fails then.
func (c *contender) step(ctx context.Context, w *watch, size int) {
	callers := make([]*caller, size-len(w.callers))
	missing := inParallel(ctx, len(callers), func(ctx context.Context, n int) {
		// its stream lives on
		callers[n] = c.gate(mcp.Legacy).saying(n).connect(context.WithoutCancel(ctx))
		callers[n].line.Close()
	})
	callers = slices.DeleteFunc(callers, func(one *caller) bool { return one == nil })
	w.callers = append(w.callers, callers...)
	s := memoryStep{sessions: len(w.callers)}
	if missing != nil {
		missing = fmt.Errorf("%d of %d sessions: %w", s.sessions, size, missing)
	}
	world.Pause(ctx, settleTime)
	s.without = treeMemory(c.pid())
	err := inParallel(ctx, len(callers), func(_ context.Context, n int) { w.open(callers[n]) })
	must.Be(err == nil, "%d of %d streams: %w", w.count(), s.sessions, err)
	world.Pause(ctx, settleTime)
	s.withStreams = treeMemory(c.pid())
	c.memory.steps = append(c.memory.steps, s)
	must.OK(missing)
}

// inParallel does something so many times, a few of them at once, until one fails or
// openingTime is over. It returns the first error.
func inParallel(ctx context.Context, count int, do func(ctx context.Context, n int)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, openingTime, fmt.Errorf("not more in %v", openingTime))
	defer cancel()
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(openers)
	for n := range count {
		all.Go(must.Trying(func() {
			must.OK(context.Cause(ctx))
			do(ctx, n)
		}))
	}
	return all.Wait()
}

// change changes the list and counts who hears of it.
func (l *peersLab) change(ctx context.Context, c *contender, w *watch) {
	c.memory.streams = w.count()
	w.forget()
	begun := time.Now()
	if err := must.Try(func() { l.announce(c) }); err != nil {
		c.memory.failed = short(err.Error())
		return
	}
	told := w.toldSince(ctx, begun, changeTime)
	if c.memory.reached = len(told); len(told) > 0 {
		c.memory.last = told[len(told)-1]
	}
}

// watch is many sessions, and event streams that are read until they end.
type watch struct {
	callers []*caller
	streams
}

// open opens an event stream in the session of a caller. It may be called from many
// goroutines.
func (w *watch) open(c *caller) {
	c.stream()
	w.add(c.line.Conn)
}

// close ends all streams and waits for their readers.
func (w *watch) close() {
	for _, c := range w.callers {
		c.close()
	}
	w.streams.close()
}
