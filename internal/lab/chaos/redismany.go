package main

import (
	"context"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// watchedFaults returns what may happen to a master, its replica and the sentinel that
// watches them.
func watchedFaults() []*fault {
	return []*fault{
		{
			name: "a failover loses the newest epochs", ground: watched, weak: true, spares: keyedTwice,
			patience: 2 * silence,
			done: "a replica that leads 40 sessions is frozen, the copy of Redis gets nothing any more, " +
				"the others take the sessions over, " +
				"the master is killed, and the replica goes on once the copy is the master",
			holds: "each session goes on at every replica" + forgets,
			make:  all(opensMany(40), meetsMaster, fallsBehind), seen: all(goOn, saysRedis("up")),
			after: manyKnown,
		},
		failover("the master of Redis is killed",
			"the sentinel makes the other server master; the one that was killed comes back as its replica",
			killRedis, beginRedis),
		failover("the master of Redis freezes",
			"SIGSTOP until the sentinel has made the other server master, then SIGCONT", freezeRedis, thawRedis),
		{
			name: "the sentinel is killed", done: "it is killed, and started again", ground: watched,
			holds: "replicas stay ready and go on with the master that they know; Redis is up",
			make:  all(meetsSentinel, killRedis), seen: all(saysRedis("up"), goOn), heal: beginRedis,
		},
	}
}

// failover is a fault of the master that ends when the other server is the master.
func failover(name, done string, begin, end step) *fault {
	return &fault{
		name: name, done: done, ground: watched, spares: keyedTwice,
		holds: "replicas use the new master without a restart, stay ready and serve 2026-07-28 meanwhile" + forgets,
		make:  all(meetsMaster, begin), seen: all(goOn, failedOver, saysRedis("up")), heal: end,
	}
}

func meetsMaster(ctx context.Context, s *scene) {
	s.store = s.Redis.Master(ctx)
}

func meetsSentinel(_ context.Context, s *scene) {
	s.store = s.Redis.Sentinel
}

// failedOver fails if the server that the fault meets is still the master.
func failedOver(ctx context.Context, s *scene) {
	is("another server is the master", s.Redis.Master(ctx) != s.store, "the same")
}

// fallsBehind is a failover to a copy that has not heard of the last sessions that were
// taken over, and so has their former epochs.
func fallsBehind(ctx context.Context, s *scene) {
	following := page.Either(s.Redis.Nodes[0] == s.store, s.Redis.Nodes[1], s.Redis.Nodes[0])
	s.victim.Freeze()
	s.later(func(context.Context, *scene) {
		s.victim.Thaw()
	})
	world.Pause(ctx, 4*time.Second) // the lease of the replica lasts
	follows(ctx, following, "nobody", s.store)
	s.heals(func(ctx context.Context, s *scene) {
		follows(ctx, following, "")
		s.store.Begin(ctx)
	})
	amongMany(len(s.sessions), func(i int) {
		soon(func(ctx context.Context, s *scene) { // what was on its way to the frozen replica may be lost
			s.goesOn(ctx, s.others[i%2], s.sessions[i], s.spared)
		})(ctx, s)
	})
	isBehind(ctx, following, s.store)
	s.store.Kill()
	soon(failedOver)(ctx, s)
	s.victim.Thaw()
}

// manyKnown fails if one of the sessions does not go on somewhere.
func manyKnown(ctx context.Context, s *scene) {
	for _, r := range s.fleet() {
		for _, session := range s.sessions {
			s.goesOn(ctx, r, session, s.spared)
		}
	}
}

// isBehind fails if a copy of Redis has the newest epoch of all sessions
// at its master.
func isBehind(ctx context.Context, following, master *world.Store) {
	const newest = `local newest = 0
for _, k in ipairs(redis.call('KEYS', 'db2:*:session:*')) do
  newest = math.max(newest, tonumber(redis.call('HGET', k, 'epoch')) or 0)
end
return string.format('%.0f', newest)`
	there := following.Exec(ctx, "EVAL", newest, "0")
	here := master.Exec(ctx, "EVAL", newest, "0")
	is("the copy lacks the newest epoch", there != here, here)
}

// follows sets as whom a copy of Redis asks its master, which knows no user but "", and
// has masters end the connections of copies.
func follows(ctx context.Context, following *world.Store, user string, masters ...*world.Store) {
	following.Exec(ctx, "CONFIG", "SET", "masteruser", user, "masterauth", user)
	for _, master := range masters {
		master.Exec(ctx, "CLIENT", "KILL", "TYPE", "replica")
	}
}

// clusterFaults returns what may happen to a cluster.
func clusterFaults() []*fault {
	return []*fault{
		{
			name: "slots of the cluster move",
			done: "all slots of tenants move to another node, one by one, with their keys", ground: clustered,
			holds: "replicas stay ready, Redis stays up",
			make:  all(movesSlot(crowd.TenantA), movesSlot(crowd.TenantB)), // the other tenants have no keys
			seen:  all(saysRedis("up"), goOn),
		},
		{
			name: "a node of the cluster freezes", done: "SIGSTOP, SIGCONT", ground: clustered,
			holds: "replicas stay ready and serve 2026-07-28",
			make:  all(meetsNode, freezeRedis), seen: goOn, heal: thawRedis,
		},
	}
}

func meetsNode(_ context.Context, s *scene) {
	s.store = s.Redis.Nodes[s.draw.IntN(len(s.Redis.Nodes))]
}

// movesSlot moves the slot of a tenant with its keys to the next node.
func movesSlot(tenant string) step {
	return func(ctx context.Context, s *scene) { s.Redis.Move(ctx, "{"+tenant+"}") }
}
