package main

import (
	"context"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/netfault"
)

// trouble is something that a network does to the connections of one proxy.
type trouble struct {
	name, done string
	make       func(p *netfault.Proxy, s *scene)
}

// troubles are what is done to each link. Late answers come later than the gateway waits
// for Redis, and the thin line makes it wait longer for a large answer.
var troubles = []trouble{
	{"late answers", "answers come 3 s late", func(p *netfault.Proxy, _ *scene) { p.Delay(3 * time.Second) }},
	{"a thin line", "2,000 bytes a second", func(p *netfault.Proxy, _ *scene) { p.Rate(2000) }},
	{
		"torn connections", "each connection is closed after 1,500 bytes of answers",
		func(p *netfault.Proxy, _ *scene) { p.CutAfter(netfault.Answers, 1500) },
	},
	{
		"requests torn", "each connection is closed after 1,500 bytes of requests",
		func(p *netfault.Proxy, _ *scene) { p.CutAfter(netfault.Requests, 1500) },
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

// link is the proxy on a way from or to a replica.
type link func(s *scene, r *world.Replica) *netfault.Proxy

func fromBalancer(_ *scene, r *world.Replica) *netfault.Proxy { return r.Balancer }
func toRedis(_ *scene, r *world.Replica) *netfault.Proxy      { return r.Redis }
func toServer(s *scene, r *world.Replica) *netfault.Proxy     { return r.Upstream[s.server] }
func toPeers(_ *scene, r *world.Replica) *netfault.Proxy      { return r.Link }

// suffers makes a trouble on the link, which must meet a connection while it lasts.
func (l link) suffers(from func(p *netfault.Proxy, s *scene)) about {
	return func(_ context.Context, s *scene, r *world.Replica) {
		p := l(s, r)
		from(p, s)
		s.seeing(func(context.Context, *scene) { is("the trouble meets connections", p.Met() > 0, p.Address) })
	}
}

// heals ends the trouble.
func (l link) heals(_ context.Context, s *scene, r *world.Replica) {
	l(s, r).Heal()
}

// networkFaults returns the troubles of the three links of one replica, and of the link
// to Redis of all at once.
func networkFaults() (faults []*fault) {
	for _, t := range troubles {
		notices, missed := ", notices that Redis is not well,", of(victim, missesRedis)
		if t.name == "a thin line" { // answers may still come in time
			notices, missed = ", whether it notices or not,", nil
		}
		on := func(l link, name, holds string, weak bool, seen step) *fault {
			return &fault{
				name: name + ": " + t.name, done: t.done, ground: plain, weak: weak, holds: holds,
				make: of(victim, l.suffers(t.make)), seen: seen, heal: of(victim, l.heals),
			}
		}
		faults = append(faults,
			on(fromBalancer, "load balancer to replica",
				"the other replicas serve meanwhile, and the replica itself is ready", false,
				all(othersServe, of(victim, isReady))),
			on(toRedis, "replica to Redis",
				"the replica stays ready"+notices+" and serves calls of 2026-07-28 meanwhile", true,
				all(missed, of(victim, isReady, servesAll), othersServe)),
			on(toServer, "replica to server",
				"the replica serves the other server meanwhile, and the other replicas serve both", false,
				all(of(victim, serves(spared), isReady), othersServe)))
	}
	return append(faults, &fault{
		name: "all replicas to Redis: late answers", done: "answers of Redis come 3 s late at all replicas",
		ground: plain, weak: true,
		holds: "all replicas stay ready, notice that Redis is slow, and serve calls of 2026-07-28 meanwhile",
		make:  of(fleet, link(toRedis).suffers(troubles[0].make)),
		seen:  of(fleet, missesRedis, isReady, servesAll),
		heal:  of(fleet, link(toRedis).heals),
	})
}
