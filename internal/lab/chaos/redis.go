package main

import (
	"context"
	"net/http"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
)

// Steps for the server of Redis that the fault meets.
func killRedis(_ context.Context, s *scene) {
	s.store.Kill()
}

func beginRedis(ctx context.Context, s *scene) {
	s.store.Begin(ctx)
}

func freezeRedis(_ context.Context, s *scene) {
	s.store.Freeze()
}

func thawRedis(_ context.Context, s *scene) {
	s.store.Thaw()
}

// redis runs a command.
func redis(command ...string) step {
	return func(ctx context.Context, s *scene) {
		s.store.Exec(ctx, command...)
	}
}

// redisFaults returns what may happen to Redis.
func redisFaults() []*fault {
	faults := slices.Concat([]*fault{
		redisLost("Redis is killed and begins empty",
			"it is killed and started again, and keeps nothing on disk", killRedis),
		redisLost("Redis is killed again and again", "it is killed and started three times",
			all(times(2, killRedis, soon(of(victim, missesRedis)), beginRedis, pause(pace)), killRedis)),
		{
			name: "Redis freezes", done: "its process is stopped with SIGSTOP, its connections stay open",
			ground: plain,
			holds: "replicas stay ready and serve 2026-07-28; a session goes on at its primary, " +
				"whichever replica its requests reach",
			make: all(of(victim, opens), freezeRedis), seen: all(saysRedis("slow", "unreachable"), goOn, forwarded),
			heal: thawRedis, after: forwarded,
		},
		redisAbsent("Redis is not there when a replica starts", "Redis killed", killRedis, beginRedis),
		redisAbsent("a rollout while Redis is frozen", "Redis stopped with SIGSTOP", freezeRedis, thawRedis),
		redisSays("Redis is full", "CONFIG SET maxmemory 1", "full", redis("CONFIG", "SET", "maxmemory", "1"),
			redis("CONFIG", "SET", "maxmemory", "0")),
		redisSays("Redis is read-only", "it becomes a replica of a server that is not there", "readonly",
			redis("REPLICAOF", "127.0.0.1", "1"), redis("REPLICAOF", "NO", "ONE")),
		redisSays("Redis has too few replicas", "CONFIG SET min-replicas-to-write 1", "readonly",
			redis("CONFIG", "SET", "min-replicas-to-write", "1"), redis("CONFIG", "SET", "min-replicas-to-write", "0")),
		redisSays("Redis pauses", "CLIENT PAUSE 60000 WRITE", "slow", redis("CLIENT", "PAUSE", "60000", "WRITE"),
			redis("CLIENT", "UNPAUSE")),
		{
			name: "Redis is emptied", done: "FLUSHALL", ground: plain,
			holds:  "sessions from before go on at their primaries, which write their records again" + forgets,
			spares: keyedTwice, make: all(of(victim, opens), redis("FLUSHALL")), seen: all(forwarded, goOn),
		},
		spoiled("Redis has values of other types",
			"each text becomes a list, and each key of another type a text", wrongTypes),
		spoiled("Redis has junk",
			"each text and field is replaced by other bytes, and sets and streams get an entry of them",
			junk),
		hurried("Redis ends all connections", "CLIENT KILL of all connections, twenty times",
			redis("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")),
		hurried("Redis forgets all scripts", "SCRIPT FLUSH, twenty times", redis("SCRIPT", "FLUSH")),
	}, watchedFaults(), clusterFaults())
	for _, f := range faults {
		f.weak = true
	}
	return faults
}

// forwarded fails if a replica that has not seen the session does not
// have its primary answer.
func forwarded(ctx context.Context, s *scene) {
	said := s.within(ctx, s.others[0], s.session, s.spared)
	is(s.others[0].Name+" has the primary answer to a session that it has not seen",
		said.status == http.StatusOK, said)
}

// keyedTwice spares calls under an Idempotency-Key that were executed twice, because
// Redis forgot that they had been made. docs/once.md says so.
func keyedTwice(v *ledger.Verdict) int { return v.TwiceKeyed }

const forgets = "; calls under an Idempotency-Key that are sent again may run again, since Redis has " +
	"forgotten them"

// redisLost is a fault in which Redis comes back and has lost everything.
func redisLost(name, done string, begin step) *fault {
	return &fault{
		name: name, done: done, ground: plain, spares: keyedTwice,
		holds: "replicas stay ready and serve 2026-07-28; a session goes on at its primary, also when Redis is back without it" + forgets,
		make:  all(of(victim, opens), begin), seen: all(saysRedis("unreachable"), goOn, forwarded),
		heal: beginRedis, after: forwarded,
	}
}

// redisAbsent begins a rollout while Redis does not answer. At first no replica is ready.
func redisAbsent(name, done string, begin, end step) *fault {
	notReady := judged("it is not ready, since Redis was not reached", func(v view) bool {
		return !v.Ready && v.status == http.StatusServiceUnavailable && v.Redis == "starting" && len(v.Problems) > 0
	})
	return &fault{
		name: name, ground: direct, spares: keyedTwice,
		done: "a replica is stopped, " + done + ", the replica started; when Redis is back, the others " +
			"are restarted, one after the other",
		holds: "the replica is not ready, says why, and becomes ready by itself when Redis is there; the " +
			"others serve 2026-07-28 meanwhile" +
			forgets,
		make: all(of(victim, stopped), begin, of(victim, launch), pause(2*lasts)),
		seen: all(of(victim, notReady), othersServe),
		heal: all(end, soon(of(victim, isReady)), of(others, renewed)),
	}
}

// redisSays is a fault in which Redis answers that it cannot write.
func redisSays(name, done, state string, begin, end step) *fault {
	return &fault{
		name: name, done: done, ground: plain,
		holds: "replicas name the state `" + state + "`, stay ready and serve 2026-07-28; sessions go on " +
			"afterwards",
		make: all(of(victim, opens), begin), seen: all(saysRedis(state), goOn), heal: end, after: forwarded,
	}
}

// Scripts that spoil what the gateway keeps, and return how many keys that are.
const (
	wrongTypes = `local keys = redis.call('KEYS', 'db2:*')
for _, k in ipairs(keys) do
  local t = redis.call('TYPE', k).ok
  redis.call('DEL', k)
  if t == 'string' then redis.call('RPUSH', k, 'junk') else redis.call('SET', k, 'junk') end
end return #keys`
	junk = `local keys = redis.call('KEYS', 'db2:*')
for _, k in ipairs(keys) do
  local t = redis.call('TYPE', k).ok
  if t == 'string' then redis.call('SET', k, 'junk', 'KEEPTTL')
  elseif t == 'hash' then for _, f in ipairs(redis.call('HKEYS', k)) do redis.call('HSET', k, f, 'junk') end
  elseif t == 'set' then redis.call('SADD', k, 'junk')
  elseif t == 'zset' then redis.call('ZADD', k, 1e15, 'junk')
  elseif t == 'stream' then redis.call('XADD', k, '*', 'junk', 'junk') end
end return #keys`
)

// spoiled overwrites what the gateway keeps, three times, and empties Redis in the end.
func spoiled(name, done, script string) *fault {
	spoil := func(ctx context.Context, s *scene) {
		keys := s.store.Exec(ctx, "EVAL", script, "0")
		is("there is something to spoil", keys != "0", keys)
	}
	return &fault{
		name: name, done: done + "; then Redis is emptied", ground: plain, spares: keyedTwice,
		holds: "nothing that was written is believed, and when Redis was emptied all goes on" + forgets,
		make:  times(3, spoil, busy(warm/4)), heal: redis("FLUSHALL"), after: goOn,
	}
}

// hurried runs a command again and again.
func hurried(name, done string, command step) *fault {
	return &fault{
		name: name, done: done, ground: plain, holds: "replicas stay ready and serve 2026-07-28",
		make: times(20, command, pause(5*pace)), seen: goOn,
	}
}
