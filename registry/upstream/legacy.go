package upstream

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// streamLimit is how long the gateway waits for the stream to open on which a legacy
// server sends what answers no request.
const streamLimit = time.Second

// legacy is one session with a server of 2024-11-05 … 2025-11-25, which a handshake
// opens. It serves as control connection or as pooled session. It is safe for concurrent
// use. https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
type legacy struct {
	conn *connection
	link wire.Link
	// that the handshake asks for; the server may answer with another one of the era
	revision     string
	capabilities mcp.Object          // declared to the server
	opening      *semaphore.Weighted // a lock: whoever has it replaces a forgotten session
	// a lock: whoever has it changes the level, or two callers' requests could reach the
	// server in another order than they are recorded here
	setting      *semaphore.Weighted
	both         bool               // its server speaks the modern era too: a result may be input_required
	alone        bool               // it runs one call at a time
	life         context.Context    //nolint:containedctx // until the session is closed
	stop         context.CancelFunc // ends life, and with it subscriptions and waits
	streaming    chan struct{}      // closed when the server's own stream is open, or is known not to exist
	streams      sync.Once
	calls        *calls // the open calls whose callers can be asked
	watchers     watchers
	elicitations elicitations
	tasks        atomic.Pointer[func(state mcp.Object)] // takes what is said of tasks; nil: nobody does
	// logs why its child died; nil on a control connection
	tellLoss func(context.Context, error)

	level atomic.Int64 // mcp.Level of log messages that the server was asked for; zero: it was not asked
	// ends the present stream, so that watch opens another; nil: watch has not begun
	renew atomic.Pointer[context.CancelFunc]
}

var _ peer = (*legacy)(nil)

// openLegacy does the handshake on a transport and declares the capabilities. open are
// the calls that the server may ask something. When it fails, the caller closes the link.
func openLegacy(
	ctx context.Context, c *connection, link wire.Link, capabilities mcp.Object, open *calls,
) (*legacy, error) {
	life, stop := context.WithCancel(context.Background())
	l := &legacy{
		conn: c, link: link, revision: mcp.LatestLegacy, capabilities: capabilities,
		opening: semaphore.NewWeighted(1), setting: semaphore.NewWeighted(1),
		life: life, stop: stop, streaming: make(chan struct{}), calls: open,
	}
	if c.cfg.named() == mcp.Legacy {
		l.revision = c.cfg.Revision
	}
	c.hearBy(l)
	revision, err := l.initialize(ctx)
	if err != nil {
		return nil, err
	}
	c.version = revision
	return l, nil
}

// initialize does the handshake and returns the revision that the server chose. It is
// done again when the server forgot the session.
func (l *legacy) initialize(ctx context.Context) (revision string, err error) {
	params := mcp.NewObject(
		mcp.Member{Name: "protocolVersion", Value: mcp.String(l.revision)},
		mcp.Member{Name: "capabilities", Value: l.capabilities.JSON()},
		mcp.Member{Name: "clientInfo", Value: clientInfo(l.conn.cfg.Version)},
	)
	out := l.request(mcp.MethodInitialize, params)
	defer func() {
		if web, ok := l.link.(*wire.HTTP); ok && err != nil {
			web.Abandon(ctx, out.SessionID, revision) // else each attempt would leave one at the server
		}
	}()
	result, err := l.conn.exchange(ctx, l.link, out)
	if err != nil {
		return "", err
	}
	revision = result.Text("protocolVersion")
	if mcp.EraOf(revision) != mcp.Legacy {
		return "", l.conn.server.protocol("initialize answered with the unknown revision %.40q", revision)
	}
	l.conn.declare(result.Object("capabilities"))
	completion := mcp.AppendRequest(nil, "", mcp.NotifyInitialized, mcp.Object{})
	return revision, l.conn.server.from(l.link.Begin(ctx, out.SessionID, revision, completion))
}

func (l *legacy) request(method string, params mcp.Object) *wire.Request {
	id := l.conn.ids.next()
	return &wire.Request{ID: id, Method: method, Body: mcp.AppendRequest(nil, id, method, params)}
}

// prepare does nothing: a legacy request has no headers of its own.
func (l *legacy) prepare(*item) {}

func (l *legacy) page(ctx context.Context, method string, params mcp.Object) (mcp.Object, error) {
	return l.exchange(ctx, l.request(method, params))
}

// as is nil: a session declares one thing, and a bare one has none beside it.
func (l *legacy) as(mcp.Object) pager { return nil }

// call runs a call whose caller cannot be asked.
func (l *legacy) call(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error) {
	return l.run(ctx, i, c, nil)
}

// run runs one call on this session. asks takes the call's notifications and questions in
// place of the caller; when it is nil, the caller gets the notifications and cannot be
// asked.
func (l *legacy) run(ctx context.Context, i *item, c *registry.Call, asks *questions) (mcp.Object, error) {
	if err := l.speak(ctx, c.LogLevel); err != nil { // nothing of the call was sent
		return mcp.Object{}, l.conn.server.unavailable(false, cause(err))
	}
	defer l.conn.calls.Add(-l.conn.countCall(l.link, i.method))
	out := l.conn.ids.call(i, c, "")
	out.Logs = c.LogLevel > 0 && l.alone
	if asks != nil {
		out.Hear = asks.note
		out.Notify = func(_ context.Context, m *mcp.Message) { asks.note(m) }
		out.Ask = func(m *mcp.Message) *mcp.Error { return asks.ask(m, false) }
	}
	result, err := l.exchange(ctx, out)
	if err != nil {
		return mcp.Object{}, l.renamed(err, c.OnOpened)
	}
	if i.asTask && result.Value("task").IsObject() {
		return withoutServerInfo(result.With("resultType", mcp.String("task"))), nil
	}
	if l.both && result.Value("inputRequests").IsObject() {
		return l.conn.server.complete(i.method, mcp.LatestModern,
			result.With("resultType", mcp.String("input_required")))
	}
	return l.conn.server.complete(i.method, mcp.LatestLegacy, result)
}

// renamed returns the error of a call, with ids of the gateway where the server wants
// addresses to be opened, of which at most roundMax count. tell is as in elicitations.
func (l *legacy) renamed(err error, tell func(id string)) error {
	answered := toOpen(err)
	if answered == nil {
		return err
	}
	data, _ := mcp.ObjectOf(answered.Data)
	all, listed := data.Value("elicitations").Elements()
	if !listed {
		return err
	}
	all = all[:min(len(all), roundMax)]
	for n, one := range all {
		params, _ := mcp.ObjectOf(one)
		all[n] = l.elicitations.rename(params, tell).JSON()
	}
	renamed := *answered
	renamed.Data = data.With("elicitations", mcp.Array(all)).JSON()
	return &renamed
}

// speak sees to it that the server sends log messages of at least the level, unless it
// does already or has no logging. The level is only ever lowered, because several callers
// share the session; messages that a caller does not want are dropped when they come.
// https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging
func (l *legacy) speak(ctx context.Context, level mcp.Level) error {
	if level == 0 || l.says(level) || !l.conn.has("logging") {
		return nil
	}
	if err := l.setting.Acquire(ctx, 1); err != nil {
		return err
	}
	defer l.setting.Release(1)
	if l.says(level) {
		return nil
	}
	_, err := l.exchange(ctx, l.setLevel(level))
	if err != nil && !isAnswer(err) {
		return err
	}
	l.level.Store(int64(level)) // also after a refusal, because the server would refuse it again
	return nil
}

// says tells whether the server was already asked for messages of the level.
func (l *legacy) says(level mcp.Level) bool {
	asked := mcp.Level(l.level.Load())
	return asked > 0 && asked <= level
}

func (l *legacy) setLevel(level mcp.Level) *wire.Request {
	return l.request(mcp.MethodSetLevel,
		mcp.NewObject(mcp.Member{Name: "level", Value: mcp.String(level.String())}))
}

// exchange sends a request and waits for its answer. A request that the server did not
// run, because it forgot the session, is sent once more in a new session. When the caller
// leaves, the server is told that the request is cancelled.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
func (l *legacy) exchange(ctx context.Context, out *wire.Request) (result mcp.Object, err error) {
	defer func() {
		l.conn.conclude(ctx, out.Method, err)
		// On the control connection, whoever asked judges, and the pipes of a child say
		// whether it lives.
		if err != nil && l.conn.control != nil && l.conn.cfg.URL != "" {
			l.conn.judge(l.conn.server.forCaller(ctx, err))
		}
	}()
	result, err = l.conn.exchange(ctx, l.link, out)
	if err == nil {
		return result, nil
	}
	if forgotten, ok := errors.AsType[*wire.SessionError](err); ok {
		if err = l.reopen(ctx, forgotten); err != nil {
			return result, l.conn.server.unavailable(false, err)
		}
		if result, err = l.conn.exchange(ctx, l.link, out); errors.As(err, &forgotten) {
			err = l.conn.server.unavailable(false, err)
		}
	}
	if err != nil && ctx.Err() != nil && !out.Unsent {
		l.link.Tell(ctx, cancelled(out.ID, mcp.Object{}))
	}
	return result, err
}

// reopen opens a new session in place of the one that the server forgot. It opens nothing
// when another caller, whose request failed in the same way, has done so already.
func (l *legacy) reopen(ctx context.Context, forgotten *wire.SessionError) error {
	if err := l.opening.Acquire(ctx, 1); err != nil {
		return err
	}
	defer l.opening.Release(1)
	switch {
	case l.life.Err() != nil: // it is being closed: nobody would end another
		return wire.ErrGone
	case forgotten.Replaced():
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	// the revision may differ from before: nothing that passes here depends on it
	_, err := l.initialize(limited)
	l.conn.changed()
	if isAnswer(err) {
		return cause(err) // or what it said of the handshake would pass for its answer to the request
	}
	if err != nil {
		return err
	}
	return l.restore(limited)
}

// restore gives a new session the stream and the log level that the forgotten one had. A
// level that does not come through is asked for by the next call that wants messages. The
// watchers end: who follows their resources subscribes again, as after any end of a
// subscription, and tells of a change, because one may have been missed in between.
func (l *legacy) restore(ctx context.Context) error {
	if renew := l.renew.Load(); renew != nil {
		(*renew)()
	}
	l.watchers.each(func(w *watcher) { w.end() })
	level := mcp.Level(l.level.Load())
	if level == 0 {
		return nil
	}
	_, err := l.conn.exchange(ctx, l.link, l.setLevel(level))
	if err == nil || isAnswer(err) {
		return nil
	}
	l.level.Store(0)
	return err
}

// alive sends a ping. An error of JSON-RPC itself in answer to it is a proof of life as
// well.
func (l *legacy) alive(ctx context.Context) error {
	_, err := l.exchange(ctx, l.request(mcp.MethodPing, mcp.Object{}))
	// each of these is in use for a ping that is not known; others may speak of the
	// session
	if answeredWith(err, mcp.CodeMethodNotFound, mcp.CodeInvalidParams, mcp.CodeInvalidRequest,
		mcp.CodeInternal) {
		return nil
	}
	return err
}

// watch follows what the server sends on its own until ctx ends or the connection is
// lost. It is called once for each session object.
//
// Where the server answers that it does not know the session of the stream, there are two
// cases. Either it forgot the session; then the proof of life, which it answers in the
// same way, opens a new session, and watch follows that one. Or it knows the session and
// just has no stream; then the proof of life opens nothing, and watch returns nil. When
// another request opens a new session meanwhile, restore ends the old stream, and watch
// opens one for the new session.
func (l *legacy) watch(ctx context.Context) error {
	defer l.attended(false)
	for failures := 0; ; failures++ {
		following, renew := context.WithCancel(ctx)
		l.renew.Store(&renew)
		began := time.Now()
		err := l.link.Follow(following)
		if time.Since(began) >= lasted {
			failures = 0
		}
		renewed := following.Err() != nil && ctx.Err() == nil
		renew()
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
		if !throttled(err) && (err != nil || !forgotten.Replaced()) {
			return err
		}
		if !pace.Wait(ctx, pace.Backoff(failures)) {
			return ctx.Err()
		}
	}
}

// attended is told that the server's own stream is open, or will never be. again: it was
// open before, and a change of a resource may have been missed in between.
func (l *legacy) attended(again bool) {
	l.streams.Do(func() { close(l.streaming) })
	if again {
		l.watchers.each(func(w *watcher) { w.updated(w.uri) })
	}
}

// awaitStream waits until the server's own stream is open, since a question that the
// server asks there before is lost. It waits for streamLimit at most, because some
// servers answer the request for a stream only with its first event; then it returns
// false.
func (l *legacy) awaitStream(ctx context.Context) (inTime bool) {
	if !l.link.Streams() {
		return true // all that the server sends comes on one stream, which is open already
	}
	select {
	case <-time.After(streamLimit):
		return false
	case <-l.streaming:
	case <-l.life.Done():
	case <-ctx.Done():
	}
	return true
}

// sessions is one: this session.
func (l *legacy) sessions() int { return 1 }

// close ends the session and waits for its transport, at most closeLimit over HTTP.
// polite: the server is told so. It does so also after ctx has ended.
func (l *legacy) close(ctx context.Context, polite bool) {
	if child, ok := l.link.(*wire.Child); ok && l.tellLoss != nil {
		if cause := child.Loss(); cause != nil {
			l.tellLoss(ctx, l.conn.server.unavailable(true, cause))
		}
	}
	l.stop()
	closeLink(ctx, l.link, polite)
}

// question gives a request of the server to the call on whose stream it came, or to
// calls.stray when it came on no call's stream. It returns the refusal when nobody can be
// asked, and nil when somebody is. A session that declared no capabilities refuses every
// question: its server has no right to ask.
func (l *legacy) question(m *mcp.Message, of *wire.Request) []byte {
	switch {
	case l.capabilities.Without("extensions").Len() == 0:
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

// notified takes a notification that neither a token nor a stream ties to a call.
func (l *legacy) notified(m *mcp.Message) {
	switch m.Method {
	case mcp.NotifyResourceUpdated:
		l.watchers.updated(m.Params.Text("uri"))
	case mcp.NotifyCancelled:
		l.calls.withdraw(mcp.ID(m.Params.Value("requestId")))
	case mcp.NotifyMessage:
		l.calls.note(m)
	case mcp.NotifyOpened:
		l.elicitations.complete(m.Params.Text("elicitationId"))
	case mcp.NotifyTasksStatus:
		if heard := l.tasks.Load(); heard != nil {
			(*heard)(m.Params)
		}
	}
}

// watchResource subscribes to changes of a resource, calls onConfirmed once when the
// server has agreed, and tells of changes until ctx or the session ends, or the server
// has forgotten the session. It waits for the stream that brings the changes first,
// because a change announced before that would be lost. It ignores the tenant, because
// older has chosen the session by it. Nobody else watches the same resource in the
// session.
// https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions
func (l *legacy) watchResource(ctx context.Context, _, uri string, onConfirmed func(),
	updated func(uri string),
) error {
	known, end := context.WithCancel(l.life)
	defer end()
	w := &watcher{uri, updated, end}
	l.awaitStream(ctx)
	l.watchers.watching.Store(w, nil)
	defer l.watchers.watching.Delete(w)
	if _, err := l.exchange(ctx, l.about(mcp.MethodSubscribe, uri)); err != nil {
		return l.conn.server.forCaller(ctx, err)
	}
	onConfirmed()
	select {
	case <-ctx.Done():
		if l.life.Err() == nil { // or it would open the session again
			l.unsubscribe(ctx, uri)
		}
		return ctx.Err()
	case <-known.Done():
		return l.conn.server.unavailable(true, wire.ErrGone)
	}
}

// unsubscribe tells the server that nobody watches a resource any more. If that fails,
// what it announces for nobody is dropped.
func (l *legacy) unsubscribe(ctx context.Context, uri string) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	_, _ = l.exchange(limited, l.about(mcp.MethodUnsubscribe, uri)) // as said above
}

// about returns a request about the resource with that URI.
func (l *legacy) about(method, uri string) *wire.Request {
	return l.request(method, mcp.NewObject(mcp.Member{Name: "uri", Value: mcp.String(uri)}))
}
