package upstream

import (
	"crypto/rand"
	"maps"
	"sync"
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

// task is one of 2025-11-25. Servers may know it in the session alone that made it.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
type task struct {
	seat  *seat  // of its session; nil: it is the control connection's
	own   string // its id at the server; "" until it is known
	user  auth.User
	until time.Time
}

// tasks are those of the sessions of one pool. It is safe for concurrent use.
type tasks struct {
	server fault
	room   *seats.Room[*pooled]

	mu    sync.Mutex // guards the fields below and those of the tasks
	ended bool
	byID  map[string]*task
}

var errTaskLost = mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: the task is lost, because the session with its server has ended or its time is over")

// tracked runs a call on a session, nil for the control connection's. A task that it becomes is known to the caller by
// an id that says where to find it.
func (t *tasks) tracked(s *seat, c *registry.Call, run func() (mcp.Object, error)) (mcp.Object, error) {
	id, one := rand.Text(), &task{seat: s, user: c.Principal.User(), until: time.Now().Add(taskLife)}
	if !t.add(id, one) {
		return mcp.Object{}, t.server.unavailable(false, errTasks)
	}
	result, err := run()
	made := result.Object("task")
	t.mu.Lock()
	defer t.mu.Unlock()
	if one.own = made.Text("taskId"); err != nil || result.Text("resultType") != "task" || one.own == "" {
		delete(t.byID, id)
		return result, err
	}
	if ttl, ok := made.Value("ttl").Int(); ok {
		one.until = time.Now().Add(time.Duration(min(max(ttl, 0), taskLife.Milliseconds())) * time.Millisecond)
	}
	if s != nil {
		t.room.Need(s, one.until)
	}
	return result.With("task", made.With("taskId", mcp.String(id)).JSON()), nil
}

// add takes a place for a task. It returns false when there is none.
func (t *tasks) add(id string, one *task) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	owned := 0
	for _, other := range t.byID {
		if other.user == one.user {
			owned++
		}
	}
	if t.ended || owned >= userTasksMax || len(t.byID) >= tasksMax {
		return false
	}
	t.byID[id] = one
	return true
}

// rejoin returns the seat of a task and its id at the server, for a call that leaves the seat. The seat is nil when the task
// is one of the control connection's session. ok is false when the task is lost.
func (t *tasks) rejoin(id string) (s *seat, own string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.byID[id]
	if one == nil || one.own == "" || t.ended || one.seat != nil && !t.room.Rejoin(one.seat) {
		return nil, "", false
	}
	return one.seat, one.own, true
}

// expire forgets the tasks whose time is over.
func (t *tasks) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(t.byID, func(_ string, one *task) bool { return one.own != "" && !now.Before(one.until) })
}

// forget forgets the tasks of a session.
func (t *tasks) forget(s *pooled) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.byID, func(_ string, one *task) bool { return one.seat != nil && one.seat.Session == s })
}

// shut lets no call become a task any more, and no task be asked about.
func (t *tasks) shut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}
