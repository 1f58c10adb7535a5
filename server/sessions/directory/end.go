package directory

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/primary"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
)

// add enters a session, and ends those that are evicted for it. It returns the session
// that has the key.
func (d *Directory) add(ctx context.Context, l *sessions.Session, c gateway.Caller) (*sessions.Session,
	*exchange.Refusal,
) {
	tenant, user := c.Tenant.Sessions()
	entered, evicted, refused := d.Roster.Add(l, sessions.Bounds{Tenant: tenant, User: user})
	d.tellEvicted(ctx, evicted)
	for _, gone := range evicted {
		gone.Discard()
		if gone.Leader().Here { // another goes on elsewhere, and may come back
			d.ended.set(gone.Key, sessions.EndEvicted)
			d.forget(ctx, gone)
			d.ForgetEvents(gone)
		}
	}
	return entered, refused
}

// End ends a session everywhere or, if another replica leads it, on this instance alone.
// how says for the log why it ended. There are less thorough ways, each of which does
// what the one below does, and more:
//
//	End             the events are forgotten, the entry is removed, and streams at other replicas end
//	Shut            it can be found here no more
//	Session.Close   its calls are cancelled, and its streams here end
func (d *Directory) End(ctx context.Context, l *sessions.Session, how string) {
	if !d.Shut(l, how) || !l.Leader().Here {
		return
	}
	d.ForgetEvents(l)
	d.forget(ctx, l)
	if l.Shared {
		d.config.LetGo(l, l.StreamsAt(), EndedEpoch)
	}
}

// Shut ends a session on this instance alone, which cancels its calls. It is false if the
// session had ended before.
func (d *Directory) Shut(l *sessions.Session, how string) bool {
	d.Roster.Remove(l)
	ended := l.Close()
	if ended && l.Leader().Here {
		d.ended.set(l.Key, how)
	}
	return ended
}

// enteringTime is longer than it takes from when a session is entered here until this
// replica leads it, or a connection here has a stream of it.
const enteringTime = 10 * time.Second

// Sweep ends the sessions that nobody has used for too long. One that another replica
// leads is only let go of, but not while it may be about to be taken over.
func (d *Directory) Sweep(ctx context.Context) {
	now := time.Now()
	d.Each(ctx, func(l *sessions.Session) bool {
		return !l.Fresh(now, d.config.SessionIdle) ||
			!l.Leader().Here && !l.IsBusy() && now.Sub(l.IdleSince()) > enteringTime
	}, func(l *sessions.Session) {
		if _, leads := d.config.Others.Leads(); leads || !l.Shared {
			d.End(ctx, l, l.Lapse(now))
		}
	})
}

// ForgetEvents forgets the events of a session that has ended, once the calls that are
// still answered have their streams.
func (d *Directory) ForgetEvents(l *sessions.Session) {
	if l.AfterJobs(func() { d.config.Log.End(l.InLog()) }) {
		d.config.Log.End(l.InLog())
	}
}

// Reauthorize ends the sessions whose callers are not accepted any more, and of the
// others the subscriptions that they may not have any more. It returns how many sessions
// it ended, and which subscriptions. A session whose token would be accepted, but whose
// tenant this replica does not serve at the moment, ends here alone: others may serve it,
// and this one later, with its events.
func (d *Directory) Reauthorize(ctx context.Context, resolve func(auth.Principal) (gateway.Caller, bool),
	judge func(auth.Principal) error,
) (ended int, given []sessions.Revoked) {
	var gone []*sessions.Session
	d.Roster.Each(func(l *sessions.Session) {
		principal := l.Client().Principal
		caller, ok := resolve(principal)
		if ok {
			given = append(given, l.Reauthorize(caller)...)
			return
		}
		if d.Shut(l, exchange.OutcomeRevoked) {
			ended++
			if l.Leader().Here && (!l.Shared || judge(exchange.Unexpired(principal)) != nil) {
				gone = append(gone, l)
			}
		}
	})
	for _, l := range gone { // last, because the entries may be far away
		d.ForgetEvents(l)
		d.forget(ctx, l)
	}
	return ended, given
}

// forget removes the entry of a session that has ended here for another reason than that
// its client said so. What cannot be removed now is removed later.
func (d *Directory) forget(ctx context.Context, l *sessions.Session) {
	if !l.Shared || !l.Leader().Here {
		return
	}
	err := d.config.Entries.End(context.WithoutCancel(ctx), l.EntryKey(), l.Leader().Epoch)
	if err == nil || errors.Is(err, primary.ErrFenced) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.unended) < maxUnended {
		d.unended = append(d.unended, l)
	}
}

// maxUnended is how many entries are kept in mind that are yet to be removed. The others
// end by themselves.
const maxUnended = 4096

// maxEvictionsShown bounds the lines of the log for one new session: a reload that lowers
// a limit ends many.
const maxEvictionsShown = 10

// tellEvicted logs which sessions were evicted for a new one, the one that was idle
// longest first. A new session evicts one, so there are at most as many lines as requests
// that open sessions, and a few more after a reload that lowers a limit.
func (d *Directory) tellEvicted(ctx context.Context, evicted []*sessions.Session) {
	for i, l := range evicted {
		if i == maxEvictionsShown {
			d.config.Guard.Log.InfoContext(ctx, "more sessions evicted", slog.Int("sessions", len(evicted)-i))
			return
		}
		d.config.Guard.Log.InfoContext(ctx, "session evicted", slog.String("session", l.ShortName()),
			slog.String("limit", l.EvictedBy),
			slog.Float64("idle_seconds", time.Since(l.IdleSince()).Seconds()))
	}
}

// atOnce is with how many sessions something is done at once.
const atOnce = 16

// Each calls do with sessions, several at once, and returns when it was called with
// all. Which they are is asked again when it is their turn: do may wait for Redis, and
// meanwhile a session that nobody had in use may have been taken over.
func (d *Directory) Each(ctx context.Context, which func(*sessions.Session) bool,
	do func(*sessions.Session),
) {
	var all []*sessions.Session
	d.Roster.Each(func(l *sessions.Session) {
		if which(l) {
			all = append(all, l)
		}
	})
	pace.AtOnce(len(all), atOnce, func(i int) {
		d.Roster.Safely(ctx, func() {
			if ctx.Err() == nil && which(all[i]) {
				do(all[i])
			}
		})
	})
}
