package upstream

import (
	"context"
	"crypto/rand"
	"maps"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/seats"
)

// Limits of tasks of 2025-11-25, which live in the session that made them.
const (
	tasksMax     = 1000      // of one upstream
	userTasksMax = 100       // of those, of one user
	taskLife     = time.Hour // that a session is kept for a task, whatever longer life that has
)

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

// taskState brings what a modern server says of a task into the form that is passed on. Its own result says what it
// was asked, so it may call itself a task, as some examples of the extension do.
// https://modelcontextprotocol.io/extensions/tasks
func (f fault) taskState(method string, result mcp.Object) (mcp.Object, error) {
	if kind := result.Text("resultType"); result.Has("resultType") && kind != "complete" && kind != "task" {
		return mcp.Object{}, f.protocol("%s: a result of a type that was not asked for", method)
	}
	result = withoutServerInfo(result.Without("resultType"))
	done, ok := mcp.ObjectOf(result.Value("result"))
	if !ok {
		return result, nil
	}
	done, err := f.complete(mcp.MethodToolsCall, mcp.LatestLegacy, done) // it asks nothing any more
	return result.With("result", done.JSON()), err
}

// task is one of 2025-11-25. Servers may know it in the session alone that made it.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
type task struct {
	seat  *seat  // of its session; nil: it is the control connection's
	own   string // its id at the server; "" until it is known
	user  auth.User
	until time.Time
}

var errTaskLost = mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: the task is lost, because the session with its server has ended or its time is over")

// tracked runs a call on a session, nil for the control connection's. A task that it becomes is known to the caller by
// an id that says where to find it.
func (p *pool) tracked(s *seat, c *registry.Call, run func() (mcp.Object, error)) (mcp.Object, error) {
	if c.Tasks != mcp.TasksAsked || c.Task != "" {
		return run()
	}
	id, t := rand.Text(), &task{seat: s, user: c.Principal.User(), until: time.Now().Add(taskLife)}
	if !p.addTask(id, t) {
		return mcp.Object{}, p.server.unavailable(false, errTasks)
	}
	result, err := run()
	made := result.Object("task")
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.own = made.Text("taskId"); err != nil || result.Text("resultType") != "task" || t.own == "" {
		delete(p.tasks, id)
		return result, err
	}
	if ttl, ok := made.Value("ttl").Int(); ok {
		t.until = time.Now().Add(time.Duration(min(max(ttl, 0), taskLife.Milliseconds())) * time.Millisecond)
	}
	if s != nil {
		p.room.Need(s, t.until)
	}
	return result.With("task", made.With("taskId", mcp.String(id)).JSON()), nil
}

// addTask takes a place for a task. It returns false when there is none.
func (p *pool) addTask(id string, t *task) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	owned := 0
	for _, other := range p.tasks {
		if other.user == t.user {
			owned++
		}
	}
	if p.ended || owned >= userTasksMax || len(p.tasks) >= tasksMax {
		return false
	}
	p.tasks[id] = t
	return true
}

// useTask passes a request about a task on to the session that has it.
func (p *pool) useTask(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error) {
	t := p.task(c.Task)
	if t == nil || t.seat != nil && !p.room.Rejoin(t.seat) {
		return mcp.Object{}, errTaskLost
	}
	own := *i
	own.name, own.quoted = t.own, mcp.String(t.own)
	session := p.control
	if t.seat != nil {
		session = t.seat.Session.session()
		if i.method == mcp.MethodTasksResult && c.Capabilities.Len() > 0 {
			return p.talk(ctx, t.seat, &own, c)
		}
		defer p.room.Leave(t.seat, seats.Call)
	}
	result, err := session.call(ctx, &own, c)
	if result.Text("taskId") == t.own {
		result = result.With("taskId", mcp.String(c.Task))
	}
	return result, err
}

// task returns a task that is known to its server, nil when there is none.
func (p *pool) task(id string) *task {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tasks[id]
	if t == nil || t.own == "" || p.ended {
		return nil
	}
	return t
}

// expireTasks forgets the tasks whose time is over.
func (p *pool) expireTasks() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(p.tasks, func(_ string, t *task) bool { return t.own != "" && !now.Before(t.until) })
}

// loseTasks forgets the tasks of a session.
func (p *pool) loseTasks(s *pooled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.tasks, func(_ string, t *task) bool { return t.seat != nil && t.seat.Session == s })
}
