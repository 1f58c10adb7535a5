package upstream

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// modern is a server of 2026-07-28, where every request carries its own metadata. It is
// safe for concurrent use. https://modelcontextprotocol.io/specification/2026-07-28/basic
type modern struct {
	conn *connection
	link wire.Link
	meta mcp.Object // the reserved members of _meta, for the gateway's own requests
	own  string     // those of a call whose client can be asked nothing, as JSON without the braces
	// the part of own before the capabilities of the client, to which those of a call are
	// appended
	head string
	base http.Header

	// ends the present subscription, so that another is opened; nil: none yet
	renew atomic.Pointer[context.CancelFunc]
}

var _ peer = (*modern)(nil)

// newModern returns the peer for a transport. base are the headers of all requests. Over
// stdio they are empty and not sent, but never nil: that would mean a legacy request.
func newModern(c *connection, link wire.Link, base http.Header) *modern {
	meta := mcp.NewObject(
		mcp.Member{Name: mcp.MetaProtocolVersion, Value: mcp.String(mcp.LatestModern)},
		mcp.Member{Name: mcp.MetaClientInfo, Value: clientInfo(c.cfg.Version)},
		mcp.Member{Name: mcp.MetaClientCapabilities, Value: mcp.RawJSON("{}")},
	)
	text := meta.JSON()
	own := string(text[1 : len(text)-1])
	// some tools may be listed only then
	meta = meta.With(mcp.MetaClientCapabilities, c.cfg.everything().JSON())
	return &modern{
		conn: c, link: link, meta: meta, own: own, head: strings.TrimSuffix(own, "{}"), base: base,
	}
}

// ownFor returns the reserved members of _meta for a call, as JSON without the braces:
// what its client can be asked, and which log messages it wants.
// https://modelcontextprotocol.io/specification/2026-07-28/basic#meta
func (m *modern) ownFor(c *registry.Call) string {
	if c.Capabilities.Len() == 0 && c.LogLevel == 0 && c.Tasks == 0 && !c.Extensions.Any() {
		return m.own
	}
	capabilities := c.Extensions.Adding(c.Capabilities)
	if m.conn.gives(c) {
		capabilities = mcp.NeedsTasks(capabilities)
	}
	own := capabilities.AppendJSON(append(make([]byte, 0, len(m.own)+256), m.head...))
	if level := c.LogLevel.String(); level != "" {
		own = append(append(append(own, `,"`+mcp.MetaLogLevel+`":"`...), level...), '"')
	}
	return string(own)
}

// header returns the headers of a request. name is "" for a method that names nothing in
// its headers.
func (m *modern) header(method, name string) http.Header {
	header := m.base.Clone()
	header.Set(mcp.HeaderProtocolVersion, mcp.LatestModern)
	header.Set(mcp.HeaderMethod, method)
	if name != "" {
		header.Set(mcp.HeaderName, mcp.EncodeHeader(name))
	}
	return header
}

func (m *modern) request(method string, params mcp.Object) *wire.Request {
	return m.requestWith(m.meta, method, params)
}

func (m *modern) requestWith(meta mcp.Object, method string, params mcp.Object) *wire.Request {
	id := m.conn.ids.next()
	body := mcp.AppendRequest(nil, id, method, params.With("_meta", meta.JSON()))
	return &wire.Request{ID: id, Method: method, Body: body, Header: m.header(method, "")}
}

// learn keeps the capabilities that a server names when it is asked what it is.
func (m *modern) learn(discovered mcp.Object) {
	if discovered.Value("capabilities").IsObject() {
		m.conn.declare(discovered.Object("capabilities"))
	}
}

// discover asks the server what it is.
func (m *modern) discover(ctx context.Context) (mcp.Object, error) {
	return m.conn.exchange(ctx, m.link, m.request(mcp.MethodDiscover, mcp.Object{}))
}

// speaks tells whether the modern revision is among the versions.
func speaks(versions []mcp.RawJSON) bool {
	return slices.ContainsFunc(versions, func(v mcp.RawJSON) bool { return v.Says(mcp.LatestModern) })
}

// prepare makes the headers of calls about the item.
func (m *modern) prepare(i *item) {
	name := i.name
	if !mcp.MethodOf(i.method).Named {
		name = ""
	}
	i.header = m.header(i.method, name)
	i.post = m.post(i.header)
}

// post returns prepared headers, nil over a transport that sends none.
func (m *modern) post(header http.Header) *dial.Post {
	if web, ok := m.link.(*wire.HTTP); ok {
		return web.Prepare(header)
	}
	return nil
}

func (m *modern) page(ctx context.Context, method string, params mcp.Object) (mcp.Object, error) {
	return m.exchange(ctx, m.request(method, params))
}

// as asks on the same connection: each request says what its client is.
func (m *modern) as(declared mcp.Object) pager {
	meta := m.meta.With(mcp.MetaClientCapabilities, declared.JSON())
	return func(ctx context.Context, method string, params mcp.Object) (mcp.Object, error) {
		return m.exchange(ctx, m.requestWith(meta, method, params))
	}
}

// call runs one call and brings its result into the form that is passed on: a task, the
// state of one, or a complete result or questions. A question that the server refused its
// own tool is reported, so that the operator is advised.
func (m *modern) call(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error) {
	result, err := m.run(ctx, i, c)
	switch {
	case err != nil:
		if refusedQuestion(err) && c.Capabilities.Len() > 0 && i.asks {
			pace.Signal(m.conn.refusals)
		}
		return result, err
	case i.method == mcp.MethodToolsCall && m.conn.gives(c) && result.Text("resultType") == "task":
		return withoutServerInfo(result), nil
	case c.Task != "":
		return m.conn.server.taskState(i.method, result)
	}
	return m.conn.server.complete(i.method, mcp.LatestModern, result)
}

// refusedQuestion tells whether an error is the one with which the Python SDK answers a
// call whose tool asks in a way that the session or era does not have; the call itself
// was well formed. The refusals of mcp-go and of the SDKs for Go and npm have no code of
// their own, so they are not recognized.
func refusedQuestion(err error) bool { return answeredWith(err, mcp.CodeInvalidRequest) }

// run sends one call and returns the server's result as it is. A client's refusal of a
// question ends the call here, because answers of this revision have no place for an
// error.
func (m *modern) run(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error) {
	if len(c.Refusals) > 0 {
		return refusal(i.method, c.Refusals)
	}
	defer m.conn.calls.Add(-m.conn.countCall(m.link, i.method))
	out := m.conn.ids.call(i, c, m.ownFor(c))
	out.Header, out.Post = i.header, i.post
	if len(c.Headers) > 0 {
		out.Header = withParams(i, c.Headers, c.Params.Value("arguments"))
		out.Post = m.post(out.Header)
	}
	result, err := m.exchange(ctx, out)
	if answeredWith(err, mcp.CodeHeaderMismatch, mcp.CodeUnsupportedVersion) {
		// The definition, or the whole server, changed since it was listed, and it did
		// not run the call. What is wrong lies between the gateway and the server, so the
		// client is not told it as its own fault.
		return result, m.conn.server.unavailable(false, err)
	}
	return result, err
}

// exchange sends a request and waits for its answer. When its caller leaves, the server
// learns it: over HTTP by the end of the connection, over stdio by a notification.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
func (m *modern) exchange(ctx context.Context, out *wire.Request) (mcp.Object, error) {
	result, err := m.conn.exchange(ctx, m.link, out)
	m.conn.conclude(ctx, out.Method, err)
	if err != nil && ctx.Err() != nil && !out.Unsent && !m.link.Streams() {
		m.link.Tell(ctx, cancelled(out.ID, m.meta))
	}
	return result, err
}

// alive asks the server again what it is. A server that has stopped speaking this
// revision counts as lost, so that the next connection finds out its era.
func (m *modern) alive(ctx context.Context) error {
	result, err := m.discover(ctx)
	if err != nil {
		return err
	}
	m.learn(result)
	if versions, _ := result.Value("supportedVersions").Elements(); !speaks(versions) {
		return errors.New("server no longer speaks " + mcp.LatestModern)
	}
	return nil
}

// watch keeps a subscription to changes of the lists open, and watches the transport for
// its loss.
func (m *modern) watch(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.conn.server.from(m.link.Follow(ctx)) })
	group.Go(func() error {
		return m.conn.Saved(ctx, func() error { return m.staySubscribed(ctx) })
	})
	return group.Wait()
}

// staySubscribed opens the subscription again whenever it ends, until ctx ends. It
// returns nil for a server that has no subscriptions. One that has accepted a
// subscription is asked for another whatever it answers: it may not have noticed yet that
// the one before is gone, and so refuse a second. Changes may be missed between two
// subscriptions, so all lists are read again each time.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
func (m *modern) staySubscribed(ctx context.Context) error {
	had := false // it accepted one
	for failures := 0; ; failures++ {
		acknowledged, err := m.subscribe(ctx)
		m.conn.announces.Store(false)
		had = had || acknowledged
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case isAnswer(err) && !had:
			return nil // this server has no subscriptions; its lists are read from time to time
		case acknowledged:
			failures = 0
		}
		if err != nil {
			m.conn.CheckAlive()
		}
		least := relisten
		if !m.link.Streams() {
			least = relistenChild
		}
		if !pace.Wait(ctx, max(pace.Backoff(failures), least)) {
			return ctx.Err()
		}
	}
}

// The least time between two subscriptions, for a server that ends each at once. A child
// has longer: one of the Go SDK that is slow to end a subscription forgets with it those
// that began meanwhile, and would tell of no change any more.
const (
	relisten      = 100 * time.Millisecond
	relistenChild = time.Second
)

// subscribe opens one subscription to changes of the lists and stays until it ends.
// acknowledged tells whether the server had accepted it.
func (m *modern) subscribe(ctx context.Context) (acknowledged bool, err error) {
	asked := m.filter()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m.renew.Store(&cancel)
	out := m.subscription(asked)
	out.Notify = func(_ context.Context, message *mcp.Message) {
		if message.Method == mcp.NotifyAcknowledged {
			acknowledged = true
			m.conn.announces.Store(honoured(asked, message.Params.Object("notifications")))
			m.conn.changed()
			return
		}
		m.conn.Notification(message)
	}
	_, err = m.exchange(ctx, out)
	return acknowledged, err
}

// filter returns the filter of a subscription to changes of all lists that the server
// has.
func (m *modern) filter() mcp.Object {
	var filter mcp.Object
	had := m.conn.topics()
	for kind := range had.kinds {
		filter = filter.With(capability(kind)+"ListChanged", mcp.Bool(true))
	}
	return filter
}

// honoured tells whether the server has agreed to announce all that the filter asked for.
func honoured(asked, acknowledged mcp.Object) bool {
	for name := range asked.Members {
		if string(acknowledged.Value(name)) != "true" {
			return false
		}
	}
	return true
}

// subscription returns the request that opens a subscription with this filter.
func (m *modern) subscription(filter mcp.Object) *wire.Request {
	return m.request(mcp.MethodListen, mcp.NewObject(mcp.Member{Name: "notifications", Value: filter.JSON()}))
}

// watchResource opens a subscription for this resource alone, so that what comes on it
// belongs to nobody else. For when onConfirmed and updated are called, see peer.
func (m *modern) watchResource(ctx context.Context, tenantID, uri string, onConfirmed func(),
	updated func(uri string),
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	list := mcp.Array([]mcp.RawJSON{mcp.String(uri)})
	out := m.subscription(mcp.NewObject(mcp.Member{Name: "resourceSubscriptions", Value: list}))
	out.For = &auth.Principal{TenantID: tenantID}
	confirmed, refused := false, false
	out.Notify = func(_ context.Context, message *mcp.Message) {
		switch message.Method {
		case mcp.NotifyAcknowledged:
			if listed(message.Params.Object("notifications"), uri) {
				confirmed = true
				onConfirmed()
				return
			}
			refused = true
			cancel()
		case mcp.NotifyResourceUpdated:
			if changed := message.Params.Text("uri"); confirmed && registry.Covers(uri, changed) {
				updated(changed)
			}
		}
	}
	_, err := m.exchange(ctx, out)
	if renew := m.renew.Load(); renew != nil && !m.link.Streams() {
		// over stdio, servers of the Go SDK forget all subscriptions of the only session
		// when one ends
		(*renew)()
	}
	if refused {
		return errUnannounced
	}
	return err
}

// listed tells whether the server acknowledged that it will announce changes of the
// resource.
func listed(acknowledged mcp.Object, uri string) bool {
	uris, _ := acknowledged.Value("resourceSubscriptions").Elements()
	return slices.ContainsFunc(uris, func(one mcp.RawJSON) bool { return one.Says(uri) })
}

// sessions is zero: every request stands alone.
func (m *modern) sessions() int { return 0 }

func (m *modern) close(ctx context.Context, polite bool) {
	closeLink(ctx, m.link, polite)
}
