package main

import (
	"context"
	"fmt"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// cell is one kind of work: calls in one era over so many connections, or lists.
type cell struct {
	era         mcp.Era
	connections int
	lists       bool
}

func (c cell) String() string {
	return fmt.Sprintf("%s of %s, %d connections", page.Either(c.lists, "lists", "calls"), revisionOf(c.era),
		c.connections)
}

func revisionOf(era mcp.Era) string {
	return page.Either(era == mcp.Modern, mcp.LatestModern, mcp.LatestLegacy)
}

// cells are all kinds of work, in the order in which they are measured.
var cells = []cell{
	{era: mcp.Legacy, connections: 1},
	{era: mcp.Legacy, connections: 16},
	{era: mcp.Legacy, connections: 64},
	{era: mcp.Modern, connections: 1},
	{era: mcp.Modern, connections: 16},
	{era: mcp.Modern, connections: 64},
	{era: mcp.Legacy, connections: 16, lists: true},
}

// series is what the rounds of one kind of work showed of one contender.
type series struct {
	rounds
	failed error // what went wrong; then there are no more rounds of it
}

// loadAll gives every contender every kind of work, one after the other, round after
// round, in one direction and then in the other, so that what disturbs the machine
// disturbs all of them.
func (l *peersLab) loadAll(ctx context.Context, all []*contender, p plan) {
	for round := range p.rounds {
		for _, kind := range cells {
			for _, c := range turned(all, round) {
				if ctx.Err() != nil {
					return
				}
				l.loadOnce(ctx, c, kind, p.took, round)
			}
		}
	}
}

func (l *peersLab) loadOnce(ctx context.Context, c *contender, kind cell, took time.Duration, round int) {
	s := c.work[kind]
	if s == nil {
		s = &series{}
		c.work[kind] = s
	}
	if kind.era == mcp.Modern && !c.modern || s.failed != nil {
		return
	}
	got, err := must.Got(func() *sample { return c.load(ctx, kind, took) })
	if err != nil {
		s.failed = err
		l.tell("  round %d, %-36s %-16s %s", round+1, kind, c.name, short(err.Error()))
		return
	}
	s.add(got)
	l.tell("  round %d, %-36s %-16s %8.0f/s, median %v, %.0f µs of CPU each",
		round+1, kind, c.name, got.perSecond(), got.median(), micros(got.cpu)/float64(got.calls))
}

// load gives a contender one kind of work for so long. Every answer is checked; one wrong
// answer ends it.
func (c *contender) load(ctx context.Context, kind cell, took time.Duration) *sample {
	callers := c.ready(ctx, kind)
	defer func() {
		for _, caller := range callers {
			caller.line.Close()
		}
	}()
	before := c.cpu()
	total := together(callers, took)
	total.counted, total.cpu = c.pid() != 0, c.cpu()-before
	return total
}

// ready returns as many callers as the work asks for, with open connections. Their
// sessions are those of earlier work.
func (c *contender) ready(ctx context.Context, kind cell) []*caller {
	all := c.callers[kind.era]
	for begun := time.Now(); len(all) < kind.connections; {
		must.Be(time.Since(begun) <= openingTime,
			"%d of %d sessions in %v", len(all), kind.connections, openingTime)
		// its calls are still to be answered when ctx ends
		one := c.gate(kind.era).saying(len(all)).connect(context.WithoutCancel(ctx))
		one.line.Close()
		all = append(all, one)
	}
	c.callers[kind.era] = all
	for _, caller := range all[:kind.connections] {
		caller.line.Open()
		if kind.lists {
			caller.asks(caller.list(), mcp.MethodToolsList, isList)
		} else {
			caller.asks(caller.target.callBody(), mcp.MethodToolsCall, caller.target.isAnswer)
		}
	}
	return all[:kind.connections]
}

// cpu returns what the contender's processes have used. That of the server itself is
// nobody's.
func (c *contender) cpu() time.Duration {
	if c.pid() == 0 {
		return 0
	}
	return treeCPU(c.pid())
}
