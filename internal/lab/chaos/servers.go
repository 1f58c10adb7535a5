package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// serverFaults returns what a server behind the gateway can do wrong. Which of the two
// servers does it is drawn.
func serverFaults() (faults []*fault) {
	for _, b := range []struct {
		name, done string
		behaviour  upstream.Behaviour
	}{
		{"hangs", "calls are accepted and never answered", upstream.Hang},
		{"drips", "answers come one byte a second", upstream.Drip},
		{"answers garbage", "random bytes instead of answers", upstream.Garbage},
		{"answers too much", "answers of 1 GiB, and lists", upstream.Oversized},
		{"answers under wrong ids", "answers have an id that nobody used", upstream.WrongID},
		{"answers twice", "each answer comes twice", upstream.TwoAnswers},
		{"answers under ids of others", "answers have the id of another call in flight", upstream.OthersID},
		{"floods", "thousands of notifications before each answer", upstream.Flood},
		{"half-closes", "it stops in the middle of an answer and keeps the connection", upstream.HalfClose},
		{"resets", "connections are reset in the middle of answers", upstream.Reset},
		{"answers pages", "status 200 and HTML instead of an answer", upstream.HTML},
		{"has lists without end", "each page of a list names a next one", upstream.Endless},
	} {
		faults = append(faults, &fault{
			name: "a server " + b.name, done: b.done, ground: plain,
			holds: "all replicas are ready and serve the other server meanwhile",
			make: func(_ context.Context, s *scene) (effect, error) {
				s.servers[s.server].Behave(b.behaviour)
				return effect{seen: s.spares(), heal: does(func() {
					s.servers[s.server].Behave(upstream.Well)
				})}, nil
			},
		})
	}
	return append(faults,
		useless("answers in the wrong version", "answers of JSON-RPC 1.0", upstream.Version,
			"calls of it are refused (`DB-UPSTREAM-PROTOCOL`)", func(s *scene) func(context.Context) error {
				return s.refuses(s.victim, s.server, "DB-UPSTREAM-PROTOCOL")
			}),
		useless("answers bombs",
			"answers in gzip, which nobody has asked for, that inflate from 3 MB to 1 GiB, and lists",
			upstream.Bomb,
			"a replica never has 256 MiB in memory, and calls of it are refused (`DB-UPSTREAM-PROTOCOL`, or `DB-UPSTREAM-DOWN` once it has asked for the lists)", func(s *scene) func(context.Context) error {
				return s.refuses(s.victim, s.server, "DB-UPSTREAM-PROTOCOL", "DB-UPSTREAM-DOWN")
			}),
		useless("has a million tools", "a list of a million tools on one page", upstream.Crowded,
			"a replica never has 256 MiB in memory, and `/readyz` says that the list is too large",
			func(s *scene) func(context.Context) error {
				return s.leavesOut("too large")
			}),
		useless("has ten thousand pages", "a list of ten thousand pages, each with a cursor of its own",
			upstream.Pages, "`/readyz` says that there are more pages than the 1,000 that are read",
			func(s *scene) func(context.Context) error {
				return s.leavesOut("more than 1000 pages")
			}),
		crashing(), crashLoop())
}

// useless is a fault of a server of which nothing can be used meanwhile. seen returns
// what must be seen of that.
func useless(name, done string, b upstream.Behaviour, holds string,
	seen func(s *scene) func(context.Context) error,
) *fault {
	return &fault{
		name: "a server " + name, done: done, ground: plain, holds: holds +
			"; all replicas are ready and serve the other server meanwhile",
		make: func(_ context.Context, s *scene) (effect, error) {
			small, err := smallFromNow(s.victim)
			if err != nil {
				return effect{}, err
			}
			s.servers[s.server].Behave(b)
			return effect{seen: all(s.spares(), seen(s)), heal: does(func() {
				s.servers[s.server].Behave(upstream.Well)
			}), after: small}, nil
		},
	}
}

// leavesOut returns what is wrong when a replica does not say why it cannot read the list
// of the server.
func (s *scene) leavesOut(why string) func(context.Context) error {
	return s.judged(s.victim, s.server+" has a list with "+why, func(v view) bool {
		return slices.ContainsFunc(v.Warnings, func(warning string) bool {
			return strings.Contains(warning, s.server) && strings.Contains(warning, why)
		})
	})
}

// smallFromNow returns what is wrong when a replica had 256 MiB in memory at any time
// since.
func smallFromNow(r *world.Replica) (small func(context.Context) error, err error) {
	const most = 256 << 20 // bytes
	// https://man7.org/linux/man-pages/man5/proc_pid_clear_refs.5.html: the largest size
	// that there was is forgotten.
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", r.PID()), []byte("5"), 0); err != nil {
		return nil, err
	}
	return func(context.Context) error {
		peak, err := world.Field(r.PID(), "status", "VmHWM")
		return is(r.Name+" never had 256 MiB in memory", peak > 0 && peak < most, page.MiB(peak), err)
	}, nil
}

// spares returns what is wrong when a replica is not ready or does not serve the server
// that is well.
func (s *scene) spares() func(context.Context) error {
	return ofEach(s.fleet(), func(r *world.Replica) func(context.Context) error {
		return all(s.isReady(r), s.serves(r, s.spared))
	})
}

func crashing() *fault {
	return &fault{
		name:   "a server crashes",
		done:   "all its connections end, and new ones are refused; it comes back without its sessions",
		ground: plain,
		holds:  "calls of it are refused as not made, the other server is served meanwhile",
		make: func(_ context.Context, s *scene) (effect, error) {
			server := s.servers[s.server]
			server.Crash()
			return effect{
				seen: all(s.spares(), s.refuses(s.victim, s.server, "DB-UPSTREAM-DOWN")),
				heal: func(context.Context) error { return server.Revive() },
			}, nil
		},
	}
}

func crashLoop() *fault {
	return &fault{
		name: "a server crashes again and again",
		done: "it crashes five times, and comes back each time when a replica has noticed", ground: plain,
		holds: "the other server is served meanwhile",
		make: func(ctx context.Context, s *scene) (effect, error) {
			server := s.servers[s.server]
			for range 5 {
				server.Crash()
				if err := until(ctx, s.refuses(s.victim, s.server, "DB-UPSTREAM-DOWN",
					"DB-UPSTREAM-LOST")); err != nil {
					return effect{}, err
				}
				if err := server.Revive(); err != nil {
					return effect{}, err
				}
			}
			return effect{seen: s.spares()}, nil
		},
	}
}
