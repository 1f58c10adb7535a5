package gateway

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

const (
	purposeTask = "task 1"
	purposeHeld = "task 2"         // of a task that only one replica can reach, which stands in its id
	maxTaskID   = 512              // bytes of the id that a server gives a task
	resultTime  = 30 * time.Minute // that one tasks/result waits for its task
)

// task is what the id of a task, as clients have it, says. The server keeps the task itself, and the id is valid on
// every replica and for as long as the server has the task. One of 2025-11-25 lives in a session of the server, so that
// requests about it go to the replica that has the session. The id is valid only for whoever made the call, and only
// while that caller may use the tool.
// https://modelcontextprotocol.io/extensions/tasks
type task struct {
	owner        [sha256.Size]byte
	form         mcp.Tasks
	server, tool string     // the tool as exposed
	callID       string     // the id of the request that made the task
	own          string     // the id that the server knows it by
	home         replica.ID // the replica that reaches it; "": every one does
}

// Why the id of a task is refused, as records say it. The client is not told which of these it was.
const (
	taskForged    = "task_forged"
	taskForeign   = "task_foreign"
	taskMismatch  = "task_mismatch"
	taskForbidden = "task_forbidden"
	taskGone      = "task_gone" // its server says so
)

// mayUse tells whether the client may use a method that only one form of tasks has; zero: both. A client that knows no
// tasks may try those of the extension, which wants it to be told that it lacks the capability.
func (r *Request) mayUse(only mcp.Tasks) bool {
	return only == 0 || only == r.Tasks || only == mcp.TasksGiven && r.Tasks == 0
}

// taskSupport returns whether a client can ask for a call of the tool to become a task: "optional", "required", or ""
// if it cannot.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#tool-level-negotiation
func taskSupport(tool *registry.Tool) string {
	support := tool.Definition.Object("execution").Text("taskSupport")
	if tool.Tasks != mcp.TasksAsked || support != "optional" && support != "required" {
		return ""
	}
	return support
}

// needsTask tells whether the tool runs only as a task for which its client asks.
func needsTask(tool *registry.Tool) bool {
	return tool.Definition.Has("execution") && tool.Definition.Object("execution").Text("taskSupport") == "required"
}

// isStranded tells whether nobody can call the tool, because it runs only as a task and its server offers no tasks.
func isStranded(tool *registry.Tool) bool { return needsTask(tool) && tool.Tasks != mcp.TasksAsked }

// runAs decides whether the call of a tool may become a task, and of which form. The member that asks for one means
// something to clients of one revision alone.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#tool-level-negotiation
func (c *call) runAs() error {
	wanted := c.params.Value("task")
	if c.request.Tasks != mcp.TasksAsked {
		c.tasks = c.request.Tasks
		if wanted != nil {
			c.params = c.params.Without("task")
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
	case !wanted.IsObject():
		return mcp.Stable(mcp.CodeInvalidParams, "DB-PARAMS", "Invalid params: task must be an object")
	}
	c.tasks = mcp.TasksAsked
	return nil
}

// findTask opens the id of a task and finds the tool that it belongs to. The caller must still be allowed to use the
// tool.
func (g *Gateway) findTask(c *call) error {
	if c.request.Tasks == 0 {
		return &capabilityError{mcp.NeedsTasks(mcp.Object{})}
	}
	id, err := text(c.params, "taskId")
	if err != nil {
		return err
	}
	owner := c.owner() // worked out for every id, so that the time does not tell a foreign one from a forged one
	t, err := g.openTask(id)
	switch {
	case err != nil:
		return err
	case t.owner != owner:
		return &taskError{taskForeign}
	case t.form != c.request.Tasks:
		return &taskError{taskMismatch}
	}
	found := g.grantOf(c.caller).tool(t.tool)
	if found == nil || found.Server != t.server {
		return g.missing(c, t)
	}
	c.task, c.tool, c.item = t, found, &found.Item
	if g.isElsewhere(t.home) { // the door would have forwarded it if that replica were there
		return &taskError{taskGone}
	}
	return nil
}

// missing returns why the tool of a task cannot be found. If its server is away for a while, the caller is told that,
// and not that the task does not exist.
func (g *Gateway) missing(c *call, t *task) error {
	view := g.look(c.caller.Tenant).view
	_, err := view.Lookup(t.tool)
	if err == nil || !slices.Contains(c.caller.Tenant.servers, t.server) {
		return &taskError{taskForbidden}
	}
	if guess := view.Unreached(registry.KindTool, t.tool); guess != nil && guess.Server == t.server {
		if down := guess.Down(); down != nil {
			c.away = t.server
			return down
		}
	}
	return &registry.UnavailableError{Server: t.server, Err: err}
}

// makeTask passes on a task that a server gave in place of a result, under an id of the gateway's own.
func (g *Gateway) makeTask(c *call, result mcp.Object) (mcp.Object, error) {
	if c.tasks == 0 || c.task != nil {
		return mcp.Object{}, c.broken("a task that the client cannot take")
	}
	made := result
	if c.tasks == mcp.TasksAsked {
		made = result.Object("task")
	}
	own := made.Text("taskId")
	if own == "" || len(own) > maxTaskID || !isStatus(made) {
		return mcp.Object{}, c.broken("a task without a usable id or status")
	}
	t := &task{owner: c.owner(), form: c.tasks, server: c.item.Server, tool: c.item.Exposed, callID: c.callID(), own: own}
	if c.tasks == mcp.TasksAsked {
		t.home = g.self
	}
	id, err := g.sealTask(t)
	if err != nil {
		return mcp.Object{}, err
	}
	c.outcome = outcomeTask
	made = made.Without("inputRequests", "result", "error", "requestState").With("taskId", mcp.String(id))
	if c.tasks == mcp.TasksAsked {
		meta := result.Object("_meta").Without(mcp.MetaRelatedTask) // it may say what the model is told meanwhile
		return mcp.NewObject(
			mcp.Member{Name: "resultType", Value: mcp.String("task")},
			mcp.Member{Name: "task", Value: made.JSON()},
			mcp.Member{Name: "_meta", Value: meta.JSON()},
		), nil
	}
	return made, nil
}

func isStatus(t mcp.Object) bool {
	return slices.Contains([]string{"working", "input_required", "completed", "failed", "cancelled"}, t.Text("status"))
}

// conformTask passes on the state of a task. What the task asks must be something that this client can be asked; its
// result or error must have the form that those of a call have.
func conformTask(ctx context.Context, g *Gateway, c *call, result mcp.Object) (mcp.Object, error) {
	if result.Text("taskId") != c.task.own || !isStatus(result) {
		return mcp.Object{}, c.broken("the state of another task, or of none")
	}
	told := result.Without("inputRequests", "result", "error", "requestState").With("taskId", c.params.Value("taskId"))
	if c.task.form == mcp.TasksAsked {
		return told, nil
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
		return told.With("inputRequests", questions), nil
	case "completed":
		done, ok := mcp.ObjectOf(result.Value("result"))
		if !ok {
			return mcp.Object{}, c.broken("a completed task without a result")
		}
		checked, err := g.outputChecked(ctx, c, done)
		return told.With("result", checked.JSON()), err
	case "failed":
		failed, ok := mcp.ObjectOf(result.Value("error"))
		code, isCode := failed.Value("code").Int()
		if !ok || !isCode {
			return mcp.Object{}, c.broken("a failed task without an error")
		}
		said := passable(&mcp.Error{Code: int(code), Message: failed.Text("message"), Data: failed.Value("data")})
		return told.With("error", said.Object().JSON()), nil
	}
	return told, nil
}

// rescueTask turns the error of a server that does not know the task any more into the one of this gateway.
func rescueTask(_ *call, said *upstreamError) (mcp.Object, error) {
	if said.told.Code == mcp.CodeInvalidParams {
		return mcp.Object{}, &taskError{taskGone}
	}
	return mcp.Object{}, said
}

func checkUpdate(c *call, _ schema.Means) error {
	if !c.params.Value("inputResponses").IsObject() {
		return mcp.Stable(mcp.CodeInvalidParams, "DB-PARAMS", "Invalid params: inputResponses must be an object")
	}
	return nil
}

// conformEmpty answers only that the server accepted what it was told.
func conformEmpty(context.Context, *Gateway, *call, mcp.Object) (mcp.Object, error) {
	return mcp.Object{}, nil
}

// conformCancel answers a cancellation in the way of the form of the task: with the state of the task, or with nothing.
func conformCancel(ctx context.Context, g *Gateway, c *call, result mcp.Object) (mcp.Object, error) {
	if c.task.form == mcp.TasksAsked {
		return conformTask(ctx, g, c, result)
	}
	return mcp.Object{}, nil
}

// conformTaskResult passes on the result of a task, which has the form of a result of its tool.
func conformTaskResult(ctx context.Context, g *Gateway, c *call, result mcp.Object) (mcp.Object, error) {
	result, err := g.outputChecked(ctx, c, result)
	return result.With("_meta", c.relate(result.Object("_meta")).JSON()), err
}

// relate adds to _meta which task a message belongs to.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#associating-task-related-messages
func (c *call) relate(meta mcp.Object) mcp.Object {
	return meta.With(mcp.MetaRelatedTask, mcp.NewObject(mcp.Member{Name: "taskId", Value: c.params.Value("taskId")}).JSON())
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

// sealTask returns the id under which a client knows the task.
func (g *Gateway) sealTask(t *task) (string, error) {
	plain := make([]byte, 0, 160+len(t.server)+len(t.tool)+len(t.callID)+len(t.own))
	plain = append(append(plain, t.owner[:]...), byte(t.form)) //nolint:gosec // there are two
	plain = appendSized(appendSized(appendSized(plain, t.server), t.tool), t.callID)
	if t.home == "" {
		return g.config.Seal.SealLong(purposeTask, append(plain, t.own...))
	}
	return g.config.Seal.SealLong(purposeHeld, append(appendSized(plain, string(t.home)), t.own...))
}

// openTask reads what sealTask wrote.
func (g *Gateway) openTask(id string) (*task, error) {
	hasHome := false
	plain, err := g.config.Seal.OpenLong(purposeTask, id)
	if err != nil {
		hasHome = true
		plain, err = g.config.Seal.OpenLong(purposeHeld, id)
	}
	if err != nil {
		return nil, g.unreadable(&taskError{taskForged})
	}
	r := &stateReader{rest: plain, ok: true}
	t := &task{}
	copy(t.owner[:], r.next(len(t.owner)))
	t.form = mcp.Tasks(r.byte())
	t.server, t.tool, t.callID = r.sized(), r.sized(), r.sized()
	if hasHome {
		t.home = replica.ID(r.sized())
	}
	if t.own = string(r.rest); !r.ok {
		return nil, &taskError{taskForged}
	}
	return t, nil
}
