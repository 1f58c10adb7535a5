package directory

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/forward"
	"github.com/drawbridge-mcp/drawbridge/server/primary"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
)

// Register writes the entry of a session that has just been opened.
func (d *Directory) Register(ctx context.Context, l *sessions.Session) {
	if l.Shared {
		d.save(context.WithoutCancel(ctx), l, d.config.Entries.Open, l.Facts())
	}
}

// Keep writes a fact of a session that this replica leads; the text "" forgets it.
func (d *Directory) Keep(ctx context.Context, l *sessions.Session, name, text string) {
	if l.Shared {
		d.save(context.WithoutCancel(ctx), l, d.config.Entries.Keep, map[string]string{name: text})
	}
}

// save writes facts of a session that this replica leads. What cannot be written now is
// written later, together with all else.
func (d *Directory) save(ctx context.Context, l *sessions.Session,
	write func(context.Context, primary.Key, primary.Entry) error, facts map[string]string,
) {
	err := write(ctx, l.EntryKey(), primary.Entry{
		Primary: d.config.Others.Self(), Epoch: l.Leader().Epoch, Facts: facts,
	})
	switch {
	case errors.Is(err, primary.ErrFenced):
		d.Superseded(l)
	case err != nil:
		d.config.Guard.Log.DebugContext(ctx, "a session is not recorded yet", slog.Any("error", err))
		l.NoteUnwritten(facts)
	}
}

// Superseded notes that another replica leads a session; which one is found out when it
// matters.
func (d *Directory) Superseded(l *sessions.Session) { d.Follow(l, "", l.Leader().Epoch) }

// Delete removes the entry of a session that its client ends. If that cannot be done,
// nothing has happened: no session is served any more after its end was answered.
func (d *Directory) Delete(ctx context.Context, l *sessions.Session) *exchange.Refusal {
	if !l.Shared {
		return nil
	}
	switch err := d.config.Entries.End(ctx, l.EntryKey(), l.Leader().Epoch); {
	case errors.Is(err, primary.ErrFenced):
		d.Superseded(l)
		return forward.ErrElsewhere
	case err != nil:
		d.config.Guard.Log.WarnContext(ctx, "a session cannot be ended", slog.Any("error", err))
		l.NoteUnwritten(nil) // the answer alone may be lost
		return exchange.ErrReplicas
	}
	return nil
}

// ShutDeleted is Shut for a session whose entry Delete has removed. Until it is over,
// tend may have written the entry again, from which a replica would take the session
// over.
func (d *Directory) ShutDeleted(ctx context.Context, l *sessions.Session) {
	d.Shut(l, sessions.EndClosed)
	if l.Leader().Rewritten {
		d.forget(ctx, l)
	}
}

// tendTime is how often it is looked whether something is to be written.
const tendTime = time.Second

// Tend writes what could not be written, renews the entries of sessions that are used,
// and takes over those whose clients have streams here when their primary is gone, until
// ctx ends. changed holds a value when replicas have come, ended or begun to drain.
func (d *Directory) Tend(ctx context.Context, changed <-chan struct{}, failOver func(context.Context)) {
	ticker := time.NewTicker(tendTime)
	defer ticker.Stop()
	for renewed := time.Now(); ; {
		select {
		case <-changed:
			failOver(ctx)
		case now := <-ticker.C:
			d.write(ctx)
			d.removeEnded(ctx)
			failOver(ctx)
			if now.Sub(renewed) >= d.config.SessionIdle/renewals {
				d.renew(ctx, renewed)
				renewed = now
			}
		case <-ctx.Done():
			return
		}
	}
}

// renewals is how often the entry of a session is renewed while the session may be idle.
const renewals = 10

// write writes the entries that lack something, of sessions that this replica leads.
func (d *Directory) write(ctx context.Context) {
	since, leads := d.config.Others.Leads()
	if !leads {
		return // later, when it is sure again
	}
	d.Each(ctx, func(l *sessions.Session) bool {
		leader := l.Leader()
		return l.Shared && leader.Here && leader.Unwritten
	}, func(l *sessions.Session) {
		if !l.IsSureSince(since) {
			_ = d.confirm(ctx, l, since) // or at its next use
			return
		}
		d.save(ctx, l, d.config.Entries.Open, l.Facts())
		l.NoteRewritten()               // before it is asked whether it is over: see ShutDeleted
		if l.Stage() == sessions.Over { // it has ended meanwhile
			d.forget(ctx, l)
		}
	})
}

// renew keeps the entries of sessions for longer that were used since then, and writes
// those again that are not there.
func (d *Directory) renew(ctx context.Context, since time.Time) {
	var keys []primary.Key
	used := make(map[primary.Key]*sessions.Session)
	d.Roster.Each(func(l *sessions.Session) {
		if l.IsUsedSince(since) {
			keys, used[l.EntryKey()] = append(keys, l.EntryKey()), l
		}
	})
	missing, err := d.config.Entries.Renew(ctx, keys)
	if err != nil {
		// the next time is soon enough
		d.config.Guard.Log.DebugContext(ctx, "sessions are not renewed", slog.Any("error", err))
	}
	for _, k := range missing {
		used[k].NoteUnwritten(nil)
	}
}

// removeEnded removes the entries that could not be removed before.
func (d *Directory) removeEnded(ctx context.Context) {
	d.mu.Lock()
	left := d.unended
	d.unended = nil
	d.mu.Unlock()
	for _, l := range left {
		if ctx.Err() != nil {
			return // the other entries end by themselves, as at any stop
		}
		d.forget(ctx, l)
	}
}
