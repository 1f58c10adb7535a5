package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

var (
	watched   = ground{redis: "watched"} //nolint:gochecknoglobals // a constant
	clustered = ground{redis: "cluster"} //nolint:gochecknoglobals // as above
)

// redisFaults returns what may happen to Redis.
func redisFaults() []*fault {
	faults := slices.Concat([]*fault{
		redisLost("Redis is killed and begins empty",
			"it is killed and started again, and keeps nothing on disk", killed),
		redisLost("Redis is killed again and again", "it is killed and started three times", killedAgain),
		redisGone("Redis freezes", "its process is stopped with SIGSTOP, its connections stay open",
			(*world.Store).Freeze, (*world.Store).Thaw),
		redisAbsent("Redis is not there when a replica starts", "Redis killed",
			func(s *world.Store) error { s.Kill(); return nil }, func(ctx context.Context, s *world.Store) error { return s.Begin(ctx) }),
		redisAbsent("a rollout while Redis is frozen", "Redis stopped with SIGSTOP", (*world.Store).Freeze,
			func(_ context.Context, s *world.Store) error { return s.Thaw() }),
		redisSays("Redis is full", "CONFIG SET maxmemory 1", "full", []string{
			"CONFIG", "SET", "maxmemory",
			"1",
		}, []string{"CONFIG", "SET", "maxmemory", "0"}),
		redisSays("Redis is read-only", "it becomes a replica of a server that is not there", "readonly",
			[]string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"}),
		redisSays("Redis has too few replicas", "CONFIG SET min-replicas-to-write 1", "readonly",
			[]string{"CONFIG", "SET", "min-replicas-to-write", "1"}, []string{
				"CONFIG", "SET",
				"min-replicas-to-write", "0",
			}),
		redisSays("Redis pauses", "CLIENT PAUSE 60000 WRITE", "slow", []string{
			"CLIENT", "PAUSE", "60000",
			"WRITE",
		}, []string{"CLIENT", "UNPAUSE"}),
		flushed(),
		spoiled("Redis has values of other types",
			"each key that does not hold a number becomes a list, those of streams a text", wrongTypes),
		spoiled("Redis has junk", "each text, field and entry is replaced by other bytes", junk),
		hurried("Redis ends all connections", "CLIENT KILL of all connections, twenty times",
			[]string{"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"}),
		hurried("Redis forgets all scripts", "SCRIPT FLUSH, twenty times", []string{"SCRIPT", "FLUSH"}),
	}, watchedFaults(), clusterFaults())
	for _, f := range faults {
		f.weak = true
	}
	return faults
}

// legacyMeets opens a session at the victim, and returns what is wrong when another
// replica, which has not seen it, does not have its primary answer.
func (s *scene) legacyMeets(ctx context.Context) (meets func(context.Context) error, err error) {
	session, err := s.open(ctx, at(s.victim))
	if err != nil {
		return nil, err
	}
	other := s.others[0]
	return func(ctx context.Context) error {
		said, err := s.within(ctx, at(other), session, s.spared)
		return is(other.Name+" has the primary answer to a session that it has not seen",
			said.status == http.StatusOK, said, err)
	}, nil
}

// goOn returns what is wrong when a replica is not ready, or does not serve calls of
// 2026-07-28.
func (s *scene) goOn() func(context.Context) error {
	return ofEach(s.fleet(), func(r *world.Replica) func(context.Context) error {
		return all(s.isReady(r), s.servesAll(r))
	})
}

// sayRedis returns what is wrong when a replica does not say that Redis is in one of the
// states.
func (s *scene) sayRedis(states ...string) func(context.Context) error {
	return ofEach(s.fleet(), func(r *world.Replica) func(context.Context) error {
		return s.judged(r, fmt.Sprintf("Redis is one of %v", states),
			func(v view) bool { return slices.Contains(states, v.Redis) })
	})
}

// redisGone is a fault in which Redis is gone and comes back as it was.
func redisGone(name, done string, begin, end func(*world.Store) error) *fault {
	return &fault{
		name: name, done: done, ground: plain,
		holds: "replicas stay ready and serve 2026-07-28; a session goes on at its primary, whichever replica its requests reach",
		make: func(ctx context.Context, s *scene) (effect, error) {
			meets, err := s.legacyMeets(ctx)
			if err != nil {
				return effect{}, err
			}
			store := s.Redis.Nodes[0]
			return effect{
				seen:  all(s.sayRedis("slow", "unreachable"), s.goOn(), meets),
				heal:  func(context.Context) error { return end(store) },
				after: meets,
			}, begin(store)
		},
	}
}

// keyedTwice spares calls under an Idempotency-Key that were executed twice, because
// Redis forgot that they had been made. docs/once.md says so.
func keyedTwice(v *ledger.Verdict) int { return v.TwiceKeyed }

const forgets = "; calls under an Idempotency-Key that are sent again may run again, since Redis has forgotten them"

// redisLost is a fault in which Redis comes back and has lost everything.
func redisLost(name, done string, begin func(ctx context.Context, s *scene) error) *fault {
	return &fault{
		name: name, done: done, ground: plain,
		holds: "replicas stay ready and serve 2026-07-28; a session goes on at its primary, also when Redis is back without it" + forgets, spares: keyedTwice,
		make: func(ctx context.Context, s *scene) (effect, error) {
			meets, err := s.legacyMeets(ctx)
			if err != nil {
				return effect{}, err
			}
			return effect{
				seen:  all(s.sayRedis("unreachable"), s.goOn(), meets),
				heal:  func(ctx context.Context) error { return s.Redis.Nodes[0].Begin(ctx) },
				after: meets,
			}, begin(ctx, s)
		},
	}
}

func killed(_ context.Context, s *scene) error {
	s.Redis.Nodes[0].Kill()
	return nil
}

func killedAgain(ctx context.Context, s *scene) error {
	store := s.Redis.Nodes[0]
	for range 2 {
		store.Kill()
		if err := until(ctx, s.missesRedis(s.victim)); err != nil {
			return err
		}
		if err := store.Begin(ctx); err != nil {
			return err
		}
		world.Pause(ctx, pace)
	}
	store.Kill()
	return nil
}

// redisAbsent begins a rollout while Redis does not answer.
func redisAbsent(name, done string, begin func(*world.Store) error,
	end func(context.Context, *world.Store) error,
) *fault {
	return &fault{
		name: name, ground: direct, spares: keyedTwice,
		done: "a replica is stopped, " + done + ", the replica started; when Redis is back, the others are restarted, one after the other",
		holds: "the replica is not ready, says why, and becomes ready by itself when Redis is there; the others serve 2026-07-28 meanwhile" +
			forgets,
		make: func(ctx context.Context, s *scene) (effect, error) {
			if err := s.stopClean(ctx, s.victim); err != nil {
				return effect{}, err
			}
			store := s.Redis.Nodes[0]
			if err := begin(store); err != nil {
				return effect{}, err
			}
			notReady := s.judged(s.victim, "it is not ready, since Redis was not reached", func(v view) bool {
				return !v.Ready && v.status == http.StatusServiceUnavailable && v.Redis == "starting" &&
					len(v.Problems) > 0
			})
			err := s.victim.Launch(ctx)
			world.Pause(ctx, 2*lasts) // at first no replica is ready
			return effect{
				seen: all(notReady, s.othersServe()),
				heal: func(ctx context.Context) error {
					if err := end(ctx, store); err != nil {
						return err
					}
					if err := until(ctx, s.isReady(s.victim)); err != nil {
						return err
					}
					return s.rollOut(ctx, s.others)
				},
			}, err
		},
	}
}

// redisSays is a fault in which Redis answers that it cannot write.
func redisSays(name, done, state string, begin, end []string) *fault {
	return &fault{
		name: name, done: done, ground: plain,
		holds: "replicas name the state `" + state +
			"`, stay ready and serve 2026-07-28; sessions go on afterwards",
		make: func(ctx context.Context, s *scene) (effect, error) {
			meets, err := s.legacyMeets(ctx)
			if err != nil {
				return effect{}, err
			}
			_, err = s.Redis.Nodes[0].Exec(ctx, begin...)
			return effect{
				seen: all(s.sayRedis(state), s.goOn()),
				heal: func(ctx context.Context) error {
					_, err := s.Redis.Nodes[0].Exec(ctx, end...)
					return err
				},
				after: meets,
			}, err
		},
	}
}

// flushed empties Redis.
func flushed() *fault {
	return &fault{
		name: "Redis is emptied", done: "FLUSHALL", ground: plain,
		holds: "sessions from before go on at their primaries, which write their records again" +
			forgets, spares: keyedTwice,
		make: func(ctx context.Context, s *scene) (effect, error) {
			meets, err := s.legacyMeets(ctx)
			if err != nil {
				return effect{}, err
			}
			_, err = s.Redis.Nodes[0].Exec(ctx, "FLUSHALL")
			return effect{seen: all(meets, s.goOn())}, err
		},
	}
}

// Scripts that spoil what the gateway keeps.
const (
	wrongTypes = `for _, k in ipairs(redis.call('KEYS', 'db2:*')) do
  local t = redis.call('TYPE', k).ok
  redis.call('DEL', k)
  if t == 'string' then redis.call('RPUSH', k, 'junk') else redis.call('SET', k, 'junk') end
end return 'OK'`
	junk = `for _, k in ipairs(redis.call('KEYS', 'db2:*')) do
  local t = redis.call('TYPE', k).ok
  if t == 'string' then redis.call('SET', k, 'junk', 'KEEPTTL')
  elseif t == 'hash' then for _, f in ipairs(redis.call('HKEYS', k)) do redis.call('HSET', k, f, 'junk') end
  elseif t == 'set' then redis.call('SADD', k, 'junk')
  elseif t == 'zset' then redis.call('ZADD', k, 1e15, 'junk')
  elseif t == 'stream' then redis.call('XADD', k, '*', 'junk', 'junk') end
end return 'OK'`
)

// spoiled overwrites what the gateway keeps, three times, and empties Redis in the end.
func spoiled(name, done, script string) *fault {
	return &fault{
		name: name, done: done + "; then Redis is emptied", ground: plain,
		holds: "nothing that was written is believed, and when Redis was emptied all goes on" +
			forgets, spares: keyedTwice,
		make: func(ctx context.Context, s *scene) (effect, error) {
			for range 3 {
				if _, err := s.Redis.Nodes[0].Exec(ctx, "EVAL", script, "0"); err != nil {
					return effect{}, err
				}
				if err := s.busy(ctx, warm/4); err != nil {
					return effect{}, err
				}
			}
			return effect{heal: func(ctx context.Context) error {
				_, err := s.Redis.Nodes[0].Exec(ctx, "FLUSHALL")
				return err
			}, after: s.goOn()}, nil
		},
	}
}

// hurried runs a command again and again.
func hurried(name, done string, command []string) *fault {
	return &fault{
		name: name, done: done, ground: plain, holds: "replicas stay ready and serve 2026-07-28",
		make: func(ctx context.Context, s *scene) (effect, error) {
			for range 20 {
				if _, err := s.Redis.Nodes[0].Exec(ctx, command...); err != nil {
					return effect{}, err
				}
				world.Pause(ctx, 5*pace)
			}
			return effect{seen: s.goOn()}, nil
		},
	}
}
