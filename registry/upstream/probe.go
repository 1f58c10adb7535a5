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

// Limits of probes.
const (
	// probeLimit is how long a server may take to say whether it is modern. One that stays silent is asked in the old way.
	probeLimit = 3 * time.Second
	// reprobeEvery is how often a server of the legacy era that answers well is asked whether it became modern.
	reprobeEvery = 10 * time.Minute
)

// kind is how a server was found to be spoken to. It is remembered from one connection to the next.
type kind int

const (
	kindUnknown kind = iota
	kindModern
	kindLegacy
	kindSSE // legacy, over HTTP+SSE
	kindShy // a child of the legacy era that the first question ends or silences; it is not asked again
)

// connect opens a connection and finds out the server's era. Whatever was found before, a server that can be asked is
// asked anew each time: it may have been replaced by another one.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
func (u *Upstream) connect(ctx context.Context) (*control, error) {
	c := &control{connection: newConnection(u.cfg.Name, u.cfg.Count)}
	u.said.Store(c.said)
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

// declared is what the control connection says that a client can be asked: all there is, because some servers list certain
// tools only then. Nobody is asked on it. A shared one serves calls whose callers cannot be asked, and tells the truth.
func (u *Upstream) declared() mcp.Object {
	if u.cfg.Shared {
		return mcp.Object{}
	}
	return everything()
}

// everything returns all that a client can be asked, in canonical form.
func everything() mcp.Object {
	return mcp.NewObject(
		mcp.Member{Name: "elicitation", Value: mcp.RawJSON(`{"form":{},"url":{}}`)},
		mcp.Member{Name: "roots", Value: mcp.RawJSON("{}")},
		mcp.Member{Name: "sampling", Value: mcp.RawJSON(`{"context":{},"tools":{}}`)},
	)
}

// open opens one more connection to a legacy server that was found before, of the same kind, and declares the
// capabilities on it. It does not probe.
func (u *Upstream) open(ctx context.Context, c *connection, capabilities mcp.Object, open *calls) (*legacy, error) {
	known := u.known()
	if known == kindUnknown || known == kindModern {
		return nil, c.server.unavailable(false, errors.New("server was not found to be of the legacy era"))
	}
	l, err := u.openAs(ctx, c, known, capabilities, open)
	u.tellWords(ctx, c, err)
	return l, err
}

// openAs dials in the way of a legacy kind and does the handshake.
func (u *Upstream) openAs(ctx context.Context, c *connection, k kind, capabilities mcp.Object, open *calls) (*legacy, error) {
	limited, cancel := context.WithTimeout(ctx, u.cfg.openLimit())
	defer cancel()
	link, err := u.dial(limited, c, k)
	if err != nil {
		return nil, u.timeout(err)
	}
	return u.openOn(limited, c, link, k, capabilities, open)
}

// attach makes the connection the one that calls go to. The function it returns ends that.
func (u *Upstream) attach(ctx context.Context, c *control) (detach func()) {
	switch p := c.peer.(type) {
	case *legacy:
		c.peer = newOlder(ctx, p, &u.cfg, u.open, &u.strays)
	case *modern:
		if u.cfg.named() == 0 && !u.cfg.Shared {
			c.peer = newBoth(ctx, p, &u.cfg, u.openSide, &u.strays)
		}
	}
	u.control.Store(c)
	return func() { u.control.Store(nil) }
}

// openSide opens one session with a modern server under the older era. Unlike open it finds out nothing that is remembered.
func (u *Upstream) openSide(ctx context.Context, c *connection, capabilities mcp.Object, open *calls) (l *legacy, err error) {
	defer func() { u.tellWords(ctx, c, err) }()
	limited, cancel := context.WithTimeout(ctx, u.cfg.openLimit())
	defer cancel()
	link, err := u.dial(limited, c, kindLegacy)
	if err != nil {
		return nil, err
	}
	l, err = openLegacy(limited, c, link, &u.cfg, capabilities, open)
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
func (u *Upstream) dial(ctx context.Context, c *connection, k kind) (link wire.Link, err error) {
	switch {
	case u.cfg.URL == "":
		link, err = u.startChild(ctx, c)
	case k == kindSSE:
		link, err = wire.OpenSSE(ctx, u.cfg.site(), c)
	default:
		link, err = wire.NewHTTP(u.cfg.site(), c)
	}
	return link, c.server.from(err)
}

// openOn does the legacy handshake on a transport, which is closed when that fails, and remembers the kind when it
// does not.
func (u *Upstream) openOn(
	ctx context.Context, c *connection, link wire.Link, k kind, capabilities mcp.Object, open *calls,
) (*legacy, error) {
	l, err := openLegacy(ctx, c, link, &u.cfg, capabilities, open)
	if err != nil {
		link.Close(ctx, false)
		return nil, u.timeout(err)
	}
	u.remember(k)
	return l, nil
}

// older makes the connection one to a legacy server of that kind. link is the transport; nil: it is dialled.
func (u *Upstream) older(ctx context.Context, c *control, link wire.Link, k kind) (err error) {
	var l *legacy
	if nobody := (&calls{strays: &strays{}}); link == nil {
		l, err = u.openAs(ctx, c.connection, k, u.declared(), nobody)
	} else {
		l, err = u.openOn(ctx, c.connection, link, k, u.declared(), nobody)
	}
	if err != nil {
		return err
	}
	c.peer = l
	return nil
}

// known returns the kind that was found last.
func (u *Upstream) known() kind {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.kind
}

func (u *Upstream) remember(k kind) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.kind = k
}

// connectHTTP asks in the modern way first, because a server may have learned it since, unless the operator named an older
// revision. One of the legacy era is then spoken to in the way that worked last.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#backwards-compatibility
func (u *Upstream) connectHTTP(ctx context.Context, c *control) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	if u.cfg.Type == typeSSE {
		return u.older(ctx, c, nil, kindSSE)
	}
	if u.cfg.named() != mcp.Legacy {
		says, m, err := u.ask(ctx, c.connection)
		switch {
		case err != nil:
			return err
		case says == saysModern:
			u.became(c, m)
			return nil
		}
		m.close(ctx, false)
	}
	if u.cfg.named() == mcp.Modern {
		return c.server.protocol("%w", errNotModern)
	}
	var err error
	if u.known() == kindSSE {
		if err = u.older(ctx, c, nil, kindSSE); err != nil && ctx.Err() == nil && u.older(ctx, c, nil, kindLegacy) == nil {
			return nil
		}
		return err
	}
	if err = u.older(ctx, c, nil, kindLegacy); refused(err) && u.cfg.Type == "" && u.older(ctx, c, nil, kindSSE) == nil {
		return nil
	}
	return err
}

// typeSSE is the Config.Type of servers that are spoken to over HTTP+SSE without asking.
const typeSSE = "sse"

// refused tells whether the server answered a POST in a way that only those over HTTP+SSE may mean as "use GET".
func refused(err error) bool {
	status, ok := errors.AsType[*wire.StatusError](err)
	return ok && status.Status >= 400 && status.Status <= 499
}

// ask asks over Streamable HTTP what the server is.
func (u *Upstream) ask(ctx context.Context, c *connection) (verdict, *modern, error) {
	link, err := wire.NewHTTP(u.cfg.site(), c)
	if err != nil {
		return 0, nil, c.server.from(err)
	}
	m := newModern(c, link, u.cfg.Version, link.Header())
	says, err := u.probe(ctx, m)
	if err != nil {
		m.close(ctx, false)
	}
	return says, m, err
}

// reprobe asks a legacy server over HTTP from time to time whether it became modern, which it need not tell. The error
// ends the connection, so that the next one is of the new era.
func (u *Upstream) reprobe(ctx context.Context, c *control) error {
	if u.cfg.URL == "" || u.cfg.Type == typeSSE || c.version == mcp.LatestModern || u.cfg.named() != 0 {
		return nil
	}
	for pace.Wait(ctx, reprobeEvery) {
		says, m, err := u.ask(ctx, c.connection)
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
func (u *Upstream) connectChild(ctx context.Context, c *control) error {
	if u.cfg.named() == mcp.Legacy {
		return u.older(ctx, c, nil, kindLegacy)
	}
	if u.known() == kindShy {
		err := u.older(ctx, c, nil, kindShy)
		if err != nil && ctx.Err() == nil {
			u.remember(kindUnknown)
		}
		return err
	}
	limited, cancel := context.WithTimeout(ctx, u.cfg.openLimit())
	defer cancel()
	link, err := u.dial(ctx, c.connection, kindUnknown)
	if err != nil {
		return err
	}
	m := newModern(c.connection, link, u.cfg.Version, nil)
	says, err := u.probe(limited, m)
	k := kindLegacy
	switch {
	case err == nil && says == saysModern:
		u.became(c, m)
		return nil
	case u.cfg.named() == mcp.Modern:
		link.Close(ctx, false)
		if err == nil {
			err = c.server.protocol("%w", errNotModern)
		}
		return err
	case err == nil && says == saysNothing:
		k = kindShy
		fallthrough
	case err == nil:
		if err = u.older(limited, c, link, k); err == nil {
			return nil
		}
	default:
		link.Close(ctx, false)
	}
	switch {
	case ctx.Err() != nil || errors.Is(err, errNoCommon):
		return err
	case limited.Err() != nil: // a second start would take twice the time that the operator gives
		u.remember(kindShy)
		return err
	}
	return u.older(ctx, c, nil, kindShy)
}

// became makes the connection one to a modern server.
func (u *Upstream) became(c *control, m *modern) {
	c.peer, c.version = m, mcp.LatestModern
	u.remember(kindModern)
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
func (u *Upstream) probe(ctx context.Context, m *modern) (verdict, error) {
	limit := probeLimit
	if u.cfg.named() == mcp.Modern {
		limit = u.cfg.openLimit()
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	result, err := m.send(limited, m.request(mcp.MethodDiscover, mcp.Object{}))
	var (
		answered    *mcp.Error
		status      *wire.StatusError
		unavailable *registry.UnavailableError
	)
	switch {
	case err == nil:
		says, err := u.weigh(result.Value("supportedVersions"))
		if says == saysModern {
			m.learn(result) // a legacy server's own handshake says more
		}
		return says, err
	case errors.As(err, &answered):
		return u.weighError(answered)
	case ctx.Err() != nil:
		return 0, u.timeout(err)
	case limited.Err() != nil:
		return saysNothing, nil
	case errors.As(err, &unavailable) && !errors.As(err, &status):
		return 0, err // there is no connection
	}
	return saysLegacy, nil
}

// weighError tells what an error says. Some only a server of the modern era answers; one that does not know the
// revision names those it knows.
func (u *Upstream) weighError(e *mcp.Error) (verdict, error) {
	switch e.Code {
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability:
		return saysModern, nil
	case mcp.CodeUnsupportedVersion:
		data, _ := mcp.ObjectOf(e.Data)
		return u.weigh(data.Value("supported"))
	}
	return saysLegacy, nil
}

// weigh tells what the revisions that a server names say: servers of the legacy era exist that answer the question and
// name theirs.
func (u *Upstream) weigh(revisions mcp.RawJSON) (verdict, error) {
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
	return 0, fault(u.cfg.Name).protocol("%w", errNoCommon)
}

// timeout names the cause when a handshake took too long.
func (u *Upstream) timeout(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fault(u.cfg.Name).unavailable(true, errors.New("no answer to the handshake in time"))
	}
	return err
}
