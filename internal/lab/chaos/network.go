package main

import (
	"context"
	"errors"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/netfault"
)

// trouble is something that a network does to the connections of one proxy.
type trouble struct {
	name, done string
	make       func(p *netfault.Proxy, s *scene)
}

// troubles returns what is done to each link. late is longer than the gateway waits for
// Redis, and thin makes it wait longer for a large answer.
func troubles() []trouble {
	const (
		late = 3 * time.Second
		thin = 2000 // bytes a second
		torn = 1500 // bytes
	)
	return []trouble{
		{"late answers", "answers come 3 s late", func(p *netfault.Proxy, _ *scene) { p.Delay(late) }},
		{"a thin line", "2,000 bytes a second", func(p *netfault.Proxy, _ *scene) { p.Rate(thin) }},
		{
			"torn connections", "each connection is closed after 1,500 bytes of answers",
			func(p *netfault.Proxy, _ *scene) { p.CutAfter(netfault.Answers, torn) },
		},
		{
			"requests torn", "each connection is closed after 1,500 bytes of requests",
			func(p *netfault.Proxy, _ *scene) { p.CutAfter(netfault.Requests, torn) },
		},
		{"resets", "each connection is reset, new ones too", func(p *netfault.Proxy, _ *scene) { p.Reset() }},
		{
			"half-closed connections", "the direction of answers ends, the other stays open",
			func(p *netfault.Proxy, _ *scene) { p.HalfClose(netfault.Answers) },
		},
		{
			"a black hole", "nothing goes through, and no connection ends",
			func(p *netfault.Proxy, _ *scene) { p.BlackHole() },
		},
		{
			"garbage", "answers are replaced by random bytes",
			func(p *netfault.Proxy, s *scene) { p.Garbage(netfault.Answers, s.seed) },
		},
		{
			"refused connections", "open connections end, and new ones are refused",
			func(p *netfault.Proxy, _ *scene) { p.Refuse(); p.Cut() },
		},
	}
}

// harmless is the trouble with Redis that a gateway may live with: answers may still come
// in time.
func harmless(name string) bool { return name == "a thin line" }

// networkFaults returns the troubles of the three links of one replica, and of the link
// to Redis of all at once.
func networkFaults() (faults []*fault) {
	for _, t := range troubles() {
		notices := ", notices that Redis is not well,"
		if harmless(t.name) {
			notices = ", whether it notices or not,"
		}
		faults = append(faults,
			&fault{
				name: "load balancer to replica: " + t.name, done: t.done, ground: plain,
				holds: "the other replicas serve meanwhile, and the replica itself is ready",
				make: func(_ context.Context, s *scene) (effect, error) {
					return s.trouble(t, s.victim.Balancer, all(s.othersServe(), s.isReady(s.victim)))
				},
			},
			&fault{
				name: "replica to Redis: " + t.name, done: t.done, ground: plain, weak: true,
				holds: "the replica stays ready" + notices + " and serves calls of 2026-07-28 meanwhile",
				make: func(_ context.Context, s *scene) (effect, error) {
					notices := s.missesRedis(s.victim)
					if harmless(t.name) {
						notices = nil
					}
					return s.trouble(t, s.victim.Redis,
						all(notices, s.isReady(s.victim), s.servesAll(s.victim), s.othersServe()))
				},
			},
			&fault{
				name: "replica to server: " + t.name, done: t.done, ground: plain,
				holds: "the replica serves the other server meanwhile, and the other replicas serve both",
				make: func(_ context.Context, s *scene) (effect, error) {
					return s.trouble(t, s.victim.Upstream[s.server],
						all(s.serves(s.victim, s.spared), s.isReady(s.victim), s.othersServe()))
				},
			},
		)
	}
	return append(faults, &fault{
		name: "all replicas to Redis: late answers", done: "answers of Redis come 3 s late at all replicas",
		ground: plain, weak: true,
		holds: "all replicas stay ready, notice that Redis is slow, and serve calls of 2026-07-28 meanwhile",
		make: func(_ context.Context, s *scene) (effect, error) {
			for _, r := range s.fleet() {
				r.Redis.Delay(3 * time.Second)
			}
			return effect{
				seen: ofEach(s.fleet(), func(r *world.Replica) func(context.Context) error {
					return all(s.missesRedis(r), s.isReady(r), s.servesAll(r))
				}),
				heal: does(func() {
					for _, r := range s.fleet() {
						r.Redis.Heal()
					}
				}),
			}, nil
		},
	})
}

var errNoProxy = errors.New("there is no proxy on this link")

// trouble makes a trouble at a proxy.
func (s *scene) trouble(t trouble, p *netfault.Proxy, seen func(context.Context) error) (effect, error) {
	if p == nil {
		return effect{}, errNoProxy
	}
	t.make(p, s)
	return effect{seen: seen, heal: does(func() {
		p.Heal()
	})}, nil
}

// servesAll returns what is wrong when a replica does not serve both servers.
func (s *scene) servesAll(r *world.Replica) func(context.Context) error {
	return all(s.serves(r, s.server), s.serves(r, s.spared))
}

// othersServe returns what is wrong when a replica other than the victim does not serve
// both servers.
func (s *scene) othersServe() func(context.Context) error {
	return ofEach(s.others, s.servesAll)
}

// isReady returns what is wrong when /readyz of a replica is not 200.
func (s *scene) isReady(r *world.Replica) func(context.Context) error {
	return s.judged(r, "it is ready", func(v view) bool { return v.Ready && v.status == 200 })
}

// missesRedis returns what is wrong when a replica does not say that Redis is not well.
func (s *scene) missesRedis(r *world.Replica) func(context.Context) error {
	return s.judged(r, "Redis is not well", func(v view) bool { return v.Redis != "up" && v.Redis != "" })
}
