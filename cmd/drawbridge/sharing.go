package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/allot"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/server/admin"
	"github.com/drawbridge-mcp/drawbridge/server/once"
)

// sharing is what this process has in common with other replicas.
type sharing struct {
	store   *redis.Store // nil: there are no others
	others  replica.Others
	group   *replica.Group // that others are; nil: there are no others
	once    once.Store     // answers of calls with a key; nil: there are no others
	quota   *share.Budget  // bytes that this replica may put into Redis; nil: there is none
	allowed int            // replicas at once, by the config
	// what uses the store and runs as long as it does; they return no errors
	users []func(context.Context) error
}

// newSharing returns what the config says, not running yet. An error is about a file that
// the config names.
func newSharing(cfg *config.Config, ring *seal.Ring, log *slog.Logger, m *metrics.Metrics) (sharing, error) {
	if len(cfg.Redis.Addresses) == 0 {
		return sharing{others: replica.NewAlone()}, nil
	}
	settings, err := redisConfig(cfg.Redis)
	if err != nil {
		return sharing{}, fmt.Errorf("redis: %w", err)
	}
	settings.Logger = log
	settings.Called = func(kind string, outcome redis.Outcome,
		took time.Duration,
	) {
		m.RedisCall(kind, string(outcome), took)
	}
	settings.Opened = func(state redis.State) { m.RedisStopped(string(state)) }
	settings.Refused = m.ValueRefused
	store := redis.New(settings)
	store.OnGeneration(m.RedisLost)
	m.RedisState.Of(func(tell metrics.Tell) {
		now := store.State()
		for _, state := range redis.States() {
			tell(string(state), metrics.OneIf(state == now))
		}
	})
	allowed := max(cfg.Replicas, 1)
	group, err := replica.NewGroup(replica.GroupConfig{
		Store: store, Seal: ring, Logger: log, Count: m, Listen: cfg.Link.Listen,
		Address: cfg.Link.Address,
	})
	if err != nil {
		return sharing{}, err
	}
	m.Replicas.Of(func(tell metrics.Tell) {
		tell("running", float64(group.Count()))
		tell("reached", float64(group.Count()-1-len(group.Unreached())))
		tell("allowed", float64(allowed))
	})
	m.RedisClock.Of(func(tell metrics.Tell) {
		if ahead, known := group.Ahead(); known {
			tell("", ahead.Seconds())
		}
	})
	quota := share.New(cfg.Redis.Memory / int64(allowed))
	answers := once.NewRedis(once.RedisConfig{Store: store, Seal: ring, Others: group, Quota: quota})
	return sharing{
		store: store, others: group, group: group, once: answers, quota: quota, allowed: allowed,
		users: []func(context.Context) error{group.Run, answers.Run},
	}, nil
}

// redisConfig returns how to reach Redis, without a log and without metrics. An error is
// about a file that the config names.
func redisConfig(r config.Redis) (redis.Config, error) {
	secure, err := r.TLS()
	return redis.Config{
		Addresses: r.Addresses, Master: r.Master, Cluster: r.Cluster, Database: r.Database, TLS: secure,
		User: r.User, Password: r.Password, SentinelUser: r.SentinelUser,
		SentinelPassword: r.SentinelPassword, Patience: r.Patience,
	}, err
}

// begun tells whether Redis is used and others send messages, or there is none.
func (s *sharing) begun() bool { return s.store == nil || s.store.Up() == nil && s.group.Joined() }

// judge adds to what /readyz shows how Redis is. A gateway that has never reached it, or
// of which the others do not know yet, is not ready, since it knows neither of sessions
// nor of limits. Later faults do not change that: they meet all replicas at once, and
// none would be left.
func (s *sharing) judge(view *admin.View) {
	if s.store == nil {
		return
	}
	if running := s.group.Count(); running > s.allowed {
		view.Warnings = append(view.Warnings,
			fmt.Sprintf(
				"%d replicas run, and the setting replicas says %d at most; while redis is away they allow "+
					"more than the limits", running, s.allowed))
	}
	if unreached := s.group.Unreached(); len(unreached) > 0 && s.group.Joined() {
		problem := fmt.Sprintf(
			"%d of %d other replicas cannot be reached over the link, at %s: what clients send of calls and "+
				"sessions that are there is answered with 503", len(unreached), s.group.Count()-1,
			strings.Join(unreached, " and "))
		if s.group.Isolated() {
			view.Problems = append(view.Problems, problem)
		} else {
			view.Warnings = append(view.Warnings, problem)
		}
	}
	if unreadable := s.group.Unreadable(); unreadable > 0 {
		view.Warnings = append(view.Warnings, count(unreadable, "replica")+" with other keys "+
			"(sessions.keys_file) at this redis, if nobody else writes there: each refuses the sessions of "+
			"the others")
	}
	err := s.store.Up()
	view.Redis = string(s.store.State())
	switch {
	case err == nil && !s.group.Joined():
		view.Problems = append(view.Problems, "the other replicas cannot reach this one yet")
	case err == nil:
	case !s.store.Reached():
		view.Problems = append(view.Problems, err.Error())
	default:
		view.Warnings = append(view.Warnings,
			err.Error()+"; meanwhile each replica limits by its share, sessions go on at their "+
				"primaries, and requests that must write to Redis get 503")
	}
}

// slots returns how many of a tenant's slots this process may give out, of which the
// gateway tells how many are taken. It is called once. Before the gateway is there nobody
// asks for a slot.
func (s *sharing) slots(p *parts, replicas int) allot.Slots {
	if s.store == nil {
		return allot.Whole{}
	}
	blocks := allot.NewBlocks(allot.Config{
		Store: s.store, Self: string(s.others.Self()), Replicas: replicas,
		Leads: s.group.Leads, Living: s.group.All,
		Used: func(kind allot.Kind, tenant string) int { return p.gateway.Taken(kind, tenant) },
	})
	s.others.OnReturn(blocks.Recheck) // to the others, the blocks of who is gone are free
	s.store.OnLoss(blocks.Recheck)
	s.users = append(s.users, blocks.Run)
	return blocks
}

// limiter returns what counts calls and requests.
func (s *sharing) limiter(replicas int, m *metrics.Metrics) ratelimit.Limiter {
	if s.store == nil {
		return ratelimit.NewMemory(0)
	}
	return ratelimit.NewRedis(ratelimit.RedisConfig{
		Store: s.store, Replica: string(s.others.Self()), Replicas: replicas, Local: m.LimitedLocally,
	})
}

// run starts what is shared, until work ends. The store goes on until all else has ended,
// which may have something to give back or to write.
func (s *sharing) run(work context.Context, group *errgroup.Group) {
	if s.store == nil {
		return
	}
	var users errgroup.Group
	for _, run := range s.users {
		users.Go(func() error { return run(work) })
	}
	last, stop := context.WithCancel(context.WithoutCancel(work))
	group.Go(func() error { return s.store.Run(last) })
	group.Go(func() error {
		defer stop()
		return users.Wait()
	})
}
