package registry

import (
	"context"
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

	call atomic.Pointer[Func]
}

// PolicyName returns what the patterns of a policy are matched with: the exposed name of a tool or prompt, and
// server:uri, with the source's own URI, of a resource or template.
func (i *Item) PolicyName() string {
	if i.Kind == KindResource || i.Kind == KindTemplate {
		return i.Server + ":" + i.Name
	}
	return i.Exposed
}

// Call uses the item.
func (i *Item) Call(ctx context.Context, c *Call) (mcp.Object, error) {
	c.Target = i.Name
	return (*i.call.Load())(ctx, c)
}

func (i *Item) callBy(f Func) { i.call.Store(&f) }
