package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// watchedFaults returns what may happen to a master, its replica and the sentinel that
// watches them.
func watchedFaults() []*fault {
	return []*fault{
		behind(),
		failover("the master of Redis is killed",
			"the sentinel makes the other server master; the one that was killed comes back as its replica",
			func(s *world.Store, _ context.Context) error { s.Kill(); return nil }, (*world.Store).Begin),
		failover("the master of Redis freezes",
			"SIGSTOP until the sentinel has made the other server master, then SIGCONT",
			func(s *world.Store, _ context.Context) error { return s.Freeze() }, func(s *world.Store,
				_ context.Context,
			) error {
				return s.Thaw()
			}),
		{
			name: "the sentinel is killed", done: "it is killed, and started again", ground: watched,
			holds: "replicas stay ready and go on with the master that they know; Redis is up",
			make: func(_ context.Context, s *scene) (effect, error) {
				s.Redis.Sentinel.Kill()
				return effect{seen: all(s.sayRedis("up"), s.goOn()), heal: s.Redis.Sentinel.Begin}, nil
			},
		},
	}
}

// behind is a failover to a copy that has not heard of the last sessions that were taken
// over, and so has their former epochs.
func behind() *fault {
	return &fault{
		name: "a failover loses the newest epochs", ground: watched, weak: true, spares: keyedTwice, patience: 2 * silence,
		done: "a replica that leads 40 sessions is frozen, the copy of Redis gets nothing any more, the others take the sessions over, " +
			"the master is killed, and the replica goes on once the copy is the master",
		holds: "each session goes on at every replica" + forgets,
		make: func(ctx context.Context, s *scene) (effect, error) {
			open := make([]string, 40)
			if err := amongMany(len(open), func(i int) (err error) {
				open[i], err = s.open(ctx, at(s.victim))
				return err
			}); err != nil {
				return effect{}, err
			}
			old, err := s.Redis.Master(ctx)
			if err != nil {
				return effect{}, err
			}
			following := s.Redis.Nodes[0]
			if following == old {
				following = s.Redis.Nodes[1]
			}
			if err := s.victim.Freeze(); err != nil {
				return effect{}, err
			}
			s.later(func(context.Context) error { return s.victim.Thaw() })
			world.Pause(ctx, 4*time.Second) // the lease of the replica lasts
			if err := follows(ctx, following, "nobody", old); err != nil {
				return effect{}, err
			}
			taken := amongMany(len(open), func(i int) error {
				said, err := s.within(ctx, at(s.others[i%2]), open[i], s.spared)
				return is("a call in a session is answered", said.ok(), said, err)
			})
			lacks := isBehind(ctx, following, old)
			old.Kill()
			changed := until(ctx, func(ctx context.Context) error {
				now, err := s.Redis.Master(ctx)
				return is("the copy is the master", now == following, now, err)
			})
			var known []func(context.Context) error
			for _, session := range open {
				known = append(known, s.knows(session))
			}
			return effect{
				seen: all(s.goOn(), s.sayRedis("up")),
				heal: func(ctx context.Context) error {
					return errors.Join(follows(ctx, following, ""), old.Begin(ctx))
				},
				after: all(known...),
			}, errors.Join(taken, lacks, changed, s.victim.Thaw())
		},
	}
}

// isBehind returns what is wrong when a copy of Redis has the newest epoch of all sessions
// at its master.
func isBehind(ctx context.Context, following, master *world.Store) error {
	const newest = `local newest = 0
for _, k in ipairs(redis.call('KEYS', 'db2:*:session:*')) do
  newest = math.max(newest, tonumber(redis.call('HGET', k, 'epoch')) or 0)
end
return string.format('%.0f', newest)`
	there, err := following.Exec(ctx, "EVAL", newest, "0")
	here, wrong := master.Exec(ctx, "EVAL", newest, "0")
	return is("the copy lacks the newest epoch", there != here, here, errors.Join(err, wrong))
}

// follows sets as whom a copy of Redis asks its master, which knows no user but "", and has
// masters end the connections of copies.
func follows(ctx context.Context, following *world.Store, user string, masters ...*world.Store) error {
	_, err := following.Exec(ctx, "CONFIG", "SET", "masteruser", user, "masterauth", user)
	for _, master := range masters {
		_, wrong := master.Exec(ctx, "CLIENT", "KILL", "TYPE", "replica")
		err = errors.Join(err, wrong)
	}
	return err
}

// failover is a fault of the master that ends when the other server is the master.
func failover(name, done string, begin, end func(*world.Store, context.Context) error) *fault {
	return &fault{
		name: name, done: done, ground: watched,
		holds: "replicas use the new master without a restart, stay ready and serve 2026-07-28 meanwhile" +
			forgets, spares: keyedTwice,
		make: func(ctx context.Context, s *scene) (effect, error) {
			old, err := s.Redis.Master(ctx)
			if err != nil {
				return effect{}, err
			}
			changed := func(ctx context.Context) error {
				now, err := s.Redis.Master(ctx)
				if err == nil && now == old {
					return errors.New("the master is still the same")
				}
				return err
			}
			return effect{
				seen: all(s.goOn(), changed, s.sayRedis("up")),
				heal: func(ctx context.Context) error { return end(old, ctx) },
			}, begin(old, ctx)
		},
	}
}

// clusterFaults returns what may happen to a cluster.
func clusterFaults() []*fault {
	return []*fault{
		{
			name: "slots of the cluster move",
			done: "all slots of tenants move to another node, one by one, with their keys", ground: clustered,
			holds: "replicas stay ready, Redis stays up",
			make: func(ctx context.Context, s *scene) (effect, error) {
				err := s.moveSlots(ctx)
				return effect{seen: all(s.sayRedis("up"), s.goOn())}, err
			},
		},
		{
			name: "a node of the cluster freezes", done: "SIGSTOP, SIGCONT", ground: clustered,
			holds: "replicas stay ready and serve 2026-07-28",
			make: func(_ context.Context, s *scene) (effect, error) {
				node := s.Redis.Nodes[s.draw.IntN(len(s.Redis.Nodes))]
				return effect{seen: s.goOn(), heal: func(context.Context) error { return node.Thaw() }},
					node.Freeze()
			},
		},
	}
}

// moveSlots moves the slot of each tenant to the next node that is not its own.
func (s *scene) moveSlots(ctx context.Context) error {
	ids := make([]string, len(s.Redis.Nodes))
	for i, n := range s.Redis.Nodes {
		id, err := n.Exec(ctx, "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		ids[i] = id
	}
	for _, tenant := range []string{crowd.TenantA, crowd.TenantB} { // the others have no keys
		slot, err := s.Redis.Nodes[0].Exec(ctx, "CLUSTER", "KEYSLOT", "{"+tenant+"}")
		if err != nil {
			return err
		}
		if err := s.moveSlot(ctx, strings.TrimPrefix(slot, "(integer) "), ids); err != nil {
			return fmt.Errorf("slot %s: %w", slot, err)
		}
	}
	return nil
}

// moveSlot moves one slot with its keys, as redis-cli does it.
// https://redis.io/docs/latest/commands/cluster-setslot/
func (s *scene) moveSlot(ctx context.Context, slot string, ids []string) error {
	nodes, owner := s.Redis.Nodes, -1
	for i, n := range nodes {
		shards, err := n.Exec(ctx, "CLUSTER", "COUNTKEYSINSLOT", slot)
		if err != nil {
			return err
		}
		if strings.TrimPrefix(shards, "(integer) ") != "0" {
			owner = i
		}
	}
	if owner < 0 {
		return errors.New("no node has keys of it")
	}
	target := (owner + 1) % len(nodes)
	if _, err := nodes[target].Exec(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[owner]); err != nil {
		return err
	}
	if _, err := nodes[owner].Exec(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target]); err != nil {
		return err
	}
	host, port, _ := strings.Cut(nodes[target].Address, ":")
	for {
		keys, err := nodes[owner].Exec(ctx, "CLUSTER", "GETKEYSINSLOT", slot, "100")
		if err != nil {
			return err
		}
		if keys == "" || keys == "(empty array)" {
			break
		}
		for key := range strings.Lines(keys) {
			if _, err := nodes[owner].Exec(ctx, "MIGRATE", host, port, strings.TrimSpace(key), "0",
				"5000"); err != nil {
				return err
			}
		}
	}
	for _, n := range []*world.Store{nodes[target], nodes[owner], nodes[(owner+2)%len(nodes)]} {
		if _, err := n.Exec(ctx, "CLUSTER", "SETSLOT", slot, "NODE", ids[target]); err != nil {
			return err
		}
	}
	return nil
}
