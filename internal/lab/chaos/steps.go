package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// all joins steps into one, which ends at the first error. Some may be nil.
func all(steps ...step) step {
	return func(ctx context.Context, s *scene) error {
		for _, do := range steps {
			if do == nil {
				continue
			}
			if err := do(ctx, s); err != nil {
				return err
			}
		}
		return nil
	}
}

// times does steps again and again.
func times(n int, steps ...step) step { return all(slices.Repeat(steps, n)...) }

// pause does nothing for a while.
func pause(d time.Duration) step {
	return func(ctx context.Context, _ *scene) error {
		world.Pause(ctx, d)
		return ctx.Err()
	}
}

// soon asks until the answer is nil, as long as anything may take.
func soon(wrong step) step {
	return func(ctx context.Context, s *scene) error {
		return until(ctx, func(ctx context.Context) error { return wrong(ctx, s) })
	}
}

// busy waits until the crowd has asked some more calls.
func busy(calls int) step {
	return func(ctx context.Context, s *scene) error {
		before := s.crowd.Deeds().Calls
		return until(ctx, func(context.Context) error {
			asked := s.crowd.Deeds().Calls - before
			return is(fmt.Sprintf("the crowd asks %d calls", calls), asked >= int64(calls), asked, nil)
		})
	}
}

// meanwhile does something again and again until the fault heals, which fails if that did.
func meanwhile(every time.Duration, do step) step {
	return func(ctx context.Context, s *scene) error {
		pausing, stop := context.WithCancel(ctx)
		wrong := make(chan error, 1)
		go func() { // heal waits for it
			var err error
			for err == nil && world.Pause(pausing, every) {
				err = do(ctx, s)
			}
			wrong <- err
		}()
		s.heals(func(context.Context, *scene) error {
			stop()
			return <-wrong
		})
		return nil
	}
}

// about is a step that concerns one replica.
type about func(ctx context.Context, s *scene, r *world.Replica) error

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
	return func(ctx context.Context, s *scene) error {
		return inTurn(replicas(s), func(r *world.Replica) error {
			for _, do := range each {
				if err := do(ctx, s, r); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// atOnce does something about several replicas at once.
func atOnce(replicas some, do about) step {
	return func(ctx context.Context, s *scene) error {
		return each(replicas(s), func(r *world.Replica) error { return do(ctx, s, r) })
	}
}

// inTurn does something to one replica after the other, as long as it can.
func inTurn(all []*world.Replica, do func(r *world.Replica) error) error {
	for _, r := range all {
		if err := do(r); err != nil {
			return err
		}
	}
	return nil
}

// each does something with several replicas at once.
func each(replicas []*world.Replica, do func(r *world.Replica) error) error {
	return amongMany(len(replicas), func(i int) error { return do(replicas[i]) })
}

// amongMany does something so many times, as many at once as clients may.
func amongMany(times int, do func(i int) error) error {
	var all errgroup.Group
	all.SetLimit(64)
	for i := range times {
		all.Go(func() error { return do(i) })
	}
	return all.Wait()
}

func kill(_ context.Context, _ *scene, r *world.Replica) error {
	r.Kill()
	return nil
}

func freeze(_ context.Context, _ *scene, r *world.Replica) error { return r.Freeze() }

func thaw(_ context.Context, _ *scene, r *world.Replica) error { return r.Thaw() }

func start(ctx context.Context, _ *scene, r *world.Replica) error { return r.Start(ctx) }

func launch(ctx context.Context, _ *scene, r *world.Replica) error { return r.Launch(ctx) }

// stopped stops a replica, which must end as it should.
func stopped(ctx context.Context, s *scene, r *world.Replica) error { return s.stopClean(ctx, r) }

// renewed stops a replica and starts it again.
func renewed(ctx context.Context, s *scene, r *world.Replica) error { return s.restarted(ctx, r, nil) }

// restarted stops a replica, lets change what the next process has, and starts it.
func (s *scene) restarted(ctx context.Context, r *world.Replica, change func() error) error {
	err := s.stopClean(ctx, r)
	if err == nil && change != nil {
		err = change()
	}
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	return r.Start(ctx)
}

// stopClean stops a replica and returns what is wrong when it does not end as it should.
func (s *scene) stopClean(ctx context.Context, r *world.Replica) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	code, err := r.Stop(ctx)
	if err != nil || code != 0 {
		log := strings.Split(strings.TrimSpace(r.Log()), "\n")
		return fmt.Errorf("%s ended with %d, %w; its log ends with %q", r.Name, code, err,
			log[max(0, len(log)-3):])
	}
	return nil
}

// opens opens a session at a replica, which knows and others ask about.
func opens(ctx context.Context, s *scene, r *world.Replica) (err error) {
	s.session, err = s.open(ctx, at(r))
	return err
}

// opensMany opens sessions at the victim.
func opensMany(n int) step {
	return func(ctx context.Context, s *scene) error {
		s.sessions = make([]string, n)
		return amongMany(n, func(i int) (err error) {
			s.sessions[i], err = s.open(ctx, at(s.victim))
			return err
		})
	}
}

// The servers that questions are about.
func met(s *scene) string    { return s.server }
func spared(s *scene) string { return s.spared }
func old(*scene) string      { return crowd.Legacy }

// serves asks whether a replica answers a call of a server.
func serves(server func(*scene) string) about {
	return func(ctx context.Context, s *scene, r *world.Replica) error {
		said, err := s.touch(ctx, at(r), server(s))
		return is(r.Name+" serves "+server(s), said.ok(), said, err)
	}
}

// servesAll asks whether a replica serves both servers.
func servesAll(ctx context.Context, s *scene, r *world.Replica) error {
	return errors.Join(serves(met)(ctx, s, r), serves(spared)(ctx, s, r))
}

// refuses asks whether a replica refuses a call of the server that the fault meets with
// one of the codes.
func refuses(codes ...string) about {
	return func(ctx context.Context, s *scene, r *world.Replica) error {
		return s.refuses(ctx, r, s.server, codes...)
	}
}

// judged asks whether what /readyz of a replica says is so.
func judged(what string, so func(v view) bool) about {
	return func(ctx context.Context, s *scene, r *world.Replica) error {
		v, err := s.readyz(ctx, r)
		return is(r.Name+" says that "+what, err == nil && so(v), v, err)
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

// isReady asks whether /readyz of a replica is 200.
func isReady(ctx context.Context, s *scene, r *world.Replica) error {
	return judged("it is ready", func(v view) bool { return v.Ready && v.status == 200 })(ctx, s, r)
}

// missesRedis asks whether a replica says that Redis is not well.
func missesRedis(ctx context.Context, s *scene, r *world.Replica) error {
	return judged("Redis is not well", func(v view) bool { return v.Redis != "up" && v.Redis != "" })(ctx, s, r)
}

// saysRedis asks whether all replicas say that Redis is in one of the states.
func saysRedis(states ...string) step {
	return of(fleet, judged(fmt.Sprintf("Redis is one of %v", states),
		func(v view) bool { return slices.Contains(states, v.Redis) }))
}

// runs asks whether a replica runs, or has ended.
func runs(so bool) about {
	return func(_ context.Context, _ *scene, r *world.Replica) error {
		return is(fmt.Sprintf("%s runs: %t", r.Name, so), r.Runs() == so, !so, nil)
	}
}

// measures asks whether a metric of a replica lies between two values.
func measures(least, most float64, name string) about {
	return func(ctx context.Context, _ *scene, r *world.Replica) error {
		value, err := r.Metric(ctx, name)
		return is(fmt.Sprintf("%s of %s is %v to %v", name, r.Name, least, most),
			value >= least && value <= most, value, err)
	}
}

// knows asks whether the session goes on at a replica.
func knows(ctx context.Context, s *scene, r *world.Replica) error {
	return s.goesOn(ctx, r, s.session, s.spared)
}

// goesOn returns what is wrong when a call in a session is not answered at a replica.
func (s *scene) goesOn(ctx context.Context, r *world.Replica, session, server string) error {
	said, err := s.within(ctx, at(r), session, server)
	return is("the session goes on at "+r.Name, said.ok(), said, err)
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
func untroubled(_ context.Context, s *scene) error {
	troubles := s.crowd.Troubles()
	return is("no request of the crowd met any trouble", len(troubles) == 0, troubles, nil)
}

// rewrites changes the config of a replica until the round is over.
func rewrites(change func(config string) string) about {
	return func(ctx context.Context, s *scene, r *world.Replica) error {
		return s.rewrite(ctx, r, change, s.later)
	}
}

// rewrite changes the config of a replica, and has it changed back by what is given to undo.
func (s *scene) rewrite(ctx context.Context, r *world.Replica, change func(config string) string,
	undo func(step),
) error {
	before := ""
	undo(func(ctx context.Context, _ *scene) error {
		ctx, stop := context.WithTimeout(ctx, patience)
		defer stop()
		return r.Rewrite(ctx, func(string) string { return before })
	})
	return r.Rewrite(ctx, func(config string) string {
		before = config
		return change(config)
	})
}

// instead puts a text into a config in the place of another.
func instead(of, now string) func(config string) string {
	return func(config string) string { return strings.Replace(config, of, now, 1) }
}

// below puts a text into a config below the key of a section.
func below(section, text string) func(config string) string {
	section = "\n" + section + ":\n"
	return instead(section, section+"  "+text+"\n")
}
