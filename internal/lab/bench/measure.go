package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// rounds is what one way showed, round after round.
type rounds struct {
	rate     []float64 // calls per second
	latency  []float64 // the median of the round, in µs
	cpu      []float64 // µs of its processes' CPU a call; empty where they cannot be counted
	resident []float64 // MiB of its processes after the round
}

func (r *rounds) add(s *sample) {
	r.rate = append(r.rate, s.perSecond())
	r.latency = append(r.latency, micros(s.median()))
	if s.counted {
		r.cpu = append(r.cpu, micros(s.cpu)/float64(s.calls))
		r.resident = append(r.resident, float64(s.resident)/(1<<20))
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
	return spread{median: medianOf(sorted), least: sorted[0], most: sorted[len(sorted)-1]}
}

// medianOf returns the middle of sorted values, or of the two in the middle their mean.
func medianOf(sorted []float64) float64 {
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// ratioOf divides what two ways showed in each round, so that what disturbed both of them
// does not count.
func ratioOf(of, by []float64) spread {
	return spreadOf(ratiosOf(of, by))
}

// ratiosOf returns what ratioOf divides, for each round.
func ratiosOf(of, by []float64) []float64 {
	each := make([]float64, 0, len(of))
	for i, value := range of {
		if i < len(by) && by[i] > 0 {
			each = append(each, value/by[i])
		}
	}
	return each
}

// plan is how long is measured.
type plan struct {
	took   time.Duration // each way in each round
	rounds int
}

// measure loads all ways in turn, round after round, in one direction and then in the
// other. So whatever disturbs the machine disturbs all of them, ways that stand beside
// each other run right after one another, and neither of them is always the first.
func (p plan) measure(ctx context.Context, targets []*target, connections int,
	progress io.Writer,
) (result, error) {
	r := result{revision: targets[0].revision, connections: connections, ways: make(map[string]*rounds)}
	for _, t := range targets {
		r.ways[t.name] = &rounds{}
	}
	for round := range p.rounds {
		for _, t := range turned(targets, round) {
			s, err := t.load(ctx, connections, p.took)
			if err != nil {
				return r, err
			}
			r.ways[t.name].add(s)
			_, _ = fmt.Fprintf(progress,
				"%s, %d connections, round %d: %-23s %8.0f calls/s, median %v, %.0f µs of CPU a call\n",
				r.revision, connections, round+1, t.name, s.perSecond(), s.median(),
				micros(s.cpu)/float64(s.calls))
		}
	}
	return r, nil
}

// turned returns the same in the other direction in every second round.
func turned[T any](all []T, round int) []T {
	all = slices.Clone(all)
	if round%2 == 1 {
		slices.Reverse(all)
	}
	return all
}
