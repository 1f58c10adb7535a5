package main

import (
	"cmp"
	"context"
	"flag"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// rounds is what one way showed, round after round.
type rounds struct {
	rate     []float64 // calls per second
	latency  []float64 // the median of the round, in µs
	cpu      []float64 // µs of its processes' CPU a call; empty where they cannot be counted
	resident []float64 // MiB of its processes after the round
	kib      []float64 // KiB a call, both ways, with heads
	perKiB   []float64 // µs of CPU a KiB
}

func (r *rounds) add(s *sample) {
	r.rate = append(r.rate, s.perSecond())
	r.latency = append(r.latency, micros(s.median()))
	if s.counted {
		kib := float64(s.bytes) / 1024
		r.cpu = append(r.cpu, micros(s.cpu)/float64(s.calls))
		r.resident = append(r.resident, float64(s.resident)/(1<<20))
		r.kib, r.perKiB = append(r.kib, kib/float64(s.calls)), append(r.perKiB, micros(s.cpu)/kib)
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// result is what all ways showed in one revision at one count of connections, in the same
// rounds.
type result struct {
	revision    string
	connections int
	ways        map[string]*rounds
}

// spread is the median of the rounds, with the least and the most of them. The zero value
// says that nothing was measured.
type spread struct{ median, least, most float64 }

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	// the middle one, or of the two in the middle their mean
	median := (sorted[half] + sorted[(len(sorted)-1)/2]) / 2
	return spread{median: median, least: sorted[0], most: sorted[len(sorted)-1]}
}

// ratioOf divides what two ways showed in each round, so that what disturbed both of them
// does not count.
func ratioOf(of, by []float64) spread {
	return spreadOf(ratiosOf(of, by))
}

// ratiosOf returns what ratioOf divides, for each round.
func ratiosOf(of, by []float64) []float64 {
	return eachOf(of, by, func(a, b float64) float64 { return a / b })
}

// eachOf does something with what two showed in each round, as far as both were measured.
func eachOf(of, by []float64, do func(a, b float64) float64) (all []float64) {
	for i := range min(len(of), len(by)) {
		if by[i] > 0 {
			all = append(all, do(of[i], by[i]))
		}
	}
	return all
}

// plan is how long is measured.
type plan struct {
	took   time.Duration // each way in each round
	rounds int
}

// planOf adds the flags of a plan. What is measured in each round is said by what.
func planOf(flags *flag.FlagSet, took time.Duration, rounds int, what string) *plan {
	p := &plan{}
	flags.DurationVar(&p.took, "time", took, "how long is measured in each round: "+what)
	flags.IntVar(&p.rounds, "rounds", rounds, "rounds; the median counts")
	return p
}

// measure loads all ways in turn, round after round, in one direction and then in the
// other. So whatever disturbs the machine disturbs all of them, ways that stand beside
// each other run right after one another, and neither of them is always the first. A
// target with callers of its own has these instead of the connections.
func (l *lab) measure(ctx context.Context, p plan, connections int, targets ...*target) result {
	r := result{revision: targets[0].revision, connections: connections, ways: make(map[string]*rounds)}
	for _, t := range targets {
		r.ways[t.name] = &rounds{}
	}
	must.Be(p.took > 0 && p.rounds > 0, "-time and -rounds must be more than 0")
	for round := range p.rounds {
		for _, t := range turned(targets, round) {
			s := t.load(ctx, cmp.Or(t.callers, connections), p.took)
			r.ways[t.name].add(s)
			l.Say("%s, %d connections, round %d: %-23s %8.0f calls/s, median %v, %.0f µs of CPU a call\n",
				t.revision, cmp.Or(t.callers, connections), round+1, t.name, s.perSecond(), s.median(),
				micros(s.cpu)/float64(s.calls))
		}
	}
	return r
}

// turned returns the same in the other direction in every second round.
func turned[T any](all []T, round int) []T {
	all = slices.Clone(all)
	if round%2 == 1 {
		slices.Reverse(all)
	}
	return all
}

// busyDuring returns how long processes are on processors while something is done.
func busyDuring(pids []int, do func()) time.Duration {
	before := world.Busy(pids...)
	do()
	return world.Busy(pids...) - before
}
