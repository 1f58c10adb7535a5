package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// section writes the section of the page, and its charts if there is a page.
func (p *peersRun) section(r page.Report, all []*contender) string {
	shown, programs := present(all), processesOf(all)
	base, calls := find(all, peerDrawbridge), cell{era: mcp.Legacy, connections: 16}
	lists := cell{era: mcp.Legacy, connections: 16, lists: true}
	return fmt.Sprintf(peersSection, upstream.Announced, p.plan.rounds, p.plan.took, charts(r, all),
		page.Rows(shown, func(c *contender) string {
			return fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n", c.title(),
				c.each(mcp.Legacy, (*series).perSecond), c.each(mcp.Modern, (*series).perSecond),
				beside(base, c, calls), c.each(mcp.Legacy, (*series).median), c.each(mcp.Legacy, (*series).processor))
		}),
		page.Rows(shown, (*contender).troubles), upstream.Announced,
		page.Rows(shown, func(c *contender) string {
			s := c.work[lists]
			return fmt.Sprintf("| %s | %s | %s | %s | %s |\n", c.title(), s.perSecond(), beside(base, c, lists),
				s.median(), s.processor())
		}),
		changeTime, page.Rows(programs, (*contender).holds),
		page.Rows(shown, func(c *contender) string {
			return page.Either(c.memory.failed != "", fmt.Sprintf("\n%s: %s.\n", c.name, c.memory.failed), "")
		}),
		page.Rows(programs, func(c *contender) string {
			return fmt.Sprintf("| %s | %s, %s | %s | %s |\n", c.title(), c.release(), c.parcel.registry, c.settings,
				c.lacks)
		}),
		absent(all))
}

// peersSection is the section, with places for what was measured.
const peersSection = `## Beside other gateways

One run measures several programs, each with the same client before it and the same server behind it. The
client speaks HTTP by hand, and opens sessions as clients do. It reads answers of a known length, in chunks
and as event streams with the same code, and checks every answer. The server is a quick one of this
repository, with %d tools and sessions. It speaks Streamable HTTP of 2025-11-25, and stdio for programs that
reach no other server.

For calls and lists all programs are up at once and take turns, in %d rounds of %v. The figure is the median
of the rounds. For sessions and streams each program is up alone.

Read the figures fairly, because these programs do **different work**:

- nginx, HAProxy and ReverseProxy pass bytes on. They show what any hop costs, not what a gateway costs.
- The other gateways run without tokens and checks, which some have and some do not. The last column of
  "What was compared" says which.
- drawbridge has everything on.
- Programs that know the list of tools answer for the server, which can be quicker than asking it.
- Some can do more than is measured here, such as keeping servers in containers. None was tuned by its
  makers.
- The versions are those that the public registries gave. They may be older than the newest.

%s

### Calls

Calls per second at 1 / 16 / 64 connections. The ratio is that of 2025-11-25 at 16, with the lowest and
highest of the rounds. CPU is that of all processes that a program starts, without the server. A dash means
that it does not serve that revision.

| | 2025-11-25 | 2026-07-28 | drawbridge ÷ this | median latency at 1 / 16 / 64 | CPU µs a call at 1 / 16 / 64 |
|---|---|---|---|---|---|
%s%s
### Lists

tools/list with %d tools in one answer, 2025-11-25, 16 connections.

| | lists per second | drawbridge ÷ this | median latency | CPU µs a list |
|---|---|---|---|---|
%s
### Memory, and who hears of a change

The table has the resident memory at the start, and what a session costs, without and with an open event
stream (GET), at both numbers of sessions. Then the server changes its list of tools and announces it. The
last columns say how many of the open streams get that within %v, and when the last of them does. What a
program starts counts too, such as a server for each session.

| | sessions | at the start, MiB | a session, KiB | a session with a stream, KiB | change reached | last after |
|---|---|---|---|---|---|---|
%s%s
### What was compared

| | version, from | settings | what it does not do here |
|---|---|---|---|
%s%s`

// holds is what sessions and streams cost the contender, and who got a change.
func (c *contender) holds() string {
	m := c.memory
	var sizes, without, with []string
	for i, s := range m.steps {
		sizes = append(sizes, page.Number(float64(s.sessions)))
		without = append(without, fmt.Sprintf("%.1f", m.session(i)))
		with = append(with, fmt.Sprintf("%.1f", m.stream(i)))
	}
	last := page.Either(m.reached > 0, m.last.Round(time.Millisecond).String(), "–")
	return fmt.Sprintf("| %s | %s | %.1f | %s | %s | %d of %d | %s |\n", c.title(), row(sizes),
		float64(m.start)/(1<<20), row(without), row(with), m.reached, m.streams, last)
}

// absent says which programs were not measured, and why.
func absent(all []*contender) string {
	rows := page.Rows(all, func(c *contender) string {
		return page.Either(c.failed != "",
			fmt.Sprintf("| %s | %s, %s | %s |\n", c.name, c.release(), c.parcel.registry, c.failed), "")
	})
	return page.Either(rows != "", "\n### Not measured\n\n| | version, from | why |\n|---|---|---|\n"+rows, "")
}

// troubles says which work ended with a wrong answer or none.
func (c *contender) troubles() string {
	return page.Rows(cells, func(kind cell) string {
		s := c.work[kind]
		if s == nil || s.failed == nil {
			return ""
		}
		return fmt.Sprintf("\n%s, %s: %s.\n", c.name, kind, short(s.failed.Error()))
	})
}

// charts draws calls at 16 connections and memory of a stream, and returns what shows
// them.
func charts(r page.Report, all []*contender) string {
	calls := page.Bars{
		Title: "Calls through other programs and drawbridge",
		Unit:  "calls per second at 16 connections, higher is better", Series: []string{
			mcp.LatestLegacy,
			mcp.LatestModern,
		},
	}
	memory := page.Bars{
		Title: "Memory of a session with an open event stream",
		Unit:  "KiB of resident memory each, lower is better",
	}
	for _, c := range processesOf(all) {
		group := page.Group{Label: c.name}
		for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
			if s := c.work[cell{era: era, connections: 16}]; s != nil && len(s.rate) > 0 {
				group.Bars = append(group.Bars, spreadOf(s.rate).bar())
			}
		}
		if len(group.Bars) > 0 {
			calls.Groups = append(calls.Groups, group)
		}
		if steps := len(c.memory.steps); steps > 0 {
			memory.Groups = append(memory.Groups,
				page.Group{Label: c.name, Bars: []page.Bar{{Value: max(c.memory.stream(steps-1), 0)}}})
		}
	}
	return r.Chart("peers-calls", &calls, calls.Title+": "+calls.Unit) + "\n\n" +
		r.Chart("peers-memory", &memory, memory.Title+": "+memory.Unit)
}

// present returns those that were measured.
func present(all []*contender) []*contender {
	return slices.DeleteFunc(slices.Clone(all), func(c *contender) bool { return c.failed != "" })
}

// processesOf returns those that were measured and are a program of their own.
func processesOf(all []*contender) []*contender {
	return slices.DeleteFunc(present(all), func(c *contender) bool { return c.name == peerDirect })
}

// find returns the contender of that name, nil if it was not measured.
func find(all []*contender, name string) *contender {
	for _, c := range present(all) {
		if c.name == name {
			return c
		}
	}
	return nil
}

// title is the name as the tables show it: drawbridge stands out.
func (c *contender) title() string {
	return page.Either(c.name == peerDrawbridge, "**"+c.name+"**", c.name)
}

// release is the version that was measured, or that could not be had.
func (c *contender) release() string {
	return cmp.Or(c.version, c.parcel.version, "–")
}

// each returns what all counts of connections showed in one era.
func (c *contender) each(era mcp.Era, of func(*series) string) string {
	var all []string
	for _, connections := range []int{1, 16, 64} {
		all = append(all, of(c.work[cell{era: era, connections: connections}]))
	}
	return row(all)
}

// row joins figures; those that are all missing are one dash.
func row(all []string) string {
	some := slices.ContainsFunc(all, func(text string) bool { return text != "–" })
	return page.Either(some, strings.Join(all, " / "), "–")
}

// shown writes the median of what rounds showed, and a dash of none.
func shown(s *series, of func(*series) []float64, write func(float64) string) string {
	if s == nil || len(of(s)) == 0 {
		return "–"
	}
	return write(spreadOf(of(s)).median)
}

func whole(v float64) string { return page.Number(math.Round(v)) }

func (s *series) perSecond() string {
	return shown(s, func(s *series) []float64 { return s.rate }, whole)
}

func (s *series) processor() string {
	return shown(s, func(s *series) []float64 { return s.cpu }, whole)
}

func (s *series) median() string {
	return shown(s, func(s *series) []float64 { return s.latency }, func(median float64) string {
		return page.Either(median < 1000, fmt.Sprintf("%.0f µs", median), fmt.Sprintf("%.1f ms", median/1000))
	})
}

// beside compares two contenders round by round, for they took their turns one after the
// other.
func beside(base, other *contender, kind cell) string {
	if base == other {
		return "1"
	}
	if base == nil || base.work[kind] == nil || other.work[kind] == nil {
		return "–"
	}
	s := ratioOf(base.work[kind].rate, other.work[kind].rate)
	return page.Either(s == spread{}, "–",
		fmt.Sprintf("**%s** (%s–%s)", page.Number(s.median), page.Number(s.least), page.Number(s.most)))
}

// session returns what a session cost in a step, in KiB: one of those that came since the
// step before.
func (m *memoryFigures) session(step int) float64 {
	before, count := m.start, 0
	if step > 0 {
		before, count = m.steps[step-1].withStreams, m.steps[step-1].sessions
	}
	s := m.steps[step]
	return float64(s.without-before) / float64(max(s.sessions-count, 1)) / (1 << 10)
}

// stream returns what all sessions with their streams cost in a step, in KiB each.
func (m *memoryFigures) stream(step int) float64 {
	s := m.steps[step]
	return float64(s.withStreams-m.start) / float64(max(s.sessions, 1)) / (1 << 10)
}
