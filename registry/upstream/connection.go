package upstream

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// connection is one peer from its handshake to its loss. Offers hold on to the connection they were listed on, so a
// tool whose connection is gone refuses calls at once, even where a reader still holds an old catalogue.
type connection struct {
	server   fault
	peer     peer
	version  string                 // the revision agreed on
	pool     *pool                  // of sessions that run the calls of a legacy server; nil: the peer runs them
	older    *side                  // of a modern server; nil: it is not used
	hears    atomic.Pointer[hearer] // takes what a legacy server sends on its own; nil: a modern server
	count    func(Anomaly, int)
	gone     atomic.Bool
	rooted   atomic.Bool   // the server asked for roots outside a call, as some do when they start
	told     atomic.Bool   // the way is open on which the server tells when its lists change
	changes  chan struct{} // there is news
	doubts   chan struct{} // the connection may be lost
	refusals chan struct{} // a tool was refused to ask
	news     atomic.Uint32 // the topics that may have changed, and above them those of which the server said so

	said      *wire.LastWords // of its child, or of the last one where it took more than one; empty for what is no child
	control   *connection     // reads the lists for this session of a pool; nil: this connection reads its own
	heard     atomic.Uint32   // the topics of which the server told on this connection
	overheard atomic.Uint32   // the topics of which it told in a session of the pool

	capabilities atomic.Pointer[mcp.Object] // that the server declares; nil: unknown
}

// hearer is a session, as far as its server tells it something that answers no request.
type hearer interface {
	question(m *mcp.Message, of *wire.Request) (answer []byte)
	notified(m *mcp.Message)
	attended(again bool)
}

// hearBy says which session hears what the server sends on its own from now on.
func (c *connection) hearBy(session hearer) { c.hears.Store(&session) }

var _ wire.Events = (*connection)(nil)

func newConnection(server string, count func(Anomaly, int)) *connection {
	return &connection{
		server: fault(server), count: count, said: &wire.LastWords{},
		changes: make(chan struct{}, 1), doubts: make(chan struct{}, 1), refusals: make(chan struct{}, 1),
	}
}

// newSessionConnection returns the connection of one more session with the server of the control connection.
func newSessionConnection(control *connection) *connection {
	c := newConnection(string(control.server), control.count)
	c.control = control
	return c
}

// changed asks for all lists again. It never waits: one request that is not served yet stands for all.
func (c *connection) changed() { c.ask(everyTopic) }

// announced asks for the lists of one kind again because the server says that they changed. Some servers say so only in
// the session of the call that changed them.
func (c *connection) announced(kind registry.Kind) {
	topic := topicOf(kind)
	if c.control != nil {
		c.control.overheard.Or(uint32(topic))
	} else {
		c.heard.Or(uint32(topic))
	}
	c.ask(topic | topic<<announcedBy)
}

// ask has lists read again by the connection that reads them: what a list shows may differ from session to session.
func (c *connection) ask(news topics) {
	reads := cmp.Or(c.control, c)
	reads.news.Or(uint32(news))
	signal(reads.changes)
}

// Doubt asks for a proof of life.
func (c *connection) Doubt() { signal(c.doubts) }

func signal(channel chan<- struct{}) {
	select {
	case channel <- struct{}{}:
	default: // one is waiting already
	}
}

// call serves one call. Errors are of the kinds that errors.go names.
func (c *connection) call(ctx context.Context, i *item, call *registry.Call) (mcp.Object, error) {
	if c.gone.Load() {
		return mcp.Object{}, c.server.unavailable(false, wire.ErrGone)
	}
	result, err := c.run(ctx, i, call)
	if err != nil && c.repeats(ctx, i, call, err) {
		result, err = c.run(ctx, i, call)
	}
	if errors.Is(err, errBusy) {
		return mcp.Object{}, err // the call never left, which the error of its deadline would not say
	}
	if err = c.server.settle(ctx, err); err != nil {
		c.judge(err)
		return mcp.Object{}, err
	}
	return result, nil
}

// run has the call run by the peer, or by one of the sessions for its caller.
func (c *connection) run(ctx context.Context, i *item, call *registry.Call) (mcp.Object, error) {
	if c.pool != nil {
		return c.pool.call(ctx, i, call)
	}
	if c.older.takes(i, call) {
		if result, done, err := c.older.call(ctx, i, call); done {
			return result, err
		}
	}
	result, err := c.peer.call(ctx, i, call)
	switch {
	case err != nil:
		c.unasked(i, call, err)
		return result, err
	case i.method == mcp.MethodToolsCall && c.gives(call) && result.Text("resultType") == "task":
		return withoutServerInfo(result), nil
	case call.Task != "":
		return c.server.taskState(i.method, result)
	}
	return c.server.complete(i.method, c.version, result)
}

// Count counts n things that no server should send.
func (c *connection) Count(kind Anomaly, n int) { c.count(kind, n) }

// Question takes a request of the server. It returns the answer when there is one at once, nil when it follows. of is
// the request on whose stream it came; nil: it came on none.
func (c *connection) Question(m *mcp.Message, of *wire.Request) []byte {
	if m.Method == mcp.MethodPing {
		return mcp.AppendResult(nil, m.ID, mcp.Object{})
	}
	if session := c.hears.Load(); session != nil {
		return (*session).question(m, of)
	}
	return rejection(m.ID, errUnasked)
}

// Following tells whether what the server sends on its own arrives from now on. A gap in the stream of one call's session
// does not have every list read.
func (c *connection) Following(open, again bool) {
	c.told.Store(open)
	if !open {
		return
	}
	if again && c.control == nil {
		c.changed()
	}
	if session := c.hears.Load(); session != nil {
		(*session).attended(again)
	}
}

// Notification takes a notification that does not say which request it belongs to.
func (c *connection) Notification(m *mcp.Message) {
	switch m.Method {
	case mcp.NotifyToolsChanged:
		c.announced(registry.KindTool)
	case mcp.NotifyPromptsChanged:
		c.announced(registry.KindPrompt)
	case mcp.NotifyResourcesChanged:
		c.announced(registry.KindResource)
	default:
		if session := c.hears.Load(); session != nil {
			(*session).notified(m)
		}
	}
}

// use serves one call that is not about a tool.
func (c *connection) use(ctx context.Context, call *registry.Call) (mcp.Object, error) {
	return c.call(ctx, c.itemOf(call), call)
}

// judge draws conclusions from a failed call.
func (c *connection) judge(err error) {
	var answered *mcp.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case !errors.As(err, &answered), answered.Code == mcp.CodeUnsupportedVersion:
		c.Doubt()
	case answered.Code == mcp.CodeHeaderMismatch:
		c.changed()
	}
}

// end closes the connection; polite says good-bye to a server that is still there. It waits until everything that
// belongs to the connection has ended.
func (c *connection) end(ctx context.Context, polite bool) {
	c.gone.Store(true)
	if c.pool != nil {
		c.pool.close(ctx, polite)
	}
	if c.older != nil {
		c.older.pool.close(ctx, polite)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit) // the good-bye comes when ctx has ended
	defer cancel()
	c.peer.close(ctx, polite)
}

// tasks returns the form of tasks that calls of this server's tools may become.
func (c *connection) tasks() mcp.Tasks {
	declared := c.capabilities.Load()
	switch {
	case declared == nil:
	case mcp.EraOf(c.version) == mcp.Modern && mcp.DeclaresTasks(*declared):
		return mcp.TasksGiven
	case c.version == mcp.Revision2511 && declared.Object("tasks").Object("requests").Object("tools").Value("call").IsObject():
		return mcp.TasksAsked
	}
	return 0
}

// tasksOf returns the form of tasks that calls of a tool may become, and its definition with what that says of them only
// where it means something: where they are to be asked for, and where the tool needs one that its server does not have.
func (c *connection) tasksOf(definition mcp.Object) (mcp.Tasks, mcp.Object) {
	form, support := c.tasks(), definition.Object("execution").Text("taskSupport")
	switch {
	case mcp.EraOf(c.version) == mcp.Modern: // its revision has no such member
		return form, definition.Without("execution")
	case support == "required", support == "optional" && form == mcp.TasksAsked:
		return form, definition
	}
	return 0, definition.Without("execution")
}

// gives tells whether the server may answer the call with a task, or the call is about one that it gave.
func (c *connection) gives(call *registry.Call) bool {
	return call.Tasks == mcp.TasksGiven && c.tasks() == mcp.TasksGiven
}
