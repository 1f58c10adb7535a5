package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
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
