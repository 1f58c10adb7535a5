package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

// taskSupport returns whether a client can ask for a call of the tool to become a task:
// "optional", "required", or "" if it cannot. It can ask for one of every tool whose
// server decides.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#tool-level-negotiation
func taskSupport(tool *registry.Tool) string {
	if tool.Tasks == mcp.TasksGiven {
		return "optional"
	}
	support := tool.Definition.Object("execution").Text("taskSupport")
	if tool.Tasks != mcp.TasksAsked || support != "optional" && support != "required" {
		return ""
	}
	return support
}

// runAs decides whether the call of a tool may become a task, and of which form. The
// member that asks for one means something to clients of one revision alone.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#tool-level-negotiation
func (c *call) runAs() error {
	wanted := c.params.Value("task")
	if c.request.Tasks != mcp.TasksAsked {
		c.params = c.params.Without("task")
		if c.tasks = c.request.Tasks; c.isNewer() {
			c.tasks = 0
			c.runAsNewer()
		}
		return nil
	}
	support := taskSupport(c.tool)
	switch {
	case wanted == nil && support == "required":
		return mcp.Stable(mcp.CodeMethodNotFound, "DB-TASK-REQUIRED", "This tool runs as a task only")
	case wanted == nil:
		return nil
	case support == "":
		return mcp.Stable(mcp.CodeMethodNotFound, "DB-TASK-UNSUPPORTED", "This tool does not run as a task")
	}
	c.tasks = c.tool.Tasks
	return needObject(c.params, "task")
}

// findTask opens the id of a task and finds the tool that it belongs to. The caller must
// still be allowed to use the tool.
func (g *Gateway) findTask(c *call) error {
	if c.request.Tasks == 0 {
		return &capabilityError{mcp.NeedsTasks(mcp.Object{})}
	}
	id, err := text(c.params, "taskId")
	if err != nil {
		return err
	}
	// The owner is worked out for every id, so that the time does not tell a foreign
	// one from a forged one.
	owner := c.owner()
	t, err := g.openTask(id)
	switch {
	case err != nil:
		return err
	case t.Owner != owner:
		return &taskError{taskForeign}
	case t.Form != c.request.Tasks:
		return &taskError{taskMismatch}
	}
	found := g.callerViewAs(c.caller, c.request.Extensions).tool(t.Tool)
	if found == nil || found.Server != t.Server {
		return g.missing(c, t)
	}
	c.task, c.tool, c.item = t, found, &found.Item
	if g.isElsewhere(t.Home) { // the door would have forwarded it if that replica were there
		return &taskError{taskGone}
	}
	return nil
}

// missing returns why the tool of a task cannot be found. If its server is away for a
// while, the caller is told that, and not that the task does not exist.
func (g *Gateway) missing(c *call, t *task) error {
	view := g.viewOf(c)
	_, err := view.Lookup(t.Tool)
	if err == nil || !slices.Contains(c.caller.Tenant.servers, t.Server) {
		return &taskError{taskForbidden}
	}
	if guess := view.Unreached(registry.KindTool, t.Tool); guess != nil && guess.Server == t.Server {
		if down := guess.Down(); down != nil {
			c.unreached = t.Server
			return down
		}
	}
	return &registry.UnavailableError{Server: t.Server, Err: err}
}

// makeTask passes on a task that a server gave in place of a result, under an id of the
// gateway's own.
func (g *Gateway) makeTask(c *call, result mcp.Object) (mcp.Object, error) {
	if c.tasks == 0 || c.task != nil {
		return mcp.Object{}, c.broken("a task that the client cannot take")
	}
	made := result
	switch {
	case c.isOlder():
		made = older(result)
	case c.isNewer():
		made = newer(result.Object("task"))
	case c.tasks == mcp.TasksAsked:
		made = result.Object("task")
	}
	own := made.Text("taskId")
	if own == "" || len(own) > maxTaskID || !isStatus(made) {
		return mcp.Object{}, c.broken("a task without a usable id or status")
	}
	t := &task{
		Owner: c.owner(), Form: c.request.Tasks, Server: c.item.Server, Tool: c.item.Exposed,
		CallID: c.callID(), Own: own,
	}
	if c.tasks == mcp.TasksAsked {
		t.Home = g.self
	}
	id, err := g.seal(purposeTask, t)
	if err != nil {
		return mcp.Object{}, err
	}
	c.outcome = outcomeTask
	made = made.Without("inputRequests", "result", "error", "requestState").With("taskId", mcp.String(id))
	if c.taskID != nil {
		c.taskID.Store(&id)
	}
	// What is left of it may say what the model is told meanwhile.
	meta := result.Object("_meta").Without(mcp.MetaRelatedTask)
	if c.isNewer() {
		return made.With("resultType", mcp.String("task")).With("_meta", meta.JSON()), nil
	}
	if c.request.Tasks == mcp.TasksAsked {
		g.tasks.add(c.user(), t.Owner, id, made, nil, nil)
		return mcp.NewObject(
			mcp.Member{Name: "resultType", Value: mcp.String("task")},
			mcp.Member{Name: "task", Value: made.JSON()},
			mcp.Member{Name: "_meta", Value: meta.JSON()},
		), nil
	}
	return made, nil
}

// conformTask passes on the state of a task. What the task asks must be something that
// this client can be asked; its result or error must have the form that those of a call
// have.
func conformTask(ctx context.Context, g *Gateway, c *call, result mcp.Object) (mcp.Object, error) {
	if result.Text("taskId") != c.task.Own || !isStatus(result) {
		return mcp.Object{}, c.broken("the state of another task, or of none")
	}
	notice := result.Without("inputRequests", "result", "error", "requestState").With("taskId",
		c.params.Value("taskId"))
	if c.task.Form == mcp.TasksAsked {
		g.tasks.note(c.task.Owner, c.params.Text("taskId"), notice)
		return notice, nil
	}
	switch result.Text("status") {
	case "input_required":
		questions := result.Value("inputRequests")
		if questions == nil {
			return mcp.Object{}, c.broken("input is required, but none is asked for")
		}
		if err := c.askable(questions); err != nil {
			return mcp.Object{}, err
		}
		return notice.With("inputRequests", questions), nil
	case "completed":
		done, ok := mcp.ObjectOf(result.Value("result"))
		if !ok {
			return mcp.Object{}, c.broken("a completed task without a result")
		}
		checked, err := g.outputChecked(ctx, c, done)
		// a result has its type wherever it stands, and clients check that
		return notice.With("result", checked.With("resultType", mcp.String("complete")).JSON()), err
	case "failed":
		said := mcp.ErrorIn(result.Value("error"))
		if said == nil {
			return mcp.Object{}, c.broken("a failed task without an error")
		}
		return notice.With("error", passable(said).Object().JSON()), nil
	}
	return notice, nil
}

// rescueTask turns the error of a server that does not know the task any more into the
// one of this gateway.
func rescueTask(_ *call, said *upstreamError) (mcp.Object, error) {
	if said.rpcErr.Code == mcp.CodeInvalidParams {
		return mcp.Object{}, &taskError{taskGone}
	}
	return mcp.Object{}, said
}

func checkUpdate(c *call, _ schema.Budget) error { return c.checkAnswers() }

// conformEmpty answers only that what the client wanted was done.
func conformEmpty(context.Context, *Gateway, *call, mcp.Object) (mcp.Object, error) {
	return mcp.Object{}, nil
}

// conformCancel answers a cancellation in the way of the form of the task: with the state
// of the task, or with nothing.
func conformCancel(ctx context.Context, g *Gateway, c *call, result mcp.Object) (mcp.Object, error) {
	if c.task.Form == mcp.TasksAsked {
		return conformTask(ctx, g, c, result)
	}
	return mcp.Object{}, nil
}

// conformTaskResult passes on the result of a task, which has the form of a result of its
// tool.
func conformTaskResult(ctx context.Context, g *Gateway, c *call, result mcp.Object) (mcp.Object, error) {
	result, err := g.outputChecked(ctx, c, result)
	return result.With("_meta", c.relate(result.Object("_meta")).JSON()), err
}

// relate adds to _meta which task a message belongs to.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#associating-task-related-messages
func (c *call) relate(meta mcp.Object) mcp.Object {
	return meta.With(mcp.MetaRelatedTask,
		mcp.NewObject(mcp.Member{Name: "taskId", Value: c.params.Value("taskId")}).JSON())
}

// related adds to each question of a task which task it belongs to.
func (c *call) related(questions mcp.RawJSON) mcp.RawJSON {
	all, _ := mcp.ObjectOf(questions)
	for key, raw := range all.Members {
		question, _ := mcp.ObjectOf(raw)
		params := question.Object("params")
		params = params.With("_meta", c.relate(params.Object("_meta")).JSON())
		all = all.With(key, question.With("params", params.JSON()).JSON())
	}
	return all.JSON()
}

// The pace at which a task is looked at.
const (
	defaultPoll = 5 * time.Second // where its server names none
	minPoll     = time.Second
	maxPoll     = time.Minute
)

// pollOf returns how long to wait until a task of 2026-07-28 is looked at again.
func pollOf(state mcp.Object) time.Duration {
	interval, ok := state.Value("pollIntervalMs").Millis(maxPoll)
	if !ok {
		return defaultPoll
	}
	return max(interval, minPoll)
}
