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
	const balancer, redis, unaided = "balancer", "redis", "; all goes on without a restart"
	cutOff := func(name, holds string, seen step, parts ...string) *fault {
		return &fault{
			name: "a replica is cut off from " + name, done: "packets between them are dropped",
			weak: slices.Contains(parts, redis), holds: holds + unaided,
			make: of(victim, loses(world.AllLost, parts...)), seen: all(seen, othersServe),
		}
	}
	apart := func(name, done string, which world.Loss) *fault {
		return &fault{
			name: "a replica " + name, done: done + ", while Redis is well",
			holds: "all are ready, and serve 2026-07-28 meanwhile" + unaided,
			make: func(ctx context.Context, s *scene) {
				of(victim, loses(which, s.others[0].Name, s.others[1].Name))(ctx, s)
			},
			seen: all(of(victim, isReady, servesAll), othersServe),
		}
	}
	faults := []*fault{
		cutOff("Redis", "the replica is ready, notices, and serves 2026-07-28 meanwhile",
			of(victim, missesRedis, isReady, servesAll), redis),
		cutOff("a server", "the replica serves the other server meanwhile", of(victim, serves(old)), crowd.Modern),
		cutOff("the load balancer", "the other replicas serve meanwhile", nil, balancer),
		cutOff("everything", "the other replicas serve meanwhile", nil, redis, crowd.Modern, crowd.Legacy, balancer),
		{
			name: "all replicas are cut off from Redis", done: "packets between each of them and Redis " +
				"are dropped",
			weak: true, holds: "all are ready, notice, and serve 2026-07-28 meanwhile" + unaided,
			make: of(fleet, loses(world.AllLost, redis)), seen: all(goOn, of(fleet, missesRedis)),
		},
		apart("is cut off from the other replicas", "packets between it and each of them are dropped",
			world.AllLost),
		apart("is not heard by the other replicas", "packets from it to each of them are dropped",
			world.SentLost),
		apart("does not hear the other replicas", "packets from each of them to it are dropped",
			world.HeardLost),
		apart("loses packets from and to the other replicas", "three of ten packets between them are dropped",
			world.SomeLost),
	}
	for _, f := range faults {
		f.ground, f.root = spaces, true
		f.heal = func(_ context.Context, s *scene) {
			s.Rejoin()
		}
	}
	return faults
}

// loses has packets between a replica and some parts lost, of which some must come while
// it lasts.
func loses(which world.Loss, parts ...string) about {
	return func(_ context.Context, s *scene, r *world.Replica) {
		for _, part := range parts {
			s.Drop(r.Name, part, which)
		}
		s.seeing(func(ctx context.Context, s *scene) {
			is("packets of "+r.Name+" are dropped", s.Dropped(ctx, r.Name) > 0, parts)
		})
	}
}
