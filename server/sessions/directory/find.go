package directory

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/forward"
	"github.com/drawbridge-mcp/drawbridge/server/primary"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
	"github.com/drawbridge-mcp/drawbridge/server/ticket"
)

// Open makes a session for a caller, and its id. If the tenant or the user has as many
// sessions as it may have, the one that has been idle longest ends for it; if none is
// idle, the new one is refused. A shared one is recorded by Register.
func (d *Directory) Open(ctx context.Context, purpose string, c gateway.Caller,
	agreed ticket.Terms,
) (l *sessions.Session, id string, refused *exchange.Refusal) {
	t := ticket.Ticket{
		Opener: d.opener, Key: ticket.NewKey(), Owner: c.Principal.Owner().Digest(), Opened: time.Now(),
		Revision: agreed.Revision, Capabilities: mcp.CapabilityBits(agreed.Capabilities),
		Extensions: agreed.Extensions,
	}
	id, err := d.config.Seal.Seal(purpose, t.Encode())
	if err != nil {
		d.config.Guard.Log.ErrorContext(ctx, "session id not sealed", slog.Any("error", err))
		return nil, "", exchange.ErrPanic
	}
	l = d.sessionOf(&t, c.Principal, d.Shared && purpose == ticket.Session)
	l.BeginLeading(primary.Epoch())
	l, refused = d.add(ctx, l, c)
	return l, id, refused
}

// Find returns the session over HTTP+SSE that a request names in its query, if it belongs
// to the caller and is alive. One that another replica opened lives there: then Find
// returns that one, if the request was not forwarded. The client is not told why a
// session is not found: the id may be forged, unknown, of somebody else or of another
// instance, or the session may have ended or expired. Only the log tells.
func (d *Directory) Find(x *exchange.Exchange) (l *sessions.Session, home replica.ID,
	refused *exchange.Refusal,
) {
	t, refused := d.named(x, ticket.SSE, x.Request.URL.Query()["sessionId"])
	switch {
	case refused != nil:
		return nil, "", refused
	case d.Shared && t.Opener != d.opener && !x.Forwarded:
		return nil, t.OpenedBy(), nil
	}
	l, refused = d.findHere(x.Context(), t, x.Caller)
	return l, "", refused
}

// AtHome returns a session for what this replica has of it, a question or a task, whoever
// leads it.
func (d *Directory) AtHome(ctx context.Context, t *ticket.Ticket, c gateway.Caller) (*sessions.Session,
	*exchange.Refusal,
) {
	if !d.Shared {
		return d.findHere(ctx, t, c)
	}
	here := d.Roster.Find(t.Key)
	if here != nil {
		switch leader := here.Leader(); {
		case leader.Here:
			if refused := d.useLed(ctx, here, c); refused != forward.ErrElsewhere {
				return here, refused
			}
			here = nil
		case leader.Epoch != 0:
			return here, nil
		}
	}
	// One that is here for a request alone is not told of its end.
	l := d.sessionOf(t, c.Principal, true)
	l.Reach(sessions.Ready)
	switch _, err := d.config.Entries.Read(ctx, l.EntryKey()); {
	case errors.Is(err, primary.ErrNone):
		if here != nil && !here.Leader().Here {
			d.Shut(here, sessions.EndClosed) // cancels what runs in it
		}
		return nil, d.missed(ctx, t.Key)
	case here != nil:
		return here, nil
	case err != nil:
		return nil, exchange.ErrReplicas
	}
	return l, nil
}
