package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
)

// recordDropped fills the disk of a record that calls need not wait for.
func recordDropped() *fault {
	return &fault{
		name: "the disk of a record with `when_full: drop` is full",
		done: "a file system of 6 MiB for the record of calls, which another file fills, while 16 clients make thousands of calls", ground: direct, root: true,
		holds:  "calls go on, the replica is ready and warns, a metric counts records that memory does not hold, and records are written again when there is room; those that were counted are not on record",
		before: dropping,
		// Which calls the lost records were of, nobody knows: that is what the setting
		// means.
		spares: func(v *ledger.Verdict) int { return v.Unaudited },
		make: func(ctx context.Context, s *scene) (effect, error) {
			filler := filepath.Join(s.smallDisk(), "filler")
			if err := fill(filler); err != nil {
				return effect{}, err
			}
			end, err := s.besiege(ctx, s.victim.Address, 16, strings.Repeat(s.callRequest(), 2000), 1<<20)
			warns := s.judged(s.victim, "calls go on without a record", func(v view) bool {
				return v.Ready && strings.Contains(strings.Join(v.Warnings, " "),
					"audit records cannot be written; calls go on")
			})
			return effect{
				seen:  all(warns, counts(s.victim, 1, "drawbridge_audit_records_dropped_total"), s.goOn()),
				heal:  func(ctx context.Context) error { return errors.Join(end(ctx), os.Remove(filler)) },
				after: s.measures(s.victim, 1, "drawbridge_audit_writable"),
			}, err
		},
	}
}

// dropping starts the victim with its record on a small disk, and so that it drops what
// it cannot write.
func dropping(ctx context.Context, s *scene) error {
	const drop = ", when_full: drop"
	change := func(old, now string) error {
		return s.victim.Rewrite(ctx, func(config string) string {
			return strings.Replace(config, old+"}\nlog: ", now+"}\nlog: ", 1)
		})
	}
	s.later(func(ctx context.Context) error {
		return s.restarted(ctx, s.victim, func() error { return change(drop, "") })
	})
	if err := onSmallDisk(ctx, s); err != nil {
		return err
	}
	return s.restarted(ctx, s.victim, func() error { return change("", drop) })
}
