package main

import (
	"fmt"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// section writes all that was measured.
func (s *sharing) section(nginx string) string {
	return fmt.Sprintf(replicasSection, nginx, s.plan.rounds, s.plan.took, fleetCallers, page.Rows(s.loads, s.row),
		page.Rows(s.bounds(), bound.row), s.times, warming, page.Number(s.alone),
		page.Rows(s.trips, func(t tripFigure) string {
			return fmt.Sprintf("| %s | %s | %s | %.0f | %s |\n", t.what, page.Number(t.one), page.Number(t.three),
				max(0, t.kept), t.commands)
		}), idleStreams, s.watched,
		page.Rows(s.stream, func(t tripFigure) string {
			return fmt.Sprintf("| %s | %s | %.0f |\n", t.what, page.Number(t.three), max(0, t.kept))
		}))
}

// replicasSection is the section, with places for what was measured.
const replicasSection = `## Several replicas

Replicas of one gateway share a Redis server and stand behind %s. It gives each request to the next replica
in turn, whatever session the request belongs to, so of three calls in a session two are forwarded. Beside
them stand three gateways that share nothing, behind nginx too, each with a third of the same clients. All
of them ran at the same time and were loaded in turn, in %d rounds of %v. First %d callers at a time load
them for the processor time, which is that of all replicas together, divided by the calls. Then one caller
loads them for the latency. Everything shares the processors of one machine, so more replicas cannot make
more calls a second here. What counts is what a call costs, because each further machine adds calls at that
cost. No caller is near a limit.

| revision | replicas | CPU a call, µs | ÷ three that share nothing | Redis a call, µs | nginx a call, µs | one at a time, median µs | added, µs | added if forwarded, µs |
|---|---|---|---|---|---|---|---|---|
%s
What three replicas may cost, and what they do:

| what | at most | found | kept |
|---|---|---|---|
%s
### Round trips to Redis

Each kind of request was made %d times, one after another, after %d that are not counted. A round trip is
what Redis read at once, by its own count (` + "`total_reads_processed`" + `). What the replicas do by
themselves in the same time is subtracted: each of three makes %s a minute when nobody asks it anything.
They are for its lease, for messages from the others, and to see that Redis is well. Under load several
requests share a round trip, so there are fewer. The commands are those of ` + "`INFO commandstats`" + `,
with those that scripts run.

What is kept is by how much the memory of Redis (` + "`used_memory`" + `) has grown afterwards, with three
replicas, for as long as the keys live. Some hundred bytes more or less are those of connections.

| request | round trips, 1 replica | 3 replicas | kept, bytes | commands a request, 3 replicas |
|---|---|---|---|---|
%s
At three replicas %d event streams were open for %v, with nothing on them but heartbeats. Each takes:

| stream | round trips a minute | kept, bytes, with its session |
|---|---|---|
%s`

// row is what one fleet cost in one revision.
func (s *sharing) row(l *fleetLoad) string {
	apart := s.apart(l.revision)
	return fmt.Sprintf("| %s | %s | %v | %v | %v | %v | %v | %v | %v |\n", l.revision, l.fleet.name,
		spreadOf(l.cpu), ratioOf(l.cpu, apart.cpu), spreadOf(l.redis), spreadOf(l.nginx), spreadOf(l.latency),
		spreadOf(lessOf(l.latency, apart.latency)), spreadOf(lessOf(l.forwarded, apart.latency)))
}

// bound is what something may be at most, and what it was found to be.
type bound struct {
	what  string
	most  float64
	found []float64 // in each round; none: it was not measured, and so is not kept
}

func (b bound) kept() bool { return len(b.found) > 0 && spreadOf(b.found).median <= b.most }

func (b bound) row() string {
	most := page.Number(b.most)
	return fmt.Sprintf("| %s | %s | %s | %s |\n", b.what, most, b.seen(), yes(b.kept(), most))
}

// seen says what was found. Zero in all rounds was found, too.
func (b bound) seen() string {
	s := spreadOf(b.found)
	return page.Either(len(b.found) > 0 && s == spread{}, "0", s.String())
}

// bounds returns all bounds.
func (s *sharing) bounds() (all []bound) {
	for _, l := range s.loads {
		apart := s.apart(l.revision)
		cpu := ratiosOf(l.cpu, apart.cpu)
		switch {
		case !l.fleet.shares || l.fleet.size < 3:
		case l.fleet.away > 0 && l.forwarded == nil:
			near := s.loadOf(l.revision, func(f *fleet) bool { return f.shares && f.size == l.fleet.size })
			all = append(all, bound{
				l.revision + ": µs that a Redis " + l.fleet.away.String() + " away adds, one at a time",
				100, lessOf(l.latency, near.latency),
			})
		case l.fleet.away > 0:
		case l.forwarded != nil:
			all = append(all,
				bound{l.revision + ": CPU a call ÷ three that share nothing", 1.5, cpu},
				bound{
					l.revision + ": µs added to a call that is forwarded, one at a time", 300,
					lessOf(l.forwarded, apart.latency),
				})
		default:
			all = append(all,
				bound{l.revision + ": CPU a call ÷ three that share nothing", 1.15, cpu})
		}
	}
	for _, t := range s.trips {
		if t.most > 0 {
			all = append(all, bound{t.what + ": round trips to Redis", t.most, []float64{t.three}})
		}
	}
	return all
}

// missed returns an error if a bound is not kept.
func (s *sharing) missed() error {
	var c world.Claims
	for _, b := range s.bounds() {
		c.Claim(b.kept(), "%s: %s, which is more than %s", b.what, b.seen(), page.Number(b.most))
	}
	return c.Broken()
}

// apart returns what gateways that share nothing showed in a revision.
func (s *sharing) apart(revision string) *fleetLoad {
	return s.loadOf(revision, func(f *fleet) bool { return !f.shares })
}

// loadOf returns the first load of a revision whose fleet is the one.
func (s *sharing) loadOf(revision string, is func(*fleet) bool) *fleetLoad {
	return s.loads[slices.IndexFunc(s.loads,
		func(l *fleetLoad) bool { return l.revision == revision && is(l.fleet) })]
}

// lessOf subtracts what two showed in each round.
func lessOf(of, by []float64) []float64 {
	return eachOf(of, by, func(a, b float64) float64 { return a - b })
}
