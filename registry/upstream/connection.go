package upstream

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// connection is what is known of one connection to a server, and the signals that come of
// it: that lists changed, that calls fail, that a question was refused. The supervisor of
// the connection waits for these signals: Upstream.follow for the control connection, the
// pool of seats for a pooled session. It is safe for concurrent use once the handshake
// has set version.
type connection struct {
	cfg     *Config
	server  fault
	owner   *auth.Owner // whose session it is, as its seat says; nil: nobody's, as the control connection
	version string      // the revision agreed on
	ids     counter     // of requests in either era: an early question may be answered late
	// takes what a legacy server sends on its own; nil: the server is modern
	hears atomic.Pointer[hearer]
	// the server asked for roots while no call was open, as some servers do when they
	// start
	rooted atomic.Bool
	// the stream or subscription is open on which the server announces changes of its
	// lists
	announces  atomic.Bool
	streamed   atomic.Bool   // that stream was open at least once, in whichever session
	changes    chan struct{} // holds a signal: unread has topics to read
	suspected  chan struct{} // holds a signal: the connection may be lost
	refusals   chan struct{} // holds a signal: a modern server refused a question of its own tool
	unanswered atomic.Int32  // requests in a row that had no answer until their time was over
	calls      atomic.Int32  // in flight where all of them share one stream; see busy
	// topics to read again, and shifted by announcedBy those that the server announced on
	// this connection
	unread atomic.Uint32

	strange atomic.Bool     // the server sent what is no message
	said    *wire.LastLines // of its child, the last one if it took several; empty for a server over HTTP
	// of a pooled session: the connection that reads the lists; nil: this is that
	// connection
	control   *connection
	overhears func() // called when it announced one beside the stream for that; nil: nobody is told

	capabilities atomic.Pointer[mcp.Object] // what the server declares; nil: unknown
	// the server lists other items to clients that declare other extensions, see
	// variant.go
	varies atomic.Bool
}

// hearer is a legacy session, seen as the receiver of what its server sends besides
// answers. Its methods are called from any goroutine and do not block.
type hearer interface {
	question(m *mcp.Message, of *wire.Request) (answer []byte)
	notified(m *mcp.Message)
	attended(again bool)
}

// hearBy makes session the receiver of what the server sends on its own from now on.
func (c *connection) hearBy(session hearer) { c.hears.Store(&session) }

var _ wire.Events = (*connection)(nil)

func newConnection(cfg *Config) *connection {
	return &connection{
		cfg: cfg, server: fault(cfg.Name), said: &wire.LastLines{},
		changes: make(chan struct{}, 1), suspected: make(chan struct{}, 1), refusals: make(chan struct{}, 1),
	}
}

// newSessionConnection returns the connection of one more, pooled session with the server
// of the control connection.
func newSessionConnection(control *connection) *connection {
	c := newConnection(control.cfg)
	c.control = control
	return c
}

// exchange sends a request over the link of the connection and waits for its answer.
func (c *connection) exchange(ctx context.Context, link wire.Link, out *wire.Request) (mcp.Object, error) {
	result, err := link.Exchange(ctx, out)
	return result, c.server.from(err)
}

// closeLink closes a link, for which it waits closeLimit at most over HTTP. ctx has
// usually ended by then.
func closeLink(ctx context.Context, link wire.Link, polite bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	link.Close(ctx, polite)
}

// changed asks for all lists to be read again. It never blocks: one request that is not
// served yet stands for all.
func (c *connection) changed() { c.reread(everyTopic) }

// announced asks for the lists of one kind to be read again because the server says that
// they changed. What a pooled session hears may be true of that session alone, so only a
// list that reads otherwise is told then.
func (c *connection) announced(kind registry.Kind) {
	topic := topicOf(kind)
	// no stream told all who listen
	if reads := cmp.Or(c.control, c); !c.announces.Load() && reads.overhears != nil {
		reads.overhears()
	}
	if c.control == nil {
		topic |= topic << announcedBy
	}
	c.reread(topic)
}

// reread has lists read again, always by the control connection: what a list shows may
// differ from session to session, and the catalogue has the control connection's.
func (c *connection) reread(changed topics) {
	reads := cmp.Or(c.control, c)
	reads.unread.Or(uint32(changed))
	pace.Signal(reads.changes)
}

// CheckAlive asks for a proof of life. It does not block.
func (c *connection) CheckAlive() { pace.Signal(c.suspected) }

// Count counts n things that no server should send.
func (c *connection) Count(kind Anomaly, n int) {
	if kind == Garbage {
		c.strange.Store(true)
	}
	c.cfg.Count(kind, n)
}

// Saved is Config.saved.
func (c *connection) Saved(ctx context.Context, do func() error) error { return c.cfg.saved(ctx, do) }

// Question takes a request of the server; of is the request on whose stream it came, nil
// when it came on no request's stream. It returns the answer when there is one at once,
// and nil when the answer follows later through Link.Send.
func (c *connection) Question(m *mcp.Message, of *wire.Request) []byte {
	if m.Method == mcp.MethodPing {
		return mcp.AppendResult(nil, m.ID, mcp.Object{})
	}
	if session := c.hears.Load(); session != nil {
		return (*session).question(m, of)
	}
	return rejection(m.ID, errUnasked)
}

// Following is told whether what the server sends on its own arrives from now on; again
// means that it did before, so that something may have been missed. After such a gap on
// the control connection all lists are read again, also if another session was opened in
// it. A gap on a pooled session does not ask for that: there are many sessions, and each
// would have all lists read.
func (c *connection) Following(open, again bool) {
	c.announces.Store(open)
	if !open {
		return
	}
	if (c.streamed.Swap(true) || again) && c.control == nil {
		c.changed()
	}
	if session := c.hears.Load(); session != nil {
		(*session).attended(again)
	}
}

// Notification takes a notification that does not say which request it belongs to.
func (c *connection) Notification(m *mcp.Message) {
	if kind, changed := changedKinds[m.Method]; changed {
		c.announced(kind)
	} else if session := c.hears.Load(); session != nil {
		(*session).notified(m)
	}
}

// changedKinds are the kinds of whose lists a notification tells that they changed.
var changedKinds = map[string]registry.Kind{
	mcp.NotifyToolsChanged: registry.KindTool, mcp.NotifyPromptsChanged: registry.KindPrompt,
	mcp.NotifyResourcesChanged: registry.KindResource,
}

// tasks returns how calls of this server's tools may become tasks: TasksGiven where the
// server decides (modern), TasksAsked where the caller asks for one (2025-11-25), zero
// where they cannot.
func (c *connection) tasks() mcp.Tasks {
	declared, _ := c.declared()
	switch {
	case mcp.EraOf(c.version) == mcp.Modern && mcp.DeclaresTasks(declared):
		return mcp.TasksGiven
	case c.version == mcp.Revision2511 &&
		declared.Object("tasks").Object("requests").Object("tools").Value("call").IsObject():
		return mcp.TasksAsked
	}
	return 0
}

// tasksOf returns how calls of one tool may become tasks, and the tool's definition. The
// definition has a member "execution" only where that member means something: where the
// caller must ask for a task, where the tool requires one that its server cannot give,
// and where the server decides. There it says so to clients of 2025-11-25, which ask.
func (c *connection) tasksOf(definition mcp.Object) (mcp.Tasks, mcp.Object) {
	form, support := c.tasks(), definition.Object("execution").Text("taskSupport")
	switch {
	case form == mcp.TasksGiven: // its revision has no such member
		return form, definition.With("execution", mcp.RawJSON(`{"taskSupport":"optional"}`))
	case mcp.EraOf(c.version) == mcp.Modern:
	case support == "required", support == "optional" && form == mcp.TasksAsked:
		return form, definition
	}
	return 0, definition.Without("execution")
}

// gives tells whether the server may turn the call into a task by itself, or the call is
// about such a task.
func (c *connection) gives(call *registry.Call) bool {
	return call.Tasks == mcp.TasksGiven && c.tasks() == mcp.TasksGiven
}

// maxDeclared bounds the capabilities of a server that are kept, in bytes.
const maxDeclared = 64 << 10

// declare records the capabilities of the server. It keeps a copy, because the answer
// that they stand in may be thousands of times as long. Those that are too large stay
// unknown.
func (c *connection) declare(capabilities mcp.Object) {
	if capabilities.Size() <= maxDeclared {
		kept, _ := mcp.ObjectOf(capabilities.JSON())
		c.capabilities.Store(&kept)
	}
}

// declared returns the capabilities of the server. known is false as long as it has
// declared nothing.
func (c *connection) declared() (capabilities mcp.Object, known bool) {
	if declared := c.capabilities.Load(); declared != nil {
		return *declared, true
	}
	return mcp.Object{}, false
}

// has tells whether the server declares a capability; where its declaration is unknown,
// the answer is yes. A server that declares none of tools, prompts and resources is asked
// for tools all the same, because it may have some.
func (c *connection) has(name string) bool {
	declared, known := c.declared()
	return !known || declared.Value(name).IsObject() ||
		name == "tools" && !declared.Has("tools") && !declared.Has("prompts") && !declared.Has("resources")
}

// extensions returns which extensions the server declares that are carried.
func (c *connection) extensions() mcp.Extensions {
	declared, _ := c.declared()
	return c.cfg.Extensions.OfServer(declared)
}

// topics returns the topics of which the server has lists.
func (c *connection) topics() topics {
	var t topics
	for kind := range everyTopic.kinds {
		if c.has(capability(kind)) {
			t |= topicOf(kind)
		}
	}
	return t
}

// subscribable tells whether the server announces changes of single resources; where its
// declaration is unknown, the answer is yes.
func (c *connection) subscribable() bool {
	declared, known := c.declared()
	return !known || string(declared.Object("resources").Value("subscribe")) == "true"
}
