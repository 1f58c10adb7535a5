// Package directory opens, finds and ends sessions of older eras, and finds out which
// replica leads each. What a session is stands in server/sessions, and what happens to
// requests of one in server/legacy: this package knows no request, and no stream.
//
// To read the package, begin at the top of this table. A file uses only what stands below
// it or on its line:
//
//	a session begins     find: it is opened, or over HTTP+SSE found by its id
//	what Redis has       entries: what is kept of sessions is written, renewed and removed
//	who leads a session  lead: this replica, which then has it, another, or nobody any more
//	a session ends       end: by itself, evicted for another, by its client, or because rights have changed
//	what all share       directory: what the id of a session says; recent: what is remembered of sessions
package directory

import (
	"cmp"
	"context"
	"encoding/hex"
	"math"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/primary"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
	"github.com/drawbridge-mcp/drawbridge/server/ticket"
)

// Config is what a directory needs. Every field is required unless its comment says
// otherwise.
type Config struct {
	Seal    *seal.Ring // of session ids
	Log     eventlog.Log
	Entries primary.Store // say which replica leads each session; nil: there are no others
	Others  replica.Others
	Memory  *share.Budget // of bytes, for what clients have yet to be told
	Guard   exchange.Guard

	SessionIdle, SessionMaxAge time.Duration

	// OnNotices is called when a client is to be told something on a stream that another
	// replica holds.
	OnNotices func(*sessions.Session)
	// TellTaken tells the replica that led a session before that this one does, and
	// returns the requests that it answers. That replica is "" if it is gone.
	TellTaken func(ctx context.Context, l *sessions.Session, former replica.ID, epoch uint64) map[mcp.ID]bool
	// OnTaken is called when this replica leads a session that another one led before.
	OnTaken func(*sessions.Session)
	// LetGo tells replicas that hold streams of a session that this one leads it no more.
	LetGo func(l *sessions.Session, at map[string]replica.ID, epoch uint64)
}

// EndedEpoch stands for the epoch of a session that has ended: no replica leads it, and
// nothing of it is needed.
const EndedEpoch = math.MaxUint64

// Directory opens, finds and ends the sessions that this replica serves. It is safe for
// concurrent use.
type Directory struct {
	Roster *sessions.Roster
	Shared bool // sessions of Streamable HTTP have an entry that other replicas know

	config     Config
	opener     [ticket.OpenerSize]byte // this process
	ended      recent[string]          // how sessions ended
	hints      recent[replica.ID]      // where sessions were found that their openers do not lead
	taking     singleflight.Group
	beingTaken sync.Map // has the ticket.Key of each session in taking

	mu      sync.Mutex          // guards the field below
	unended []*sessions.Session // that have ended, and whose entries are yet to be removed
}

// How much is remembered of sessions, at least. To look for one that is forgotten costs a
// round trip, and of an end that is forgotten the log says less.
const (
	hintsRemembered = 5000
	endsRemembered  = 4096
)

// New returns a directory without sessions.
func New(cfg Config) *Directory {
	d := &Directory{
		Roster: sessions.NewRoster(cfg.Guard, cfg.Memory, cfg.OnNotices), Shared: cfg.Entries != nil,
		config: cfg, ended: recent[string]{half: endsRemembered},
		hints: recent[replica.ID]{half: hintsRemembered},
	}
	_, _ = hex.Decode(d.opener[:], []byte(cfg.Others.Self())) // as replica.NewID makes it
	if d.Shared {
		cfg.Entries.OnLoss(d.RewriteAll)
	}
	return d
}

// sessionOf returns the session that a ticket describes.
func (d *Directory) sessionOf(t *ticket.Ticket, p auth.Principal, shared bool) *sessions.Session {
	return sessions.New(d.Roster, t, p, d.opener, d.config.SessionMaxAge, shared)
}

// ticketOf returns the ticket that is sealed in id, if it is the caller's.
func (d *Directory) ticketOf(ctx context.Context, purpose, id string, c gateway.Caller) (*ticket.Ticket,
	*exchange.Refusal,
) {
	// worked out for every id, so that the time does not tell a foreign one from a forged
	// one
	owner := c.Principal.Owner().Digest()
	t, ok := d.openTicket(purpose, id)
	switch {
	case !ok:
		return nil, d.unreadable(ctx)
	case t.Owner != owner:
		return nil, sessions.Miss(ctx, sessions.LostForeign)
	}
	return &t, nil
}

// unreadable returns the refusal of an id that this replica cannot open. Where a replica
// of a later version runs, the id may be one of its own: with 404 its client would throw
// away a session that goes on there.
func (d *Directory) unreadable(ctx context.Context) *exchange.Refusal {
	if d.Shared && d.config.Others.IsNewerThere() {
		return exchange.ErrReplicas
	}
	return sessions.Miss(ctx, sessions.LostUnreadable)
}

// openTicket returns the ticket that is sealed in id.
func (d *Directory) openTicket(purpose, id string) (t ticket.Ticket, ok bool) {
	buffer := plains.Get().(*[ticket.Size]byte)
	defer plains.Put(buffer)
	plain, err := d.config.Seal.AppendOpen(buffer[:0], purpose, id)
	if err != nil {
		return ticket.Ticket{}, false
	}
	return ticket.Decode(plain)
}

// plains has room for tickets that are being read.
var plains = sync.Pool{New: func() any { return new([ticket.Size]byte) }}

// Of returns the ticket of the session that a request names in its header.
func (d *Directory) Of(x *exchange.Exchange) (*ticket.Ticket, *exchange.Refusal) {
	return d.named(x, ticket.Session, x.Request.Header[mcp.HeaderSessionID])
}

// named returns the ticket that is sealed in the one id that a request names.
func (d *Directory) named(x *exchange.Exchange, purpose string, ids []string) (*ticket.Ticket,
	*exchange.Refusal,
) {
	switch {
	case len(ids) == 0 && purpose == ticket.SSE:
		return nil, exchange.ErrNoSSESession
	case len(ids) == 0:
		return nil, exchange.ErrNoSession
	case len(ids) > 1 || len(ids[0]) > seal.MaxLength:
		return nil, exchange.ErrSession
	}
	return d.ticketOf(x.Context(), purpose, ids[0], x.Caller)
}

// missed returns the refusal of a session that is not here. A client that uses one which
// has ended is told only that there is no such session; an operator reads in the line of
// that request why.
func (d *Directory) missed(ctx context.Context, key ticket.Key) *exchange.Refusal {
	return sessions.Miss(ctx, cmp.Or(d.ended.of(key), sessions.LostForgotten))
}

// RewriteAll has Tend write all entries again: the store may have lost some.
func (d *Directory) RewriteAll() {
	d.Roster.Each(func(l *sessions.Session) { l.NoteUnwritten(nil) })
}
