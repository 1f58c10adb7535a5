package upstream

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// probeLimit is how long a server may take to say whether it is modern. One that stays silent is asked in the old way.
const probeLimit = 3 * time.Second

// connect opens a connection and finds out the server's era. It is asked anew each time: a server may have been
// replaced by another one.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
func (u *Upstream) connect(ctx context.Context) (*connection, error) {
	c := newConnection(u.cfg.Name, u.cfg.Count)
	var err error
	if u.cfg.URL != "" {
		err = u.connectHTTP(ctx, c)
	} else {
		err = u.connectChild(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (u *Upstream) connectHTTP(ctx context.Context, c *connection) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	link, err := newHTTPLink(c, u.cfg)
	if err != nil {
		return err
	}
	if err = u.negotiate(ctx, c, link, link.base); err != nil {
		link.close(ctx, false)
	}
	return err
}

// connectChild starts the child and negotiates. A child that the first question may have upset is started once more
// and asked in the old way at once.
func (u *Upstream) connectChild(ctx context.Context, c *connection) error {
	limited, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	link, err := startChild(ctx, c, u.cfg)
	if err != nil {
		return err
	}
	if err = u.negotiate(limited, c, link, nil); err == nil {
		return nil
	}
	link.close(ctx, false)
	if ctx.Err() != nil {
		return err
	}
	limited, cancel = context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	if link, err = startChild(ctx, c, u.cfg); err != nil {
		return err
	}
	if err = u.openLegacy(limited, c, link); err != nil {
		link.close(ctx, false)
	}
	return err
}

// negotiate asks for the modern era, then for the legacy one.
func (u *Upstream) negotiate(ctx context.Context, c *connection, link transport, base http.Header) error {
	m := newModern(c, link, u.cfg.Version, base)
	limited, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	isModern, err := m.discover(limited)
	var (
		answered    *mcp.Error
		status      *statusError
		unavailable *registry.UnavailableError
	)
	switch {
	case err == nil && isModern, errors.As(err, &answered) && modernError(answered):
		c.peer, c.version = m, mcp.LatestModern
		return nil
	case ctx.Err() != nil:
		return u.timeout(err)
	case errors.As(err, &unavailable) && !errors.As(err, &status) && limited.Err() == nil:
		return err // there is no connection
	}
	return u.openLegacy(ctx, c, link)
}

// modernError tells whether only a server of the modern era answers so. One that does not know the revision may name
// those it knows.
func modernError(e *mcp.Error) bool {
	switch e.Code {
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability:
		return true
	case mcp.CodeUnsupportedVersion:
		data, _ := mcp.ObjectOf(e.Data)
		versions, _ := data.Value("supported").Elements()
		return speaks(versions)
	}
	return false
}

// open opens one more connection to a legacy server that was found before and declares the capabilities on it. It
// does not probe.
func (u *Upstream) open(ctx context.Context, c *connection, capabilities mcp.Object) error {
	var (
		link transport
		err  error
	)
	if u.cfg.URL != "" {
		link, err = newHTTPLink(c, u.cfg)
	} else {
		link, err = startChild(ctx, c, u.cfg)
	}
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	l, err := openLegacy(limited, c, link, u.cfg.Version, capabilities)
	if err != nil {
		link.close(ctx, false)
		return u.timeout(err)
	}
	c.peer = l
	return nil
}

func (u *Upstream) openLegacy(ctx context.Context, c *connection, link transport) error {
	l, err := openLegacy(ctx, c, link, u.cfg.Version, mcp.Object{})
	if err != nil {
		return u.timeout(err)
	}
	c.peer = l
	return nil
}

// timeout names the cause when a handshake took too long.
func (u *Upstream) timeout(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fault(u.cfg.Name).unavailable(true, errors.New("no answer to the handshake in time"))
	}
	return err
}
