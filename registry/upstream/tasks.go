package upstream

import (
	"crypto/rand"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/seats"
)

// Limits of tasks of 2025-11-25, which live in the session that made them.
const (
	tasksMax     = 1000 // of one pool at the same time
	userTasksMax = 100  // the share of one user
	// how long a session is kept for a task at most, even if the server keeps the task
	// longer
	taskLife = time.Hour
	// how soon a server's word of a task counts after the one before, if the status is
	// the same
	taskStatusGap = 200 * time.Millisecond
)

// task is one task of 2025-11-25. A server may know a task only in the session that made
// it, so that session is kept.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
type task struct {
	seat  *seat  // of the session that made the task; nil: that is the control connection
	own   string // its id at the server; "" while the call that makes it is open
	user  share.User
	until time.Time
	// its result was, or it was cancelled and has none: it makes room for another one if
	// need be
	read bool

	tell     func(state mcp.Object) // as registry.Call.OnTaskStatus
	notified time.Time              // when the server last said something of it by itself
	status   string                 // that it said then
}

// tasks are the tasks of all sessions of one pool, by ids of the gateway's own, which
// cannot be guessed. It is safe for concurrent use. Its lock may be held while that of
// the seats is taken, never the other way round.
type tasks struct {
	server fault
	seats  *seats.Pool[*pooled]
	slots  *share.Budget // of the tasks in byID

	mu   sync.Mutex // guards the field below and those of each task
	byID map[string]*task
}

var errTaskLost = mcp.Errorf(mcp.CodeInvalidParams,
	"Invalid params: the task is lost, because the session with its server has ended, its time is over, or "+
		"others have its place")

// tracked runs a call, which may become a task if it asks for that. s is the seat of its
// session, nil for the control connection's. A slot is taken before the call runs,
// because a task that the server made could not be refused any more. If a task was made,
// its id in the result is replaced by one that leads back to its session.
func (t *tasks) tracked(s *seat, c *registry.Call, run func() (mcp.Object, error)) (mcp.Object, error) {
	if c.Tasks != mcp.TasksAsked || c.Task != "" {
		return run()
	}
	id, one := rand.Text(), &task{
		seat: s, user: share.User(c.Principal.User()),
		until: time.Now().Add(taskLife), tell: c.OnTaskStatus,
	}
	if !t.add(id, one) {
		return mcp.Object{}, t.server.unavailable(false, errTasks)
	}
	result, err := run()
	made := result.Object("task")
	t.mu.Lock()
	defer t.mu.Unlock()
	if one.own = made.Text("taskId"); err != nil || result.Text("resultType") != "task" || one.own == "" {
		t.removeLocked(id)
		return result, err
	}
	if ttl, ok := made.Value("ttl").Millis(taskLife); ok {
		one.until = time.Now().Add(ttl)
	}
	if s != nil {
		t.seats.Need(s, one.until)
	}
	return result.With("task", made.With("taskId", mcp.String(id)).JSON()), nil
}

// heard takes what the server says of a task by itself, in the session where the task
// lives; s is nil for the control connection's. Of several states that come at once and
// have the same status, one is passed on. What nobody waits for, and what is of no task
// of that session, is dropped.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#task-status-notification
func (t *tasks) heard(s *pooled, state mcp.Object) {
	if id, tell := t.listener(s, state.Text("taskId"), state.Text("status")); tell != nil {
		tell(state.With("taskId", mcp.String(id)))
	}
}

// listener returns who is told that a task has that status, nil if nobody is: there is no
// such task in the session, nobody waits for it, or the status was told just now.
func (t *tasks) listener(s *pooled, own, status string) (id string, tell func(state mcp.Object)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for id, one := range t.byID {
		if own == "" || one.own != own || !one.isOf(s) {
			continue
		}
		if status == one.status && now.Before(one.notified.Add(taskStatusGap)) {
			break
		}
		one.notified, one.status = now, status
		return id, one.tell
	}
	return "", nil
}

// isOf tells whether the task lives in a session, which is nil for the control
// connection's.
func (one *task) isOf(s *pooled) bool {
	if one.seat == nil {
		return s == nil
	}
	return one.seat.Session == s
}

// add takes a slot for a task, in the place of one of the user whose result was read if
// need be. It returns false when the user, its tenant or the pool has none left.
func (t *tasks) add(id string, one *task) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.takeLocked(one.user) {
		t.forgetReadLocked(one.user)
		if !t.takeLocked(one.user) {
			return false
		}
	}
	t.byID[id] = one
	return true
}

// takeLocked takes a slot for a task of the user, if there is one.
func (t *tasks) takeLocked(user share.User) bool {
	return t.slots.TakeWithin(user, 1, share.Bounds{Tenant: tasksMax, User: userTasksMax}) == nil
}

// forgetReadLocked forgets one of the user's tasks whose result was read: that whose time
// is over first. A client that runs each call as a task would soon have no place left
// otherwise, though it needs none of its tasks any more.
func (t *tasks) forgetReadLocked(user share.User) {
	first := ""
	for id, one := range t.byID {
		if one.read && one.user == user && (first == "" || one.until.Before(t.byID[first].until)) {
			first = id
		}
	}
	t.removeLocked(first)
}

// setRead notes that the result of a task was read, or that it has none.
func (t *tasks) setRead(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.byID[id]; one != nil {
		one.read = true
	}
}

// forget forgets the tasks for which over is true.
func (t *tasks) forget(over func(one *task) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, one := range t.byID {
		if over(one) {
			t.removeLocked(id)
		}
	}
}

func (t *tasks) removeLocked(id string) {
	if one := t.byID[id]; one != nil {
		delete(t.byID, id)
		t.slots.Give(one.user, 1)
	}
}

// rejoin adds a call to the seat of a task, for a request about the task, and returns a
// copy of the task; whoever calls it leaves the seat afterwards. The seat is nil when the
// control connection made the task. ok is false when the task is lost.
func (t *tasks) rejoin(id string) (copied task, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.byID[id]
	if one == nil || one.own == "" || one.seat != nil && !t.seats.Rejoin(one.seat) {
		return task{}, false
	}
	return *one, true
}

// expire forgets the tasks whose time is over. Those whose call is still open are kept.
func (t *tasks) expire() {
	now := time.Now()
	t.forget(func(one *task) bool { return one.own != "" && !now.Before(one.until) })
}

// closed forgets the tasks of a session that is closed.
func (t *tasks) closed(s *pooled) { t.forget(func(one *task) bool { return one.isOf(s) }) }
