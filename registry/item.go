package registry

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Kind is a kind of items. Its text is the word for it in records.
type Kind string

// The kinds.
const (
	KindTool     Kind = "tool"
	KindPrompt   Kind = "prompt"
	KindResource Kind = "resource"
	KindTemplate Kind = "template" // of resources
)

// Item is what all kinds of items have. It is shared, and immutable but for one thing: when its source offers the same
// definition again, calls go where the newer offer says.
type Item struct {
	Kind       Kind
	Server     string
	Name       string     // the source's own: a name, a URI or a URI template
	Exposed    string     // what clients use
	Definition mcp.Object // as exposed; its text is cached in Raw. Zero for a resource that is in no list
	Raw        mcp.RawJSON
	Timeout    time.Duration // of one use

	origin  *origin
	offered [sha256.Size]byte    // hash of the definition as offered
	call    atomic.Pointer[Func] // of a tool; nil: the source's Use
}

// PolicyName returns what the patterns of a policy are matched with: the exposed name of a tool or prompt, and
// server:uri, with the source's own URI, of a resource or template. A policy must look at WholeName too.
func (i *Item) PolicyName() string {
	if i.Kind == KindResource || i.Kind == KindTemplate {
		return i.Server + ":" + i.Name
	}
	return i.Exposed
}

// WholeName returns the exposed name of a tool or prompt as it was before it was cut to what clients take. cut is false,
// and the name is empty, where nothing was cut.
func (i *Item) WholeName() (name string, cut bool) {
	if i.Kind != KindTool && i.Kind != KindPrompt || !isCut(i.origin.prefix, i.Name) {
		return "", false
	}
	return Beginning(i.origin.prefix) + i.Name, true
}

// Call uses the item: it asks its source, and brings the URIs in the answer into the form that clients use. A server
// that does not complete arguments has no values for completion/complete. The error is a *DownError when the source is
// known not to be there.
//
// Every URI that a server with a prefix gives out gets its exposed form where the protocol has one: in resource links,
// in embedded resources, in contents, in messages of prompts and of questions, and in the data of errors. Two kinds stay
// as they are: resource links to http and https that the server neither lists nor has a template for, which the client
// fetches itself, and URIs with the schemes data, javascript and vbscript that the server does not know, because they
// address nothing at the server and are for others to judge. What is no absolute URI stays too. Structured content is
// the tool's own and is not looked at.
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

var errNoUse = errors.New("the server has neither prompts nor resources any more")

func (i *Item) callBy(f Func) { i.call.Store(&f) }

func (i *Item) item() *Item { return i }
