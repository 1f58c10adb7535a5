package gateway

import (
	"cmp"
	"context"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

// Bounds of completion/complete, whose count is the protocol's.
// https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion
const (
	maxCompletions     = 100
	maxCompletionBytes = 64 << 10 // of all values together, as JSON
)

// methods returns those that are calls.
func methods() map[string]*method {
	table := map[string]*method{
		mcp.MethodToolsCall: {
			arguments: true, label: "*", find: (*Gateway).findTool, check: checkArguments,
			clean: sanitize.Policy.Result, conform: conformTool, use: useTool,
		},
		mcp.MethodPromptsGet: {
			arguments: true, label: "prompt:*", find: (*Gateway).findPrompt, check: checkArguments,
			clean: sanitize.Policy.Result, use: useItem,
			conform: holdsArray("messages", "a prompt without messages"),
		},
		mcp.MethodResourcesRead: {
			label: "resource", find: (*Gateway).findResource, check: unchecked,
			clean: sanitize.Policy.Result, conform: conformRead, rescue: rescueRead, use: useItem,
		},
		mcp.MethodComplete: {
			label: "completion", find: (*Gateway).findReference, check: checkCompletion,
			clean: sanitize.Policy.Result, conform: conformCompletion, rescue: rescueCompletion, use: useItem,
		},
		mcp.MethodSkillsGet: {
			label: "skill", find: (*Gateway).findSkill, check: unchecked,
			clean: sanitize.Policy.Skill, conform: conformSkill, rescue: rescueRead, use: useItem,
		},
		mcp.MethodDirectoryRead: {
			label: "directory", find: (*Gateway).findDirectory, check: unchecked,
			clean: sanitize.Policy.Directory, rescue: rescueRead, use: useItem,
			conform: holdsArray("resources", "a directory without resources"),
		},
		// Clients poll tasks/get for as long as a task runs, and tasks/result comes once
		// for each. They cost a request of the tenant at the door, like all else, and no
		// call: that was paid for when the task was made.
		mcp.MethodTasksGet: {
			free: true, label: "task:*", find: (*Gateway).findTask, check: unchecked,
			clean: sanitize.Policy.Task, conform: conformTask, rescue: rescueTask, use: useTask,
		},
		mcp.MethodTasksUpdate: {
			free: true, label: "task:*", find: (*Gateway).findTask, check: checkUpdate,
			clean: sanitize.Policy.Result, conform: conformEmpty, use: useTask,
		},
		mcp.MethodTasksCancel: {
			free: true, label: "task:*", find: (*Gateway).findTask, check: unchecked,
			clean: sanitize.Policy.Task, conform: conformCancel, use: useTask,
		},
		mcp.MethodTasksResult: {
			free: true, time: resultTime, label: "task:*", find: (*Gateway).findTask, check: unchecked,
			clean: sanitize.Policy.Result, conform: conformTaskResult, use: useTask,
		},
	}
	for name, m := range table {
		m.Method = mcp.MethodOf(name)
	}
	return table
}

func unchecked(*call, schema.Budget) error { return nil }

func checkArguments(c *call, budget schema.Budget) error {
	arguments, err := c.arguments()
	if err != nil {
		return err
	}
	return c.item.ValidateWithin(arguments, budget)
}

// arguments returns the arguments of the call, nil if it has none.
func (c *call) arguments() (mcp.RawJSON, error) {
	arguments := c.params.Value("arguments")
	if arguments == nil {
		return nil, nil
	}
	return arguments, needObject(c.params, "arguments")
}

func checkCompletion(c *call, _ schema.Budget) error {
	argument := c.params.Object("argument")
	for _, member := range []string{"name", "value"} {
		if !argument.Value(member).IsText() {
			return mcp.Stable(mcp.CodeInvalidParams, "DB-PARAMS",
				"Invalid params: argument must have a name and a value, both strings")
		}
	}
	if !c.params.Has("context") {
		return nil
	}
	return needObject(c.params, "context")
}

// conformTool checks the structured content of a result against the output schema of its
// tool. A client that must get a task gets one that has the result.
func conformTool(ctx context.Context, g *Gateway, c *call, result mcp.Object) (mcp.Object, error) {
	result, err := g.outputChecked(ctx, c, result)
	if err != nil {
		return result, err
	}
	return g.resultAsTask(c, result)
}

// holdsArray returns what refuses an answer that has no array under that name, in these
// words.
func holdsArray(member, refusal string,
) func(context.Context, *Gateway, *call, mcp.Object) (mcp.Object, error) {
	return func(_ context.Context, _ *Gateway, c *call, result mcp.Object) (mcp.Object, error) {
		if !result.Value(member).IsArray() {
			return mcp.Object{}, c.broken(refusal)
		}
		return result, nil
	}
}

// conformRead refuses a resource without contents, which is how older servers say that it
// does not exist. It keeps the time for which the server says the contents are fresh, but
// only for this caller, and not if the contents depend on answers to questions.
// https://modelcontextprotocol.io/specification/2026-07-28/server/resources#error-handling
func conformRead(_ context.Context, _ *Gateway, c *call, result mcp.Object) (mcp.Object, error) {
	contents, ok := result.Value("contents").Elements()
	if !ok {
		return mcp.Object{}, c.broken("a resource without contents")
	}
	if len(contents) == 0 {
		return mcp.Object{}, c.absent()
	}
	return cacheable(c, result), nil
}

// cacheable adds the hints of caching to a result of one server: fresh for as long as
// that says, but only for this caller.
func cacheable(c *call, result mcp.Object) mcp.Object {
	fresh, ok := result.Value("ttlMs").Int()
	result = hinted(result)
	if ok && fresh > 0 && c.state == nil && !c.params.Has("inputResponses") {
		result = result.With("ttlMs", mcp.Int(fresh))
	}
	return result
}

// conformSkill refuses an answer that is about another skill than was asked for.
func conformSkill(_ context.Context, _ *Gateway, c *call, result mcp.Object) (mcp.Object, error) {
	if result.Object("skill").Text("uri") != c.item.Exposed {
		return mcp.Object{}, c.broken("another skill than was asked for, or none")
	}
	return cacheable(c, result), nil
}

// rescueRead turns the various errors with which servers say that a resource does not
// exist into the one of this gateway, which names the URI that the client used.
func rescueRead(c *call, said *upstreamError) (mcp.Object, error) {
	data, _ := mcp.ObjectOf(said.rpcErr.Data)
	if said.rpcErr.Code == mcp.CodeResourceNotFound || said.rpcErr.Code == mcp.CodeInvalidParams &&
		data.Has("uri") {
		return mcp.Object{}, c.absent()
	}
	return mcp.Object{}, said
}

// absent returns the error for a resource that its own server says does not exist.
func (c *call) absent() error {
	return &unknownError{kind: registry.KindResource, name: c.params.Text("uri"), answered: true}
}

// conformCompletion cuts the list of values to the count that the protocol allows, and to
// a size.
func conformCompletion(_ context.Context, _ *Gateway, c *call, result mcp.Object) (mcp.Object, error) {
	completion := result.Object("completion")
	values, ok := completion.Value("values").Elements()
	if !ok {
		return mcp.Object{}, c.broken("a completion without values")
	}
	if slices.ContainsFunc(values, func(value mcp.RawJSON) bool { return value[0] != '"' }) {
		return mcp.Object{}, c.broken("a completion that is no text")
	}
	count, size := 0, 0
	for count < min(len(values), maxCompletions) && size+len(values[count]) <= maxCompletionBytes {
		size += len(values[count])
		count++
	}
	if count < len(values) {
		completion = completion.With("values", mcp.Array(values[:count])).With("hasMore", mcp.Bool(true))
		result = result.With("completion", completion.JSON())
	}
	return result, nil
}

// rescueCompletion answers with no values for a server that does not offer completion.
func rescueCompletion(_ *call, said *upstreamError) (mcp.Object, error) {
	if said.rpcErr.Code != mcp.CodeMethodNotFound {
		return mcp.Object{}, said
	}
	return mcp.NewObject(mcp.Member{Name: "completion", Value: mcp.RawJSON(`{"values":[]}`)}), nil
}

// useTool calls the tool of the call.
func useTool(ctx context.Context, c *call) (mcp.Object, error) { return c.tool.Call(ctx, c.use()) }

// useTask makes a request about a task of the tool of the call.
func useTask(ctx context.Context, c *call) (mcp.Object, error) {
	switch {
	case c.task.Own == "":
		return useStored(c)
	case c.isOlder():
		return useOlder(ctx, c)
	case c.isNewer():
		return useNewer(ctx, c)
	}
	return useTool(ctx, c)
}

// useItem uses an item that is not a tool.
func useItem(ctx context.Context, c *call) (mcp.Object, error) { return c.item.Call(ctx, c.use()) }

// use returns what the source of the item gets to know of the call. It is a part of the
// call when the item is used first, which spares an allocation; later, in abandon, it is
// not, because the source may still look at the first.
func (c *call) use() *registry.Call {
	use := &c.source
	if use.Method != "" {
		use = &registry.Call{}
	}
	*use = registry.Call{
		Method:       c.request.Method,
		Principal:    c.caller.Principal,
		Trace:        credential.Trace{ID: c.request.ID, Parent: c.request.Traceparent},
		Params:       c.params,
		Capabilities: c.request.Capabilities,
		InSession:    c.request.InSession,
		Extensions:   c.request.Extensions,
		Client:       c.request.Client,
		Refusals:     c.request.Refusals,
		LogLevel:     c.request.LogLevel,
		OnOpened:     c.request.OnOpened,
		Notify:       c.fromSource,
		Filter:       mentionFilter{c},
		Tasks:        c.tasks,
		Memory:       c.request.Memory,
		Sticky:       &c.sticky,
		Waited:       &c.request.Waited.Waited,
	}
	if c.isNewer() && c.task != nil {
		use.Capabilities = mcp.Object{} // or asked has them
	}
	if c.task != nil {
		use.Tasks, use.Task = c.tool.Tasks, c.task.Own
	} else if c.tasks == mcp.TasksAsked && c.request.Tasks == mcp.TasksAsked {
		updates := &taskUpdates{
			gateway: c.gateway, principal: c.caller.Principal,
			send: c.request.OnTaskStatus,
		}
		c.taskID, use.OnTaskStatus = &updates.id, updates.update
	}
	if c.method.Asks && !c.slotRetained {
		use.Hold = c.hold
	}
	return use
}

// kindOf returns of which kind the items are that a method uses.
func kindOf(method string) registry.Kind { return cmp.Or(itemKinds[method], registry.KindTool) }

// itemKinds are those of the methods that use, and are recorded with, other items than
// tools.
var itemKinds = map[string]registry.Kind{
	mcp.MethodPromptsGet: registry.KindPrompt, mcp.MethodResourcesRead: registry.KindResource,
}
