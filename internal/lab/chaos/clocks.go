package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// clockFaults returns the faults that need a gateway which was changed for them: its wall
// clock can be set, and handlers can be made to panic.
func clockFaults() []*fault {
	return []*fault{
		jump("one hour ahead", time.Hour, true),
		jump("one hour back", -time.Hour, false),
		jump("ten days ahead", 10*24*time.Hour, false),
		jump("ten days back", -10*24*time.Hour, false),
		redisJump("two hours ahead", 2*time.Hour),
		redisJump("two hours back", -2*time.Hour),
		{
			name: "a handler panics", done: "twenty requests whose handlers panic", ground: direct,
			variant: true,
			holds:   "each gets 500, they are counted, and the process goes on", before: changed,
			make: func(ctx context.Context, s *scene) (effect, error) {
				const times = 20
				for range times {
					said, err := s.touch(ctx, at(s.victim), s.server, panicHeader, "1")
					if err := is("a request whose handler panics gets 500",
						said.status == http.StatusInternalServerError, said, err); err != nil {
						return effect{}, err
					}
				}
				return effect{seen: all(counts(s.victim, times, "drawbridge_panics_total"), s.goOn(),
					runs(s.victim, true))}, nil
			},
		},
	}
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
	return &fault{
		name: "the clock of Redis jumps " + name, ground: plain, weak: true, spares: keyedTwice,
		done:  "the wall clock that its process asks is set, and set back",
		holds: "replicas stay ready, use Redis, and serve 2026-07-28; sessions go on" + forgets,
		before: func(ctx context.Context, s *scene) error {
			if err := s.setClock(0); err != nil {
				return err
			}
			source, library := filepath.Join(s.dir, "clock.c"), filepath.Join(s.dir, "clock.so")
			if err := os.WriteFile(source, []byte(redisClock), 0o600); err != nil {
				return err
			}
			if _, err := run1(ctx, "cc", "-shared", "-fPIC", "-o", library, source); err != nil {
				return err
			}
			store := s.Redis.Nodes[0]
			begun := func(ctx context.Context, env ...string) error {
				store.Kill()
				store.Env = env
				return store.Begin(ctx)
			}
			s.later(func(ctx context.Context) error { return begun(ctx) })
			return begun(ctx, "LD_PRELOAD="+library, clockVariable+"="+s.clockFile())
		},
		make: func(ctx context.Context, s *scene) (effect, error) {
			session, err := s.open(ctx, at(s.victim))
			if err != nil {
				return effect{}, err
			}
			jumped := func(context.Context) error {
				text, err := s.Redis.Nodes[0].Exec(ctx, "TIME")
				seconds, _, _ := strings.Cut(text, "\n")
				told, _ := strconv.ParseInt(seconds, 10, 64)
				off := time.Until(time.Unix(told, 0)) - ahead
				return is("the clock of Redis has jumped", off.Abs() < time.Minute, text, err)
			}
			return effect{
				seen:  all(jumped, s.sayRedis("up"), s.goOn(), s.knows(session)),
				heal:  func(context.Context) error { return s.setClock(0) },
				after: all(s.sayRedis("up"), s.goOn(), s.knows(session)),
			}, errors.Join(err, s.setClock(ahead))
		},
	}
}

// changed runs the victim with the gateway whose clock can be set.
func changed(ctx context.Context, s *scene) error {
	if err := s.setClock(0); err != nil {
		return err
	}
	as := func(ctx context.Context, program string, env ...string) error {
		return s.restarted(ctx, s.victim, func() error {
			s.victim.Env = env
			s.victim.Program(program)
			return nil
		})
	}
	s.later(func(ctx context.Context) error { return as(ctx, s.program) })
	return as(ctx, s.variant, clockVariable+"="+s.clockFile())
}

func (s *scene) clockFile() string { return filepath.Join(s.dir, "clock") }

// setClock sets how far the wall clock of the victim is ahead. The gateway takes it soon.
func (s *scene) setClock(ahead time.Duration) error {
	file := s.clockFile()
	if err := os.WriteFile(file+".new", []byte(fmt.Sprintf("%.0f\n", ahead.Seconds())), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// jump lets the clock of one replica jump, and jump back. valid tells whether tokens are
// still good by that clock.
func jump(name string, ahead time.Duration, valid bool) *fault {
	what := "tokens are refused there meanwhile, since by that clock they are not valid"
	if valid {
		what = "tokens go on being good"
	}
	return &fault{
		name: "the clock of a replica jumps " +
			name, done: "the wall clock of one process is set, and set back", ground: direct, variant: true,
		holds: what + "; the others serve; all goes on without a restart, and a limit of calls a second that was used up is free again afterwards", before: changed,
		make: func(ctx context.Context, s *scene) (effect, error) {
			if err := until(ctx, s.usesUp(s.victim)); err != nil {
				return effect{}, err
			}
			while := all(s.servesAll(s.victim), s.usesUp(s.victim))
			if !valid {
				while = s.refuses(s.victim, crowd.Modern, "DB-AUTH-EXPIRED", "DB-AUTH-EARLY",
					"DB-AUTH-LIFETIME")
			}
			return effect{
				seen:  all(while, s.othersServe()),
				heal:  func(context.Context) error { return s.setClock(0) },
				after: all(s.servesAll(s.victim), s.servesTight(s.victim)),
			}, s.setClock(ahead)
		},
	}
}

// tight calls as a user of the tenant that has a call a second, and three at once.
func (s *scene) tight(ctx context.Context, r *world.Replica) (reply, error) {
	return s.call(ctx, at(r), s.token(world.Tight, prober), s.server+"__touch", world.Tight)
}

// usesUp returns what is wrong when a replica refuses no call of a tenant with a limit,
// however many it makes.
func (s *scene) usesUp(r *world.Replica) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		var said reply
		for range 10 {
			if said, err = s.tight(ctx, r); err != nil || strings.HasPrefix(said.code, "DB-LIMIT-") {
				break
			}
		}
		return is(r.Name+" refuses calls beyond the limit", strings.HasPrefix(said.code, "DB-LIMIT-"), said,
			err)
	}
}

// servesTight returns what is wrong when a replica serves no call of the tenant with a
// limit.
func (s *scene) servesTight(r *world.Replica) func(context.Context) error {
	return func(ctx context.Context) error {
		said, err := s.tight(ctx, r)
		return is(r.Name+" serves "+world.Tight, said.ok(), said, err)
	}
}
