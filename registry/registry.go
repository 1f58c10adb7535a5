// Package registry is the catalogue: which tools exist, under which names, with which schemas. It knows neither
// tenants nor transports; a source puts its tools in, whole, and takes them out.
package registry

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Bounds of one source.
const (
	maxTools       = 5_000
	maxDefinitions = 16 << 20 // bytes of all definitions together
)

// Call is one use of an item, as its source sees it: tools/call, prompts/get, resources/read or completion/complete.
type Call struct {
	Method    string
	Principal auth.Principal
	TenantID  string
	// Params are those of the request in modern form, with names and URIs still as exposed. inputResponses and
	// requestState, when there are any, are as the source gave them out.
	Params mcp.Object
	// Capabilities are what the client can be asked now, in the canonical form of mcp.CapabilitiesOf; empty: nothing.
	Capabilities mcp.Object
	// Refusals are the questions of the round before, by their key, to which the client answered with an error. They are
	// not in inputResponses, which has no place for errors.
	Refusals map[string]*mcp.Error
	LogLevel mcp.Level // of log messages that the client wants; zero: none
	// Notify sends progress and log messages. Never nil.
	Notify func(context.Context, mcp.Notification) error
	// Hold keeps the call's place among those at once beyond the return of the Func, until release is called: for a
	// call that asks for input while the server goes on with it. Nil: there is no place to keep.
	Hold func() (release func())

	Target  string        // what the source calls the item: its name, or the URI; set by the item
	Headers []HeaderParam // of a tool; set by Tool.Call
}

// Func serves calls. It returns the result in modern form: resultType may be absent and means complete. When it is
// input_required, the client repeats the call with the answers and the requestState.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
type Func func(context.Context, *Call) (mcp.Object, error)

// Offer is one tool as a source offers it.
type Offer struct {
	Definition mcp.Object    // cleaned by the source, under the source's own name
	Timeout    time.Duration // of one call; must be positive
	Call       Func
}

// Source is everything one server offers.
type Source struct {
	Name   string // of the server in the config
	Prefix string // before the exposed names: usually Name; "" exposes the server's names and URIs unchanged
	Tools  []Offer

	// Definitions of what else there is, cleaned by the source, under the source's own names and URIs.
	Prompts, Resources, Templates []mcp.Object
	Timeout                       time.Duration // of one use of them; zero: 30 s
	Use                           Func          // serves prompts/get, resources/read and completion/complete; nil: there is none of them
	Reads                         bool          // the server has resources, even where it lists none
	Completes                     bool          // the server completes arguments
	// Subscribe tells of changes of the resource with the source's own URI, until ctx ends; updated gets the URI that
	// changed, which may be of a part of it, and must not wait. It returns as soon as no later change goes unseen. Nil:
	// the server does not tell.
	Subscribe func(ctx context.Context, tenantID, uri string, updated func(uri string)) error
}

// Refusal says which definition was left out and why.
type Refusal struct {
	Server string
	Kind   Kind
	Item   string // its own name or URI, cut when it is long
	Reason string // one word: name, uri, schema, output_schema, header, duplicate, size
	Err    error
}

// Registry holds the catalogue. It is safe for concurrent use; readers never wait.
type Registry struct {
	current atomic.Pointer[Catalogue]
	mu      sync.Mutex // held while current is replaced
}

// New returns an empty registry.
func New() *Registry {
	r := &Registry{}
	r.current.Store(newCatalogue(nil))
	return r
}

// Replace puts in what a source offers now, in place of what it offered before, and returns what it left out. The
// other sources' tools stay as they are; waiters on Changed are woken when anything differs. A definition that did not
// change is not compiled again. One source is replaced by one goroutine at a time.
func (r *Registry) Replace(s Source) []Refusal {
	tools, refusals := build(s, r.current.Load().shelves[s.Name].tools)
	r.update(s.Name, func(present shelf) shelf { return shelf{tools, present.announced} })
	return refusals
}

// Remove takes a source out.
func (r *Registry) Remove(source string) { r.update(source, func(shelf) shelf { return shelf{} }) }

// Announce makes a new catalogue although the source's tools are the same, because the source says that its list
// changed: whoever sees one of its tools is told so too.
func (r *Registry) Announce(source string) {
	r.update(source, func(present shelf) shelf { return shelf{present.tools, present.announced + 1} })
}

// update publishes a catalogue in which the source has the next shelf, unless it is as it was.
func (r *Registry) update(source string, change func(shelf) shelf) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.current.Load()
	present := before.shelves[source]
	next := change(present)
	if slices.Equal(present.tools, next.tools) && (present.announced == next.announced || len(next.tools) == 0) {
		return
	}
	shelves := maps.Clone(before.shelves)
	if len(next.tools) == 0 {
		delete(shelves, source)
	} else {
		shelves[source] = next
	}
	r.current.Store(newCatalogue(shelves))
	close(before.replaced)
}

// Catalogue returns the present catalogue. A different pointer means a different catalogue.
func (r *Registry) Catalogue() *Catalogue { return r.current.Load() }

// Changed returns a channel that is closed when the catalogue next differs from the one Catalogue returns after this
// call. Who asks Changed first and Catalogue then misses nothing; when both happen around a change, the channel may be
// closed already.
func (r *Registry) Changed() <-chan struct{} { return r.current.Load().replaced }

// build makes the tools of a source, ordered by exposed name, using those of before whose definitions did not change.
func build(s Source, before []*Tool) ([]*Tool, []Refusal) {
	b := &builder{source: s, before: make(map[string]*Tool, len(before)), taken: make(map[string]bool, len(s.Tools))}
	for _, t := range before {
		b.before[t.Name] = t
	}
	for i := range s.Tools {
		if i == maxTools {
			b.refuse(s.Tools[i].Definition.Text("name"), refuse("size",
				fmt.Errorf("this and %d more beyond the %d that one server may offer", len(s.Tools)-i-1, maxTools)))
			break
		}
		b.add(&s.Tools[i])
	}
	slices.SortFunc(b.tools, func(a, b *Tool) int { return strings.Compare(a.Exposed, b.Exposed) })
	return b.tools, b.refusals
}

// builder collects the tools of one source.
type builder struct {
	source   Source
	before   map[string]*Tool // by own name
	taken    map[string]bool  // folded own names, and exposed names
	bytes    int
	tools    []*Tool
	refusals []Refusal
}

func (b *builder) refuse(name string, err error) {
	reason := "schema"
	if refused, ok := errors.AsType[*refusalError](err); ok {
		reason = refused.reason
	}
	b.refusals = append(b.refusals, Refusal{
		Server: b.source.Name, Kind: KindTool, Item: clip(name, maxToolName), Reason: reason, Err: err,
	})
}

var (
	errDuplicate = errors.New("an earlier tool of this server has this name, or one that differs only in case")
	errTogether  = fmt.Errorf("the definitions of this server have more than %d bytes together", maxDefinitions)
)

func (b *builder) add(offer *Offer) {
	name := offer.Definition.Text("name")
	folded := strings.ToLower(name)
	if b.taken[folded] {
		b.refuse(name, refuse("duplicate", errDuplicate))
		return
	}
	t, err := b.tool(offer)
	if err == nil && b.taken["="+t.Exposed] {
		err = refuse("duplicate", errDuplicate)
	}
	if err == nil && b.bytes+len(t.Raw) > maxDefinitions {
		err = refuse("size", errTogether)
	}
	if err != nil {
		b.refuse(name, err)
		return
	}
	b.taken[folded], b.taken["="+t.Exposed] = true, true
	b.bytes += len(t.Raw)
	b.tools = append(b.tools, t)
}

// tool returns the tool of before when the offer is the same but for where calls go.
func (b *builder) tool(offer *Offer) (*Tool, error) {
	name := offer.Definition.Text("name")
	if t := b.before[name]; t != nil {
		exposed, err := exposedName(b.source.Prefix, name)
		if err == nil && exposed == t.Exposed && sha256.Sum256(offer.Definition.JSON()) == t.offered {
			return t.with(offer), nil
		}
	}
	return newTool(b.source.Name, b.source.Prefix, offer)
}
