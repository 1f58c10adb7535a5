package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// logInterval is the least time between two log lines on children for calls that failed.
const logInterval = time.Minute

// kind is how a server was found to be spoken to: its era and transport. The dialer
// remembers it from one connection to the next. The zero value says that nothing was
// found out yet.
type kind int32

const (
	kindUnknown kind = iota
	kindModern
	kindLegacy
	kindSSE // legacy, over HTTP+SSE
	// kindShy is a child of the legacy era that ends or falls silent when it is asked for
	// its era. It is not asked again.
	kindShy
	// kindUnasked is as kindShy, but a child that was slow to start may look the same:
	// another one is asked; see unasked.
	kindUnasked
)

// typeSSE is the Config.Type of a server that is spoken to over HTTP+SSE without trying
// anything else.
const typeSSE = "sse"

// dialer opens all connections to one server, and remembers across connections how the
// server is spoken to. It is safe for concurrent use.
type dialer struct {
	cfg *Config
	// of the child of the latest control connection; empty before the first, and for a
	// server over HTTP. Only whoever calls connect uses it
	said     *wire.LastLines
	children atomic.Int64   // how many were started and have not ended
	strays   strays         // remembered here, since a dialer outlives each connection
	kind     atomic.Int32   // the latest kind that was found
	logs     rate.Sometimes // of why children for calls failed
}

var errStateless = errors.New("server opens no session")

// open opens one pooled session with a server that connect found to be legacy, over the
// same kind of transport, and declares the capabilities on it. open are the calls of the
// session that may be asked something. It does not ask for the era again.
func (d *dialer) open(ctx context.Context, c *connection, capabilities mcp.Object,
	open *calls,
) (*legacy, error) {
	known := d.known()
	if known == kindUnknown || known == kindModern {
		return nil, c.server.unavailable(false, errors.New("server was not found to be of the legacy era"))
	}
	l, err := d.openAs(ctx, c, nil, known, capabilities, open)
	return d.logged(ctx, c, l, err)
}

// openAs does the legacy handshake within the time for opening, on a link that it dials
// as the kind says if there is none. It closes the link when that fails, and after a
// panic, too: a child or a stream does not end by itself.
func (d *dialer) openAs(ctx context.Context, c *connection, link wire.Link, k kind,
	capabilities mcp.Object, open *calls,
) (l *legacy, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.openLimit())
	defer cancel()
	if link == nil {
		if link, err = d.dial(ctx, c, k); err != nil {
			return nil, d.timeout(c, err)
		}
	}
	defer func() {
		if l == nil {
			link.Close(ctx, false)
		}
	}()
	l, err = openLegacy(ctx, c, link, capabilities, open)
	return l, d.timeout(c, err)
}

// openSide opens one session with a modern server in an older revision, for the type
// both.
func (d *dialer) openSide(ctx context.Context, c *connection, capabilities mcp.Object,
	open *calls,
) (l *legacy, err error) {
	defer func() { l, err = d.logged(ctx, c, l, err) }()
	if l, err = d.openAs(ctx, c, nil, kindLegacy, capabilities, open); err != nil {
		return nil, err
	}
	if web, ok := l.link.(*wire.HTTP); ok && web.SessionID() == "" {
		web.Close(ctx, false)
		return nil, errStateless
	}
	l.both = true
	return l, nil
}

// dial makes the transport: it starts the child, opens the event stream, or prepares
// Streamable HTTP, which sends nothing yet.
func (d *dialer) dial(ctx context.Context, c *connection, k kind) (link wire.Link, err error) {
	switch {
	case d.cfg.URL == "":
		link, err = d.startChild(ctx, c)
	case k == kindSSE:
		link, err = wire.OpenSSE(ctx, d.cfg.site(c.owner), c)
	default:
		link = wire.NewHTTP(d.cfg.site(c.owner), c)
	}
	return link, c.server.from(err)
}

// startChild starts a child and counts it until its process has ended. The child is
// counted before it starts, because Ended may be called as soon as it runs.
func (d *dialer) startChild(ctx context.Context, c *connection) (*wire.Child, error) {
	of := d.cfg.program(c.said)
	of.Ended = func() { d.children.Add(-1) }
	d.children.Add(1)
	k, err := wire.Start(ctx, of, c)
	if err != nil {
		d.children.Add(-1)
	}
	return k, err
}

// known returns the kind that was found last.
func (d *dialer) known() kind { return kind(d.kind.Load()) }

func (d *dialer) remember(k kind) { d.kind.Store(int32(k)) }

// logged logs why a session on a child for calls could not be opened. Where it could, it
// arranges that the loss of the child is logged when the session is closed. Both lines
// have what the child wrote to standard error, because no Status shows that: a Status has
// the words of the control connection's child only.
func (d *dialer) logged(ctx context.Context, c *connection, l *legacy, err error) (*legacy, error) {
	if err != nil {
		d.seldom(ctx, func() {
			d.cfg.Logger.WarnContext(ctx, "no child for calls", c.lastWords(err)...)
		})
		return l, err
	}
	l.tellLoss = func(ctx context.Context, err error) {
		d.seldom(ctx, func() {
			d.cfg.Logger.WarnContext(ctx, "a child for calls was lost", c.lastWords(err)...)
		})
	}
	return l, nil
}

// seldom calls log where the server is a child and ctx goes on. Every call may start a
// child, so it does so at most once in logInterval; otherwise a broken server would flood
// the log.
func (d *dialer) seldom(ctx context.Context, log func()) {
	if d.cfg.URL == "" && ctx.Err() == nil {
		d.logs.Do(log)
	}
}

// lastWords returns what the log says of a child that failed.
func (c *connection) lastWords(err error) []any {
	return []any{
		slog.String("problem", problem(err)),
		slog.String("stderr", strings.Join(c.said.Shown(), " | ")),
	}
}

// timeout turns an expired deadline of a handshake into an error that says so, and what a
// child said in place of an answer. Other errors stay as they are.
func (d *dialer) timeout(c *connection, err error) error {
	switch {
	case !errors.Is(err, context.DeadlineExceeded):
		return err
	case d.cfg.URL == "" && c.strange.Load():
		return c.server.unavailable(true, fmt.Errorf("%w, and on its standard output are lines that are no "+
			"messages: it may speak over HTTP, or print its log there", errSilent))
	}
	return c.server.unavailable(true, errSilent)
}
