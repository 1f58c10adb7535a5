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

// probeLimit is how long a server may take to say whether it is modern. A server that stays silent is taken for a
// legacy one, because some do not answer what they do not know.
const probeLimit = 3 * time.Second

// connect opens a control connection and finds out the server's era. A server is asked anew for each connection,
// whatever it was before: another version may have been installed meanwhile.
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

// declared returns what the control connection says that its client can be asked. It says everything, although nobody
// is asked there unless the connection is lent, because some servers list certain tools only then. With Config.Shared
// the connection runs calls whose callers cannot be asked, so it says the truth: nothing.
func (d *dialer) declared() mcp.Object {
	if d.cfg.Shared {
		return mcp.Object{}
	}
	return everything()
}

// serve gives the connection the peer that runs its calls: on pooled sessions with a legacy server, on both sides with
// a modern one that may have an older side. It is called after connect, and not by Probe, which runs no calls.
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

// older makes c a connection to a legacy server of that kind. link is a transport that is open already; nil: one is
// dialled.
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

// connectHTTP connects to a server over HTTP. It asks in the modern way first, because a server may have become modern,
// unless the operator named a legacy revision or HTTP+SSE. A legacy server is then spoken to in the way that worked
// last: over Streamable HTTP, or HTTP+SSE.
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

// refused tells whether the server answered a POST with a status of 400 to 499, which may mean that it speaks HTTP+SSE,
// where the first request is a GET.
func refused(err error) bool {
	status, ok := errors.AsType[*wire.StatusError](err)
	return ok && status.Status >= 400 && status.Status <= 499
}

// discover asks a server over Streamable HTTP what it is. Whoever gets the peer closes it; after an error there is
// nothing to close.
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

// reprobe asks a legacy server over HTTP every reprobeEvery whether it has become modern, which a server need not
// announce. If so, it returns an error, which ends the connection, so that the next one is of the new era. It returns
// nil at once where there is nothing to ask.
func (d *dialer) reprobe(ctx context.Context, c *control) error {
	if d.cfg.URL == "" || d.cfg.Type == typeSSE || c.version == mcp.LatestModern || d.cfg.named() != 0 {
		return nil
	}
	for pace.Wait(ctx, reprobeEvery) {
		says, m, err := d.discover(ctx, c.connection)
		if err != nil {
			continue // whether the server lives is found out elsewhere
		}
		m.close(ctx, false)
		if says == saysModern {
			return c.server.unavailable(true, errUpgraded)
		}
	}
	return ctx.Err()
}

// connectChild starts the child and asks it what it is. A child that answers, or stays silent, and is not modern is
// then spoken to in the legacy way. A child that ends when it is asked is started once more and spoken to in the legacy
// way without asking.
//
// A child that was silent or ended is remembered (kindShy), so that no later child of this server is asked. The same is
// remembered, for the next child, of one that did not become ready in time. If a child that was not asked cannot be
// connected to, the next one is asked again. No child is asked when the operator named a legacy revision.
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

// became makes c a connection to a modern server.
func (d *dialer) became(c *control, m *modern) {
	c.peer, c.version = m, mcp.LatestModern
	d.remember(kindModern)
}

// verdict is what a server turns out to be when it is asked in the modern way. Zero stands beside an error.
type verdict int

const (
	saysModern verdict = iota + 1
	saysLegacy
	saysNothing // it did not answer within the limit
)

var (
	// errNoCommon: the server names its revisions, and the gateway speaks none of them.
	errNoCommon = errors.New("server supports no revision that is spoken here")
	// errUpgraded: a server of the legacy era has become modern.
	errUpgraded = errors.New("server became one of " + mcp.LatestModern)
	// errNotModern: the operator named the modern revision, and the server does not speak it.
	errNotModern = errors.New("server does not speak " + mcp.LatestModern + ", which its revision in the config names")
)

// probe asks the server what it is. An error means that a legacy handshake is of no use either. Where the operator
// named the modern revision there is no other way to try, so the server has the time of a whole handshake to answer.
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
			m.learn(result) // what a legacy server can do, its own handshake will say
		}
		return says, err
	case errors.As(err, &answered):
		return d.weighError(answered)
	case ctx.Err() != nil:
		return 0, d.timeout(err)
	case limited.Err() != nil:
		return saysNothing, nil
	case errors.As(err, &unavailable) && !errors.As(err, &status):
		return 0, err // the server cannot be reached
	}
	return saysLegacy, nil
}

// weighError tells what an error in answer to the question says. Some errors exist in the modern era only. A server
// that does not know the revision names those that it knows. Any other error is how a legacy server answers an unknown
// method.
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

// weigh tells what the revisions that a server names say. They may be legacy ones: there are servers of that era which
// answer the question.
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
