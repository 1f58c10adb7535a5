// Package registry is the catalogue. It answers which tools, prompts, resources and
// templates of resources exist, under which names and URIs, and with which definitions.
// It knows neither tenants nor transports: the gateway decides who may see an item, and
// the source of an item decides how a call reaches the server. What a JSON Schema means
// is decided in registry/schema; the catalogue only has the schemas of its items
// compiled, and leaves out an item whose schema is refused.
//
// A source is the code that speaks for one server of the config: registry/upstream,
// registry/openapi or registry/builtin. An item has two names. Its own name (or URI) is
// what the source calls it; its exposed name is what clients call it, and differs from
// its own when the server has a prefix.
//
//	sources                                             the gateway
//	   |  Replace, Announce,                               |  Catalogue, Changed
//	   |  Lose, Unlist, Remove                             v
//	   '-----> Registry --publishes--> Catalogue --View(servers)--> View --> Tool, Prompt, Resource, Template
//	                                   (immutable)              (immutable)              |  Call
//	   source.Use or Offer.Call <------------------- origin <----------------------------'
//
// An origin is what the items of one server share, and unlike them it changes after
// publication. A request may hold an item of an older catalogue, and its call must still
// go where the source now wants it to go, or fail because the server is down.
//
// Reading order: this file (what a source hands in), build.go (from a source to items),
// item.go with tool.go, prompt.go and resource.go (the kinds), catalogue.go and view.go
// (what readers get), name.go, uri.go and template.go (names and URIs, and which server a
// URI belongs to), quarantine.go (what sources may not offer), origin.go and expose.go
// (URIs in results), outage.go (servers that are down), match.go (patterns of names,
// which the gateway and the config use).
//
// The states of one source, as Replace, Lose, Unlist and Remove change them:
//
//	nothing known --Lose--> not reached yet
//	      |                        |
//	      '-------Replace----------+--Replace--> there --Lose--> lost --Unlist--> lost, and in no list
//	                                               ^              |                       |
//	                                               '--Replace-----'--------Replace--------'
//
// Remove leads from every state back to the first one, and a server that was not reached
// yet can be unlisted too. A lost source keeps its names: if they became free, the tool
// of another server could take the place of one that a model already knows and trusts.
package registry

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// Call is one use of an item, as its source sees it: tools/call, prompts/get,
// resources/read, completion/complete, or a tasks/* method for a task that an earlier
// tools/call became. The gateway makes one Call for every request; a call that asks the
// client for input and is repeated with the answers is several Calls.
type Call struct {
	Method    string
	Principal auth.Principal
	Trace     credential.Trace // of the request of the client
	// Params are the params of the request in the form of revision 2026-07-28. Names and
	// URIs in them are still the exposed ones: a source uses Target instead. The gateway
	// has unsealed inputResponses and requestState, so that the source sees the keys and
	// the state that it gave out itself.
	Params mcp.Object
	// Capabilities say what the client can be asked during this call, in the canonical
	// form of mcp.CapabilitiesOf. When they are empty, the client can be asked nothing.
	Capabilities mcp.Object
	// InSession is true when the client calls in a legacy session, where questions reach
	// it while its call is open. Any other client gets a question as the result of its
	// call (input_required) and repeats the call with the answer.
	InSession bool
	// Extensions are those that the client declares and the gateway carries; its source
	// declares them to the server.
	Extensions mcp.Extensions
	// Client tells the clients of one principal apart, as far as that is possible: by
	// session, or by the name that a client without a session gives itself. Nobody
	// verified that name, so it must decide nothing about permissions. It is empty when
	// nothing is known.
	Client string
	// Refusals hold the errors with which the client answered questions of the previous
	// round, by the key of the question. They have a field of their own because
	// inputResponses has no place for errors.
	Refusals map[string]*mcp.Error
	LogLevel mcp.Level // the least level of log messages that the client wants; zero: it wants none
	// Notify sends progress and log messages to the client. It is never nil.
	Notify func(context.Context, mcp.Notification) error
	// Judge decides which resources in the result the client may see; a note takes the
	// place of the others. Sources need not ask it: the item does. When it is nil, the
	// client may see everything.
	Judge Judge
	// Hold keeps the call counted against the limit of concurrent calls after the Func
	// has returned, until release is called. A source uses it when the server is still
	// working on a call whose client is being asked for input; without it, such calls
	// would escape the limit. Until then end may be called, by any goroutine and also
	// before Hold returns, when the caller may not use the item any more: it cancels the
	// call at the server and does not wait. Hold is nil when the method cannot ask for
	// input, and when an earlier round of this call still holds the slot.
	Hold func(end func()) (release func())
	// Tasks is the form of tasks that may take the place of this call's result; zero
	// means that none may. The params have a member task exactly when Tasks is TasksAsked
	// and the client asked for the call to become a task.
	Tasks mcp.Tasks
	Task  string // for a tasks/* method the task id that the source gave out; otherwise ""
	// Told is called with what the server says later, by itself, of the task that the
	// call became: with its state, under the id that the source gave out. It may be called
	// by any goroutine, and does not block. nil: nobody wants to know.
	Told func(state mcp.Object)

	// Room holds the answer for the caller, from its first byte beyond what is covered
	// until the client has it. A source that reads an answer from elsewhere has it hold
	// what has come, and returns a *RoomError if it cannot. The gateway holds the answer
	// with it after that, and releases it. nil: nothing is counted.
	Room *share.Claim

	// Stays is set to true by a source whose result asks for something, when only this
	// process can go on with the requestState in it. The source sets it before its Func
	// returns, on the goroutine that called the Func. nil: nobody asks.
	Stays *bool

	// Waited is where a source adds for how long the call waited before it was sent, on
	// the goroutine that called the Func. nil: nobody asks.
	Waited *Waited

	// The item sets the fields below before it calls the Func.
	Target  string        // the item's own name or URI
	Headers []HeaderParam // the tool's parameters that travel as headers; nil for other items and for tasks/*
}

// Waited is for how long a call waited at its source before it was sent.
type Waited struct {
	Slot    time.Duration // for one of the sessions that the server may have at once
	Process time.Duration // until a session was opened; for that a command is started
}

// Judge decides what of the resources in a result a client may see.
type Judge interface {
	// Shows tells whether the client may see a mention of the resource with that URI,
	// which is one of the server that gave the result. It is asked once for each mention.
	Shows(uri string, m Mention) bool
}

// Mention is how a result mentions a resource.
type Mention int

// The ways.
const (
	Embedded  Mention = iota // with its contents
	Linked                   // by a link that the client reads here
	Elsewhere                // by a link that the client does not read here, such as one to the web
)

// Func serves calls on behalf of a source. It must be safe for concurrent use. It returns
// the result in the form of revision 2026-07-28, in which an absent resultType means
// "complete". After a result of type "input_required", the client repeats the call with
// its answers and the requestState of that result.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
type Func func(context.Context, *Call) (mcp.Object, error)

// Offer is one tool as a source offers it.
type Offer struct {
	// as in tools/list, under the tool's own name; Admit has cleaned it of hidden text
	Definition mcp.Object
	Timeout    time.Duration // limit of one call; must be positive
	Call       Func
	// the form of tasks that calls may become, whose tasks/* methods Call then serves;
	// zero: none
	Tasks mcp.Tasks
}

// Source is everything that one server offers. A source hands it in whole, with Replace,
// each time something changes.
type Source struct {
	Name   string // the server's name in the config
	Prefix string // begins the exposed names, usually Name; "" exposes the server's names and URIs unchanged
	Tools  []Offer

	// Prompts, Resources and Templates are definitions as in the server's lists, under
	// their own names and URIs. Admit has cleaned them of hidden text.
	Prompts, Resources, Templates, Skills []mcp.Object
	// SkillsFresh is until when the server says that its list of skills is fresh; zero:
	// it does not say.
	SkillsFresh time.Time
	Extensions  mcp.Extensions // those that the server declares and the gateway carries
	// Apart are the extensions on which the server's lists depend. Then the lists above
	// are for clients that declare Base of them, and Variants has those for others.
	// Clients that declare a set that is in neither see all items.
	Apart, Base mcp.Extensions
	Variants    []Variant
	// Withheld are own URIs of resources that Admit has quarantined. Such a resource
	// cannot be read either, although it would be served if it were only missing in the
	// list.
	Withheld []string
	Released []string // digests of what the operator lets in although it hides text
	// Unread names the kinds whose lists have not been read, or could not be. That the
	// source offers nothing of such a kind does not mean that the server has nothing.
	// Prompts, resources and templates that the source offered earlier stay; tools do
	// not, because a source reads its tools before it calls Replace.
	Unread  []Kind
	Timeout time.Duration // limit of one use of a prompt, resource or template; zero: 30 s
	// serves prompts/get, resources/read, completion/complete; nil: Tools are all there
	// is
	Use       Func
	Reads     bool // the server has resources, even if it lists none
	Completes bool // the server completes arguments; otherwise every completion is empty
	// Subscribe reports changes of the resource with that own URI until ctx ends. It
	// returns as soon as no later change can be missed, and goes on reporting after that.
	// updated gets the own URI of what changed, which may be a part of the resource, and
	// must not block. The user is who wants to know. Subscribe is nil when the server
	// reports no changes.
	Subscribe func(ctx context.Context, user share.User, uri string, updated func(uri string)) error
	// Personal says what the source offers to each user, beside which the source itself
	// offers nothing. nil: everybody is offered the same.
	Personal Personal
}

// Variant is what a server lists to clients that declare these extensions of
// Source.Apart, and no others of them. Its members are as in Source.
type Variant struct {
	Declared                              mcp.Extensions
	Tools                                 []Offer
	Prompts, Resources, Templates, Skills []mcp.Object
	Withheld                              []string
	Unread                                []Kind
}

// Refusal says which definition was left out, and why. The rest of the source's
// definitions are not affected.
type Refusal struct {
	Server string
	Kind   Kind
	Item   string // the item's own name or URI, cut when it is long; "" when the whole list was left out
	// Reason is one word, because it is also a metric label. name, uri, schema, header,
	// duplicate and size say what is wrong with a definition. quarantined is
	// ReasonQuarantined, operation is an operation of an HTTP API that cannot become a
	// tool, and list a list that cannot be read; the catalogue itself gives none of
	// these.
	Reason string
	Err    error
}

// Unknown returns those of more that are of another definition than all that are known,
// or for another reason: a server may list one in several variants.
func Unknown(known, more []Refusal) []Refusal {
	return slices.DeleteFunc(slices.Clone(more), func(r Refusal) bool {
		return slices.ContainsFunc(known, func(k Refusal) bool {
			return k.Kind == r.Kind && k.Item == r.Item && k.Reason == r.Reason
		})
	})
}

// Registry holds the current catalogue. It is safe for concurrent use, and readers never
// wait for writers: each change publishes a new Catalogue, and a request goes on with the
// one it began with.
type Registry struct {
	current atomic.Pointer[Catalogue]
	mu      sync.Mutex // serialises writers; held while current is replaced
}

// New returns an empty registry.
func New() *Registry {
	r := &Registry{}
	r.current.Store(newCatalogue(nil))
	return r
}

// Replace puts what a source offers now in the place of what it offered before, ends its
// outage if there is one, and returns the definitions that it left out. Items of other
// sources stay as they are. Waiters on Changed are woken only when something differs: a
// definition with the same bytes keeps its item, whose schemas are not compiled again.
//
// Only one goroutine at a time may call Replace for the same source. Items are built
// before the mutex is taken, because compiling schemas takes long, so that of two such
// calls the older offer could win.
func (r *Registry) Replace(s Source) []Refusal {
	next, refusals := build(s, r.current.Load().shelves[s.Name])
	r.update(s.Name, func(present shelf) shelf {
		next.announced, next.renewed = present.announced, present.renewed
		next.origin.outage.Store(nil)
		return next
	})
	return refusals
}

// Remove takes a source out of the catalogue and frees its names. It is for a server that
// is no longer configured; for one that is down there is Lose.
func (r *Registry) Remove(source string) { r.update(source, func(shelf) shelf { return shelf{} }) }

// Announce publishes a new catalogue although the items of the source are the same,
// because the server said that its list of that kind changed. Clients that see an item of
// the source are then told so too: the server may mean a change that its definitions do
// not show. Resources and templates count as one list.
func (r *Registry) Announce(source string, kind Kind) {
	r.update(source, func(present shelf) shelf {
		present.announced[listOf(kind)]++
		return present
	})
}

// update publishes a catalogue in which change has been applied to the shelf of the
// source, unless the shelf stays the same. change runs with the mutex held.
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

// Catalogue returns the current catalogue. As long as nothing changes, it returns the
// same pointer.
func (r *Registry) Catalogue() *Catalogue { return r.current.Load() }

// Changed returns a channel that is closed when the current catalogue is replaced. A
// waiter that calls Changed first and Catalogue second misses no change. In the other
// order it would miss one that came between the two calls. When a change comes between
// them in the right order, the channel is already closed, and the waiter looks once more
// in vain.
func (r *Registry) Changed() <-chan struct{} { return r.current.Load().replaced }
