package main

import (
	"context"
	"syscall"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
)

// replicaFaults returns what may happen to replicas. The load balancer reaches them
// without proxies, so that it sees what it would see in production.
func replicaFaults() []*fault {
	killed, begun, ended := of(victim, kill), of(victim, start), of(victim, stopped)
	return []*fault{
		{
			name: "a replica is killed", done: "SIGKILL, then it is started again", ground: direct,
			holds: "the others serve meanwhile, and every caller of what was in flight knows", unrecorded: true,
			make: killed, seen: othersServe, heal: begun,
		},
		{
			name: "two replicas are killed at once", done: "SIGKILL of two, then they are started again",
			ground: direct, holds: "the last one serves meanwhile", unrecorded: true,
			make: of(two, kill), seen: of(last, servesAll), heal: atOnce(two, start),
		},
		{
			name: "a replica is killed again and again", done: "SIGKILL as soon as it is ready, three times",
			ground: direct, holds: "the others serve meanwhile", unrecorded: true,
			make: all(times(2, killed, begun), killed), seen: othersServe, heal: begun,
		},
		{
			name: "a replica freezes", done: "SIGSTOP, then SIGCONT", ground: plain,
			holds: "the others serve meanwhile, and the replica goes on without a restart",
			make:  of(victim, freeze), seen: othersServe, heal: of(victim, thaw),
		},
		frozen("ten seconds", 10*time.Second),
		frozen("two minutes", 2*time.Minute),
		{
			name: "replicas have a tenth of a processor",
			done: "all run for 10 of each 100 ms, by SIGSTOP and SIGCONT, for 20 s", ground: direct,
			holds: "all stay ready, use Redis, and serve 2026-07-28 meanwhile",
			make: all(meanwhile(10*time.Millisecond,
				all(of(fleet, freeze), pause(90*time.Millisecond), of(fleet, thaw))), pause(20*time.Second)),
			seen: all(saysRedis("up"), goOn),
		},
		{
			name: "a replica is stopped", done: "SIGTERM, then it is started again", ground: direct,
			holds: "exit code 0", make: ended, seen: othersServe, heal: begun,
		},
		{
			name: "all replicas but one are stopped",
			done: "SIGTERM to two at once, then they are started again", ground: direct,
			holds: "exit code 0 of both, and the last one serves meanwhile",
			make:  atOnce(others, stopped), seen: of(victim, servesAll), heal: atOnce(others, start),
		},
		{
			name: "a replica is killed while it stops", done: "SIGTERM, and SIGKILL when it is draining",
			ground: direct, holds: "the others serve meanwhile", unrecorded: true,
			make: killedWhileItStops, seen: othersServe, heal: begun,
		},
		{
			name: "a replica joins", done: "a stopped replica is started while the others run",
			ground: direct,
			holds: "until it serves, no request of any client is refused, and no connection breaks but " +
				"by its client",
			before: ended, make: begun, seen: of(victim, servesAll), after: untroubled,
		},
		{
			name: "a replica dies while Redis is gone",
			done: "Redis is killed, then a replica; both are started again", ground: direct, weak: true,
			holds: "the others serve 2026-07-28 meanwhile" + forgets, spares: keyedTwice, unrecorded: true,
			make: all(killRedis, killed), seen: othersServe, heal: all(beginRedis, begun),
		},
	}
}

// frozen has a replica freeze for longer than the others wait for it.
func frozen(name string, lasts time.Duration) *fault {
	return &fault{
		name: "a replica freezes for " + name,
		done: "SIGSTOP, and SIGCONT when the others have taken its sessions over", ground: plain,
		holds: "the others serve meanwhile, and the replica goes on without a restart; calls that it had " +
			"in work may end " +
			"without progress, and not be cancelled at their servers",
		patience: silence + lasts,
		spares:   func(v *ledger.Verdict) int { return v.Unstreamed },
		make:     all(of(victim, freeze), pause(lasts)), seen: othersServe, heal: of(victim, thaw),
	}
}

func killedWhileItStops(ctx context.Context, s *scene) {
	must.OK(s.victim.Signal(syscall.SIGTERM))
	soon(of(victim, judged("it is draining", func(v view) bool { return v.Draining })))(ctx, s)
	is("it has not stopped by itself", s.victim.Runs(), s.victim.Name)
	s.victim.Kill()
}
