package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// all joins steps into one, which ends at the first error. Some may be nil.
func all(steps ...step) step {
	return func(ctx context.Context, s *scene) {
		for _, do := range steps {
			if do != nil {
				do(ctx, s)
			}
		}
	}
}

// times does steps again and again.
func times(n int, steps ...step) step { return all(slices.Repeat(steps, n)...) }

// pause does nothing for a while.
func pause(d time.Duration) step {
	return func(ctx context.Context, _ *scene) {
		world.Pause(ctx, d)
		must.OK(ctx.Err())
	}
}

// soon asks until the answer is nil, as long as anything may take.
func soon(wrong step) step {
	return func(ctx context.Context, s *scene) {
		until(ctx, func(ctx context.Context) {
			wrong(ctx, s)
		})
	}
}

// busy waits until the crowd has asked some more calls.
func busy(calls int) step {
	return func(ctx context.Context, s *scene) {
		before := s.crowd.Deeds().Calls
		until(ctx, func(context.Context) {
			asked := s.crowd.Deeds().Calls - before
			is(fmt.Sprintf("the crowd asks %d calls", calls), asked >= int64(calls), asked)
		})
	}
}

// meanwhile does something again and again until the fault heals, which fails if that
// did.
func meanwhile(every time.Duration, do step) step {
	return func(ctx context.Context, s *scene) {
		pausing, stop := context.WithCancel(ctx)
		wrong := make(chan error, 1)
		go func() { // heal waits for it
			wrong <- must.Try(func() {
				for world.Pause(pausing, every) {
					do(ctx, s)
				}
			})
		}()
		s.heals(func(context.Context, *scene) {
			stop()
			must.OK(<-wrong)
		})
	}
}

// forRound does something now, and something else when the round is over.
func forRound(now, then step) step {
	return func(ctx context.Context, s *scene) {
		s.later(then)
		now(ctx, s)
	}
}

// restarts starts the victim anew with what change gives to its next process.
func restarts(change func(ctx context.Context, r *world.Replica)) step {
	return func(ctx context.Context, s *scene) {
		s.restarted(ctx, s.victim, func() { change(ctx, s.victim) })
	}
}

// about is a step that concerns one replica.
type about func(ctx context.Context, s *scene, r *world.Replica)

// some are the replicas that a step is about.
type some func(s *scene) []*world.Replica

func victim(s *scene) []*world.Replica { return []*world.Replica{s.victim} }

func others(s *scene) []*world.Replica { return s.others }

func fleet(s *scene) []*world.Replica { return s.fleet() }

// two are the victim and the first of the others.
func two(s *scene) []*world.Replica { return []*world.Replica{s.victim, s.others[0]} }

// last is the one that is not among two.
func last(s *scene) []*world.Replica { return s.others[1:] }

// of does all about one replica after the other.
func of(replicas some, each ...about) step {
	return func(ctx context.Context, s *scene) {
		for _, r := range replicas(s) {
			for _, do := range each {
				do(ctx, s, r)
			}
		}
	}
}

// atOnce does something about several replicas at once.
func atOnce(replicas some, do about) step {
	return func(ctx context.Context, s *scene) {
		each(replicas(s), func(r *world.Replica) {
			do(ctx, s, r)
		})
	}
}

// each does something with several replicas at once.
func each(replicas []*world.Replica, do func(r *world.Replica)) {
	amongMany(len(replicas), func(i int) {
		do(replicas[i])
	})
}

// amongMany does something so many times, as many at once as clients may.
func amongMany(times int, do func(i int)) { must.AtOnce(times, 64, do) }

func kill(_ context.Context, _ *scene, r *world.Replica) {
	r.Kill()
}

func freeze(_ context.Context, _ *scene, r *world.Replica) {
	r.Freeze()
}

func thaw(_ context.Context, _ *scene, r *world.Replica) {
	r.Thaw()
}

func start(ctx context.Context, _ *scene, r *world.Replica) {
	r.Start(ctx)
}

func launch(ctx context.Context, _ *scene, r *world.Replica) {
	r.Launch(ctx)
}

// stopped stops a replica, which must end as it should.
func stopped(ctx context.Context, s *scene, r *world.Replica) {
	s.stopClean(ctx, r)
}

// renewed stops a replica and starts it again.
func renewed(ctx context.Context, s *scene, r *world.Replica) {
	s.restarted(ctx, r, func() {})
}

// restarted stops a replica, lets change what the next process has, and starts it.
func (s *scene) restarted(ctx context.Context, r *world.Replica, change func()) {
	s.stopClean(ctx, r)
	change()
	world.For(ctx, patience, r.Start)
}

// stopClean stops a replica, and fails if it does not end as it should.
func (s *scene) stopClean(ctx context.Context, r *world.Replica) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	code, err := r.Stop(ctx)
	if err != nil || code != 0 {
		log := strings.Split(strings.TrimSpace(r.Words()), "\n")
		panic(fmt.Errorf("%s ended with %d, %w; its log ends with %q", r.Name, code, err,
			log[max(0, len(log)-3):]))
	}
}

// opens opens a session at a replica, which knows and others ask about.
func opens(ctx context.Context, s *scene, r *world.Replica) {
	s.session = s.open(ctx, r)
}

// opensMany opens sessions at the victim.
func opensMany(n int) step {
	return func(ctx context.Context, s *scene) {
		s.sessions = make([]string, n)
		amongMany(n, func(i int) {
			s.sessions[i] = s.open(ctx, s.victim)
		})
	}
}

// The servers that questions are about.
func met(s *scene) string    { return s.server }
func spared(s *scene) string { return s.spared }
func old(*scene) string      { return crowd.Legacy }

// serves asks whether a replica answers a call of a server.
func serves(server func(*scene) string) about {
	return func(ctx context.Context, s *scene, r *world.Replica) {
		said := s.touch(ctx, r, server(s))
		is(r.Name+" serves "+server(s), said.ok(), said)
	}
}

// servesAll asks whether a replica serves both servers.
func servesAll(ctx context.Context, s *scene, r *world.Replica) {
	serves(met)(ctx, s, r)
	serves(spared)(ctx, s, r)
}

// refuses asks whether a replica refuses a call of the server that the fault meets with
// one of the codes.
func refuses(codes ...string) about {
	return func(ctx context.Context, s *scene, r *world.Replica) {
		said := s.touch(ctx, r, s.server)
		is(fmt.Sprintf("%s refuses %s with one of %v", r.Name, s.server, codes),
			slices.Contains(codes, said.code), said)
	}
}

// judged asks whether what /readyz of a replica says is so.
func judged(what string, so func(v view) bool) about {
	return func(ctx context.Context, _ *scene, r *world.Replica) {
		v := readyz(ctx, r)
		is(r.Name+" says that "+what, so(v), v)
	}
}

// warns asks whether a replica that is ready warns of something in these words.
func warns(words ...string) about {
	return judged(strings.Join(words, ", "), func(v view) bool {
		return v.Ready && slices.ContainsFunc(v.Warnings, func(warning string) bool {
			return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(warning, word) })
		})
	})
}

// Questions about one replica: whether /readyz is 200, and whether it says that Redis is
// not well.
var (
	isReady = judged("it is ready", func(v view) bool { return v.Ready && v.status == http.StatusOK })

	missesRedis = judged("Redis is not well", func(v view) bool { return v.Redis != "up" && v.Redis != "" })
)

// saysRedis asks whether all replicas say that Redis is in one of the states.
func saysRedis(states ...string) step {
	return of(fleet, judged(fmt.Sprintf("Redis is one of %v", states),
		func(v view) bool { return slices.Contains(states, v.Redis) }))
}

// runs asks whether a replica runs, or has ended.
func runs(so bool) about {
	return func(_ context.Context, _ *scene, r *world.Replica) {
		is(fmt.Sprintf("%s runs: %t", r.Name, so), r.Runs() == so, !so)
	}
}

// measures asks whether a metric of a replica lies between two values.
func measures(least, most float64, name string) about {
	return func(ctx context.Context, _ *scene, r *world.Replica) {
		value := r.Metric(ctx, name)
		is(fmt.Sprintf("%s of %s is %v to %v", name, r.Name, least, most),
			value >= least && value <= most, value)
	}
}

// knows asks whether the session goes on at a replica.
func knows(ctx context.Context, s *scene, r *world.Replica) {
	s.goesOn(ctx, r, s.session, s.spared)
}

// goesOn fails if a call in a session is not answered at a replica.
func (s *scene) goesOn(ctx context.Context, r *world.Replica, session, server string) {
	said := s.within(ctx, r, session, server)
	is("the session goes on at "+r.Name, said.ok(), said)
}

// Questions about several replicas: whether all are ready and serve both servers, or the
// one that is spared; whether those that the fault does not meet serve both; and whether
// the session goes on everywhere.
var (
	goOn        = of(fleet, isReady, servesAll)      //nolint:gochecknoglobals // a constant
	restServes  = of(fleet, isReady, serves(spared)) //nolint:gochecknoglobals // as above
	othersServe = of(others, servesAll)              //nolint:gochecknoglobals // as above
	known       = of(fleet, knows)                   //nolint:gochecknoglobals // as above
)

// untroubled returns an error if a request of the crowd met something that no client
// meets while all replicas go on.
func untroubled(_ context.Context, s *scene) {
	troubles := s.crowd.Troubles()
	is("no request of the crowd met any trouble", len(troubles) == 0, troubles)
}

// rewrites changes the config of a replica until the round is over.
func rewrites(change func(config string) string) about {
	return func(ctx context.Context, s *scene, r *world.Replica) {
		s.rewrite(ctx, r, change, s.later)
	}
}

// rewrite changes the config of a replica, and has it changed back by what is given to
// undo.
func (s *scene) rewrite(ctx context.Context, r *world.Replica, change func(config string) string,
	undo func(step),
) {
	before := ""
	undo(func(ctx context.Context, _ *scene) {
		world.For(ctx, patience, func(ctx context.Context) {
			r.Rewrite(ctx, func(string) string { return before })
		})
	})
	r.Rewrite(ctx, func(config string) string {
		before = config
		return change(config)
	})
}

// instead puts a text into a config in the place of another, which must be there: a fault
// that changes nothing is none.
func instead(of, now string) func(config string) string {
	return func(config string) string {
		must.Be(strings.Contains(config, of), "the config has no %q", of)
		return strings.Replace(config, of, now, 1)
	}
}

// below puts a text into a config below the key of a section.
func below(section, text string) func(config string) string {
	section = "\n" + section + ":\n"
	return instead(section, section+"  "+text+"\n")
}
