package upstream

import (
	"context"
	"errors"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// legacy is a server of 2024-11-05 … 2025-11-25: a handshake opens a session.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
type legacy struct {
	conn         *connection
	link         transport
	ids          counter
	version      string        // of the gateway
	capabilities mcp.Object    // declared to the server
	opening      chan struct{} // holds one token: whoever has it opens a session
}

// openLegacy does the handshake and declares the capabilities.
func openLegacy(ctx context.Context, c *connection, link transport, version string, capabilities mcp.Object) (*legacy, error) {
	l := &legacy{conn: c, link: link, version: version, capabilities: capabilities, opening: make(chan struct{}, 1)}
	l.opening <- struct{}{}
	revision, err := l.initialize(ctx)
	if err != nil {
		return nil, err
	}
	c.version = revision
	return l, nil
}

func (l *legacy) initialize(ctx context.Context) (revision string, err error) {
	params := mcp.NewObject(
		mcp.Member{Name: "protocolVersion", Value: mcp.String(mcp.LatestLegacy)},
		mcp.Member{Name: "capabilities", Value: l.capabilities.JSON()},
		mcp.Member{Name: "clientInfo", Value: clientInfo(l.version)},
	)
	out := l.request(mcp.MethodInitialize, params)
	result, err := l.link.exchange(ctx, out)
	if err != nil {
		return "", err
	}
	revision = result.Text("protocolVersion")
	if mcp.EraOf(revision) != mcp.Legacy {
		return "", l.conn.server.protocol("initialize answered with an unknown revision")
	}
	l.link.begin(out.sessionID, revision)
	return revision, l.link.send(ctx, mcp.AppendRequest(nil, "", mcp.NotifyInitialized, mcp.Object{}))
}

func (l *legacy) request(method string, params mcp.Object) *outgoing {
	id := l.ids.next()
	return &outgoing{id: id, method: method, body: mcp.AppendRequest(nil, id, method, params)}
}

func (l *legacy) prepare(*item) {}

func (l *legacy) page(ctx context.Context, cursor mcp.RawJSON) (mcp.Object, error) {
	params := mcp.Object{}
	if cursor != nil {
		params = params.With("cursor", cursor)
	}
	result, err := l.exchange(ctx, l.request(mcp.MethodToolsList, params))
	// Before 2026-07-28 an empty cursor means the end to all clients, so servers send it as that.
	if next := result.Value("nextCursor"); next.IsNull() || string(next) == `""` {
		result = result.Without("nextCursor")
	}
	return result, err
}

func (l *legacy) call(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error) {
	id := l.ids.next()
	body := make([]byte, 0, callSize(i, c.Params, ""))
	return l.exchange(ctx, &outgoing{
		id: id, method: i.method, body: appendCall(body, id, i, c.Params, ""), notify: progress(c),
	})
}

// exchange sends a request. One that the server did not run, because it forgot the session, is sent once more under a
// new session.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
func (l *legacy) exchange(ctx context.Context, out *outgoing) (mcp.Object, error) {
	result, err := l.link.exchange(ctx, out)
	if forgotten, ok := errors.AsType[*sessionError](err); ok {
		if err = l.reopen(ctx, forgotten.stale); err != nil {
			return result, l.conn.server.unavailable(false, err)
		}
		if result, err = l.link.exchange(ctx, out); errors.As(err, &forgotten) {
			err = l.conn.server.unavailable(false, err)
		}
	}
	if err != nil && ctx.Err() != nil {
		l.link.tell(ctx, cancelled(out.id, mcp.Object{}))
	}
	return result, err
}

// sessions is a transport that has sessions.
type sessions interface{ current() *session }

// reopen opens a new session in place of the stale one, unless another caller did.
func (l *legacy) reopen(ctx context.Context, stale *session) error {
	select {
	case <-l.opening:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { l.opening <- struct{}{} }()
	if link, ok := l.link.(sessions); ok && link.current() != stale {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	_, err := l.initialize(ctx) // whichever revision: nothing that passes here depends on it
	l.conn.changed()
	return err
}

func (l *legacy) alive(ctx context.Context) error {
	_, err := l.exchange(ctx, l.request(mcp.MethodPing, mcp.Object{}))
	var answered *mcp.Error
	if errors.As(err, &answered) && slices.Contains([]int{mcp.CodeMethodNotFound, mcp.CodeInvalidParams}, answered.Code) {
		return nil // it lives, and does not know ping
	}
	return err
}

// watch follows what the server sends on its own. Where the stream is unknown, either the session is forgotten, and a
// proof of life opens another, or this server has no stream.
func (l *legacy) watch(ctx context.Context) error {
	for failures := 0; ; failures++ {
		err := l.link.follow(ctx)
		var forgotten *sessionError
		if !errors.As(err, &forgotten) {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, aliveLimit)
		err = l.alive(limited)
		cancel()
		if link, ok := l.link.(sessions); err != nil || ok && link.current() == forgotten.stale {
			return err
		}
		if !wait(ctx, backoff(failures)) {
			return ctx.Err()
		}
	}
}

func (l *legacy) close(ctx context.Context, polite bool) { l.link.close(ctx, polite) }
