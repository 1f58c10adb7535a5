package main

import (
	"context"
	"fmt"
	"os"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// serverFaults returns what a server behind the gateway can do wrong. Which of the two
// servers does it is drawn.
func serverFaults() []*fault {
	const serve = "all replicas are ready and serve the other server meanwhile"
	protocol := refuses("DB-UPSTREAM-PROTOCOL")
	var faults []*fault
	for _, b := range []struct {
		name, done string
		behaviour  upstream.Behaviour
		holds      string // beside serve, where nothing of the server can be used
		seen       about
	}{
		{"hangs", "calls are accepted and never answered", upstream.Hang, "", nil},
		{"drips", "answers come one byte a second", upstream.Drip, "", nil},
		{"answers garbage", "random bytes instead of answers", upstream.Garbage, "", nil},
		{"answers too much", "answers of 1 GiB, and lists", upstream.Oversized, "", nil},
		{"answers under wrong ids", "answers have an id that nobody used", upstream.WrongID, "", nil},
		{"answers twice", "each answer comes twice", upstream.TwoAnswers, "", nil},
		{
			"answers under ids of others", "answers have the id of another call in flight",
			upstream.OthersID, "", nil,
		},
		{"floods", "thousands of notifications before each answer", upstream.Flood, "", nil},
		{
			"half-closes", "it stops in the middle of an answer and keeps the connection",
			upstream.HalfClose, "", nil,
		},
		{"resets", "connections are reset in the middle of answers", upstream.Reset, "", nil},
		{"answers pages", "status 200 and HTML instead of an answer", upstream.HTML, "", nil},
		{"has lists without end", "each page of a list names a next one", upstream.Endless, "", nil},
		{
			"answers in the wrong version", "answers of JSON-RPC 1.0", upstream.Version,
			"calls of it are refused (`DB-UPSTREAM-PROTOCOL`)", protocol,
		},
		{
			"answers bombs",
			"answers in gzip, which nobody has asked for, that inflate from 3 MB to 1 GiB, and lists", upstream.Bomb,
			"a replica never has 256 MiB in memory, and calls of it are refused (`DB-UPSTREAM-PROTOCOL`, " +
				"or `DB-UPSTREAM-DOWN` once it has asked for the lists)",
			refuses("DB-UPSTREAM-PROTOCOL", "DB-UPSTREAM-DOWN"),
		},
		{
			"has a million tools", "a list of a million tools on one page", upstream.Crowded,
			"a replica never has 256 MiB in memory, and `/readyz` says that the list is too large",
			leavesOut("too large"),
		},
		{
			"has ten thousand pages", "a list of ten thousand pages, each with a cursor of its own", upstream.Pages,
			"`/readyz` says that there are more pages than the 1,000 that are read",
			leavesOut("more than 1000 pages"),
		},
	} {
		f := &fault{
			name: "a server " + b.name, done: b.done, ground: plain, holds: serve,
			make: behave(b.behaviour), seen: restServes, heal: behave(upstream.Well),
		}
		if b.seen != nil {
			f.holds = b.holds + "; " + serve
			f.make, f.seen = all(of(victim, forgetPeak), f.make), all(restServes, of(victim, b.seen))
			f.after = of(victim, small)
		}
		faults = append(faults, f)
	}
	return append(faults, &fault{
		name:   "a server crashes",
		done:   "all its connections end, and new ones are refused; it comes back without its sessions",
		ground: plain, holds: "calls of it are refused as not made, the other server is served meanwhile",
		make: crash, seen: all(restServes, of(victim, refuses("DB-UPSTREAM-DOWN"))), heal: revive,
	}, &fault{
		name:   "a server crashes again and again",
		done:   "it crashes five times, and comes back each time when a replica has noticed",
		ground: plain, holds: "the other server is served meanwhile",
		make: times(5, crash, soon(of(victim, refuses("DB-UPSTREAM-DOWN", "DB-UPSTREAM-LOST"))), revive),
		seen: restServes,
	})
}

// behave makes the server do something from now on.
func behave(b upstream.Behaviour) step {
	return func(_ context.Context, s *scene) {
		s.servers[s.server].Behave(b)
	}
}

func crash(_ context.Context, s *scene) {
	s.servers[s.server].Crash()
}

func revive(_ context.Context, s *scene) {
	s.servers[s.server].Revive()
}

// leavesOut asks whether a replica says why it cannot read the list of the server.
func leavesOut(why string) about {
	return func(ctx context.Context, s *scene, r *world.Replica) {
		warns(s.server, why)(ctx, s, r)
	}
}

// forgetPeak has the kernel forget the largest size that a replica had.
// https://man7.org/linux/man-pages/man5/proc_pid_clear_refs.5.html
func forgetPeak(_ context.Context, _ *scene, r *world.Replica) {
	must.OK(os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", r.PID()), []byte("5"), 0))
}

// small asks whether a replica had no 256 MiB in memory at any time since forgetPeak.
func small(_ context.Context, _ *scene, r *world.Replica) {
	peak := must.Have(world.Field(r.PID(), "status", "VmHWM"))
	is(r.Name+" never had 256 MiB in memory", peak > 0 && peak < 256<<20, page.MiB(peak))
}
