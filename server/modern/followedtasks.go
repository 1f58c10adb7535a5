package modern

import (
	"maps"
	"slices"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// followedTasks are the tasks of which a client of 2026-07-28 is told on its stream of
// notices. A notice has the whole state of its task; of each task the latest waits.
// https://modelcontextprotocol.io/extensions/tasks
type followedTasks struct {
	memory *share.Budget
	user   share.User

	mu   sync.Mutex        // guards the fields below
	due  map[string][]byte // states that wait to be told, by id; the user holds their memory
	over bool
}

// put takes the state of a task that the client is to be told of. It is false if
// the user has no memory for it.
func (t *followedTasks) put(id string, state mcp.Object) bool {
	text := state.JSON()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || t.memory.Take(t.user, int64(len(text))) != nil {
		return false
	}
	t.memory.Give(t.user, int64(len(t.due[id])))
	if t.due == nil {
		t.due = make(map[string][]byte)
	}
	t.due[id] = text
	return true
}

// first returns one of the states that wait. It is false if there are none.
func (t *followedTasks) first() (id string, state []byte, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := slices.Sorted(maps.Keys(t.due))
	if len(ids) == 0 {
		return "", nil, false
	}
	return ids[0], t.due[ids[0]], true
}

// forget notes that the client is about to be told a state. A later one, which came
// meanwhile, is kept.
func (t *followedTasks) forget(id string, state []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if due := t.due[id]; len(due) > 0 && &due[0] == &state[0] {
		t.memory.Give(t.user, int64(len(due)))
		delete(t.due, id)
	}
}

// close forgets what waits, and takes no more.
func (t *followedTasks) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	for _, state := range t.due {
		t.memory.Give(t.user, int64(len(state)))
	}
	t.due = nil
}
