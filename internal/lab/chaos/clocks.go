package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// clockFaults returns the faults that need a gateway which was changed for them: its wall
// clock can be set, and handlers can be made to panic. The clock of Redis can be set,
// too.
func clockFaults() []*fault {
	const day = 24 * time.Hour
	return []*fault{
		jump("one hour ahead", time.Hour, true),
		jump("one hour back", -time.Hour, false),
		jump("ten days ahead", 10*day, false),
		jump("ten days back", -10*day, false),
		redisJump("two hours ahead", 2*time.Hour),
		redisJump("two hours back", -2*time.Hour),
		{
			name: "a handler panics", done: "twenty requests whose handlers panic", ground: direct,
			variant: true, before: changed,
			holds: "each gets 500, they are counted, and the process goes on", make: times(20, panicking),
			seen: all(of(victim, measures(20, math.Inf(1), "drawbridge_panics_total")), goOn, of(victim, runs(true))),
		},
	}
}

// panicking makes a request whose handler panics.
func panicking(ctx context.Context, s *scene) {
	said := s.touch(ctx, s.victim, s.server, [2]string{panicHeader, "1"})
	is("a request whose handler panics gets 500", said.status == http.StatusInternalServerError, said)
}

// redisClock makes gettimeofday(2), which Redis asks, tell a wall clock that somebody has
// set.
const redisClock = `#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
int gettimeofday(struct timeval *restrict t, void *restrict zone) {
  struct timespec now;
  long ahead = 0;
  FILE *file = fopen(getenv("` + clockVariable + `"), "r");
  if (file != NULL) {
    if (fscanf(file, "%ld", &ahead) != 1) ahead = 0;
    fclose(file);
  }
  clock_gettime(CLOCK_REALTIME, &now);
  t->tv_sec = now.tv_sec + ahead;
  t->tv_usec = now.tv_nsec / 1000;
  return 0;
}
`

// redisJump lets the clock of Redis jump, and jump back.
func redisJump(name string, ahead time.Duration) *fault {
	jumped := func(ctx context.Context, s *scene) {
		text := s.store.Exec(ctx, "TIME")
		seconds, _, _ := strings.Cut(text, "\n")
		told, _ := strconv.ParseInt(seconds, 10, 64)
		off := time.Until(time.Unix(told, 0)) - ahead
		is("the clock of Redis has jumped", off.Abs() < time.Minute, text)
	}
	back := all(saysRedis("up"), goOn, known)
	return &fault{
		name: "the clock of Redis jumps " + name, ground: plain, weak: true, spares: keyedTwice,
		done:   "the wall clock that its process asks is set, and set back",
		holds:  "replicas stay ready, use Redis, and serve 2026-07-28; sessions go on" + forgets,
		before: redisWithClock, make: all(of(victim, opens), clock(ahead)), seen: all(jumped, back),
		heal: clock(0), after: back,
	}
}

// redisWithClock starts Redis with a clock that can be set, until the round is over.
func redisWithClock(ctx context.Context, s *scene) {
	source, library := filepath.Join(s.dir, "clock.c"), filepath.Join(s.dir, "clock.so")
	clock(0)(ctx, s)
	must.OK(os.WriteFile(source, []byte(redisClock), 0o600))
	world.Run(ctx, "", "cc", "-shared", "-fPIC", "-o", library, source)
	begun := func(env ...string) step {
		return func(ctx context.Context, s *scene) {
			s.store.Kill()
			s.store.Env = env
			s.store.Begin(ctx)
		}
	}
	forRound(begun("LD_PRELOAD="+library, clockVariable+"="+s.clockFile()), begun())(ctx, s)
}

// changed runs the victim with the gateway whose clock can be set, until the round is
// over.
func changed(ctx context.Context, s *scene) {
	as := func(program string, env ...string) step {
		return restarts(func(_ context.Context, r *world.Replica) {
			r.Env = env
			r.Program(program)
		})
	}
	all(clock(0), forRound(as(s.variant, clockVariable+"="+s.clockFile()), as(s.program)))(ctx, s)
}

func (s *scene) clockFile() string { return filepath.Join(s.dir, "clock") }

// clock sets how far the wall clock is ahead. Whoever reads the file takes it soon.
func clock(ahead time.Duration) step {
	return func(_ context.Context, s *scene) {
		world.ReplaceFile(s.clockFile(), fmt.Sprintf("%.0f\n", ahead.Seconds()))
	}
}

// jump lets the clock of one replica jump, and jump back. valid tells whether tokens are
// still good by that clock.
func jump(name string, ahead time.Duration, valid bool) *fault {
	what := page.Either(valid, "tokens go on being good",
		"tokens are refused there meanwhile, since by that clock they are not valid")
	while := page.Either(valid, of(victim, servesAll, usesUp),
		of(victim, refuses("DB-AUTH-EXPIRED", "DB-AUTH-EARLY", "DB-AUTH-LIFETIME")))
	return &fault{
		name: "the clock of a replica jumps " + name, done: "the wall clock of one process is set, and " +
			"set back",
		ground: direct, variant: true, before: changed,
		holds: what + "; the others serve; all goes on without a restart, and a limit of calls a second " +
			"that was used up is free again afterwards",
		make: all(soon(of(victim, usesUp)), clock(ahead)), seen: all(while, othersServe), heal: clock(0),
		after: of(victim, servesAll, servesTight),
	}
}

// tight calls as a user of the tenant that has a call a second, and three at once.
func (s *scene) tight(ctx context.Context, r *world.Replica) reply {
	return ask(ctx, r.Address,
		s.toolCall(r, s.token(world.Tight, prober), s.server+"__touch", probing, world.Tight).Bytes())
}

// usesUp fails if a replica refuses no call of a tenant with a limit,
// however many it makes.
func usesUp(ctx context.Context, s *scene, r *world.Replica) {
	var last reply
	for range 10 {
		if last = s.tight(ctx, r); strings.HasPrefix(last.code, "DB-LIMIT-") {
			break
		}
	}
	is(r.Name+" refuses calls beyond the limit", strings.HasPrefix(last.code, "DB-LIMIT-"), last)
}

// servesTight fails if a replica serves no call of the tenant with a
// limit.
func servesTight(ctx context.Context, s *scene, r *world.Replica) {
	said := s.tight(ctx, r)
	is(r.Name+" serves "+world.Tight, said.ok(), said)
}
