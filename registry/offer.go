package registry

import (
	"context"
	"slices"
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
	// has unsealed requestState, so that the source sees the state that it gave out
	// itself, and has checked that the inputResponses of a repeat, or to a task, are
	// objects by key.
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
	// Filter decides which resources in the result the client may see; a note takes the
	// place of the others. Sources need not ask it: the item does. When it is nil, the
	// client may see everything.
	Filter Filter
	// Hold keeps the call counted against the limit of concurrent calls after the Func
	// has returned, until release is called. A source uses it when the server is still
	// working on a call whose client is being asked for input; without it, such calls
	// would escape the limit. Until then end may be called, by any goroutine and also
	// before Hold returns, when the caller may not use the item any more: it cancels the
	// call at the server and does not wait. Hold is nil when the method cannot ask for
	// input, and when an earlier round of this call still holds the slot.
	Hold func(end func()) (release func())
	// Tasks is the form of tasks that may take the place of this call's result; zero
	// means that none may. When Tasks is TasksAsked, the call is to become a task, and
	// the params have a member task that says so.
	Tasks mcp.Tasks
	// Task is for a tasks/* method the task id that the source gave out, otherwise "". Of
	// a task of TasksAsked a source takes tasks/update, too, which its servers do not
	// have: with inputResponses it has them sent, without them it returns as
	// inputRequests what the task asks now.
	Task string
	// OnTaskStatus is called with what the server says later, by itself, of the task that
	// the call became: with its state, under the id that the source gave out. It may be
	// called by any goroutine, and does not block. nil: nobody wants to know.
	OnTaskStatus func(state mcp.Object)

	// OnOpened is called with the elicitationId of a question, or of an error that names
	// addresses to open, when the server says later that what the user was to do there is
	// done. It may be called by any goroutine, and does not block. nil: nobody wants to
	// know, and questions have no such id.
	OnOpened func(id string)

	// Memory holds the answer for the caller, from its first byte beyond what is covered
	// until the client has it. A source that reads an answer from elsewhere has it hold
	// what has come, and returns a *MemoryError if it cannot. The gateway holds the
	// answer with it after that, and releases it. nil: nothing is counted.
	Memory *share.Reservation

	// Sticky is set to true by a source whose result asks for something, when only this
	// process can go on with the requestState in it. The source sets it before its Func
	// returns, on the goroutine that called the Func. nil: nobody asks.
	Sticky *bool

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

// Filter decides what of the resources in a result a client may see.
type Filter interface {
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
	// Varying are the extensions on which the server's lists depend. Then the lists above
	// are for clients that declare Base of them, and Variants has those for others.
	// Clients that declare a set that is in neither see all items.
	Varying, Base mcp.Extensions
	Variants      []Variant
	// Withheld are own URIs of resources that Admit has quarantined. Such a resource
	// cannot be read either, although it would be served if it were only missing in the
	// list.
	Withheld []string
	Released []string // digests of what the operator lets in that would be quarantined
	// Unread names the kinds whose lists have not been read, or could not be. That the
	// source offers nothing of such a kind does not mean that the server has nothing.
	// Prompts, resources and templates that the source offered earlier stay; tools do
	// not, because a source reads its tools before it calls Replace.
	Unread  []Kind
	Timeout time.Duration // limit of one use of a prompt, resource or template; zero: 30 s
	// Own says that the operator made the definitions, so that no bound is needed of the
	// memory that schemas take. A server may offer tools alone, and is not trusted for
	// that.
	Own bool
	// serves prompts/get, resources/read, completion/complete; nil: Tools are all there
	// is
	Use       Func
	Reads     bool // the server has resources, even if it lists none
	Completes bool // the server completes arguments; otherwise every completion is empty
	// Subscribe reports changes of the resource with that own URI until ctx ends. It
	// returns as soon as no later change can be missed, and goes on reporting after that.
	// updated gets the own URI of what changed, which may be a part of the resource, and
	// must not block. The user is who wants to know. over is called, on a goroutine of
	// its own, if the source ends before ctx does and so reports nothing more; it returns
	// when ctx ends at the latest. Subscribe is nil when the server reports no changes.
	Subscribe func(ctx context.Context, user share.User, uri string, updated func(uri string),
		over func()) error
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

// HeaderParam is a property of a tool's input schema that is marked with x-mcp-header:
// the sender of a call repeats its value in a header, so that intermediaries can route by
// it without reading the body.
// https://modelcontextprotocol.io/specification/2026-07-28/server/tools
type HeaderParam struct {
	Header string   // name of the header, without Mcp-Param-
	Path   []string // property names that lead from the root of the arguments to the value
	Type   string   // string, integer or boolean
}

// Argument returns the value in arguments that the header repeats, nil when there is
// none.
func (p *HeaderParam) Argument(arguments mcp.RawJSON) mcp.RawJSON {
	for _, name := range p.Path {
		arguments = arguments.Member(name)
	}
	return arguments
}

// MaxDefinition bounds the definition of one item of any kind, in bytes.
const MaxDefinition = 128 << 10

// Kind is a kind of items. Its text stands in logs, error messages and patterns of the
// config.
type Kind string

// The kinds.
const (
	KindTool     Kind = "tool"
	KindPrompt   Kind = "prompt"
	KindResource Kind = "resource"
	KindTemplate Kind = "template" // of resources
	KindSkill    Kind = "skill"
)

// Variant is what a server lists to clients that declare these extensions of
// Source.Varying, and no others of them. Its members are as in Source.
type Variant struct {
	Declared                              mcp.Extensions
	Tools                                 []Offer
	Prompts, Resources, Templates, Skills []mcp.Object
	Withheld                              []string
	Unread                                []Kind
}

// Unknown returns those of more that are of another definition than all that are known,
// or for another reason: a server may list one in several variants.
func Unknown(known, more []Refusal) []Refusal {
	type cause struct {
		kind         Kind
		item, reason string
	}
	seen := make(map[cause]bool, len(known))
	for _, k := range known {
		seen[cause{k.Kind, k.Item, k.Reason}] = true
	}
	return slices.DeleteFunc(slices.Clone(more),
		func(r Refusal) bool { return seen[cause{r.Kind, r.Item, r.Reason}] })
}
