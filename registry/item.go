package registry

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

// Item is a prompt, resource, template or skill of the catalogue, or what a Tool has in
// common with them. Many requests share it: callers must not modify it. It never changes,
// with one exception: when its source offers the same definition again, calls go where
// the newer offer says.
type Item struct {
	Kind       Kind
	Server     string
	Name       string        // own name, URI or URI template
	Exposed    string        // what clients call it
	Definition mcp.Object    // as clients see it; zero for an item that is in no list
	Raw        mcp.RawJSON   // the JSON of Definition, encoded once
	Timeout    time.Duration // limit of one use
	Headers    []HeaderParam // of a tool, in the order of its input schema

	origin    *origin
	offered   [sha256.Size]byte    // hash of the definition as offered
	call      atomic.Pointer[Func] // serves calls of a tool; nil for other kinds: their source's Use does
	inlined   func() mcp.RawJSON   // what Inlined returns for a tool; nil: Raw
	arguments *schema.Schema       // what those of a tool or prompt must fit
	pattern   *uriPattern          // of a template
}

// PolicyName returns the text that patterns of a tenant's policy are matched with. For a
// tool or prompt that is the exposed name, for a resource, template or skill "server:uri"
// with the own URI. A policy must match WholeName as well: otherwise a rule that denies a
// long name would not hold for its cut form.
func (i *Item) PolicyName() string {
	if i.Kind == KindResource || i.Kind == KindTemplate || i.Kind == KindSkill {
		return i.Server + ":" + i.Name
	}
	return i.Exposed
}

// WholeName returns the name of a tool or prompt as its server has it, behind the prefix,
// if it is exposed under another one: cut to the length that clients take, or in the
// characters that the name of a tool may have. Otherwise it returns "".
func (i *Item) WholeName() string {
	if i.Kind != KindTool && i.Kind != KindPrompt {
		return ""
	}
	beginning := Beginning(i.origin.prefix)
	if own, _ := strings.CutPrefix(i.Exposed, beginning); own == i.Name {
		return ""
	}
	return beginning + i.Name
}

// Call uses the item: it passes c to the source, and maps URIs in the answer to the form
// that clients use. It sets c.Target. The error is a *DownError, and nothing was sent,
// when the server is known to be down. For a server that completes no arguments,
// completion/complete gets an empty list without asking the server.
//
// Where the protocol has a place for a URI, every URI that a server with a prefix gives
// out is mapped to its exposed form: in resource links, embedded resources, contents,
// messages of prompts and of sampling requests, and the data of errors. Otherwise a
// client that reads the URI it was given would reach no server, or another one. Not
// mapped are
//
//   - resource links to http and https that the server neither lists nor has a template
//     for: the client fetches them from the web itself;
//   - URIs of the schemes data, javascript and vbscript that the server does not know:
//     they address nothing at the server, and internal/sanitize judges whether they are
//     dangerous;
//   - what is no absolute URI;
//   - structured content, whose meaning only the tool knows.
//
// In the same places, but for errors, c.Filter decides what the client may see.
//
// https://modelcontextprotocol.io/specification/2026-07-28/server/resources#common-uri-schemes
func (i *Item) Call(ctx context.Context, c *Call) (mcp.Object, error) {
	if down := i.Down(); down != nil {
		return mcp.Object{}, down
	}
	c.Target = i.Name
	if f := i.call.Load(); f != nil {
		return i.origin.call(ctx, *f, c)
	}
	s := i.origin.service.Load()
	switch {
	case c.Method == mcp.MethodComplete && !s.completes:
		return mcp.NewObject(mcp.Member{Name: "completion", Value: mcp.RawJSON(`{"values":[]}`)}), nil
	case s.use == nil:
		return mcp.Object{}, &UnavailableError{Server: i.Server, Err: errNoUse}
	}
	return i.origin.call(ctx, s.use, c)
}

// errNoUse is for an item of an older catalogue: its source has since been replaced by
// one without Use.
var errNoUse = errors.New("the server has neither prompts nor resources any more")

// Inlined returns Raw for clients that cannot follow $ref: in the schemas of a tool,
// every reference is replaced by what it points to, and $defs are dropped. The schemas
// then accept the same values, unless they are recursive: a reference that leads back
// into itself becomes a schema without constraints, so that more is accepted. It is Raw
// itself where there are no references, and where inlining would make the definition too
// large or too deep. The text is made once and shared: do not modify it.
func (i *Item) Inlined() mcp.RawJSON {
	if i.inlined == nil {
		return i.Raw
	}
	return i.inlined()
}

// Lists tells whether the item's server lists a resource with that own URI.
func (i *Item) Lists(uri string) bool { return i.origin.service.Load().listed[uri] }

// Released returns the digests of what the operator of the server lets in that would be
// quarantined: do not modify them.
func (i *Item) Released() []string { return i.origin.service.Load().released }

// callBy lets calls of the tool go to f from now on, also those by holders of older
// catalogues.
func (i *Item) callBy(f Func) { i.call.Store(&f) }

func (i *Item) item() *Item { return i }

// DownError says that an item cannot be used because its server is known to be down.
// Nothing was sent to the server.
type DownError struct {
	Kind   Kind
	Server string
	Name   string // exposed name of the item
	Outage Outage
	SignIn bool // the server wants a sign-in, so it stays down until the operator gives a credential
}

func (e *DownError) Error() string {
	return fmt.Sprintf("server %s is down since %s", e.Server, e.Outage.Since.UTC().Format(time.RFC3339))
}

// Down returns nil when the item's server is there, and otherwise the error of every use
// of the item now.
func (i *Item) Down() *DownError {
	outage := i.origin.outage.Load()
	if outage == nil {
		return nil
	}
	return &DownError{
		Kind: i.Kind, Server: i.Server, Name: i.Exposed, Outage: *outage,
		SignIn: i.origin.wantsSignIn.Load(),
	}
}

// call runs f, and maps and judges the URIs in its result or error. A mistake of the
// model becomes a result.
func (o *origin) call(ctx context.Context, f Func, c *Call) (mcp.Object, error) {
	result, err := f(ctx, c)
	if usage, ok := errors.AsType[*UsageError](err); ok {
		return mcp.ToolError(usage.Text), nil
	}
	if err == nil && c.Method == mcp.MethodSkillsGet {
		err = o.judgeSkill(result.Object("skill"))
	}
	switch {
	case o.prefix == "" && (err != nil || c.Filter == nil):
		return result, err
	case err != nil:
		return result, o.exposedError(err)
	}
	return o.exposedResult(result, c), nil
}

// exposedName returns what clients call a tool or a prompt: its own name behind the
// prefix. That of a tool is written in the characters that a tool's name may have; the
// protocol does not restrict those of prompts. Errors are *refusalError.
func (i *Item) exposedName() (string, error) {
	prefix, limit := i.origin.prefix, maxExposed
	switch {
	case !validName(i.Name):
		return "", refuse("name", errItemName)
	case !onlyNameCharacters(prefix):
		return "", refuse("name", errPrefix)
	case prefix == "":
		limit = maxToolName
	}
	full := Beginning(prefix) + i.Name
	plain := full
	if i.Kind == KindTool {
		plain = strings.Map(nameCharacter, full)
	}
	if plain != full || prefix != "" && len(full) > maxExposed {
		return Marked(plain, limit, full), nil
	}
	return full, nil
}

// define sets what comes from the definition of a prompt, resource, template or skill.
// member is the member of the definition that holds the own name: name, uri or
// uriTemplate. Errors are *refusalError.
func (i *Item) define(member string, definition mcp.Object, exposed string) error {
	raw := definition.JSON()
	if len(raw) > MaxDefinition && i.Kind != KindSkill {
		return refuse("size", errLarge)
	}
	i.Exposed, i.offered = exposed, sha256.Sum256(raw)
	checked, err := checkMembers(definition, itemTypes)
	if err != nil {
		return err
	}
	i.Definition = checked.With(member, mcp.String(exposed))
	i.Raw = i.Definition.JSON()
	return nil
}
