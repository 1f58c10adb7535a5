package upstream

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// probeLimit is how long a server may take to say whether it is modern. A server that
// stays silent is taken for a legacy one, because some do not answer what they do not
// know.
const probeLimit = 3 * time.Second

// connect opens a control connection and finds out the server's era. A server is asked
// anew for each connection, whatever it was before: another version may have been
// installed meanwhile. A child whose answer came after the legacy handshake had begun is
// replaced: it may be bound to that era by now.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
func (d *dialer) connect(ctx context.Context) (*control, error) {
	c, err := d.connectOnce(ctx)
	if errors.Is(err, errUpgraded) {
		return d.connectOnce(ctx)
	}
	return c, err
}

// connectOnce is connect for one attempt. After an error nothing is open.
func (d *dialer) connectOnce(ctx context.Context) (*control, error) {
	c, open := &control{connection: newConnection(d.cfg)}, d.connectChild
	d.said = c.said
	if d.cfg.URL != "" {
		open = d.connectHTTP
	}
	return c, open(ctx, c)
}

// declared returns what the control connection says that its client can be asked. It says
// everything, although nobody is asked there unless the connection is lent, because some
// servers list certain tools only then. With Config.Shared the connection runs calls
// whose callers cannot be asked, so it says the truth: nothing.
func (d *dialer) declared() mcp.Object {
	if d.cfg.Shared {
		return mcp.Object{}
	}
	return d.cfg.everything()
}

// serve gives the connection the peer that runs its calls: on pooled sessions with a
// legacy server, on both sides with a modern one that may have an older side. It is
// called after connect, and not by Probe, which runs no calls.
func (d *dialer) serve(ctx context.Context, c *control) {
	switch p := c.peer.(type) {
	case *legacy:
		c.peer = newOlder(ctx, p, d.open, &d.strays)
	case *modern:
		if d.cfg.named() == 0 && !d.cfg.Shared {
			c.peer = newBoth(ctx, p, d.openSide, &d.strays)
		}
	}
}

// older makes c a connection to a legacy server of that kind, which it remembers. link is
// a transport that is open already; nil: one is dialled.
func (d *dialer) older(ctx context.Context, c *control, link wire.Link, k kind) error {
	l, err := d.openAs(ctx, c.connection, link, k, d.declared(), &calls{strays: &strays{}})
	if err != nil {
		return err
	}
	c.peer = l
	d.remember(k)
	return nil
}

// connectHTTP connects to a server over HTTP. It asks in the modern way first, because a
// server may have become modern, unless the operator named a legacy revision or HTTP+SSE.
// A legacy server is then spoken to in the way that worked last: over Streamable HTTP, or
// HTTP+SSE.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#backwards-compatibility
func (d *dialer) connectHTTP(ctx context.Context, c *control) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	// The network may have lost what is idle from before without a word. A server that is
	// asked over that is silent, and would be taken for a legacy one.
	d.cfg.Client.CloseIdleConnections()
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
	if d.known() == kindSSE {
		err := d.older(ctx, c, nil, kindSSE)
		if err != nil && ctx.Err() == nil && d.older(ctx, c, nil, kindLegacy) == nil {
			return nil
		}
		return err
	}
	err := d.older(ctx, c, nil, kindLegacy)
	if !refused(err) || d.cfg.Type != "" {
		return err
	}
	other := d.older(ctx, c, nil, kindSSE)
	if other == nil || errors.Is(other, wire.ErrEndpoint) || isAnswer(other) || wantsSignIn(other) {
		return other // a server that speaks HTTP+SSE, and says what is wrong
	}
	return err
}

// refused tells whether the server answered a POST with a status of 400 to 499, which may
// mean that it speaks HTTP+SSE, where the first request is a GET.
func refused(err error) bool {
	status, ok := errors.AsType[*wire.StatusError](err)
	return ok && status.Status >= 400 && status.Status <= 499
}

// discover asks a server over Streamable HTTP what it is. Whoever gets the peer closes
// it; after an error there is nothing to close.
func (d *dialer) discover(ctx context.Context, c *connection) (verdict, *modern, error) {
	link := wire.NewHTTP(d.cfg.site(c.owner), c)
	m := newModern(c, link, link.Header())
	says, err := d.probe(ctx, m)
	if err != nil {
		m.close(ctx, false)
	}
	return says, m, err
}

// reprobe finds out that a legacy server is modern all the same. If so, it returns an
// error, which ends the connection, so that the next one is of the new era. A server over
// HTTP may become modern without a word, so it is asked every reprobeEvery. reprobe
// returns nil at once where there is nothing to ask.
func (d *dialer) reprobe(ctx context.Context, c *control) error {
	switch {
	case d.cfg.Type == typeSSE, c.version == mcp.LatestModern, d.cfg.named() != 0:
		return nil
	case d.cfg.URL == "":
		return d.reprobeChild(ctx, c)
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

// reprobeChild waits for the late answer of a child that was asked when it started.
func (d *dialer) reprobeChild(ctx context.Context, c *control) error {
	if c.asked == nil {
		return nil
	}
	says, _ := c.asked.within(ctx, forGood) // an error says that the connection is lost, which others tell
	if says != saysModern {
		return ctx.Err()
	}
	d.remember(kindModern)
	return c.server.unavailable(true, errUpgraded)
}

// unasked makes c a connection to a child that is not asked what it is, because the one
// before it ended or was not ready in time. Either may have had another reason than the
// question, so before anybody is served, another child is asked, once this one has shown
// that they can start. Asking this one would not do: after the legacy handshake a server
// of both eras says that it does not know the question.
func (d *dialer) unasked(ctx context.Context, c *control) error {
	if err := d.older(ctx, c, nil, kindUnasked); err != nil {
		return err
	}
	beside := &control{connection: newSessionConnection(c.connection)}
	limited, cancel := context.WithTimeout(ctx, d.cfg.openLimit())
	defer cancel()
	link, err := d.dial(ctx, beside.connection, kindUnknown)
	if err == nil {
		err = d.ask(limited, beside, link, false)
	}
	if err == nil {
		beside.end(ctx, false)
	}
	switch {
	case err == nil && beside.version != mcp.LatestModern:
		return nil
	case err == nil, errors.Is(err, errUpgraded):
		c.end(ctx, false)
		return c.server.unavailable(false, errUpgraded)
	}
	d.remember(kindShy) // it ended again, or fell silent
	return nil
}

// connectChild starts the child and asks it what it is. A child that answers, or stays
// silent, and is not modern is then spoken to in the legacy way. A child that ends when
// it is asked is started once more and spoken to in the legacy way without asking.
//
// A child that was silent, but does the legacy handshake, is remembered (kindShy), so
// that no later child of this server is asked. A child that ended or was not ready in
// time is remembered as kindUnasked, since a slow start looks the same; unasked finds out
// which it was. If a child that was not asked cannot be connected to, the next one is
// asked again. A server that was modern has all its time to say so again. No child is
// asked when the operator named a legacy revision.
func (d *dialer) connectChild(ctx context.Context, c *control) error {
	if d.cfg.named() == mcp.Legacy {
		return d.older(ctx, c, nil, kindLegacy)
	}
	known := d.known()
	if known == kindShy || known == kindUnasked {
		var err error
		if known == kindShy {
			err = d.older(ctx, c, nil, kindShy)
		} else {
			err = d.unasked(ctx, c)
		}
		if err != nil && !errors.Is(err, errUpgraded) && ctx.Err() == nil {
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
	err = d.ask(limited, c, link, known == kindModern || d.cfg.named() == mcp.Modern)
	switch {
	case err == nil, ctx.Err() != nil, d.cfg.named() == mcp.Modern,
		errors.Is(err, errNoCommon), errors.Is(err, errUpgraded):
		return err
	case known == kindModern: // the next child need not be of that kind
		d.remember(kindUnknown)
		return err
	case limited.Err() != nil: // a second start would take twice the time that the operator gives
		d.remember(kindUnasked)
		return err
	}
	return d.unasked(ctx, c)
}

// ask asks a child what it is, within the time that ctx gives it, and makes c a
// connection to it. patient: all of that time may pass before the child answers. After an
// error, link is closed.
func (d *dialer) ask(ctx context.Context, c *control, link wire.Link, patient bool) error {
	m := newModern(c.connection, link, http.Header{})
	asked, limit := d.inquire(ctx, m), probeLimit
	if patient {
		limit = forGood
	}
	says, err := asked.within(ctx, limit)
	switch {
	case err != nil:
		err = d.timeout(c.connection, err)
	case says == saysModern:
		d.became(c, m)
		return nil
	case d.cfg.named() == mcp.Modern:
		err = c.server.protocol("%w", errNotModern)
	case says == saysLegacy:
		return d.older(ctx, c, link, kindLegacy)
	default:
		return d.olderUnlessModern(ctx, c, link, asked)
	}
	link.Close(ctx, false)
	<-asked.answered
	return err
}

// olderUnlessModern does the legacy handshake with a child that has been silent so far.
// Its answer may still come, as that of a slow start does, and then it counts: the error
// is errUpgraded. A server answers in order, or nearly, so once the handshake proves that
// the child lives, the answer has another probeLimit, and after that it ends the
// connection (reprobe).
func (d *dialer) olderUnlessModern(ctx context.Context, c *control, link wire.Link, asked *inquiry) error {
	err := d.older(ctx, c, link, kindShy)
	// after an error the link is closed, so that this does not wait for an answer
	if says, _ := asked.within(ctx, probeLimit); says == saysModern {
		if err == nil {
			c.peer.close(ctx, false)
		}
		d.remember(kindModern)
		return c.server.unavailable(true, errUpgraded)
	}
	if err == nil {
		c.asked = asked
	}
	return err
}

// inquiry is the question to a child what it is. The answer may come later than it is
// waited for.
type inquiry struct {
	// closed when the fields below are set: by the answer, or by the end of the
	// connection
	answered chan struct{}
	says     verdict
	err      error
}

// inquire asks a child what it is. It waits for nothing; the inquiry ends with the
// connection, and not with ctx.
func (d *dialer) inquire(ctx context.Context, m *modern) *inquiry {
	i := &inquiry{answered: make(chan struct{})}
	ctx = context.WithoutCancel(ctx)
	go func() {
		defer close(i.answered)
		i.err = d.cfg.saved(ctx, func() (err error) {
			i.says, err = d.discovered(ctx, ctx, m)
			return err
		})
	}()
	return i
}

// within returns the verdict, which is saysNothing when there is none after limit. An
// answer that is there counts, even if ctx has ended.
func (i *inquiry) within(ctx context.Context, limit time.Duration) (verdict, error) {
	select {
	case <-i.answered:
		return i.says, i.err
	default:
	}
	select {
	case <-i.answered:
		return i.says, i.err
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(limit):
		return saysNothing, nil
	}
}

// became makes c a connection to a modern server.
func (d *dialer) became(c *control, m *modern) {
	c.peer, c.version = m, mcp.LatestModern
	d.remember(kindModern)
}

// verdict is what a server turns out to be when it is asked in the modern way. Zero
// stands beside an error.
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
	// errNotModern: the operator named the modern revision, and the server does not speak
	// it.
	errNotModern = errors.New("server does not speak " + mcp.LatestModern +
		", which its revision in the config names")
)

// probe asks the server what it is. An error means that a legacy handshake is of no use
// either. Where the operator named the modern revision there is no other way to try, so
// the server has the time of a whole handshake to answer.
func (d *dialer) probe(ctx context.Context, m *modern) (verdict, error) {
	limit := probeLimit
	if d.cfg.named() == mcp.Modern {
		limit = d.cfg.openLimit()
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return d.discovered(ctx, limited, m)
}

// discovered asks the question and weighs the answer. limited is ctx with the time that
// the answer has.
func (d *dialer) discovered(ctx, limited context.Context, m *modern) (verdict, error) {
	result, err := m.discover(limited)
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
		return 0, d.timeout(m.conn, err)
	case limited.Err() != nil:
		return saysNothing, nil //nolint:nilerr // its silence is the answer
	case errors.As(err, &unavailable) && !errors.As(err, &status):
		return 0, err // the server cannot be reached
	case errors.As(err, &status) && d.cfg.named() == mcp.Modern && saysNothingOfEras(status):
		return 0, err
	}
	return saysLegacy, nil
}

// weighError tells what an error in answer to the question says. Some errors exist in the
// modern era only. A server that does not know the revision names those that it knows.
// Any other error is how a legacy server answers an unknown method.
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

// weigh tells what the revisions that a server names say. They may be legacy ones: there
// are servers of that era which answer the question.
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
