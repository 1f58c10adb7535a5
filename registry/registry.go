// Package registry is the catalogue: which tools, prompts, resources and templates of resources exist, under which
// names and URIs, with which definitions. It knows neither tenants nor transports; a source puts its items in, whole, and
// takes them out. What a JSON Schema means is decided in registry/schema: the catalogue has the schemas of its items
// compiled, leaves out an item whose schema is refused, and says which of them arguments and results must fit.
//
//	nothing known --Lose--> not reached yet
//	      |                        |
//	      '-------Replace----------+--Replace--> there --Lose--> lost --Unlist--> lost, and in no list
//	                                               ^              |                       |
//	                                               '--Replace-----'--------Replace--------'
//
// Remove leads back to the beginning from everywhere. A lost source keeps its names: were they free, another server's
// tool could take the place of one that a model knows.
package registry

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Call is one use of an item, as its source sees it: tools/call, prompts/get, resources/read, completion/complete, or a
// method of a task that a tool's call became.
type Call struct {
	Method    string
	Principal auth.Principal
	// Params are those of the request in modern form, with names and URIs still as exposed. inputResponses and
	// requestState, when there are any, are as the source gave them out.
	Params mcp.Object
	// Capabilities are what the client can be asked now, in the canonical form of mcp.CapabilitiesOf; empty: nothing.
	Capabilities mcp.Object
	// InSession says that the client calls in a session, where it expects questions while its call is open. Others expect
	// them as the call's result.
	InSession bool
	// Client tells the clients of one principal apart as far as they can be: by the session, or by the name that a client
	// without one gives itself. It is the client's own word; "": nothing is known.
	Client string
	// Refusals are the questions of the round before, by their key, to which the client answered with an error. They are
	// not in inputResponses, which has no place for errors.
	Refusals map[string]*mcp.Error
	LogLevel mcp.Level // of log messages that the client wants; zero: none
	// Notify sends progress and log messages. Never nil.
	Notify func(context.Context, mcp.Notification) error
	// Hold keeps the call's place among those at once beyond the return of the Func, until release is called: for a
	// call that asks for input while the server goes on with it. Nil: there is no place to keep.
	Hold func() (release func())
	// Tasks is the form of tasks that may take the place of this call's result; zero: none. The params have a task when,
	// and only when, it is TasksAsked and the call is to become one.
	Tasks mcp.Tasks
	Task  string // of tasks/*: the id that the source gave out; else ""

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
	Tasks      mcp.Tasks // what its calls may become, whose methods Call then serves too; zero: it has no tasks
}

// Source is everything one server offers.
type Source struct {
	Name   string // of the server in the config
	Prefix string // before the exposed names: usually Name; "" exposes the server's names and URIs unchanged
	Tools  []Offer

	// Definitions of what else there is, cleaned by the source, under the source's own names and URIs.
	Prompts, Resources, Templates []mcp.Object
	// Unread are the kinds whose lists were not read yet, or could not be: that nothing is offered of them says nothing
	// of what the server has. What the source offered of them before stays.
	Unread    []Kind
	Timeout   time.Duration // of one use of prompts, resources and templates; zero: 30 s
	Use       Func          // serves prompts/get, resources/read and completion/complete; nil: there is none of them
	Reads     bool          // the server has resources, even where it lists none
	Completes bool          // the server completes arguments; else a completion is empty
	// Subscribe tells of changes of the resource with the source's own URI, until ctx ends; updated gets the URI that
	// changed, which may be of a part of it, and must not wait. It returns as soon as no later change goes unseen. Nil:
	// the server does not tell.
	Subscribe func(ctx context.Context, tenantID, uri string, updated func(uri string)) error
}

// Refusal says which definition was left out and why.
type Refusal struct {
	Server string
	Kind   Kind
	Item   string // its own name or URI, cut when it is long; "" for a whole list
	// Reason is one word, and a metric label: name, uri, schema, output_schema, header, duplicate or size for what is
	// wrong with a definition; operation for one of an API that cannot be a tool; list for a list that cannot be read.
	Reason string
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
// other sources' items stay as they are; waiters on Changed are woken when anything differs. A definition that did not
// change is not read again. One source is replaced by one goroutine at a time.
func (r *Registry) Replace(s Source) []Refusal {
	next, refusals := build(s, r.current.Load().shelves[s.Name])
	r.update(s.Name, func(present shelf) shelf {
		next.announced = present.announced
		next.origin.outage.Store(nil)
		return next
	})
	return refusals
}

// Remove takes a source out and frees its names.
func (r *Registry) Remove(source string) { r.update(source, func(shelf) shelf { return shelf{} }) }

// Announce makes a new catalogue although the source's items are the same, because the source says that its list of
// that kind changed: whoever sees one of its items is told so too. Resources and templates are one list.
func (r *Registry) Announce(source string, kind Kind) {
	r.update(source, func(present shelf) shelf {
		present.announced[listOf(kind)]++
		return present
	})
}

// update publishes a catalogue in which the source has the next shelf, unless it is as it was.
func (r *Registry) update(source string, change func(shelf) shelf) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.current.Load()
	present := before.shelves[source]
	next := change(present)
	if next.empty() {
		next = shelf{}
	}
	if present.equal(&next) {
		return
	}
	shelves := maps.Clone(before.shelves)
	if next.empty() {
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
