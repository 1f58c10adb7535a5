package upstream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/pace"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// streamLimit is how long a stream may take to open that a legacy server sends on by itself.
const streamLimit = time.Second

// legacy is a session with a server of 2024-11-05 … 2025-11-25, which a handshake opens.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
type legacy struct {
	conn         *connection
	link         wire.Link
	ids          counter
	version      string        // of the gateway
	revision     string        // that a handshake asks for; the server may answer with another one of the era
	capabilities mcp.Object    // declared to the server
	opening      chan struct{} // holds one token: whoever has it opens a session
	setting      chan struct{} // holds one token: whoever has it changes the level or a subscription
	both         bool          // its server speaks the modern era too, and a result may ask as there
	alone        bool          // it runs one call at a time
	ended        chan struct{} // closed when the session serves no more
	end          sync.Once
	attend       func()        // begins to follow what the server sends on its own, once; nil: that is done already
	streaming    chan struct{} // closed when that is followed, or is known not to be there
	streams      sync.Once
	calls        *calls // whose callers can be asked
	watchers     watchers
	tellLoss     func(context.Context, error) // logs why its child was lost before it was closed; nil: a status does

	mu    sync.Mutex         // guards the fields below
	level mcp.Level          // of log messages that the server was asked for
	renew context.CancelFunc // ends the stream of a session that was forgotten; nil: there is none
}

var _ peer = (*legacy)(nil)

// openLegacy does the handshake and declares the capabilities. open are the calls of which the server may ask something.
func openLegacy(
	ctx context.Context, c *connection, link wire.Link, cfg *Config, capabilities mcp.Object, open *calls,
) (*legacy, error) {
	l := &legacy{
		conn: c, link: link, version: cfg.Version, revision: mcp.LatestLegacy, capabilities: capabilities,
		opening: make(chan struct{}, 1), setting: make(chan struct{}, 1),
		ended: make(chan struct{}), streaming: make(chan struct{}), calls: open,
	}
	if cfg.named() == mcp.Legacy {
		l.revision = cfg.Revision
	}
	l.opening <- struct{}{}
	l.setting <- struct{}{}
	c.hearBy(l)
	revision, err := l.initialize(ctx)
	if err != nil {
		return nil, err
	}
	c.version = revision
	return l, nil
}

func (l *legacy) initialize(ctx context.Context) (revision string, err error) {
	params := mcp.NewObject(
		mcp.Member{Name: "protocolVersion", Value: mcp.String(l.revision)},
		mcp.Member{Name: "capabilities", Value: l.capabilities.JSON()},
		mcp.Member{Name: "clientInfo", Value: clientInfo(l.version)},
	)
	out := l.request(mcp.MethodInitialize, params)
	result, err := l.exchangeOnce(ctx, out)
	if err != nil {
		return "", err
	}
	revision = result.Text("protocolVersion")
	if mcp.EraOf(revision) != mcp.Legacy {
		return "", l.conn.server.protocol("initialize answered with an unknown revision")
	}
	l.conn.declare(result.Object("capabilities"))
	l.link.Begin(out.SessionID, revision)
	return revision, l.conn.server.from(l.link.Send(ctx, mcp.AppendRequest(nil, "", mcp.NotifyInitialized, mcp.Object{})))
}

func (l *legacy) request(method string, params mcp.Object) *wire.Request {
	id := l.ids.next()
	return &wire.Request{ID: id, Method: method, Body: mcp.AppendRequest(nil, id, method, params)}
}

func (l *legacy) prepare(*item) {}

func (l *legacy) page(ctx context.Context, method string, cursor mcp.RawJSON) (mcp.Object, error) {
	params := mcp.Object{}
	if cursor != nil {
		params = params.With("cursor", cursor)
	}
	result, err := l.exchange(ctx, l.request(method, params))
	// Before 2026-07-28 an empty cursor means the end to all clients, so servers send it as that.
	if next := result.Value("nextCursor"); next.IsNull() || string(next) == `""` {
		result = result.Without("nextCursor")
	}
	return result, err
}

func (l *legacy) call(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error) {
	return l.run(ctx, i, c, nil)
}

// run runs one call on this session. asks takes its notifications and questions in place of the caller; nil: the caller gets
// the notifications, and cannot be asked.
func (l *legacy) run(ctx context.Context, i *item, c *registry.Call, asks *questions) (mcp.Object, error) {
	if err := l.speak(ctx, c.LogLevel); err != nil {
		return mcp.Object{}, err
	}
	out := l.ids.call(i, c, "")
	out.Logs = c.LogLevel > 0 && l.alone
	if asks != nil {
		out.Hear = asks.note
		out.Notify = func(_ context.Context, m *mcp.Message) { asks.note(m) }
		out.Ask = func(m *mcp.Message) *mcp.Error { return asks.ask(m, false) }
	}
	result, err := l.exchange(ctx, out)
	if err != nil {
		return mcp.Object{}, err
	}
	if i.asTask && result.Value("task").IsObject() {
		return withoutServerInfo(result.With("resultType", mcp.String("task"))), nil
	}
	if l.both && result.Value("inputRequests").IsObject() {
		return l.conn.server.complete(i.method, mcp.LatestModern, result.With("resultType", mcp.String("input_required")))
	}
	return l.conn.server.complete(i.method, mcp.LatestLegacy, result)
}

// speak asks the server for log messages of the level, unless it sends them already or has none. Those that a caller
// does not want are dropped when they come.
// https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging
func (l *legacy) speak(ctx context.Context, level mcp.Level) error {
	if level == 0 || l.says(level) || !l.conn.has("logging") {
		return nil
	}
	if err := l.beginSetting(ctx); err != nil {
		return err
	}
	defer l.endSetting()
	if l.says(level) {
		return nil
	}
	_, err := l.exchange(ctx, l.setLevel(level))
	var answered *mcp.Error
	if err != nil && !errors.As(err, &answered) {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.level = level // also where it was refused: it would be refused again
	return nil
}

func (l *legacy) says(level mcp.Level) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.level > 0 && l.level <= level
}

func (l *legacy) setLevel(level mcp.Level) *wire.Request {
	return l.request(mcp.MethodSetLevel, mcp.NewObject(mcp.Member{Name: "level", Value: mcp.String(level.String())}))
}

// beginSetting waits for the right to change what the session is set to; endSetting returns it.
func (l *legacy) beginSetting(ctx context.Context) error {
	select {
	case <-l.setting:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *legacy) endSetting() { l.setting <- struct{}{} }

// exchange sends a request. One that the server did not run, because it forgot the session, is sent once more under a
// new session.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
func (l *legacy) exchange(ctx context.Context, out *wire.Request) (mcp.Object, error) {
	result, err := l.exchangeOnce(ctx, out)
	if err == nil {
		return result, nil
	}
	if forgotten, ok := errors.AsType[*wire.SessionError](err); ok {
		if err = l.reopen(ctx, forgotten); err != nil {
			return result, l.conn.server.unavailable(false, err)
		}
		if result, err = l.exchangeOnce(ctx, out); errors.As(err, &forgotten) {
			err = l.conn.server.unavailable(false, err)
		}
	}
	if err != nil && ctx.Err() != nil {
		l.link.Tell(ctx, cancelled(out.ID, mcp.Object{}))
	}
	return result, err
}

// exchangeOnce sends a request under the present session and waits for its answer.
func (l *legacy) exchangeOnce(ctx context.Context, out *wire.Request) (mcp.Object, error) {
	result, err := l.link.Exchange(ctx, out)
	if err != nil {
		return result, l.conn.server.from(err)
	}
	return result, nil
}

// reopen opens a new session in place of the one that the server forgot, unless another caller did.
func (l *legacy) reopen(ctx context.Context, forgotten *wire.SessionError) error {
	select {
	case <-l.opening:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { l.opening <- struct{}{} }()
	if forgotten.Replaced() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	_, err := l.initialize(ctx) // whichever revision: nothing that passes here depends on it
	l.conn.changed()
	if err == nil {
		err = l.restore(ctx)
	}
	return err
}

// restore sets a new session to what the one before was set to. A change of a resource may have been missed.
func (l *legacy) restore(ctx context.Context) error {
	l.mu.Lock()
	level, renew := l.level, l.renew
	l.mu.Unlock()
	if renew != nil {
		renew()
	}
	var requests []*wire.Request
	if level > 0 {
		requests = append(requests, l.setLevel(level))
	}
	for _, uri := range l.watchers.uris() {
		requests = append(requests, l.about(mcp.MethodSubscribe, uri))
	}
	for _, out := range requests {
		_, err := l.exchangeOnce(ctx, out)
		var answered *mcp.Error
		if err != nil && !errors.As(err, &answered) {
			return err
		}
	}
	l.watchers.missed()
	return nil
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
// proof of life opens another, or this server has no stream. A session that was opened again gets a stream of its own.
func (l *legacy) watch(ctx context.Context) error {
	defer l.attended(false)
	for failures := 0; ; failures++ {
		following, cancel := context.WithCancel(ctx)
		l.renewBy(cancel)
		err := l.link.Follow(following)
		renewed := following.Err() != nil && ctx.Err() == nil
		cancel()
		if renewed {
			continue
		}
		var forgotten *wire.SessionError
		if !errors.As(err, &forgotten) {
			return l.conn.server.from(err)
		}
		limited, cancel := context.WithTimeout(ctx, aliveLimit)
		err = l.alive(limited)
		cancel()
		if err != nil || !forgotten.Replaced() {
			return err
		}
		if !pace.Wait(ctx, pace.Backoff(failures)) {
			return ctx.Err()
		}
	}
}

func (l *legacy) renewBy(cancel context.CancelFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renew = cancel
}

// attended is told that the server's stream is open. again: it was before, and a change may have been missed.
func (l *legacy) attended(again bool) {
	l.streams.Do(func() { close(l.streaming) })
	if again {
		l.watchers.missed()
	}
}

// awaitStream waits until what the server sends on its own is followed, since a question that it asks before that is
// lost. It does not wait for long: some servers answer the request for a stream with its first event. Then it returns
// false.
func (l *legacy) awaitStream(ctx context.Context) (inTime bool) {
	if !l.link.Streams() {
		return true // all that it sends is on one stream
	}
	limit := time.NewTimer(streamLimit)
	defer limit.Stop()
	select {
	case <-limit.C:
		return false
	case <-l.streaming:
	case <-l.ended:
	case <-ctx.Done():
	}
	return true
}

// busy returns that calls run elsewhere.
func (l *legacy) busy() bool { return false }

// sessions returns that there is one.
func (l *legacy) sessions() int { return 1 }

// close ends the session; polite says good-bye, also when ctx has ended.
func (l *legacy) close(ctx context.Context, polite bool) {
	if child, ok := l.link.(*wire.Child); ok && l.tellLoss != nil {
		if cause := child.Loss(); cause != nil {
			l.tellLoss(ctx, l.conn.server.unavailable(true, cause))
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	l.stop()
	l.link.Close(ctx, polite)
}

// stop ends what would go on as long as the session.
func (l *legacy) stop() { l.end.Do(func() { close(l.ended) }) }

// question gives a request of the server to the call on whose stream it came. It returns the refusal when there is none.
func (l *legacy) question(m *mcp.Message, of *wire.Request) []byte {
	switch {
	case l.capabilities.Len() == 0:
		return rejection(m.ID, errUnasked)
	case of == nil:
		if m.Method == mcp.MethodRoots && len(l.calls.all()) == 0 {
			l.conn.rooted.Store(true)
		}
		return l.calls.stray(m)
	case of.Ask == nil:
		return rejection(m.ID, errNoCall)
	}
	if err := of.Ask(m); err != nil {
		return rejection(m.ID, err)
	}
	return nil
}

// notified takes a notification that no request's token or stream ties to a call.
func (l *legacy) notified(m *mcp.Message) {
	switch m.Method {
	case mcp.NotifyResourceUpdated:
		l.watchers.updated(m.Params.Text("uri"))
	case mcp.NotifyCancelled:
		l.calls.withdraw(mcp.ID(m.Params.Value("requestId")))
	case mcp.NotifyMessage:
		l.calls.note(m)
	}
}

// watchResource subscribes to changes of a resource, calls live once when the server agreed, and tells of changes until
// ctx ends or the session does. Several may watch the same resource; the server is asked once.
// https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions
func (l *legacy) watchResource(ctx context.Context, _, uri string, live func(), updated func(uri string)) error {
	w := &watcher{uri, updated}
	if err := l.subscribe(ctx, w); err != nil {
		return err
	}
	defer l.unsubscribe(ctx, w)
	live()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-l.ended:
		return l.conn.server.unavailable(true, wire.ErrGone)
	}
}

// subscribe adds a watcher, and asks the server when it is the first of its resource. The stream that brings the
// changes is open before.
func (l *legacy) subscribe(ctx context.Context, w *watcher) error {
	if l.attend != nil {
		l.attend()
	}
	l.awaitStream(ctx)
	if err := l.beginSetting(ctx); err != nil {
		return err
	}
	defer l.endSetting()
	if !l.watchers.add(w) {
		return nil
	}
	_, err := l.exchange(ctx, l.about(mcp.MethodSubscribe, w.uri))
	if err != nil {
		l.watchers.drop(w)
	}
	return l.conn.server.forCaller(ctx, err)
}

// unsubscribe removes a watcher, and tells the server when it was the last of its resource.
func (l *legacy) unsubscribe(ctx context.Context, w *watcher) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit) // the watcher's own has ended
	defer cancel()
	if l.beginSetting(ctx) != nil {
		l.watchers.drop(w) // what comes for nobody is dropped
		return
	}
	defer l.endSetting()
	if !l.watchers.drop(w) {
		return
	}
	select {
	case <-l.ended:
	default:
		_, _ = l.exchange(ctx, l.about(mcp.MethodUnsubscribe, w.uri)) // what still comes is dropped
	}
}

// about returns a request about a resource.
func (l *legacy) about(method, uri string) *wire.Request {
	return l.request(method, mcp.NewObject(mcp.Member{Name: "uri", Value: mcp.String(uri)}))
}
