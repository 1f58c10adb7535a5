package main

import (
	"cmp"
	"context"
	"flag"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// newReplicas is the part replicas: it shows what several replicas that share Redis cost,
// beside as many gateways that share nothing. It fails if that is more than it may be.
func newReplicas(flags *flag.FlagSet) page.Measure {
	p := planOf(flags, 1500*time.Millisecond, 5, "each number of replicas")
	times := flags.Int("times", 300,
		"how often each kind of request is made while round trips to Redis are counted")
	watched := flags.Duration("idle", 40*time.Second, "how long idle streams are watched")
	return func(ctx context.Context, r page.Report) (string, error) {
		must.Be(p.took > 0 && p.rounds > 0 && *times >= 10 && *watched >= time.Second,
			"replicas takes a time and rounds above 0, 10 times, and a second of idle streams")
		l := &replicasLab{lab: emptyLab("replicas", r)}
		defer l.Close()
		l.beginFleets(ctx)
		found := &sharing{plan: *p, times: *times, watched: *watched}
		found.measure(ctx, l)
		return found.section(nginxVersion(ctx)), found.missed()
	}
}

// sharing is what the command measures, and how.
type sharing struct {
	plan    plan
	times   int           // that each kind of request is made
	watched time.Duration // that idle streams are

	loads  []*fleetLoad
	trips  []tripFigure
	alone  float64 // round trips a minute of a replica of three that has nothing to do
	stream []tripFigure
}

// fleetLoad is what one fleet showed under load in one revision, round after round.
type fleetLoad struct {
	fleet    *fleet
	revision string
	cpu      []float64 // µs a call of all replicas together
	redis    []float64 // µs a call
	nginx    []float64 // µs a call
	latency  []float64 // µs: the median of calls one at a time
	// µs: the median of those of them that were forwarded; nil: none was
	forwarded []float64
}

// Callers at a time: many, so that what each costs is as under load, and one, so that no
// call waits for another.
const fleetCallers = 16

func (s *sharing) measure(ctx context.Context, l *replicasLab) {
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		var loads []*fleetLoad
		for _, f := range l.fleets {
			loads = append(loads, &fleetLoad{fleet: f, revision: f.target(l, "echo__echo", era).revision})
		}
		for round := range s.plan.rounds {
			for _, load := range turned(loads, round) {
				s.load(ctx, l, load, era)
			}
		}
		s.loads = append(s.loads, loads...)
	}
	s.countTrips(ctx, l)
	s.watchStreams(ctx, l)
}

// load loads one fleet for a round, with many callers and then with one.
func (s *sharing) load(ctx context.Context, l *replicasLab, load *fleetLoad, era mcp.Era) {
	f, t := load.fleet, load.fleet.target(l, "echo__echo", era)
	var many *sample
	var nginx time.Duration
	redis := busyDuring(f.redis.pids, func() {
		nginx = busyDuring(f.nginx.pids, func() { many = t.load(ctx, fleetCallers, s.plan.took) })
	})
	one := t.load(ctx, 1, s.plan.took/2)
	calls := float64(many.calls)
	load.cpu = append(load.cpu, micros(many.cpu)/calls)
	load.redis = append(load.redis, micros(redis)/calls)
	load.nginx = append(load.nginx, micros(nginx)/calls)
	if f.shares && f.size > 1 && era == mcp.Legacy {
		load.forwarded = append(load.forwarded, micros(forwardedOf(one.latency, f.size)))
	}
	load.latency = append(load.latency, micros(one.median()))
	l.Say("%s, %s: %.0f µs of CPU a call, %.0f calls/s, median of one at a time %v\n",
		t.revision, f.name, micros(many.cpu)/calls, many.perSecond(), one.median())
}

// forwardedOf returns the median of those of one caller's calls that were forwarded. Each
// comes to the next replica, and all but that which leads the session forward it. So
// calls that are as many as there are replicas apart are alike, and where they are
// fastest the session is led. It takes a call to each replica to know that.
func forwardedOf(latency []time.Duration, replicas int) time.Duration {
	must.Be(len(latency) >= replicas, "-time is too short: one caller made %d calls, of which none came to "+
		"some of %d replicas", len(latency), replicas)
	kinds := make([]sample, replicas)
	for i, took := range latency {
		k := &kinds[i%replicas]
		k.latency = append(k.latency, took)
	}
	slices.SortFunc(kinds, func(a, b sample) int { return cmp.Compare(a.median(), b.median()) })
	var all sample
	for _, k := range kinds[1:] {
		all.latency = append(all.latency, k.latency...)
	}
	return all.median()
}
