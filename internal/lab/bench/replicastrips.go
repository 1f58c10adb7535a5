package main

import (
	"context"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// tripFigure is how many round trips to Redis one thing took, on average, of what a fleet
// had to do meanwhile without it.
type tripFigure struct {
	what     string
	one      float64 // with one replica
	three    float64 // with three
	kept     float64 // bytes of Redis afterwards, with three
	commands string  // with three
	most     float64 // round trips with three that there may be; 0: any
}

// requestKind is a kind of request, made again and again, one at a time.
type requestKind struct {
	what  string
	most  float64 // round trips that it may take with three replicas; 0: any
	begin func(ctx context.Context, t *target) (again func(ctx context.Context), end func())
	tool  string
	era   mcp.Era
}

// requestKinds are all kinds.
var requestKinds = []requestKind{
	{"call, 2026-07-28", 0.1, calling, "echo__echo", mcp.Modern},
	{"call, 2025-11-25, answered as JSON", 0.5, calling, "echo__echo", mcp.Legacy},
	{"call, 2025-11-25, answered as a stream of four events", 0, calling, "kinds__stream", mcp.Legacy},
	{"call, 2025-11-25, in which its client is asked", 0, calling, "kinds__ask", mcp.Legacy},
	{"`tools/list`, 2026-07-28", 0.1, sending(mcp.MethodToolsList, false), "echo__echo", mcp.Modern},
	{"`tools/list`, 2025-11-25", 0.5, listing, "echo__echo", mcp.Legacy},
	{"a session opened", 0, sending(mcp.MethodInitialize, false), "echo__echo", mcp.Legacy},
	{"a session opened and ended", 4, sending(mcp.MethodInitialize, true), "echo__echo", mcp.Legacy},
}

// calling calls the tool of a target on one connection.
func calling(ctx context.Context, t *target) (again func(context.Context), end func()) {
	c := t.connect(ctx)
	return func(context.Context) { c.call() }, c.close
}

// listing asks for the list of tools in one session.
func listing(ctx context.Context, t *target) (again func(context.Context), end func()) {
	c := t.connect(ctx)
	return func(context.Context) { c.say(client.Listing, "") }, c.close
}

// sending makes requests without a session, or such as open one each, which may end it.
func sending(method string, ends bool) func(context.Context, *target) (func(context.Context), func()) {
	return func(ctx context.Context, t *target) (func(context.Context), func()) {
		ask := asks(ctx, t.addr, "/mcp", method, "", t.token)
		return func(ctx context.Context) {
			session := ask.send(0, 0)
			if ends {
				endSessions(ctx, t.addr, t.token, session)
			}
		}, ask.close
	}
}

// countTrips counts the round trips of each kind of request, with one replica and with
// three.
func (s *sharing) countTrips(ctx context.Context, l *replicasLab) {
	for _, d := range requestKinds {
		few, many := s.tripsOf(ctx, l, l.fleet(1), d), s.tripsOf(ctx, l, l.fleet(3), d)
		figure := tripFigure{
			what: d.what, most: d.most, one: few.each, three: many.each, commands: many.done.common(s.times),
			kept: float64(many.done.memory) / float64(s.times),
		}
		s.trips = append(s.trips, figure)
		l.Say("%s: %.2f round trips with one replica, %.2f with three (%s), %.0f bytes kept\n", d.what,
			figure.one, figure.three, figure.commands, figure.kept)
	}
}

// counted is what was counted of one kind.
type counted struct {
	each float64 // round trips
	done tally
}

// warming is how often each kind of request is made before it is counted, so that every
// replica knows its session.
const warming = 12

// tripsOf makes one kind of request, and takes off what the fleet does in the same time
// by itself.
func (s *sharing) tripsOf(ctx context.Context, l *replicasLab, f *fleet, d requestKind) counted {
	again, end := d.begin(ctx, f.target(l, d.tool, d.era))
	defer end()
	repeat := func(times int) {
		for range times {
			again(ctx)
		}
	}
	repeat(warming)
	quiet := rateOf(ctx, f, 2*time.Second)
	began := time.Now()
	done := f.during(ctx, func() { repeat(s.times) })
	took := time.Since(began)
	return counted{max(0, float64(done.reads)-quiet*took.Seconds()) / float64(s.times), done}
}

// rateOf returns how many round trips a second a fleet makes when nobody asks it
// anything.
func rateOf(ctx context.Context, f *fleet, watched time.Duration) float64 {
	began := time.Now()
	done := f.during(ctx, func() { world.Pause(ctx, watched) })
	must.OK(ctx.Err())
	return float64(done.reads) / time.Since(began).Seconds()
}

// idleStreams is how many streams of a kind are open while they are watched.
const idleStreams = 200

// watchStreams counts the round trips of three replicas by themselves, and of streams on
// which nothing happens.
func (s *sharing) watchStreams(ctx context.Context, l *replicasLab) {
	three := l.fleet(3)
	quiet := rateOf(ctx, three, s.watched)
	s.alone = 60 * quiet / float64(len(three.replicas))
	for _, k := range idleKinds {
		rate, kept := withStreams(ctx, l, three, k, s.watched)
		each := 60 * max(0, rate-quiet) / idleStreams
		s.stream = append(s.stream, tripFigure{what: k.name, three: each, kept: kept})
		l.Say("idle stream, %s: %.2f round trips a minute, %.0f bytes; a replica by itself %.0f\n", k.name,
			each, kept, s.alone)
	}
}

// withStreams returns how many round trips a second a fleet makes with idle streams, and
// how many bytes Redis has for each, its session included.
func withStreams(ctx context.Context, l *replicasLab, f *fleet, k idleKind,
	watched time.Duration,
) (rate, kept float64) {
	c := &crowd{
		lab: l.lab, gateway: f.nginx, posts: f.target(l, "echo__echo", k.era),
		posting: client.LineTo(ctx, f.nginx.addr),
	}
	defer c.close()
	done := f.during(ctx, func() {
		for range idleStreams {
			c.add(k.open(ctx, c).line.Conn)
		}
		rate = rateOf(ctx, f, watched)
		must.Be(c.ended() < 0, "a stream ended")
	})
	return rate, float64(done.memory) / idleStreams
}
