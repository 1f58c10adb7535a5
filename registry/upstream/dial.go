package upstream

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// wordsEvery is the least time between two lines in the log on children for calls that fail.
const wordsEvery = time.Minute

// kind is how a server was found to be spoken to. It is remembered from one connection to the next.
type kind int

const (
	kindUnknown kind = iota
	kindModern
	kindLegacy
	kindSSE // legacy, over HTTP+SSE
	kindShy // a child of the legacy era that the first question ends or silences; it is not asked again
)

// typeSSE is the Config.Type of servers that are spoken to over HTTP+SSE without asking.
const typeSSE = "sse"

// dialer opens connections to one server, and remembers how it is spoken to. It is safe for concurrent use.
type dialer struct {
	cfg      *Config
	said     atomic.Pointer[wire.LastWords] // of the child of the last control connection; nil before the first
	children atomic.Int64                   // that have not ended
	strays   strays                         // of the server

	mu     sync.Mutex // guards the fields below
	kind   kind       // that was found last
	worded time.Time  // when the log was told last why a child for calls failed
}

var errStateless = errors.New("server opens no session")

// open opens one more connection to a legacy server that was found before, of the same kind, and declares the
// capabilities on it. It does not probe.
func (d *dialer) open(ctx context.Context, c *connection, capabilities mcp.Object, open *calls) (*legacy, error) {
	known := d.known()
	if known == kindUnknown || known == kindModern {
		return nil, c.server.unavailable(false, errors.New("server was not found to be of the legacy era"))
	}
	l, err := d.openAs(ctx, c, known, capabilities, open)
	return d.told(ctx, c, l, err)
}

// openAs dials in the way of a legacy kind and does the handshake.
func (d *dialer) openAs(ctx context.Context, c *connection, k kind, capabilities mcp.Object, open *calls) (*legacy, error) {
	limited, cancel := context.WithTimeout(ctx, d.cfg.openLimit())
	defer cancel()
	link, err := d.dial(limited, c, k)
	if err != nil {
		return nil, d.timeout(err)
	}
	return d.openOn(limited, c, link, k, capabilities, open)
}

// openSide opens one session with a modern server under the older era. Unlike open it finds out nothing that is remembered.
func (d *dialer) openSide(ctx context.Context, c *connection, capabilities mcp.Object, open *calls) (l *legacy, err error) {
	defer func() { l, err = d.told(ctx, c, l, err) }()
	limited, cancel := context.WithTimeout(ctx, d.cfg.openLimit())
	defer cancel()
	link, err := d.dial(limited, c, kindLegacy)
	if err != nil {
		return nil, err
	}
	l, err = openLegacy(limited, c, link, d.cfg, capabilities, open)
	if web, ok := link.(*wire.HTTP); ok && err == nil && web.SessionID() == "" {
		err = errStateless
	}
	if err != nil {
		link.Close(ctx, false)
		return nil, err
	}
	l.both = true
	return l, nil
}

// dial starts the child, or opens the way to a server over HTTP.
func (d *dialer) dial(ctx context.Context, c *connection, k kind) (link wire.Link, err error) {
	switch {
	case d.cfg.URL == "":
		link, err = d.startChild(ctx, c)
	case k == kindSSE:
		link, err = wire.OpenSSE(ctx, d.cfg.site(), c)
	default:
		link, err = wire.NewHTTP(d.cfg.site(), c)
	}
	return link, c.server.from(err)
}

// openOn does the legacy handshake on a transport, which is closed when that fails, and remembers the kind when it
// does not.
func (d *dialer) openOn(
	ctx context.Context, c *connection, link wire.Link, k kind, capabilities mcp.Object, open *calls,
) (*legacy, error) {
	l, err := openLegacy(ctx, c, link, d.cfg, capabilities, open)
	if err != nil {
		link.Close(ctx, false)
		return nil, d.timeout(err)
	}
	d.remember(k)
	return l, nil
}

// startChild starts a child that counts until it has ended.
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
func (d *dialer) known() kind {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kind
}

func (d *dialer) remember(k kind) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kind = k
}

// told logs why a session for calls did not open. If it did, the loss of its child is logged when it is closed.
// Either line has what the child wrote to standard error: no status tells that, because it is not the child that lists.
func (d *dialer) told(ctx context.Context, c *connection, l *legacy, err error) (*legacy, error) {
	if err != nil {
		if line := d.words(ctx, c, err); line != nil {
			d.cfg.Logger.WarnContext(ctx, "no child for calls", line...)
		}
		return l, err
	}
	l.tellLoss = func(ctx context.Context, err error) {
		if line := d.words(ctx, c, err); line != nil {
			d.cfg.Logger.WarnContext(ctx, "a child for calls was lost", line...)
		}
	}
	return l, nil
}

// words returns what the log says of a child for calls that failed, nil if it says nothing. Every call may start a
// child, so that something is said once in wordsEvery.
func (d *dialer) words(ctx context.Context, c *connection, err error) []any {
	if d.cfg.URL != "" || ctx.Err() != nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.worded) < wordsEvery {
		return nil
	}
	d.worded = time.Now()
	return []any{slog.String("problem", problem(err)), slog.String("stderr", strings.Join(c.said.Shown(), " | "))}
}

// lastSaid returns the last lines that the last child wrote to standard error, nil for a server that is no child.
func (d *dialer) lastSaid() []string {
	if said := d.said.Load(); said != nil {
		return said.Shown()
	}
	return nil
}

// timeout names the cause when a handshake took too long.
func (d *dialer) timeout(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fault(d.cfg.Name).unavailable(true, errors.New("no answer to the handshake in time"))
	}
	return err
}
