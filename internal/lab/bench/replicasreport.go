package main

import (
	"fmt"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
)

// section writes all that was measured.
func (s *sharing) section(from, nginx string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `## Several replicas

%s

Replicas of one gateway share a Redis server and stand behind %s. It gives each request to the next replica
in turn, whatever session the request belongs to. Beside them stands one gateway that shares nothing, behind nginx
too. All of them ran at the same time and were loaded in turn, in %d rounds of %v. First %d callers at a time load
them for the processor time, which is that of all replicas together, divided by the calls. Then one caller loads
them for the latency. Everything shares the processors of one machine, so more replicas cannot make more calls a
second here. What counts is what a call costs, because each further machine adds calls at that cost.

| revision | replicas | CPU a call, µs | ÷ one that shares nothing | Redis a call, µs | nginx a call, µs | one at a time, median µs | added, µs |
|---|---|---|---|---|---|---|---|
`, from, nginx, s.plan.rounds, s.plan.took, fleetCallers)
	var nothing *fleetLoad
	for _, l := range s.loads {
		if l.fleet.redis.addr == "" {
			nothing = l
		}
		redis, added := "–", "–"
		if l != nothing {
			redis, added = spreadOf(l.redis).String(), spreadOf(lessOf(l.latency, nothing.latency)).String()
		}
		fmt.Fprintf(&b, "| %s | %s | %v | %v | %s | %v | %v | %s |\n", l.revision, l.fleet.name,
			spreadOf(l.cpu), ratioOf(l.cpu, nothing.cpu),
			redis, spreadOf(l.nginx), spreadOf(l.latency), added)
	}
	s.describeTrips(&b)
	return b.String()
}

// describeTrips writes what is asked of Redis.
func (s *sharing) describeTrips(b *strings.Builder) {
	fmt.Fprintf(b, `
### Round trips to Redis

Each kind of request was made %d times, one after another, after %d that are not counted. A round trip is what
Redis read at once, by its own count (`+"`total_reads_processed`"+`). What the replicas do by themselves in the
same time is subtracted: each of three makes %s a minute when nobody asks it anything. They are for its lease, for
messages from the others, and to see that Redis is well. Under load several requests share a round trip, so there
are fewer. The commands are those of `+"`INFO commandstats`"+`, with those that scripts run.

What is kept is by how much the memory of Redis (`+"`used_memory`"+`) has grown afterwards, with three replicas,
for as long as the keys live. Some hundred bytes more or less are those of connections.

| request | round trips, 1 replica | 3 replicas | kept, bytes | commands a request, 3 replicas |
|---|---|---|---|---|
`, s.times, warming, page.Number(s.alone))
	for _, t := range s.trips {
		fmt.Fprintf(b, "| %s | %s | %s | %.0f | %s |\n", t.what, page.Number(t.one), page.Number(t.three),
			max(0, t.kept), t.commands)
	}
	fmt.Fprintf(b, `
At three replicas %d event streams were open for %v, with nothing on them but heartbeats. Each takes:

| stream | round trips a minute | kept, bytes, with its session |
|---|---|---|
`, idleStreams, s.watched)
	for _, t := range s.stream {
		fmt.Fprintf(b, "| %s | %s | %.0f |\n", t.what, page.Number(t.three), max(0, t.kept))
	}
}

// lessOf subtracts what two showed in each round.
func lessOf(of, by []float64) []float64 {
	each := make([]float64, 0, len(of))
	for i, value := range of {
		if i < len(by) {
			each = append(each, value-by[i])
		}
	}
	return each
}
