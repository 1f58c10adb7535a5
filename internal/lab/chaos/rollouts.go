package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// rolloutFaults are troubles that last while each replica is stopped, started again and
// waited for until it is ready, one after the other.
func rolloutFaults() []*fault {
	return []*fault{
		rollout(fault{
			name: "the keys of an issuer are away", done: "its key server does not listen", before: withIssuer,
			holds: "no request meets any trouble: replicas that start have the keys from Redis",
			make: func(_ context.Context, s *scene) (effect, error) {
				s.issuer.close()
				return effect{
					seen: s.goOn(), heal: func(context.Context) error { return s.issuer.listen() },
					after: s.untroubled,
				}, nil
			},
		}),
		rollout(fault{
			name: "Redis jitters", done: "each 50 ms it is drawn how late its answers come, up to 300 ms",
			holds: "replicas become ready, use Redis, and serve 2026-07-28", weak: true,
			make: func(ctx context.Context, s *scene) (effect, error) {
				draw := rand.New(rand.NewPCG(s.seed, 1)) //nolint:gosec // a fault is no secret
				end := again(ctx, 50*time.Millisecond, func(context.Context) error {
					for _, r := range s.fleet() {
						r.Redis.Delay(time.Duration(draw.Int64N(int64(300 * time.Millisecond))))
					}
					return nil
				})
				return effect{seen: all(s.sayRedis("up"), s.goOn()), heal: all(end, does(func() {
					for _, r := range s.fleet() {
						r.Redis.Heal()
					}
				}))}, nil
			},
		}),
		rollout(fault{
			name: "Redis is emptied", done: "FLUSHALL, each second", weak: true, spares: keyedTwice,
			holds: "replicas become ready, use Redis, and serve 2026-07-28" + forgets,
			make: func(ctx context.Context, s *scene) (effect, error) {
				return effect{seen: all(s.sayRedis("up"), s.goOn()), heal: again(ctx, time.Second,
					func(ctx context.Context) error {
						_, err := s.Redis.Nodes[0].Exec(ctx, "FLUSHALL")
						return err
					})}, nil
			},
		}),
		rollout(fault{
			name: "the load balancer reloads", done: "HAProxy reads its config again, each second", behind: "haproxy",
			holds: "replicas become ready, and serve 2026-07-28",
			make: func(ctx context.Context, s *scene) (effect, error) {
				return effect{seen: s.goOn(), heal: again(ctx, time.Second,
					func(context.Context) error { return s.ReloadHAProxy() })}, nil
			},
		}),
		rollout(fault{
			name: "a server restarts", done: "it crashes and comes back after half a second, again and again",
			holds: "replicas become ready, and serve the other server",
			make: func(ctx context.Context, s *scene) (effect, error) {
				server := s.servers[s.server]
				return effect{seen: s.spares(), heal: again(ctx, time.Second, func(ctx context.Context) error {
					server.Crash()
					world.Pause(ctx, time.Second/2)
					return server.Revive()
				})}, nil
			},
		}),
	}
}

// rollout has replicas replaced while a fault lasts.
func rollout(f fault) *fault {
	begin := f.make
	f.name, f.ground = "a rollout while "+f.name, direct
	f.done += "; meanwhile each replica in turn: SIGTERM, exit 0, start, ready"
	f.make = func(ctx context.Context, s *scene) (effect, error) {
		lasting, err := begin(ctx, s)
		if err != nil {
			return effect{}, err
		}
		if err := s.rollOut(ctx, s.fleet()); err != nil {
			return effect{}, errors.Join(err, lasting.heal(ctx))
		}
		return lasting, nil
	}
	return &f
}

// rollOut replaces some replicas, one after the other.
func (s *scene) rollOut(ctx context.Context, some []*world.Replica) error {
	return inTurn(some, func(r *world.Replica) error {
		return s.restarted(ctx, r, func() error { return nil })
	})
}

// untroubled returns an error if a request of the crowd met something that no client
// meets while all replicas go on.
func (s *scene) untroubled(context.Context) error {
	met := s.crowd.Troubles()
	return is("no request of the crowd met any trouble", len(met) == 0, met, nil)
}

// again does something again and again until it is ended, which returns why it could not.
func again(ctx context.Context, pause time.Duration, do func(ctx context.Context) error,
) (end func(context.Context) error) {
	pausing, stop := context.WithCancel(ctx)
	wrong := make(chan error, 1)
	go func() { // end waits for it
		var err error
		for err == nil && world.Pause(pausing, pause) {
			err = do(ctx)
		}
		wrong <- err
	}()
	once := sync.OnceValue(func() error { stop(); return <-wrong })
	return func(context.Context) error { return once() }
}
