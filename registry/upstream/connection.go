package upstream

import (
	"cmp"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// connection is what is known of one connection to a server, and the signals that come of it: that lists changed, that
// calls fail, that a question was refused. Whoever supervises it waits for them.
type connection struct {
	server   fault
	version  string                 // the revision agreed on
	hears    atomic.Pointer[hearer] // takes what a legacy server sends on its own; nil: a modern server
	count    func(Anomaly, int)
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
func (c *connection) changed() { c.reread(everyTopic) }

// announced asks for the lists of one kind again because the server says that they changed. Some servers say so only in
// the session of the call that changed them.
func (c *connection) announced(kind registry.Kind) {
	topic := topicOf(kind)
	if c.control != nil {
		c.control.overheard.Or(uint32(topic))
	} else {
		c.heard.Or(uint32(topic))
	}
	c.reread(topic | topic<<announcedBy)
}

// reread has lists read again by the connection that reads them: what a list shows may differ from session to session.
func (c *connection) reread(news topics) {
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

// declare records the capabilities of the server.
func (c *connection) declare(capabilities mcp.Object) { c.capabilities.Store(&capabilities) }

// has tells whether the server declares a capability, as far as that is known. One that declares none of those with
// lists may have tools all the same.
func (c *connection) has(name string) bool {
	declared := c.capabilities.Load()
	if declared == nil {
		return true
	}
	return declared.Value(name).IsObject() ||
		name == "tools" && !declared.Has("tools") && !declared.Has("prompts") && !declared.Has("resources")
}

// topics returns what the server has lists of.
func (c *connection) topics() topics {
	var t topics
	if c.has("tools") {
		t |= topicTools
	}
	if c.has("prompts") {
		t |= topicPrompts
	}
	if c.has("resources") {
		t |= topicResources
	}
	return t
}

// subscribable tells whether the server tells of changes of single resources, as far as that is known.
func (c *connection) subscribable() bool {
	declared := c.capabilities.Load()
	return declared == nil || string(declared.Object("resources").Value("subscribe")) == "true"
}

// tells tells whether news of a topic's changes comes without asking: the way for it is open, a legacy server declares
// that it tells, and nothing shows that it tells the sessions of calls alone. A modern server has agreed to tell.
func (c *connection) tells(t topics) bool {
	switch {
	case !c.told.Load():
		return false
	case c.hears.Load() == nil:
		return true
	}
	return c.declares(t) && topics(c.overheard.Load()&^c.heard.Load())&t == 0
}

// declares tells whether a legacy server declares that it tells of changes of a topic.
func (c *connection) declares(t topics) bool {
	name := map[topics]string{topicTools: "tools", topicPrompts: "prompts", topicResources: "resources"}[t]
	declared := c.capabilities.Load()
	return declared != nil && string(declared.Object(name).Value("listChanged")) == "true"
}
