package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

const (
	// For one list the servers are asked for the states of so many tasks that are not at
	// their end, of which nothing was heard for longest, so many at a time, for so long.
	maxPolls    = 32
	pollsAtOnce = 4
	pollTimeout = 5 * time.Second
)

// listTasks returns the tasks of the caller that live here and whose tools it may use,
// the oldest first. The list has one page. That of a client with several replicas is
// joined by the door. The error is an *mcp.Error: there is no memory for the answer.
func (g *Gateway) listTasks(ctx context.Context, c Caller, r *Request) (mcp.Object, error) {
	owner := c.Principal.Owner().Digest()
	g.pollTasks(ctx, c, r, owner)
	all := g.tasks.of(owner)
	maps.DeleteFunc(all, func(id string, _ listedTask) bool { return !g.FollowsTask(c, id) })
	ids := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(all[a].made.Compare(all[b].made), cmp.Compare(a, b))
	})
	states, size := make([]mcp.RawJSON, 0, len(ids)), len("[]")
	for _, id := range ids {
		states = append(states, all[id].state)
		size += len(all[id].state) + len(",")
	}
	if size > share.Covered {
		if err := r.Memory.Resize(2 * int64(size)); err != nil {
			return mcp.Object{}, failureOf(err).rpcErr
		}
	}
	return mcp.NewObject(mcp.Member{Name: mcp.ResultTasks, Value: mcp.Array(states)}), nil
}

// stateOf asks for the state of a task as the caller's own tasks/get would, so that the
// look is judged and on record. r is the request for which it is asked: of it counts what
// is said of the client. gone tells that the caller has no such task any more.
func (g *Gateway) stateOf(ctx context.Context, c Caller, r *Request, id string) (state mcp.Object, gone bool,
	err error,
) {
	request := &Request{
		ID: r.ID, Method: mcp.MethodTasksGet, Capabilities: r.Capabilities, InSession: r.InSession,
		Client: r.Client, From: r.From, Tasks: r.Tasks, Extensions: r.Extensions,
		Params: mcp.NewObject(mcp.Member{Name: "taskId", Value: mcp.String(id)}),
		Notify: func(context.Context, mcp.Notification) error { return nil },
		Memory: g.config.Memory.Reserve(share.User(c.Principal.User())),
	}
	defer request.Memory.Release()
	state, err = g.call(ctx, g.newCall(c, request, g.methods[mcp.MethodTasksGet]))
	rpcErr, ok := errors.AsType[*mcp.Error](err)
	return state, ok && rpcErr.StableCode() == "DB-TASK", err
}

// pollTasks asks the servers for the states of tasks.
func (g *Gateway) pollTasks(ctx context.Context, c Caller, r *Request, owner [sha256.Size]byte) {
	all := g.tasks.of(owner)
	maps.DeleteFunc(all, func(_ string, one listedTask) bool {
		return !one.isDue()
	})
	ids := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return all[a].looked.Compare(all[b].looked)
	})
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	pace.AtOnce(min(len(ids), maxPolls), pollsAtOnce, func(i int) {
		_, gone, err := g.stateOf(ctx, c, r, ids[i])
		switch {
		case gone:
			g.tasks.drop(owner, ids[i])
		case err != nil: // what is known of it stays
			g.tasks.missed(owner, ids[i])
		}
	})
}

// FollowsTask tells whether the caller has the task with that id, and may use its tool
// now.
func (g *Gateway) FollowsTask(c Caller, id string) bool {
	owner := c.Principal.Owner().Digest()
	t, err := g.openTask(id)
	return err == nil && t.Owner == owner && g.mayUseToolOf(t, &c)
}

// taskUpdates passes on what the server of a task says of it by itself. It outlives the
// call that became the task, and keeps nothing of it.
type taskUpdates struct {
	gateway   *Gateway
	principal auth.Principal
	send      func(id string, n mcp.Notification) // as Request.OnTaskStatus
	// under which the client knows the task; nil: it does not yet, and would not know of
	// what is said
	id atomic.Pointer[string]
}

// update takes the state of the task. Whether its owner may know it is judged anew.
func (n *taskUpdates) update(state mcp.Object) {
	g, id := n.gateway, n.id.Load()
	if id == nil || !isStatus(state) {
		return
	}
	caller, err := g.Resolve(n.principal)
	if err != nil || !g.FollowsTask(caller, *id) {
		return
	}
	_, _ = g.guarded(context.Background(), nil, func(context.Context, *call) (mcp.Object, error) {
		cleaned, _, err := caller.Tenant.output.Task(state)
		if err != nil {
			return mcp.Object{}, err
		}
		cleaned = taskOnly(cleaned).With("taskId", mcp.String(*id))
		g.tasks.note(caller.Principal.Owner().Digest(), *id, cleaned)
		if n.send != nil {
			n.send(*id, mcp.Notification{Method: mcp.NotifyTasksStatus, Params: cleaned})
		}
		return cleaned, nil
	})
}

// taskOnly returns of a state what 2025-11-25 says that a task is.
func taskOnly(state mcp.Object) mcp.Object {
	var members []mcp.Member
	for _, name := range []string{
		"taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttl", "pollInterval",
	} {
		if value := state.Value(name); value != nil {
			members = append(members, mcp.Member{Name: name, Value: value})
		}
	}
	return mcp.NewObject(members...)
}
