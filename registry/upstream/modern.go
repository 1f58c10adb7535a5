package upstream

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// modern is a server of 2026-07-28: every request carries its own metadata.
// https://modelcontextprotocol.io/specification/2026-07-28/basic
type modern struct {
	conn *connection
	link transport
	ids  counter
	meta mcp.Object // the reserved members of _meta
	own  string     // the same as text, without braces
	base http.Header
}

func newModern(c *connection, link transport, version string, base http.Header) *modern {
	meta := mcp.NewObject(
		mcp.Member{Name: mcp.MetaProtocolVersion, Value: mcp.String(mcp.LatestModern)},
		mcp.Member{Name: mcp.MetaClientInfo, Value: clientInfo(version)},
		mcp.Member{Name: mcp.MetaClientCapabilities, Value: mcp.RawJSON("{}")},
	)
	text := meta.JSON()
	return &modern{conn: c, link: link, meta: meta, own: string(text[1 : len(text)-1]), base: base}
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

func (m *modern) request(method string, params mcp.Object) *outgoing {
	id := m.ids.next()
	body := mcp.AppendRequest(nil, id, method, params.With("_meta", m.meta.JSON()))
	return &outgoing{id: id, method: method, body: body, header: m.header(method, "")}
}

// discover asks what the server is. ok tells whether it speaks this era's revision.
func (m *modern) discover(ctx context.Context) (ok bool, err error) {
	result, err := m.link.exchange(ctx, m.request(mcp.MethodDiscover, mcp.Object{}))
	if err != nil {
		return false, err
	}
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
	if i.method == mcp.MethodComplete {
		name = "" // that method has no such header
	}
	i.header = m.header(i.method, name)
}

func (m *modern) page(ctx context.Context, cursor mcp.RawJSON) (mcp.Object, error) {
	params := mcp.Object{}
	if cursor != nil {
		params = params.With("cursor", cursor)
	}
	result, err := m.exchange(ctx, m.request(mcp.MethodToolsList, params))
	if result.Value("nextCursor").IsNull() {
		result = result.Without("nextCursor")
	}
	return result, err
}

func (m *modern) call(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error) {
	id := m.ids.next()
	body := make([]byte, 0, callSize(i, c.Params, m.own))
	out := &outgoing{
		id: id, method: i.method, body: appendCall(body, id, i, c.Params, m.own),
		header: i.header, notify: progress(c),
	}
	if len(c.Headers) > 0 {
		out.header = withParams(i, c.Headers, c.Params.Value("arguments"))
	}
	result, err := m.exchange(ctx, out)
	var answered *mcp.Error
	if errors.As(err, &answered) && answered.Code == mcp.CodeHeaderMismatch {
		// The definition changed since it was listed, and the server did not run the call.
		m.conn.changed()
		return result, m.conn.server.unavailable(false, err)
	}
	return result, err
}

// exchange sends a request. When its caller leaves, the server is told: over HTTP by the end of the connection, over
// stdio by a notification.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
func (m *modern) exchange(ctx context.Context, out *outgoing) (mcp.Object, error) {
	result, err := m.link.exchange(ctx, out)
	if err != nil && ctx.Err() != nil && !m.link.leaves() {
		m.link.tell(ctx, cancelled(out.id, m.meta))
	}
	return result, err
}

func (m *modern) alive(ctx context.Context) error {
	ok, err := m.discover(ctx)
	if err == nil && !ok {
		err = errors.New("server no longer speaks " + mcp.LatestModern)
	}
	return err
}

// watch keeps a subscription to changes of the list open, and the transport's own stream where it has one.
func (m *modern) watch(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.link.follow(ctx) })
	group.Go(func() error { return m.listen(ctx) })
	return group.Wait()
}

// listen opens the subscription again whenever it ends. Changes may be missed in between, so each time the list is
// asked for again.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
func (m *modern) listen(ctx context.Context) error {
	for failures := 0; ; failures++ {
		acknowledged, err := m.subscribe(ctx)
		m.conn.told.Store(false)
		var answered *mcp.Error
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &answered) && !acknowledged:
			return nil // this server has no subscriptions; its list is asked for from time to time
		case acknowledged:
			failures = 0
		}
		if err != nil {
			m.conn.doubted()
		}
		if !wait(ctx, max(backoff(failures), relisten)) {
			return ctx.Err()
		}
	}
}

// relisten is the least time between two subscriptions.
const relisten = 100 * time.Millisecond

// subscribe opens one subscription and stays until it ends.
func (m *modern) subscribe(ctx context.Context) (acknowledged bool, err error) {
	filter := mcp.NewObject(mcp.Member{Name: "toolsListChanged", Value: mcp.Bool(true)})
	out := m.request(mcp.MethodListen, mcp.NewObject(mcp.Member{Name: "notifications", Value: filter.JSON()}))
	out.notify = func(_ context.Context, message *mcp.Message) {
		switch message.Method {
		case mcp.NotifyAcknowledged:
			acknowledged = true
			m.conn.told.Store(string(message.Params.Object("notifications").Value("toolsListChanged")) == "true")
			m.conn.changed()
		case mcp.NotifyToolsChanged:
			m.conn.announced(registry.KindTool)
		}
	}
	_, err = m.exchange(ctx, out)
	return acknowledged, err
}

func (m *modern) close(ctx context.Context, polite bool) { m.link.close(ctx, polite) }
