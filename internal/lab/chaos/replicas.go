package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// replicaFaults returns what may happen to replicas. The load balancer reaches them
// without proxies, so that it sees what it would see in production.
func replicaFaults() []*fault {
	return append(killings(), stoppings()...)
}

// killings are ends without a word.
func killings() []*fault {
	return []*fault{
		{
			name: "a replica is killed", done: "SIGKILL, then it is started again", ground: direct,
			holds:      "the others serve meanwhile, and every caller of what was in flight knows",
			unrecorded: true,
			make: func(_ context.Context, s *scene) (effect, error) {
				s.victim.Kill()
				return effect{seen: s.othersServe(), heal: s.victim.Start}, nil
			},
		},
		{
			name: "two replicas are killed at once", done: "SIGKILL of two, then they are started again",
			ground: direct,
			holds:  "the last one serves meanwhile", unrecorded: true,
			make: func(_ context.Context, s *scene) (effect, error) {
				killed, left := []*world.Replica{s.victim, s.others[0]}, s.others[1]
				for _, r := range killed {
					r.Kill()
				}
				return effect{seen: s.servesAll(left), heal: func(ctx context.Context) error {
					return each(killed, func(r *world.Replica) error { return r.Start(ctx) })
				}}, nil
			},
		},
		{
			name: "a replica is killed again and again", done: "SIGKILL as soon as it is ready, three times",
			ground: direct,
			holds:  "the others serve meanwhile", unrecorded: true,
			make: func(ctx context.Context, s *scene) (effect, error) {
				for range 2 {
					s.victim.Kill()
					if err := s.victim.Start(ctx); err != nil {
						return effect{}, err
					}
				}
				s.victim.Kill()
				return effect{seen: s.othersServe(), heal: s.victim.Start}, nil
			},
		},
		{
			name: "a replica freezes", done: "SIGSTOP, then SIGCONT", ground: plain,
			holds: "the others serve meanwhile, and the replica goes on without a restart",
			make: func(_ context.Context, s *scene) (effect, error) {
				return effect{
					seen: s.othersServe(),
					heal: func(context.Context) error { return s.victim.Thaw() },
				}, s.victim.Freeze()
			},
		},
		frozen("ten seconds", 10*time.Second),
		frozen("two minutes", 2*time.Minute),
		{
			name: "replicas have a tenth of a processor",
			done: "all run for 10 of each 100 ms, by SIGSTOP and SIGCONT, for 20 s", ground: direct,
			holds: "all stay ready, use Redis, and serve 2026-07-28 meanwhile",
			make: func(ctx context.Context, s *scene) (effect, error) {
				running := func(is func(*world.Replica) error) error { return inTurn(s.fleet(), is) }
				end := again(ctx, 10*time.Millisecond, func(ctx context.Context) error {
					err := running((*world.Replica).Freeze)
					world.Pause(ctx, 90*time.Millisecond)
					return errors.Join(err, running((*world.Replica).Thaw))
				})
				world.Pause(ctx, 20*time.Second)
				return effect{seen: all(s.sayRedis("up"), s.goOn()), heal: end}, ctx.Err()
			},
		},
	}
}

// frozen has a replica freeze for longer than the others wait for it.
func frozen(name string, lasts time.Duration) *fault {
	return &fault{
		name: "a replica freezes for " + name,
		done: "SIGSTOP, and SIGCONT when the others have taken its sessions over", ground: plain,
		holds: "the others serve meanwhile, and the replica goes on without a restart; calls that it had in work may end " +
			"without progress, and not be cancelled at their servers",
		patience: silence + lasts,
		spares:   func(v *ledger.Verdict) int { return v.Unstreamed },
		make: func(ctx context.Context, s *scene) (effect, error) {
			if err := s.victim.Freeze(); err != nil {
				return effect{}, err
			}
			world.Pause(ctx, lasts)
			return effect{
				seen: s.othersServe(),
				heal: func(context.Context) error { return s.victim.Thaw() },
			}, ctx.Err()
		},
	}
}

// stoppings are ends and beginnings with all that belongs to them.
func stoppings() []*fault {
	return []*fault{
		{
			name: "a replica is stopped", done: "SIGTERM, then it is started again", ground: direct,
			holds: "exit code 0",
			make: func(ctx context.Context, s *scene) (effect, error) {
				err := s.stopClean(ctx, s.victim)
				return effect{seen: s.othersServe(), heal: s.victim.Start}, err
			},
		},
		{
			name: "all replicas but one are stopped",
			done: "SIGTERM to two at once, then they are started again", ground: direct,
			holds: "exit code 0 of both, and the last one serves meanwhile",
			make: func(ctx context.Context, s *scene) (effect, error) {
				err := each(s.others, func(r *world.Replica) error { return s.stopClean(ctx, r) })
				return effect{
					seen: s.servesAll(s.victim),
					heal: func(ctx context.Context) error {
						return each(s.others, func(r *world.Replica) error { return r.Start(ctx) })
					},
				}, err
			},
		},
		{
			name: "a replica is killed while it stops", done: "SIGTERM, and SIGKILL when it is draining",
			ground: direct,
			holds:  "the others serve meanwhile", unrecorded: true,
			make: func(ctx context.Context, s *scene) (effect, error) {
				stopped := make(chan struct{})
				dying, kill := context.WithCancel(ctx)
				defer kill()
				go func() {
					defer close(stopped)
					_, _ = s.victim.Stop(dying) // it is killed, as was asked
				}()
				err := until(ctx, s.judged(s.victim, "it is draining",
					func(v view) bool { return v.Draining }))
				kill()
				<-stopped
				return effect{seen: s.othersServe(), heal: s.victim.Start}, err
			},
		},
		{
			name: "a replica joins", done: "a stopped replica is started while the others run",
			ground: direct,
			holds:  "until it serves, no request of any client is refused, and no connection breaks but by its client",
			before: func(ctx context.Context, s *scene) error { return s.stopClean(ctx, s.victim) },
			make: func(ctx context.Context, s *scene) (effect, error) {
				err := s.victim.Start(ctx)
				return effect{seen: s.servesAll(s.victim), after: s.untroubled}, err
			},
		},
		{
			name: "a replica dies while Redis is gone",
			done: "Redis is killed, then a replica; both are started again", ground: direct, weak: true,
			holds: "the others serve 2026-07-28 meanwhile" + forgets, spares: keyedTwice, unrecorded: true,
			make: func(_ context.Context, s *scene) (effect, error) {
				s.Redis.Nodes[0].Kill()
				s.victim.Kill()
				return effect{seen: s.othersServe(), heal: func(ctx context.Context) error {
					if err := s.Redis.Nodes[0].Begin(ctx); err != nil {
						return err
					}
					return s.victim.Start(ctx)
				}}, nil
			},
		},
	}
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

// each does something with several replicas at once.
func each(replicas []*world.Replica, do func(r *world.Replica) error) (first error) {
	wrong := make([]error, len(replicas))
	var working sync.WaitGroup
	for i, r := range replicas {
		working.Go(func() { wrong[i] = do(r) })
	}
	working.Wait()
	for _, err := range wrong {
		if err != nil {
			return err
		}
	}
	return nil
}
