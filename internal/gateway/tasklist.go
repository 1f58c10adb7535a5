package gateway

import (
	"crypto/sha256"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// A client of 2025-11-25 may list its tasks, and is told of their status. Only the
// replica that made a task knows whose it is. There the task lives, too, in a session
// with its server, unless it is one of 2026-07-28:
//
//	tools/call ──▶ makeTask ──▶ taskList: what was last heard of the task
//	tasks/get, tasks/cancel ──▶ conformTask ──▶ note ──┘      ▲   │
//	the server, by itself ──▶ taskUpdates ──▶ client             │   └──▶ tasks/list
//	                             └────────────── note ────────┘
//
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks

// Bounds of lists of tasks.
const (
	maxListed  = 1000      // tasks of one owner; beyond that the oldest is left out
	listedLife = time.Hour // that a task is listed at most, as long as its session is kept
	listedCost = 512       // bytes that a task takes besides its id and its state, roughly
	listedGap  = time.Minute
	maxFailed  = 6 // looks that failed, after which the next waits for listedGap
	// bytes of results that are held for one owner: they take of the memory that its
	// calls need, too, and nobody can take that back before their time is over
	maxResults  = 16 << 20
	mentionCost = 32 // bytes that a resource in a held result takes besides its URI
)

// taskList is the tasks of 2025-11-25 that live here, by owner and id. It is safe for
// concurrent use.
type taskList struct {
	memory *share.Budget

	mu   sync.Mutex // guards the field below
	byID map[[sha256.Size]byte]map[string]*listedTask
}

// listedTask is one of them. Its owner holds its memory.
type listedTask struct {
	user         share.User
	size         int64
	state        mcp.RawJSON // as its owner was last told
	result       mcp.RawJSON // that is held here; nil: the server of the task has it
	shown        []mention   // resources in result
	made, looked time.Time   // looked: when something was last heard of it
	until        time.Time
	over         bool        // it does not change any more
	failed       int         // looks in a row that told nothing
	end          *time.Timer // forgets the task when its time is over
}

// mention is a resource that a result mentions, by its own URI.
type mention struct {
	uri string
	as  registry.Mention
}

// isDue tells whether it is to be looked at again: after a second, and later the more
// often its server said nothing.
func (t *listedTask) isDue() bool {
	return !t.over && time.Since(t.looked) >= min(time.Second<<min(t.failed, maxFailed), listedGap)
}

// add lists a task that a call became, with its result if that is held here, and the
// resources in that. It is false if its owner has no memory for that, or results of more
// than maxResults bytes. The task of a server can be used all the same.
func (t *taskList) add(user share.User, owner [sha256.Size]byte, id string, state mcp.Object,
	result mcp.RawJSON, shown []mention,
) bool {
	now, text := time.Now(), state.JSON()
	one := &listedTask{
		user: user, size: int64(listedCost + len(id) + len(text) + len(result)), state: text,
		result: result, shown: shown, made: now, looked: now, until: now.Add(listedLife), over: isOver(state),
	}
	if ttl, ok := state.Value("ttl").Millis(listedLife); ok {
		one.until = now.Add(ttl)
	}
	for _, m := range shown {
		one.size += int64(mentionCost + len(m.uri))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if result != nil && t.resultsLocked(owner)+len(result) > maxResults ||
		t.memory.Take(one.user, one.size) != nil {
		return false
	}
	one.end = time.AfterFunc(one.until.Sub(now), func() { t.drop(owner, id) })
	if t.byID[owner] == nil {
		t.byID[owner] = make(map[string]*listedTask)
	}
	mine := t.byID[owner]
	if mine[id] = one; len(mine) > maxListed {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(mine)),
			func(a, b string) int { return mine[a].made.Compare(mine[b].made) })
		t.removeLocked(owner, oldest)
	}
	return true
}

// resultsLocked returns how many bytes the results of an owner take that are held here.
func (t *taskList) resultsLocked(owner [sha256.Size]byte) (bytes int) {
	for _, one := range t.byID[owner] {
		bytes += len(one.result)
	}
	return bytes
}

// find returns the task of an owner with that id, if its time is not over.
func (t *taskList) find(owner [sha256.Size]byte, id string) (listedTask, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.byID[owner][id]; one != nil && time.Now().Before(one.until) {
		return *one, true
	}
	return listedTask{}, false
}

// note notes what was heard of a task, if it is listed.
func (t *taskList) note(owner [sha256.Size]byte, id string, state mcp.Object) {
	text := state.JSON()
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.byID[owner][id]
	if one == nil {
		return
	}
	one.looked, one.failed = time.Now(), 0
	if grown := int64(len(text) - len(one.state)); t.memory.Take(one.user, max(grown, 0)) == nil {
		t.memory.Give(one.user, max(-grown, 0))
		one.state, one.over, one.size = text, isOver(state), one.size+grown
	}
}

// missed notes that a look at a task told nothing of it.
func (t *taskList) missed(owner [sha256.Size]byte, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.byID[owner][id]; one != nil {
		one.looked = time.Now()
		one.failed++
	}
}

// drop forgets a task.
func (t *taskList) drop(owner [sha256.Size]byte, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeLocked(owner, id)
}

func (t *taskList) removeLocked(owner [sha256.Size]byte, id string) {
	if one := t.byID[owner][id]; one != nil {
		t.memory.Give(one.user, one.size)
		one.end.Stop()
		if delete(t.byID[owner], id); len(t.byID[owner]) == 0 {
			delete(t.byID, owner)
		}
	}
}

// of returns copies of the tasks of an owner whose time is not over, by their ids.
func (t *taskList) of(owner [sha256.Size]byte) map[string]listedTask {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[string]listedTask, len(t.byID[owner]))
	for id, one := range t.byID[owner] {
		if time.Now().Before(one.until) {
			all[id] = *one
		}
	}
	return all
}

// isOver tells whether a task is at its end.
func isOver(state mcp.Object) bool {
	return slices.Contains([]string{"completed", "failed", "cancelled"}, state.Text("status"))
}

// isStatus tells whether a task has a status that there is.
func isStatus(state mcp.Object) bool {
	return isOver(state) || mcp.TaskGoesOn(state.Text("status"))
}
