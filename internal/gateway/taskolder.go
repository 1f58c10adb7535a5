package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

// A client of 2025-11-25 asks for a task, and must get one. A server of 2026-07-28
// decides by itself whether a call becomes a task, so that a result may come instead,
// which is then held here as that of a task at its end. So is the refusal of arguments,
// and what a server of 2025-11-25 answers with instead of a task:
//
//	client of 2025-11-25      server of 2026-07-28
//	tools/call with task ──▶  tools/call: a task, or a result, which taskList holds
//	tasks/get            ──▶  tasks/get
//	tasks/cancel         ──▶  tasks/get, tasks/cancel, tasks/get
//	tasks/result         ──▶  tasks/get until the task is at its end; what it asks is asked on the
//	                          stream of tasks/result, and the answers go by tasks/update
//
// The server keeps its tasks, so that each replica reaches them. What is held is reached
// at one.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
// https://modelcontextprotocol.io/extensions/tasks

// resultLife is how long a result is held at most. A client may ask for less.
const resultLife = 10 * time.Minute

// older returns a task of 2026-07-28 as one of 2025-11-25, where a tool that failed is a
// task that failed.
func older(state mcp.Object) mcp.Object {
	if status := state.Text("status"); status == "completed" &&
		string(state.Value("result").Member("isError")) == "true" {
		state = state.With("status", mcp.String("failed"))
	}
	return taskOnly(withTimes(state, "ttlMs", "ttl", "pollIntervalMs", "pollInterval"))
}

// resultAsTask answers a call that was to become a task and has a result, with a task
// that has this result. Where there is no room to hold it, the client gets the result
// itself, as does one that asked for no task.
func (g *Gateway) resultAsTask(c *call, result mcp.Object) (mcp.Object, error) {
	if !c.mayBeHeld() {
		return result, nil
	}
	life, status := resultLife, "completed"
	if asked, ok := c.params.Object("task").Value("ttl").Millis(life); ok {
		life = asked
	}
	if string(result.Value("isError")) == "true" {
		status = "failed"
	}
	t := &task{
		Owner: c.owner(), Form: mcp.TasksAsked, Server: c.item.Server, Tool: c.item.Exposed,
		CallID: c.callID(), Home: g.self,
	}
	id, err := g.seal(purposeTask, t)
	if err != nil {
		return mcp.Object{}, err
	}
	now := mcp.String(time.Now().UTC().Format(time.RFC3339))
	made := mcp.NewObject(
		mcp.Member{Name: "taskId", Value: mcp.String(id)},
		mcp.Member{Name: "status", Value: mcp.String(status)},
		mcp.Member{Name: "createdAt", Value: now},
		mcp.Member{Name: "lastUpdatedAt", Value: now},
		mcp.Member{Name: "ttl", Value: mcp.Int(life.Milliseconds())},
	)
	if !g.tasks.add(c.user(), t.Owner, id, made, result.JSON(), c.shown) {
		return result, nil
	}
	return mcp.NewObject(
		mcp.Member{Name: "resultType", Value: mcp.String("task")},
		mcp.Member{Name: "task", Value: made.JSON()},
	), nil
}

// useStored answers a request about a task whose result is held here. The rules may have
// changed since then: what mentions a resource that the caller may not see now is not
// told.
func useStored(c *call) (mcp.Object, error) {
	one, there := c.gateway.tasks.find(c.task.Owner, c.params.Text("taskId"))
	switch {
	case !there:
		return mcp.Object{}, &taskError{taskGone}
	case c.method.Name == mcp.MethodTasksCancel:
		return mcp.Object{}, errTaskOver
	case c.method.Name == mcp.MethodTasksResult:
		for _, m := range one.shown {
			if !(mentionFilter{c}).Shows(m.uri, m.as) {
				return mcp.Object{}, &taskError{taskForbidden}
			}
		}
		result, _ := mcp.ObjectOf(one.result)
		return result, nil
	}
	state, _ := mcp.ObjectOf(one.state)
	return state.Without("taskId"), nil // as its server, which has no id for it, would say it
}

// errTaskOver says what servers of 2025-11-25 must say. It is wrapped, because an
// *mcp.Error in place of a result is one of the server.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#task-cancellation
var errTaskOver = fmt.Errorf("cancel: %w",
	mcp.Stable(mcp.CodeInvalidParams, "DB-TASK", "Invalid params: the task is at its end already"))

// useOlder answers a request of a client of 2025-11-25 about a task of 2026-07-28.
func useOlder(ctx context.Context, c *call) (mcp.Object, error) {
	switch c.method.Name {
	case mcp.MethodTasksResult:
		return c.awaited(ctx)
	case mcp.MethodTasksCancel:
		state, err := c.stateOfTask(ctx)
		if err != nil {
			return mcp.Object{}, err
		}
		if isOver(state) {
			return mcp.Object{}, errTaskOver
		}
		if _, err = c.aboutTask(ctx, mcp.MethodTasksCancel); err != nil {
			return mcp.Object{}, err
		}
	}
	state, err := c.aboutTask(ctx, mcp.MethodTasksGet)
	return older(state), err
}

// aboutTask sends the server one request about the task of the call, in place of the one
// that the client sent.
func (c *call) aboutTask(ctx context.Context, method string, more ...mcp.Member) (mcp.Object, error) {
	use := c.use()
	use.Method = method
	use.Params = c.params.Without("inputResponses", "requestState").WithAll(more...)
	return c.tool.Call(ctx, use)
}

// stateOfTask asks the server for the state of the task of the call, for a request that
// is another one than tasks/get, whose own checks see nothing of it.
func (c *call) stateOfTask(ctx context.Context) (mcp.Object, error) {
	state, err := c.aboutTask(ctx, mcp.MethodTasksGet)
	if said := answerOf(err); said != nil && said.Code == mcp.CodeInvalidParams {
		return mcp.Object{}, &taskError{taskGone}
	}
	if err == nil && (state.Text("taskId") != c.task.Own || !isStatus(state)) {
		return mcp.Object{}, c.broken("the state of another task, or of none")
	}
	return state, err
}

// awaited waits until the task is at its end, or asks something. Between two looks the
// client is told of the status. What it has answered already stands in the requestState:
// a server may go on naming a question for a while after that.
func (c *call) awaited(ctx context.Context) (mcp.Object, error) {
	answered, _ := mcp.RawJSON(c.params.Text("requestState")).Elements()
	if answers := c.params.Value("inputResponses"); answers != nil {
		if _, err := c.aboutTask(ctx, mcp.MethodTasksUpdate,
			mcp.Member{Name: "inputResponses", Value: answers}); err != nil {
			return mcp.Object{}, err
		}
	}
	updates, last := &taskUpdates{
		gateway: c.gateway, principal: c.caller.Principal,
		send: c.request.OnTaskStatus,
	}, ""
	id := c.params.Text("taskId")
	updates.id.Store(&id)
	for {
		state, err := c.stateOfTask(ctx)
		if err != nil {
			return mcp.Object{}, err
		}
		now := older(state)
		if text := string(now.JSON()); text != last {
			updates.update(now)
			last = text
		}
		if isOver(state) {
			return c.endOf(state)
		}
		if asks := unanswered(state, answered); asks.Len() > 0 {
			for key := range asks.Members {
				answered = append(answered, mcp.String(key))
			}
			return mcp.NewObject(
				mcp.Member{Name: "resultType", Value: mcp.String("input_required")},
				mcp.Member{Name: "inputRequests", Value: asks.JSON()},
				mcp.Member{Name: "requestState", Value: mcp.String(string(mcp.Array(answered)))},
			), nil
		}
		if !pace.Wait(ctx, pollOf(state)) {
			return mcp.Object{}, ctx.Err()
		}
	}
}

// endOf returns what the call would have had for a result that became the task.
func (c *call) endOf(state mcp.Object) (mcp.Object, error) {
	switch state.Text("status") {
	case "completed":
		result, ok := mcp.ObjectOf(state.Value("result"))
		if !ok {
			return mcp.Object{}, c.broken("a completed task without a result")
		}
		return result.Without("resultType"), nil
	case "failed":
		if said := mcp.ErrorIn(state.Value("error")); said != nil {
			return mcp.Object{}, said
		}
		return mcp.Object{}, c.broken("a failed task without an error")
	}
	return mcp.ToolError("The task was cancelled."), nil
}

// unanswered returns what a task asks, without what was answered. The keys of a task are
// never used twice.
func unanswered(state mcp.Object, answered []mcp.RawJSON) mcp.Object {
	if state.Text("status") != "input_required" {
		return mcp.Object{}
	}
	asks := state.Object("inputRequests")
	for _, raw := range answered {
		if key, ok := raw.Text(); ok {
			asks = asks.Without(key)
		}
	}
	return asks
}
