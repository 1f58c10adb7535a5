package gateway

import (
	"context"
	"errors"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// A client of 2026-07-28 that declares tasks takes one in place of a result. A server of
// 2025-11-25 makes one only when it is asked to, and keeps its result apart:
//
//	client of 2026-07-28      server of 2025-11-25
//	tools/call           ──▶  tools/call with task, if the tool requires one or the call loses nothing by it
//	tasks/get            ──▶  tasks/get, and tasks/result when the task is at its end;
//	                          what it asks, which the source reads on the stream of a tasks/result
//	tasks/update         ──▶  the answers, which the source sends to the server
//	tasks/cancel         ──▶  tasks/cancel
//
// So of its source a task of 2025-11-25 has tasks/update, too: without answers it returns
// what the task asks now. What cannot be asked, because the client cannot be or because
// nothing ties it to the task, is not: the task seems to work.
// https://modelcontextprotocol.io/extensions/tasks
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks

// isNewer tells whether the client knows tasks in the form of 2026-07-28 alone, and the
// server of the tool in that of 2025-11-25.
func (c *call) isNewer() bool {
	return c.tool != nil && c.request.Tasks == mcp.TasksGiven && c.tool.Tasks == mcp.TasksAsked
}

// runAsNewer decides whether the server is asked to make the call a task. Where the tool
// leaves that open, the call stays what it is if its client wants to hear of it
// meanwhile, which a task has no place for, or can be asked something, which over stdio a
// task cannot.
func (c *call) runAsNewer() {
	hears := c.request.LogLevel > 0 || c.params.Object("_meta").Has(mcp.MetaProgressToken)
	if taskSupport(c.tool) == "required" || c.request.Capabilities.Len() == 0 && !hears {
		c.tasks, c.params = mcp.TasksAsked, c.params.With("task", mcp.RawJSON("{}"))
	}
}

// newer returns a task of 2025-11-25 as one of 2026-07-28. What it waits for does not
// stand in it, so that it seems to work.
func newer(state mcp.Object) mcp.Object {
	if state.Text("status") == "input_required" {
		state = state.With("status", mcp.String("working"))
	}
	return withTimes(taskOnly(state), "ttl", "ttlMs", "pollInterval", "pollIntervalMs")
}

// withTimes returns a task whose times have the names of the other form: how long it is
// kept, which is null where it is not said, and how often it is looked at.
func withTimes(task mcp.Object, ttl, asTTL, interval, asInterval string) mcp.Object {
	kept, often := task.Value(ttl), task.Value(interval)
	if kept == nil {
		kept = mcp.RawJSON("null")
	}
	task = task.Without(ttl, interval).With(asTTL, kept)
	if often != nil {
		task = task.With(asInterval, often)
	}
	return task
}

// useNewer answers a request of a client of 2026-07-28 about a task of 2025-11-25.
func useNewer(ctx context.Context, c *call) (mcp.Object, error) {
	switch c.method.Name {
	case mcp.MethodTasksUpdate:
		return c.aboutTask(ctx, mcp.MethodTasksUpdate,
			mcp.Member{Name: "inputResponses", Value: c.params.Value("inputResponses")})
	case mcp.MethodTasksCancel:
		_, err := c.aboutTask(ctx, mcp.MethodTasksCancel)
		if answered := answerOf(err); answered == nil || answered.Code != mcp.CodeInvalidParams {
			return mcp.Object{}, err
		}
		// a task at its end is no error here
		if state, failed := c.aboutTask(ctx, mcp.MethodTasksGet); failed == nil && isOver(state) {
			err = nil
		}
		return mcp.Object{}, err
	}
	state, err := c.aboutTask(ctx, mcp.MethodTasksGet)
	if err == nil && state.Text("status") == "input_required" && c.request.Capabilities.Len() > 0 {
		questions, err := c.asked(ctx)
		if questions == nil {
			return newer(state), err
		}
		return newer(state).With("status", state.Value("status")).With("inputRequests", questions), err
	}
	if err != nil || !isOver(state) || state.Text("status") == "cancelled" {
		return newer(state), err
	}
	result, err := c.aboutTask(ctx, mcp.MethodTasksResult)
	if said := answerOf(err); said != nil {
		return newer(state).With("status", mcp.String("failed")).With("error", said.Object().JSON()), nil
	}
	if err != nil {
		return mcp.Object{}, err
	}
	result = result.WithMeta(result.Object("_meta").Without(mcp.MetaRelatedTask))
	return newer(state).With("status", mcp.String("completed")).With("result", result.JSON()), nil
}

// asked returns what the task of the call asks now, nil for nothing.
func (c *call) asked(ctx context.Context) (questions mcp.RawJSON, err error) {
	use := c.use()
	use.Method, use.Params = mcp.MethodTasksUpdate, c.params.Without("inputResponses", "requestState")
	use.Capabilities, use.Hold = c.request.Capabilities, c.hold
	asks, err := c.tool.Call(ctx, use)
	return asks.Value("inputRequests"), err
}

// answerOf returns the error with which a server answered, nil if it did not.
func answerOf(err error) *mcp.Error {
	if _, lost := errors.AsType[*registry.UnavailableError](err); lost {
		return nil
	}
	answered, _ := errors.AsType[*mcp.Error](err)
	return answered
}
