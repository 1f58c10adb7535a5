package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

// Bounds of completion/complete, whose count is the protocol's.
// https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion
const (
	maxCompletions     = 100
	maxCompletionBytes = 64 << 10 // of all values together, as JSON
)

// method is what one method does within the stages that all calls share, besides what the protocol says of it.
type method struct {
	mcp.Method

	free      bool                                                                   // it belongs to a call that was paid for, and costs no token of calls
	arguments bool                                                                   // the client sends arguments along, which may be null for none
	time      time.Duration                                                          // of one use; zero: the item's
	label     string                                                                 // of metrics; with a star for the item's name where that is bounded
	find      func(*Gateway, *call) error                                            // sets the item, when the caller may use it
	check     func(*call, schema.Means) error                                        // of what the client sent along
	conform   func(context.Context, *Gateway, *call, mcp.Object) (mcp.Object, error) // brings a complete result into a legal form
	rescue    func(*call, *upstreamError) (result mcp.Object, e error)               // the answer in place of an upstream's error; nil: the error
	use       Handler
}

// methods returns those that are calls.
func methods() map[string]*method {
	table := map[string]*method{
		mcp.MethodToolsCall: {
			arguments: true, label: "*", find: (*Gateway).findTool, check: checkTool,
			conform: conformTool, use: useTool,
		},
		mcp.MethodPromptsGet: {
			arguments: true, label: "prompt:*", find: (*Gateway).findPrompt, check: checkPrompt,
			conform: conformPrompt, use: useItem,
		},
		mcp.MethodResourcesRead: {
			label: "resource", find: (*Gateway).findResource, check: unchecked,
			conform: conformRead, rescue: rescueRead, use: useItem,
		},
		mcp.MethodComplete: {
			label: "completion", find: (*Gateway).findReference, check: checkCompletion,
			conform: conformCompletion, rescue: rescueCompletion, use: useItem,
		},
		// Clients poll tasks/get for as long as a task runs, and tasks/result comes once for each. They cost a request
		// of the tenant at the door, like all else, and no call: that was paid for when the task was made.
		mcp.MethodTasksGet: {
			free: true, label: "task:*", find: (*Gateway).findTask, check: unchecked,
			conform: conformTask, rescue: rescueTask, use: useTool,
		},
		mcp.MethodTasksUpdate: {
			free: true, label: "task:*", find: (*Gateway).findTask, check: checkUpdate,
			conform: conformEmpty, use: useTool,
		},
		mcp.MethodTasksCancel: {
			free: true, label: "task:*", find: (*Gateway).findTask, check: unchecked,
			conform: conformCancel, use: useTool,
		},
		mcp.MethodTasksResult: {
			free: true, time: resultTime, label: "task:*", find: (*Gateway).findTask, check: unchecked,
			conform: conformTaskResult, use: useTool,
		},
	}
	for name, m := range table {
		m.Method = mcp.MethodOf(name)
	}
	return table
}

// spelt returns how the client names the item, for records.
func (m *method) spelt(params mcp.Object) string {
	if m.Name == mcp.MethodComplete {
		return speltReference(params.Object(m.Subject))
	}
	return params.Text(m.Subject)
}

// text returns a member of params that must be a text.
func text(params mcp.Object, member string) (string, error) {
	text, ok := params.Value(member).Text()
	if !ok {
		return "", mcp.Stable(mcp.CodeInvalidParams, "DB-PARAMS", "Invalid params: "+member+" must be a string")
	}
	return text, nil
}

// allow makes item the item of the call if the caller may use it. name is what the client called it.
func (g *Gateway) allow(c *call, item *registry.Item, name string) error {
	if !c.caller.Tenant.allows(c.caller.rules, item) {
		scopes := c.caller.Tenant.missingScopes(c.caller, item)
		return &unknownError{kind: item.Kind, name: name, there: true, scopes: scopes}
	}
	c.item = item
	return nil
}

// absent returns the error for a name that no known item has. By its form the name may belong to a server that was not
// reached yet. Then a caller who may use an item of that name is told that the server is down, and everybody else that
// the item is unknown.
func (g *Gateway) absent(c *call, kind registry.Kind, name string) error {
	unknown := &unknownError{kind: kind, name: name}
	guess := g.look(c.caller.Tenant).view.Unreached(kind, name)
	if guess == nil || !c.caller.Tenant.allows(c.caller.rules, guess) {
		return unknown
	}
	down := guess.Down()
	if down == nil { // it was reached this moment
		return unknown
	}
	c.away = down.Server
	return down
}

func (g *Gateway) findTool(c *call) error {
	name, err := c.toolName()
	if err != nil {
		return err
	}
	if found := g.usable(c, name); found != nil {
		c.tool, c.item = found, &found.Item
		return c.runAs()
	}
	tool, err := g.look(c.caller.Tenant).view.Lookup(name)
	if err != nil || needsTask(tool) {
		return g.absent(c, registry.KindTool, name)
	}
	return &unknownError{
		kind: registry.KindTool, name: name, there: true,
		scopes: c.caller.Tenant.missingScopes(c.caller, &tool.Item),
	}
}

// toolName returns what the client calls the tool. Where limited has looked the tool up, it need not be read again.
func (c *call) toolName() (string, error) {
	if c.charged != nil {
		return c.charged.Exposed, nil
	}
	return text(c.params, "name")
}

// usable returns the tool with that exposed name, nil if the call may not be one of it.
func (g *Gateway) usable(c *call, name string) *registry.Tool {
	found := g.grantOf(c.caller).tool(name)
	if found != nil && needsTask(found) && c.request.Tasks != mcp.TasksAsked {
		return nil
	}
	return found
}

func (g *Gateway) findPrompt(c *call) error {
	name, err := text(c.params, "name")
	if err != nil {
		return err
	}
	return g.promptNamed(c, name)
}

func (g *Gateway) promptNamed(c *call, name string) error {
	prompt, err := g.look(c.caller.Tenant).view.Prompt(name)
	if err != nil {
		return g.absent(c, registry.KindPrompt, name)
	}
	c.prompt = prompt
	return g.allow(c, &prompt.Item, name)
}

func (g *Gateway) findResource(c *call) error {
	uri, err := text(c.params, "uri")
	if err != nil {
		return err
	}
	resource, err := g.look(c.caller.Tenant).view.Resource(uri)
	if err != nil {
		return &unknownError{kind: registry.KindResource, name: uri}
	}
	c.resource = resource
	return g.allow(c, &resource.Item, uri)
}

// findReference finds the item whose argument is to be completed: a prompt by its name, or a resource template by its
// text.
func (g *Gateway) findReference(c *call) error {
	ref := c.params.Object("ref")
	switch ref.Text("type") {
	case "ref/prompt":
		name, err := text(ref, "name")
		if err != nil {
			return err
		}
		return g.promptNamed(c, name)
	case "ref/resource":
		uri, err := text(ref, "uri")
		if err != nil {
			return err
		}
		template, err := g.look(c.caller.Tenant).view.Template(uri)
		if err != nil {
			return g.absent(c, registry.KindTemplate, uri)
		}
		return g.allow(c, &template.Item, uri)
	}
	return mcp.Stable(mcp.CodeInvalidParams, "DB-PARAMS", "Invalid params: ref must be of type ref/prompt or ref/resource")
}

func speltReference(ref mcp.Object) string {
	if name := ref.Text("name"); name != "" {
		return name
	}
	return ref.Text("uri")
}

func unchecked(*call, schema.Means) error { return nil }

func checkTool(c *call, means schema.Means) error {
	arguments, err := c.arguments()
	if err != nil {
		return err
	}
	return c.tool.ValidateWithin(arguments, means)
}

func checkPrompt(c *call, means schema.Means) error {
	arguments, err := c.arguments()
	if err != nil {
		return err
	}
	return c.prompt.ValidateWithin(arguments, means)
}

// arguments returns the arguments of the call, nil if it has none.
func (c *call) arguments() (mcp.RawJSON, error) {
	arguments := c.params.Value("arguments")
	if arguments != nil && !arguments.IsObject() {
		return nil, mcp.Stable(mcp.CodeInvalidParams, "DB-PARAMS", "Invalid params: arguments must be an object")
	}
	return arguments, nil
}

func checkCompletion(c *call, _ schema.Means) error {
	argument := c.params.Object("argument")
	for _, member := range []string{"name", "value"} {
		if _, ok := argument.Value(member).Text(); !ok {
			return mcp.Stable(mcp.CodeInvalidParams, "DB-PARAMS", "Invalid params: argument must have a name and a value, both strings")
		}
	}
	if given := c.params.Value("context"); given != nil && !given.IsObject() {
		return mcp.Stable(mcp.CodeInvalidParams, "DB-PARAMS", "Invalid params: context must be an object")
	}
	return nil
}

// conformTool checks the structured content of a result against the output schema of its tool.
func conformTool(ctx context.Context, g *Gateway, c *call, result mcp.Object) (mcp.Object, error) {
	return g.outputChecked(ctx, c, result)
}

func conformPrompt(_ context.Context, _ *Gateway, c *call, result mcp.Object) (mcp.Object, error) {
	if !result.Value("messages").IsArray() {
		return mcp.Object{}, c.broken("a prompt without messages")
	}
	return result, nil
}

// conformRead refuses a resource without contents, which is how older servers say that it does not exist. It keeps the
// time for which the server says the contents are fresh, but only for this caller, and not if the contents depend on
// answers to questions.
// https://modelcontextprotocol.io/specification/2026-07-28/server/resources#error-handling
func conformRead(_ context.Context, _ *Gateway, c *call, result mcp.Object) (mcp.Object, error) {
	contents, ok := result.Value("contents").Elements()
	if !ok {
		return mcp.Object{}, c.broken("a resource without contents")
	}
	if len(contents) == 0 {
		return mcp.Object{}, c.absent()
	}
	fresh, ok := result.Value("ttlMs").Int()
	result = hinted(result)
	if ok && fresh > 0 && c.state == nil && !c.params.Has("inputResponses") {
		result = result.With("ttlMs", mcp.Int(fresh))
	}
	return result, nil
}

// rescueRead turns the various errors with which servers say that a resource does not exist into the one of this
// gateway, which names the URI that the client used.
func rescueRead(c *call, said *upstreamError) (mcp.Object, error) {
	data, _ := mcp.ObjectOf(said.told.Data)
	if said.told.Code == mcp.CodeResourceNotFound || said.told.Code == mcp.CodeInvalidParams && data.Has("uri") {
		return mcp.Object{}, c.absent()
	}
	return mcp.Object{}, said
}

// absent returns the error for a resource that its own server says does not exist.
func (c *call) absent() error {
	return &unknownError{kind: registry.KindResource, name: c.params.Text("uri"), answered: true}
}

// conformCompletion cuts the list of values to the count that the protocol allows, and to a size.
func conformCompletion(_ context.Context, _ *Gateway, c *call, result mcp.Object) (mcp.Object, error) {
	completion := result.Object("completion")
	values, ok := completion.Value("values").Elements()
	if !ok {
		return mcp.Object{}, c.broken("a completion without values")
	}
	if slices.ContainsFunc(values, func(value mcp.RawJSON) bool { return value[0] != '"' }) {
		return mcp.Object{}, c.broken("a completion that is no text")
	}
	kept, size := 0, 0
	for kept < min(len(values), maxCompletions) && size+len(values[kept]) <= maxCompletionBytes {
		size += len(values[kept])
		kept++
	}
	if kept < len(values) {
		completion = completion.With("values", mcp.Array(values[:kept])).With("hasMore", mcp.Bool(true))
		result = result.With("completion", completion.JSON())
	}
	return result, nil
}

// rescueCompletion answers with no values for a server that does not offer completion.
func rescueCompletion(_ *call, said *upstreamError) (mcp.Object, error) {
	if said.told.Code != mcp.CodeMethodNotFound {
		return mcp.Object{}, said
	}
	return mcp.NewObject(mcp.Member{Name: "completion", Value: mcp.RawJSON(`{"values":[]}`)}), nil
}

// broken returns the error for a result whose form the protocol does not allow.
func (c *call) broken(what string) error {
	return &registry.ProtocolError{Server: c.item.Server, Err: errors.New(what)}
}

// useTool calls the tool of the call.
func useTool(ctx context.Context, c *call) (mcp.Object, error) { return c.tool.Call(ctx, c.use()) }

// useItem uses an item that is not a tool.
func useItem(ctx context.Context, c *call) (mcp.Object, error) { return c.item.Call(ctx, c.use()) }

// use returns what the source of the item gets to know of the call. It is a part of the call when the item is used first,
// which spares an allocation; later, in abandon, it is not, because the source may still look at the first.
func (c *call) use() *registry.Call {
	use := &c.told
	if use.Method != "" {
		use = &registry.Call{}
	}
	*use = registry.Call{
		Method:       c.request.Method,
		Principal:    c.caller.Principal,
		Params:       c.params,
		Capabilities: c.request.Capabilities,
		InSession:    c.request.InSession,
		Client:       c.request.Client,
		Refusals:     c.request.Refusals,
		LogLevel:     c.request.LogLevel,
		Notify:       c.notify,
		Judge:        judge{c},
		Tasks:        c.tasks,
		Room:         c.request.Room,
		Stays:        &c.stays,
	}
	if c.task != nil {
		use.Tasks, use.Task = c.task.form, c.task.own
	}
	if c.method.Asks && !c.kept {
		use.Hold = c.hold
	}
	return use
}
