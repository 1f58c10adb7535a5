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

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/pace"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// modern is a server of 2026-07-28: every request carries its own metadata.
// https://modelcontextprotocol.io/specification/2026-07-28/basic
type modern struct {
	conn *connection
	link wire.Link
	ids  counter
	meta mcp.Object // the reserved members of _meta
	own  string     // the same as text, without braces
	head string     // its part before the capabilities of the client
	base http.Header

	renew atomic.Pointer[context.CancelFunc] // ends the present subscription to changes of the lists, for another; nil: there is none
}

var _ peer = (*modern)(nil)

func newModern(c *connection, link wire.Link, version string, base http.Header) *modern {
	meta := mcp.NewObject(
		mcp.Member{Name: mcp.MetaProtocolVersion, Value: mcp.String(mcp.LatestModern)},
		mcp.Member{Name: mcp.MetaClientInfo, Value: clientInfo(version)},
		mcp.Member{Name: mcp.MetaClientCapabilities, Value: mcp.RawJSON("{}")},
	)
	text := meta.JSON()
	own := string(text[1 : len(text)-1])
	meta = meta.With(mcp.MetaClientCapabilities, everything().JSON()) // a server may list some tools only then
	return &modern{conn: c, link: link, meta: meta, own: own, head: strings.TrimSuffix(own, "{}"), base: base}
}

// ownFor returns the reserved members of _meta for a call: what its client can be asked, and which log messages it
// wants.
// https://modelcontextprotocol.io/specification/2026-07-28/basic#meta
func (m *modern) ownFor(c *registry.Call) string {
	if c.Capabilities.Len() == 0 && c.LogLevel == 0 && c.Tasks == 0 {
		return m.own
	}
	capabilities := c.Capabilities
	if m.conn.gives(c) {
		capabilities = mcp.NeedsTasks(capabilities)
	}
	own := capabilities.AppendJSON(append(make([]byte, 0, len(m.own)+256), m.head...))
	if level := c.LogLevel.String(); level != "" {
		own = append(append(append(own, `,"`+mcp.MetaLogLevel+`":"`...), level...), '"')
	}
	return string(own)
}

// header returns the headers of a request; name is "" where the method has none.
func (m *modern) header(method, name string) http.Header {
	header := m.base.Clone()
	if header == nil {
		header = http.Header{} // over stdio nobody reads it
	}
	header.Set(mcp.HeaderProtocolVersion, mcp.LatestModern)
	header.Set(mcp.HeaderMethod, method)
	if name != "" {
		header.Set(mcp.HeaderName, mcp.EncodeHeader(name))
	}
	return header
}

func (m *modern) request(method string, params mcp.Object) *wire.Request {
	id := m.ids.next()
	body := mcp.AppendRequest(nil, id, method, params.With("_meta", m.meta.JSON()))
	return &wire.Request{ID: id, Method: method, Body: body, Header: m.header(method, "")}
}

// learn keeps what a server says of itself.
func (m *modern) learn(discovered mcp.Object) {
	if discovered.Value("capabilities").IsObject() {
		m.conn.declare(discovered.Object("capabilities"))
	}
}

// discover asks what the server is. ok tells whether it speaks this era's revision.
func (m *modern) discover(ctx context.Context) (ok bool, err error) {
	result, err := m.exchangeOnce(ctx, m.request(mcp.MethodDiscover, mcp.Object{}))
	if err != nil {
		return false, err
	}
	m.learn(result)
	versions, _ := result.Value("supportedVersions").Elements()
	return speaks(versions), nil
}

func speaks(versions []mcp.RawJSON) bool {
	return slices.ContainsFunc(versions, func(v mcp.RawJSON) bool {
		text, _ := v.Text()
		return text == mcp.LatestModern
	})
}

func (m *modern) prepare(i *item) {
	name := i.name
	if !mcp.MethodOf(i.method).Named {
		name = ""
	}
	i.header = m.header(i.method, name)
}

func (m *modern) page(ctx context.Context, method string, cursor mcp.RawJSON) (mcp.Object, error) {
	params := mcp.Object{}
	if cursor != nil {
		params = params.With("cursor", cursor)
	}
	result, err := m.exchange(ctx, m.request(method, params))
	if result.Value("nextCursor").IsNull() {
		result = result.Without("nextCursor")
	}
	return result, err
}

// call runs one call, and brings its result into the form that is passed on.
func (m *modern) call(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error) {
	result, err := m.run(ctx, i, c)
	switch {
	case err != nil:
		if refusedQuestion(err) && c.Capabilities.Len() > 0 && i.asks {
			signal(m.conn.refusals)
		}
		return result, err
	case i.method == mcp.MethodToolsCall && m.conn.gives(c) && result.Text("resultType") == "task":
		return withoutServerInfo(result), nil
	case c.Task != "":
		return m.conn.server.taskState(i.method, result)
	}
	return m.conn.server.complete(i.method, mcp.LatestModern, result)
}

// refusedQuestion tells whether a server answered a call as the Python SDK does when its tool asks where it cannot: the
// call itself was well formed. The refusals of mcp-go and of the SDKs for Go and npm have no code of their own.
func refusedQuestion(err error) bool {
	var answered *mcp.Error
	return errors.As(err, &answered) && answered.Code == mcp.CodeInvalidRequest
}

func (m *modern) run(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error) {
	if len(c.Refusals) > 0 {
		return refusal(i.method, c.Refusals)
	}
	out := m.ids.call(i, c, m.ownFor(c))
	out.Header = i.header
	if len(c.Headers) > 0 {
		out.Header = withParams(i, c.Headers, c.Params.Value("arguments"))
	}
	result, err := m.exchange(ctx, out)
	var answered *mcp.Error
	if errors.As(err, &answered) && (answered.Code == mcp.CodeHeaderMismatch || answered.Code == mcp.CodeUnsupportedVersion) {
		// The definition, or the whole server, changed since it was listed, and it did not run the call. What is wrong
		// lies between the gateway and the server, so the client is not told it as its own fault.
		return result, m.conn.server.unavailable(false, err)
	}
	return result, err
}

// exchange sends a request. When its caller leaves, the server is told: over HTTP by the end of the connection, over
// stdio by a notification.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
func (m *modern) exchange(ctx context.Context, out *wire.Request) (mcp.Object, error) {
	result, err := m.exchangeOnce(ctx, out)
	if err != nil && ctx.Err() != nil && !m.link.Streams() {
		m.link.Tell(ctx, cancelled(out.ID, m.meta))
	}
	return result, err
}

// exchangeOnce sends a request and waits for its answer.
func (m *modern) exchangeOnce(ctx context.Context, out *wire.Request) (mcp.Object, error) {
	result, err := m.link.Exchange(ctx, out)
	if err != nil {
		return result, m.conn.server.from(err)
	}
	return result, nil
}

func (m *modern) alive(ctx context.Context) error {
	ok, err := m.discover(ctx)
	if err == nil && !ok {
		err = errors.New("server no longer speaks " + mcp.LatestModern)
	}
	return err
}

// watch keeps a subscription to changes of the lists open, and the transport's own stream where it has one.
func (m *modern) watch(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.conn.server.from(m.link.Follow(ctx)) })
	group.Go(func() error { return m.staySubscribed(ctx) })
	return group.Wait()
}

// staySubscribed opens the subscription again whenever it ends. Changes may be missed in between, so each time the lists
// are asked for again.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
func (m *modern) staySubscribed(ctx context.Context) error {
	for failures := 0; ; failures++ {
		acknowledged, err := m.subscribe(ctx)
		m.conn.told.Store(false)
		var answered *mcp.Error
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &answered) && !acknowledged:
			return nil // this server has no subscriptions; its lists are asked for from time to time
		case acknowledged:
			failures = 0
		}
		if err != nil {
			m.conn.Doubt()
		}
		if !pace.Wait(ctx, max(pace.Backoff(failures), relisten)) {
			return ctx.Err()
		}
	}
}

// relisten is the least time between two subscriptions.
const relisten = 100 * time.Millisecond

// subscribe opens one subscription to changes of the lists and stays until it ends.
func (m *modern) subscribe(ctx context.Context) (acknowledged bool, err error) {
	asked := m.filter()
	if asked.Len() == 0 {
		return false, mcp.Errorf(mcp.CodeMethodNotFound, "there is nothing to tell")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m.renew.Store(&cancel)
	out := m.subscription(asked)
	out.Notify = func(_ context.Context, message *mcp.Message) {
		if message.Method == mcp.NotifyAcknowledged {
			acknowledged = true
			m.conn.told.Store(honoured(asked, message.Params.Object("notifications")))
			m.conn.changed()
			return
		}
		m.conn.Notification(message)
	}
	_, err = m.exchange(ctx, out)
	return acknowledged, err
}

// filter asks for the changes of all lists that the server has.
func (m *modern) filter() mcp.Object {
	var filter mcp.Object
	had := m.conn.topics()
	for kind := range had.kinds {
		filter = filter.With(changedMember(kind), mcp.Bool(true))
	}
	return filter
}

// changedMember returns the member of a subscription's filter for the lists of a kind.
func changedMember(kind registry.Kind) string {
	switch kind {
	case registry.KindTool:
		return "toolsListChanged"
	case registry.KindPrompt:
		return "promptsListChanged"
	default:
		return "resourcesListChanged"
	}
}

// honoured tells whether a server will tell all that it was asked to.
func honoured(asked, acknowledged mcp.Object) bool {
	for name := range asked.Members {
		if string(acknowledged.Value(name)) != "true" {
			return false
		}
	}
	return true
}

func (m *modern) subscription(filter mcp.Object) *wire.Request {
	return m.request(mcp.MethodListen, mcp.NewObject(mcp.Member{Name: "notifications", Value: filter.JSON()}))
}

// watchResource opens a subscription for this resource alone: what comes on it belongs to no other.
func (m *modern) watchResource(ctx context.Context, _, uri string, live func(), updated func(uri string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	list := mcp.Array([]mcp.RawJSON{mcp.String(uri)})
	out := m.subscription(mcp.NewObject(mcp.Member{Name: "resourceSubscriptions", Value: list}))
	confirmed, refused := false, false
	out.Notify = func(_ context.Context, message *mcp.Message) {
		switch message.Method {
		case mcp.NotifyAcknowledged:
			if listed(message.Params.Object("notifications"), uri) {
				confirmed = true
				live()
				return
			}
			refused = true
			cancel()
		case mcp.NotifyResourceUpdated:
			if changed := message.Params.Text("uri"); confirmed && covers(uri, changed) {
				updated(changed)
			}
		}
	}
	_, err := m.exchange(ctx, out)
	if renew := m.renew.Load(); renew != nil && !m.link.Streams() {
		(*renew)() // servers of the Go SDK forget all subscriptions of a child's only session when one of them ends
	}
	if refused {
		return notTold()
	}
	return err
}

// listed tells whether a server acknowledged that it will tell of changes of the resource.
func listed(acknowledged mcp.Object, uri string) bool {
	uris, _ := acknowledged.Value("resourceSubscriptions").Elements()
	return slices.ContainsFunc(uris, func(one mcp.RawJSON) bool {
		text, _ := one.Text()
		return text == uri
	})
}

// busy returns that calls keep nothing waiting.
func (m *modern) busy() bool { return false }

// sessions returns that there are none: every request stands alone.
func (m *modern) sessions() int { return 0 }

func (m *modern) close(ctx context.Context, polite bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit) // the good-bye comes when ctx has ended
	defer cancel()
	m.link.Close(ctx, polite)
}
