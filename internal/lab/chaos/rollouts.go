package main

import (
	"context"
	"time"
)

// rolloutFaults are troubles that last while each replica is stopped, started again and
// waited for until it is ready, one after the other.
func rolloutFaults() []*fault {
	faults := []*fault{
		{
			name: "the keys of an issuer are away", done: "its key server does not listen", before: withIssuer,
			holds: "no request meets any trouble: replicas that start have the keys from Redis",
			make:  keysAway, seen: goOn, heal: keysBack, after: untroubled,
		},
		{
			name: "Redis jitters", done: "each 50 ms it is drawn how late its answers come, up to 300 ms",
			holds: "replicas become ready, use Redis, and serve 2026-07-28", weak: true,
			make: meanwhile(50*time.Millisecond, func(_ context.Context, s *scene) {
				for _, r := range s.fleet() {
					r.Redis.Delay(time.Duration(s.draw.Int64N(int64(300 * time.Millisecond))))
				}
			}),
			seen: all(saysRedis("up"), goOn), heal: of(fleet, link(toRedis).heals),
		},
		{
			name: "Redis is emptied", done: "FLUSHALL, each second", weak: true, spares: keyedTwice,
			holds: "replicas become ready, use Redis, and serve 2026-07-28" + forgets,
			make:  meanwhile(time.Second, redis("FLUSHALL")), seen: all(saysRedis("up"), goOn),
		},
		{
			name: "the load balancer reloads", done: "HAProxy reads its config again, each second", behind: "haproxy",
			holds: "replicas become ready, and serve 2026-07-28",
			make: meanwhile(time.Second, func(_ context.Context, s *scene) {
				s.ReloadHAProxy()
			}), seen: goOn,
		},
		{
			name: "a server restarts", done: "it crashes and comes back after half a second, again and again",
			holds: "replicas become ready, and serve the other server",
			make:  meanwhile(time.Second, all(crash, pause(time.Second/2), revive)), seen: restServes,
		},
	}
	for _, f := range faults {
		f.name, f.ground = "a rollout while "+f.name, direct
		f.done += "; meanwhile each replica in turn: SIGTERM, exit 0, start, ready"
		f.make = all(f.make, of(fleet, renewed))
	}
	return faults
}
