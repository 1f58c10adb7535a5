package registry

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

// Tool is one tool of the catalogue, with its schemas compiled. It is immutable, but see
// Item.
type Tool struct {
	Item
	app

	Tasks    mcp.Tasks // the form of tasks that its calls may become; zero: none
	TaskOnly bool      // it runs only as a task for which its client asks
	// Unenforced says what of its schemas is not enforced, for operators: parts of a
	// schema that cannot be checked, and an output schema that is left out of the
	// definition.
	Unenforced []string

	output    *schema.Schema // nil when the tool declares no outputSchema
	byListing [listings]atomic.Pointer[Item]
}

// inline makes what Inlined returns for i, the tool or a form of it, when it is asked for
// first: few tenants ask for it.
func (t *Tool) inline(i *Item) {
	i.inlined = sync.OnceValue(func() mcp.RawJSON { return t.inlinedDefinition(i) })
}

func (t *Tool) inlinedDefinition(i *Item) mcp.RawJSON {
	definition := i.Definition
	for _, part := range []struct {
		member string
		schema *schema.Schema
	}{{"inputSchema", t.arguments}, {"outputSchema", t.output}} {
		if part.schema == nil || !part.schema.HasReferences() {
			continue
		}
		raw, ok := part.schema.Inline(MaxDefinition)
		if !ok {
			return i.Raw
		}
		if o, _ := mcp.ObjectOf(raw); part.schema == t.arguments && o.Text("type") != "object" {
			// In draft-07, keywords beside $ref have no effect, so inlining drops a type
			// at the root; but the protocol requires "type": "object" there of every
			// tool.
			raw = o.With("type", mcp.String("object")).JSON()
		}
		definition = definition.With(part.member, raw)
	}
	raw := definition.JSON()
	if len(raw) > MaxDefinition || strictjson.Check(raw) != nil {
		return i.Raw
	}
	return raw
}

// HasOutput tells whether the tool declares an outputSchema.
func (t *Tool) HasOutput() bool { return t.output != nil }

// ValidateOutputWithin checks structured content against the output schema, and returns
// nil when the tool declares none. structured must have passed strictjson.Check. nil
// means that the result has no structured content, which no output schema allows. The
// text of the error names the place and the rule, but no value. It may be a
// *schema.BudgetError, as in ValidateWithin.
func (t *Tool) ValidateOutputWithin(structured mcp.RawJSON, budget schema.Budget) error {
	if t.output == nil {
		return nil
	}
	if structured == nil {
		return errors.New("structuredContent: is required by the output schema")
	}
	return t.output.CheckWithin(structured, "structuredContent", budget)
}

// Call runs the tool, or, when c.Task is set, uses a task that one of its calls became.
// It sets c.Headers and c.Target. Errors are those of Item.Call, and an *UnavailableError
// for a task of a server that no longer has tasks.
func (t *Tool) Call(ctx context.Context, c *Call) (mcp.Object, error) {
	switch {
	case c.Task == "":
		c.Headers = t.Headers
	// the Func of a server without tasks may not look at the method, and call the tool
	// instead
	case t.Tasks == 0:
		return mcp.Object{}, &UnavailableError{Server: t.Server, Err: errNoTasks}
	}
	return t.Item.Call(ctx, c)
}

var errNoTasks = errors.New("the server has no tasks any more")

// newTool makes a tool of an offer. Errors are *refusalError.
func newTool(o *origin, offer *Offer) (*Tool, error) {
	raw := offer.Definition.JSON()
	t := &Tool{Tasks: offer.Tasks, Item: Item{
		Kind: KindTool, Server: o.server, Name: offer.Definition.Text("name"), Timeout: offer.Timeout,
		origin: o, offered: sha256.Sum256(raw),
	}}
	t.callBy(offer.Call)
	var err error
	if t.Exposed, err = t.exposedName(); err != nil {
		return nil, err
	}
	definition, err := t.readSchemas(offer.Definition)
	if err == nil {
		definition, err = checkMembers(definition, toolTypes)
	}
	if err != nil {
		return nil, err
	}
	if len(definition.JSON()) > MaxDefinition {
		return nil, refuse("size", errLarge)
	}
	t.TaskOnly = definition.Object("execution").Text("taskSupport") == "required"
	t.app, definition = o.readApp(definition)
	t.Definition = definition.With("name", mcp.String(t.Exposed))
	t.Raw = t.Definition.JSON()
	t.inline(&t.Item)
	return t, nil
}

var (
	errInputType  = errors.New(`inputSchema must be an object with "type": "object"`)
	errOutputType = errors.New("a schema is an object here")
)

// readSchemas compiles the input and output schema. An output schema that is refused is
// left out of the definition that it returns: without it the tool can still be called,
// and a client must not believe that somebody enforces it. Errors are *refusalError.
func (t *Tool) readSchemas(definition mcp.Object) (mcp.Object, error) {
	raw := definition.Value("inputSchema")
	o, ok := mcp.ObjectOf(raw)
	if !ok || o.Text("type") != "object" {
		return definition, refuse("schema", errInputType)
	}
	var err error
	if t.arguments, err = schema.Compile(raw); err != nil {
		return definition, refuse(reasonOf(err), fmt.Errorf("inputSchema: %w", err))
	}
	if t.Headers, err = headerParams(t.arguments); err != nil {
		return definition, refuse("header", err)
	}
	for _, gap := range t.arguments.Unenforced() {
		t.Unenforced = append(t.Unenforced, "inputSchema: "+gap)
	}
	if raw = definition.Value("outputSchema"); raw == nil {
		return definition, nil
	}
	if err = errOutputType; raw.IsObject() {
		t.output, err = schema.Compile(raw)
	}
	if err != nil {
		t.Unenforced = append(t.Unenforced, fmt.Sprintf("outputSchema is left out: %v", err))
		return definition.Without("outputSchema"), nil
	}
	for _, gap := range t.output.Unenforced() {
		t.Unenforced = append(t.Unenforced, "outputSchema: "+gap)
	}
	return definition, nil
}

// reasonOf returns the Reason of a Refusal for an error of schema.Compile.
func reasonOf(err error) string {
	if errors.Is(err, schema.ErrTooLarge) {
		return "size"
	}
	return "schema"
}

// with returns the tool for a new offer with the same definition: t itself, or, when the
// time limit or the form of tasks differs, a copy that shares the compiled schemas. In
// both cases calls go to the new offer. It copies field by field, because an Item has an
// atomic pointer that must not be copied.
func (t *Tool) with(offer *Offer) *Tool {
	if t.Timeout != offer.Timeout || t.Tasks != offer.Tasks {
		t = &Tool{
			Item: Item{
				Kind: t.Kind, Server: t.Server, Name: t.Name, Exposed: t.Exposed, Definition: t.Definition,
				Raw: t.Raw, Timeout: offer.Timeout, Headers: t.Headers, origin: t.origin, offered: t.offered,
				inlined: t.inlined, arguments: t.arguments,
			},
			app: t.app, Tasks: offer.Tasks, TaskOnly: t.TaskOnly, Unenforced: t.Unenforced, output: t.output,
		}
	}
	t.callBy(offer.Call)
	return t
}
