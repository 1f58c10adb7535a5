package main

import (
	"fmt"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// Goals of starts and reloads.
const (
	mostStart  = 5 * time.Second
	mostReload = 200 // milliseconds
	mostMemory = 300 << 20
)

// kept tells whether the figure keeps its goal at that size, and says the goal.
func (f scaleFigure) kept(i int) (kept bool, says string) {
	grown := f.grown(i)
	switch {
	case i == 0 && f.goal.beside:
		return ratioOf(f.costs[0], f.beside[0]).median <= 1, "no more than ReverseProxy"
	case i == 0:
		return true, ""
	case f.goal.beside:
		bound := 1.1 * float64(f.sizes[i]) / float64(f.sizes[0])
		return grown <= bound, fmt.Sprintf("at most %.1f ×", bound)
	}
	return grown <= 1+f.goal.within, fmt.Sprintf("at most %.1f ×", 1+f.goal.within)
}

// grown returns what a request costs at that size, where the smallest is 1: the median of
// the rounds, in each of which both sizes ran right after one another.
func (f scaleFigure) grown(i int) float64 { return ratioOf(f.costs[i], f.costs[0]).median }

// section writes all that was measured. Picture is the Markdown that shows the chart, ""
// for none.
func (g *growth) section(rounds, requests int, picture string) string {
	return fmt.Sprintf(scaleSection, rounds, requests, page.Rows(g.figures, scaleFigure.rows),
		page.Either(picture != "", "\n"+picture+"\n", ""), float64(g.session)/1024,
		page.Rows(g.loads, loadFigure.row))
}

// scaleSection is the section, with places for what was measured.
const scaleSection = `## How it grows

Each figure is the processor time of the gateway's process for one request, in µs. It is the median of %d
rounds of %d requests (a fifth for lists), with the lowest and highest round. The gateways of one kind, one
for each size, ran at the same time and took turns. A ratio compares what they cost in the same round.
Everything was on, audit and the log of requests too. Ten tenants sent the calls, however many there were.
Less than 1 is no mistake: Go collects the garbage of a large heap more rarely.

| request | size | µs | ÷ smallest size | ReverseProxy, µs | goal | kept |
|---|---|---|---|---|---|---|
%s%s
A session without a stream takes %.1f KiB of resident memory, at 100,000.

The gateway starts with 5,000 tenants. Each has 200 tools of two of 50 servers, and 20 rules of its own. A
start lasts until all servers are there. Then come five reloads, each after a change of one tenant's rules.
A reload lasts until the change is in force.

| config | start | CPU of the start | resident | reload, ms | CPU of a reload, ms | resident after five | goals | kept |
|---|---|---|---|---|---|---|---|---|
%s`

// rows are what the request costs at each size.
func (f scaleFigure) rows() (rows string) {
	for i, size := range f.sizes {
		kept, goal := f.kept(i)
		beside := ""
		if f.beside != nil {
			beside = medianAndEnds(f.beside[i])
		}
		rows += fmt.Sprintf("| `%s` | %s %s | %s | %.2f | %s | %s | %s |\n", f.what,
			page.Number(float64(size)), f.unit, medianAndEnds(f.costs[i]), f.grown(i), beside, goal,
			yes(kept, goal))
	}
	return rows
}

// row is what a start and reloads take.
func (f loadFigure) row() string {
	return fmt.Sprintf(
		"| %s | %.1f s | %.1f s | %d MiB | %s | %s | %d MiB | %.0f s, %d MiB, %d ms, no more memory than "+
			"the start | %s |\n",
		page.Either(f.files, "a file for each tenant", "files of 50 tenants"),
		f.start.Seconds(), f.cpu.Seconds(), f.started>>20, medianAndEnds(f.reloads),
		medianAndEnds(f.busy), f.reloaded>>20, mostStart.Seconds(), mostMemory>>20, mostReload,
		yes(f.kept(), "all"))
}

func (f loadFigure) kept() bool {
	return f.start <= mostStart && f.started <= mostMemory && spreadOf(f.reloads).median <= mostReload &&
		f.reloaded <= f.started
}

// missed returns an error if a goal is not kept.
func (g *growth) missed() error {
	var c world.Claims
	for _, f := range g.figures {
		for i, size := range f.sizes {
			kept, goal := f.kept(i)
			c.Claim(kept, "%s with %d %s costs %.2f × the smallest size, which is not %s", f.what, size,
				f.unit, f.grown(i), goal)
		}
	}
	for _, f := range g.loads {
		c.Claim(f.kept(), "a start or reloads take too much: %s", f.row())
	}
	return c.Broken()
}

// yes says whether a goal is kept, and nothing where there is none.
func yes(kept bool, goal string) string {
	return page.Either(goal == "", "", page.Either(kept, "yes", "**no**"))
}

// chart draws how much more a request costs with much than with little. Lists, which grow
// with what they say, are left out.
func (g *growth) chart() *page.Bars {
	c := &page.Bars{
		Title: "A request costs the same, however much the gateway holds",
		Unit:  "cost of a request ÷ that with the smallest size", Mark: 1,
	}
	for i := range g.figures {
		f := &g.figures[i]
		for j, size := range f.sizes {
			if j == 0 || f.goal.beside {
				continue
			}
			label := fmt.Sprintf("%s with %s %s instead of %s", f.what, page.Number(float64(size)), f.unit,
				page.Number(float64(f.sizes[0])))
			c.Groups = append(c.Groups,
				page.Group{Label: label, Bars: []page.Bar{ratioOf(f.costs[j], f.costs[0]).bar()}})
		}
	}
	return c
}
