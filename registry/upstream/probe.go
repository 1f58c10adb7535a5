package upstream

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/pace"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// probeLimit is how long a server may take to say whether it is modern. One that stays silent is asked in the old way.
const probeLimit = 3 * time.Second

// connect opens a connection and finds out the server's era. Whatever was found before, a server that can be asked is
// asked anew each time: it may have been replaced by another one.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
func (d *dialer) connect(ctx context.Context) (*control, error) {
	c := &control{connection: newConnection(d.cfg.Name, d.cfg.Count)}
	d.said.Store(c.said)
	var err error
	if d.cfg.URL != "" {
		err = d.connectHTTP(ctx, c)
	} else {
		err = d.connectChild(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// declared is what the control connection says that a client can be asked: all there is, because some servers list certain
// tools only then. Nobody is asked on it. A shared one serves calls whose callers cannot be asked, and tells the truth.
func (d *dialer) declared() mcp.Object {
	if d.cfg.Shared {
		return mcp.Object{}
	}
	return everything()
}

// serve gives the connection the peer that runs calls: on sessions of their own where the server has such.
func (d *dialer) serve(ctx context.Context, c *control) {
	switch p := c.peer.(type) {
	case *legacy:
		c.peer = newOlder(ctx, p, d.cfg, d.open, &d.strays)
	case *modern:
		if d.cfg.named() == 0 && !d.cfg.Shared {
			c.peer = newBoth(ctx, p, d.cfg, d.openSide, &d.strays)
		}
	}
}

// older makes the connection one to a legacy server of that kind. link is the transport; nil: it is dialled.
func (d *dialer) older(ctx context.Context, c *control, link wire.Link, k kind) (err error) {
	var l *legacy
	if nobody := (&calls{strays: &strays{}}); link == nil {
		l, err = d.openAs(ctx, c.connection, k, d.declared(), nobody)
	} else {
		l, err = d.openOn(ctx, c.connection, link, k, d.declared(), nobody)
	}
	if err != nil {
		return err
	}
	c.peer = l
	return nil
}

// connectHTTP asks in the modern way first, because a server may have learned it since, unless the operator named an older
// revision. One of the legacy era is then spoken to in the way that worked last.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#backwards-compatibility
func (d *dialer) connectHTTP(ctx context.Context, c *control) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	if d.cfg.Type == typeSSE {
		return d.older(ctx, c, nil, kindSSE)
	}
	if d.cfg.named() != mcp.Legacy {
		says, m, err := d.discover(ctx, c.connection)
		switch {
		case err != nil:
			return err
		case says == saysModern:
			d.became(c, m)
			return nil
		}
		m.close(ctx, false)
	}
	if d.cfg.named() == mcp.Modern {
		return c.server.protocol("%w", errNotModern)
	}
	var err error
	if d.known() == kindSSE {
		if err = d.older(ctx, c, nil, kindSSE); err != nil && ctx.Err() == nil && d.older(ctx, c, nil, kindLegacy) == nil {
			return nil
		}
		return err
	}
	if err = d.older(ctx, c, nil, kindLegacy); refused(err) && d.cfg.Type == "" && d.older(ctx, c, nil, kindSSE) == nil {
		return nil
	}
	return err
}

// refused tells whether the server answered a POST in a way that only those over HTTP+SSE may mean as "use GET".
func refused(err error) bool {
	status, ok := errors.AsType[*wire.StatusError](err)
	return ok && status.Status >= 400 && status.Status <= 499
}

// discover asks over Streamable HTTP what the server is.
func (d *dialer) discover(ctx context.Context, c *connection) (verdict, *modern, error) {
	link, err := wire.NewHTTP(d.cfg.site(), c)
	if err != nil {
		return 0, nil, c.server.from(err)
	}
	m := newModern(c, link, d.cfg.Version, link.Header())
	says, err := d.probe(ctx, m)
	if err != nil {
		m.close(ctx, false)
	}
	return says, m, err
}

// reprobe asks a legacy server over HTTP from time to time whether it became modern, which it need not tell. The error
// ends the connection, so that the next one is of the new era.
func (d *dialer) reprobe(ctx context.Context, c *control) error {
	if d.cfg.URL == "" || d.cfg.Type == typeSSE || c.version == mcp.LatestModern || d.cfg.named() != 0 {
		return nil
	}
	for pace.Wait(ctx, reprobeEvery) {
		says, m, err := d.discover(ctx, c.connection)
		if err != nil {
			continue // whether it lives is for others to find out
		}
		m.close(ctx, false)
		if says == saysModern {
			return c.server.unavailable(true, errUpgraded)
		}
	}
	return ctx.Err()
}

// connectChild starts the child and asks. A child that the question ended is started once more and spoken to in the old
// way at once; so is, from then on, every further one, and the next one after a child that did not answer in its time. When
// that fails, the next child is asked again. None is asked where the operator named an older revision.
func (d *dialer) connectChild(ctx context.Context, c *control) error {
	if d.cfg.named() == mcp.Legacy {
		return d.older(ctx, c, nil, kindLegacy)
	}
	if d.known() == kindShy {
		err := d.older(ctx, c, nil, kindShy)
		if err != nil && ctx.Err() == nil {
			d.remember(kindUnknown)
		}
		return err
	}
	limited, cancel := context.WithTimeout(ctx, d.cfg.openLimit())
	defer cancel()
	link, err := d.dial(ctx, c.connection, kindUnknown)
	if err != nil {
		return err
	}
	m := newModern(c.connection, link, d.cfg.Version, nil)
	says, err := d.probe(limited, m)
	k := kindLegacy
	switch {
	case err == nil && says == saysModern:
		d.became(c, m)
		return nil
	case d.cfg.named() == mcp.Modern:
		link.Close(ctx, false)
		if err == nil {
			err = c.server.protocol("%w", errNotModern)
		}
		return err
	case err == nil && says == saysNothing:
		k = kindShy
		fallthrough
	case err == nil:
		if err = d.older(limited, c, link, k); err == nil {
			return nil
		}
	default:
		link.Close(ctx, false)
	}
	switch {
	case ctx.Err() != nil || errors.Is(err, errNoCommon):
		return err
	case limited.Err() != nil: // a second start would take twice the time that the operator gives
		d.remember(kindShy)
		return err
	}
	return d.older(ctx, c, nil, kindShy)
}

// became makes the connection one to a modern server.
func (d *dialer) became(c *control, m *modern) {
	c.peer, c.version = m, mcp.LatestModern
	d.remember(kindModern)
}

// verdict is what a server says of itself when it is asked in the modern way.
type verdict int

const (
	saysModern verdict = iota + 1
	saysLegacy
	saysNothing // within the limit
)

var (
	// errNoCommon is the cause when a server names its revisions and this gateway speaks none of them.
	errNoCommon = errors.New("server supports no revision that is spoken here")
	// errUpgraded is the cause when a server of the legacy era became modern.
	errUpgraded = errors.New("server became one of " + mcp.LatestModern)
	// errNotModern is the cause when a server is not what the operator says.
	errNotModern = errors.New("server does not speak " + mcp.LatestModern + ", which its revision in the config names")
)

// probe asks what the server is. An error means that asking in the old way is no use. Where that is out of the question
// anyway, the server has the time of a whole handshake.
func (d *dialer) probe(ctx context.Context, m *modern) (verdict, error) {
	limit := probeLimit
	if d.cfg.named() == mcp.Modern {
		limit = d.cfg.openLimit()
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	result, err := m.exchangeOnce(limited, m.request(mcp.MethodDiscover, mcp.Object{}))
	var (
		answered    *mcp.Error
		status      *wire.StatusError
		unavailable *registry.UnavailableError
	)
	switch {
	case err == nil:
		says, err := d.weigh(result.Value("supportedVersions"))
		if says == saysModern {
			m.learn(result) // a legacy server's own handshake says more
		}
		return says, err
	case errors.As(err, &answered):
		return d.weighError(answered)
	case ctx.Err() != nil:
		return 0, d.timeout(err)
	case limited.Err() != nil:
		return saysNothing, nil
	case errors.As(err, &unavailable) && !errors.As(err, &status):
		return 0, err // there is no connection
	}
	return saysLegacy, nil
}

// weighError tells what an error says. Some only a server of the modern era answers; one that does not know the
// revision names those it knows.
func (d *dialer) weighError(e *mcp.Error) (verdict, error) {
	switch e.Code {
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability:
		return saysModern, nil
	case mcp.CodeUnsupportedVersion:
		data, _ := mcp.ObjectOf(e.Data)
		return d.weigh(data.Value("supported"))
	}
	return saysLegacy, nil
}

// weigh tells what the revisions that a server names say: servers of the legacy era exist that answer the question and
// name theirs.
func (d *dialer) weigh(revisions mcp.RawJSON) (verdict, error) {
	versions, _ := revisions.Elements()
	isLegacy := func(v mcp.RawJSON) bool {
		text, _ := v.Text()
		return mcp.EraOf(text) == mcp.Legacy
	}
	switch {
	case speaks(versions):
		return saysModern, nil
	case len(versions) == 0, slices.ContainsFunc(versions, isLegacy):
		return saysLegacy, nil
	}
	return 0, fault(d.cfg.Name).protocol("%w", errNoCommon)
}
