package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// This file tells operators of definitions that are quarantined, because text is hidden
// in them or their server is pinned, and of releases that let none in.

// maxLogged bounds how much of what is quarantined of one server the log names, and how
// much of what else is left out: a server must not use up the lines of what it hides. One
// that hides something else in each of its lists, or breaks something else, must not fill
// the log.
const maxLogged = 200

// quarantined splits the refusals of a server into those of quarantined definitions and
// the others.
func quarantined(refused []registry.Refusal) (found, others []registry.Refusal) {
	for _, r := range refused {
		if r.Reason == registry.ReasonQuarantined {
			found = append(found, r)
		} else {
			others = append(others, r)
		}
	}
	return found, others
}

// tellQuarantine counts what is quarantined of a server and which releases let nothing
// in, and logs each digest once. The server may come back or list the same again as often
// as it likes.
func (f *fleet) tellQuarantine(ctx context.Context, now upstream.Status, found []registry.Refusal) {
	f.metrics.ItemsQuarantined(now.Server, len(found))
	for _, r := range found {
		why, ok := errors.AsType[*registry.QuarantineError](r.Err)
		if ok && f.tells(f.loggedHeld, now.Server, why.Digest) {
			f.log.WarnContext(ctx, "definition quarantined", slog.String("server", r.Server),
				slog.String("kind", string(r.Kind)),
				slog.String("item", r.Item), slog.String("digest", why.Digest), slog.Any("error", why),
				slog.String("cure", why.Cure()))
		}
	}
	for _, digest := range now.Idle {
		if f.tells(f.loggedHeld, now.Server, "idle "+digest) {
			f.log.WarnContext(ctx, "a release lets nothing in", slog.String("code", config.CodeUnusedRelease),
				slog.String("server", now.Server),
				slog.String("digest", digest))
		}
	}
	f.countIdle()
}

// tells tells whether the log should name this of what is left out of a server, and notes
// in logged that it does. It does so once: the server may be lost and come back as often
// as it likes.
func (f *fleet) tells(logged map[string]map[string]bool, server, what string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := logged[server]
	if before == nil {
		before = map[string]bool{}
		logged[server] = before
	}
	if before[what] || len(before) >= maxLogged {
		return false
	}
	before[what] = true
	return true
}

// countIdle sets the metric of releases that let nothing in. The lock is held until it is
// set, so that of two counts at once the older does not win.
func (f *fleet) countIdle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, s := range f.statuses {
		n += len(s.Idle)
	}
	f.metrics.ConfigWarnings(config.CodeUnusedRelease, n)
}

// idleReleases says for /readyz which releases of a server let nothing in.
func idleReleases(s upstream.Status) []string {
	return sayEach(s, s.Idle, len(s.Idle), "", func(digest string) string {
		return fmt.Sprintf("released %s lets nothing in; it may go or, if it is meant, acknowledge %s there",
			digest, config.CodeUnusedRelease)
	})
}

// quarantineNotes says, for validate, which definitions of a server are quarantined and
// how to let each in.
func quarantineNotes(s upstream.Status) []string {
	found, _ := quarantined(s.Refused)
	return sayEach(s, found, len(found), "", leftOut)
}

// withoutMeant returns the status without the releases of which the config acknowledges
// that they let nothing in.
func withoutMeant(s config.Server, status upstream.Status) upstream.Status {
	if s.IdleReleases {
		status.Idle = nil
	}
	return status
}

// known returns the newest status of every server, by its name.
func (f *fleet) known() map[string]upstream.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.statuses)
}
