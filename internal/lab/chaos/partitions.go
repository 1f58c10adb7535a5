package main

import (
	"context"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// partitionFaults returns the partitions of the network between namespaces: packets are
// dropped, so that nobody is told anything, and connections that are open seem to live
// on.
func partitionFaults() []*fault {
	const balancer, redis = "balancer", "redis"
	return []*fault{
		partition("Redis", "the replica is ready, notices, and serves 2026-07-28 meanwhile", []string{redis},
			func(s *scene) func(context.Context) error {
				return all(s.missesRedis(s.victim), s.isReady(s.victim), s.servesAll(s.victim))
			}),
		partition("a server", "the replica serves the other server meanwhile", []string{crowd.Modern},
			func(s *scene) func(context.Context) error { return s.serves(s.victim, crowd.Legacy) }),
		partition("the load balancer", "the other replicas serve meanwhile", []string{balancer},
			func(*scene) func(context.Context) error { return nil }),
		partition("everything", "the other replicas serve meanwhile",
			[]string{redis, crowd.Modern, crowd.Legacy, balancer},
			func(*scene) func(context.Context) error { return nil }),
		{
			name: "all replicas are cut off from Redis",
			done: "packets between each of them and Redis are dropped", ground: spaces, root: true,
			weak:  true,
			holds: "all are ready, notice, and serve 2026-07-28 meanwhile; all goes on without a restart",
			make: func(_ context.Context, s *scene) (effect, error) {
				return effect{
					seen: all(s.goOn(), ofEach(s.fleet(), s.missesRedis)),
					heal: func(context.Context) error { return s.Rejoin() },
				}, inTurn(s.fleet(), func(r *world.Replica) error { return s.Partition(r.Name, redis) })
			},
		},
		broken("is cut off from the other replicas", "packets between it and each of them are dropped",
			world.AllLost),
		broken("is not heard by the other replicas", "packets from it to each of them are dropped",
			world.SentLost),
		broken("loses packets from and to the other replicas", "three of ten packets between them are dropped",
			world.SomeLost),
	}
}

// broken hinders the links of one replica to the others.
func broken(name, done string, which world.Loss) *fault {
	return &fault{
		name: "a replica " + name, done: done + ", while Redis is well", ground: spaces, root: true,
		holds: "all are ready, and serve 2026-07-28 meanwhile; all goes on without a restart",
		make: func(_ context.Context, s *scene) (effect, error) {
			err := inTurn(s.others, func(r *world.Replica) error {
				return s.Drop(s.victim.Name, r.Name, which)
			})
			return effect{
				seen: all(s.isReady(s.victim), s.servesAll(s.victim), s.othersServe()),
				heal: func(context.Context) error { return s.Rejoin() },
			}, err
		},
	}
}

// partition cuts one replica off from some parts.
func partition(name, holds string, parts []string, seen func(s *scene) func(context.Context) error) *fault {
	return &fault{
		name: "a replica is cut off from " + name, done: "packets between them are dropped", ground: spaces,
		root: true, weak: slices.Contains(parts, "redis"),
		holds: holds + "; all goes on without a restart",
		make: func(_ context.Context, s *scene) (effect, error) {
			for _, part := range parts {
				if err := s.Partition(s.victim.Name, part); err != nil {
					return effect{}, err
				}
			}
			return effect{
				seen: all(seen(s), s.othersServe()),
				heal: func(context.Context) error { return s.Rejoin() },
			}, nil
		},
	}
}
