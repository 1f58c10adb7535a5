package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lifetime"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

// call is one use of an item, such as a tools/call or the opening of a subscription, on
// its way through the stages. It holds what it came with and, in one part for each, what
// the stages have found. It belongs to one goroutine at a time; what is atomic may also
// be touched by the goroutine of an upstream that sends notifications.
type call struct {
	gateway *Gateway
	caller  Caller
	request *Request
	method  *method
	// params are those of the request, but requestState is what the server of the item
	// gave out, and not our sealed form of it.
	params mcp.Object

	round    // by resumed
	holding  // by limited and bulkheaded
	found    // by resolved
	running  // by revocable, timed and invoke
	cleaning // by sanitized

	budget argumentBudget // of validated
	// for the records; the stage that decides it sets it; "": an ordinary result
	outcome string
	wrong   registry.ArgumentError // the argument that was refused, if one was
}

// round is what is known of the earlier rounds of a call. Zero is that of the first
// round.
type round struct {
	state        *state // of the round before; nil: this is the first
	prepaid      bool   // this round costs no token of the limits of calls
	slotRetained bool   // the slot that the first round took is still held
}

// holding is what a call has taken of what is limited.
type holding struct {
	charged *registry.Tool // whose buckets were charged; nil: none
	slot    callSlot       // among the calls at once, and with it one at the server
}

// found is what the request names. Without an item, unreached is the server that may have
// it and was not reached yet, or "".
type found struct {
	item      *registry.Item
	tool      *registry.Tool // when item is a tool
	tasks     mcp.Tasks      // the form of tasks that the call may become
	task      *task          // that the call is about; nil: none
	unreached string
}

// running is the use of the item while it goes on.
type running struct {
	begun  begun                             // by which Reauthorize ends the use
	hold   func(end func()) (release func()) // as registry.Call.Hold
	life   lifetime.Context                  // of this round, from revocable on
	spent  time.Duration                     // how much of the item's time all rounds have used
	source registry.Call                     // what the source gets to know
	// takes the id of the task that the call becomes; nil: it may not
	taskID *atomic.Pointer[string]
	// how long the source took in this round
	upstream time.Duration
	sticky   bool // only this process can go on; the source says so
	// the requestState under which the source keeps the call; nil: it does not
	open mcp.RawJSON
}

// cleaning is what becomes of what the item says.
type cleaning struct {
	relay   relay        // of notifications
	logs    logs         // messages that passed
	repairs atomic.Int64 // changes; notifications may come from another goroutine
	judging int          // work of judge so far; see maxJudging
	leftOut int          // resources that judge left out of the result
	shown   []mention    // and those that it showed, where the result may be held
}

// newCall returns a call of which no stage has found anything.
func (g *Gateway) newCall(c Caller, r *Request, m *method) *call {
	params := r.Params
	// Some clients send null for a tool or prompt without arguments, and servers accept
	// it. Of what calls carry, no other null in a place where the protocol has none is
	// forgiven.
	if arguments := params.Value("arguments"); m.arguments && arguments != nil && arguments.IsNull() {
		params = params.Without("arguments")
	}
	return &call{
		gateway: g, caller: c, request: r, method: m, params: params, round: round{prepaid: m.free},
	}
}

// Handler answers a call. Inside the chain an error may be of any type; the outermost
// stage, audited, turns it into the *mcp.Error that the client is told.
type Handler func(context.Context, *call) (mcp.Object, error)

// Stage wraps a handler with one concern.
type Stage func(next Handler) Handler

// guarded runs next and turns a panic in it into an error, so that the panic is on
// record, is counted, and ends only this call.
func (g *Gateway) guarded(ctx context.Context, c *call, next Handler) (result mcp.Object, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			g.config.Metrics.Panicked()
			err = &panicError{problem, debug.Stack()}
		}
	}()
	return next(ctx, c)
}

// method is what one method does within the stages that all calls share, besides what the
// protocol says of it.
type method struct {
	mcp.Method

	// it belongs to a call that was paid for, and costs no token of calls
	free bool
	// the client sends arguments along, which may be null for none
	arguments bool
	// of one use; zero: the item's
	time time.Duration
	// of metrics; with a star for the item's name where that is bounded
	label string
	// sets the item, when the caller may use it
	find func(*Gateway, *call) error
	// of what the client sent along
	check func(*call, schema.Budget) error
	// cleans a result by policy
	clean func(sanitize.Policy, mcp.Object) (mcp.Object, sanitize.Report, error)
	// brings a complete result into a legal form
	conform func(context.Context, *Gateway, *call, mcp.Object) (mcp.Object, error)
	// the answer in place of an upstream's error; nil: the error
	rescue func(*call, *upstreamError) (result mcp.Object, e error)
	use    Handler
}

// spelt returns how the client names the item, for records.
func (m *method) spelt(params mcp.Object) string {
	if m.Name == mcp.MethodComplete {
		ref := params.Object(m.Subject)
		return cmp.Or(ref.Text("name"), ref.Text("uri"))
	}
	return params.Text(m.Subject)
}

// text returns a member of params that must be a text.
func text(params mcp.Object, member string) (string, error) {
	text, ok := params.Value(member).Text()
	if !ok {
		return "",
			mcp.Stable(mcp.CodeInvalidParams, "DB-PARAMS", "Invalid params: "+member+" must be a string")
	}
	return text, nil
}

// needObject returns an error unless a member of params is an object.
func needObject(params mcp.Object, member string) error {
	if params.Value(member).IsObject() {
		return nil
	}
	return mcp.Stable(mcp.CodeInvalidParams, "DB-PARAMS", "Invalid params: "+member+" must be an object")
}

// broken returns the error for a result whose form the protocol does not allow.
func (c *call) broken(what string) error {
	return &registry.ProtocolError{Server: c.item.Server, Err: errors.New(what)}
}

// callID returns the id of the first request of the call, which its records in all rounds
// share.
func (c *call) callID() string {
	if c.state != nil {
		return c.state.CallID
	}
	return clip(c.request.ID, maxCallID)
}

// owner returns the digest of the owner of the call.
func (c *call) owner() [sha256.Size]byte { return c.caller.Principal.Owner().Digest() }

// digest identifies what was requested. It is the same in every round of a call, whatever
// was answered in between.
func (c *call) digest() [sha256.Size]byte {
	arguments, _ := strictjson.Compact(c.params.Value("arguments")) // fails where there are none
	return digestOf(c.request.Method, c.method.spelt(c.params), string(arguments))
}

// isOlder tells whether the client knows tasks in the form of 2025-11-25 alone, and the
// server of the tool in that of 2026-07-28.
func (c *call) isOlder() bool {
	return c.request.Tasks == mcp.TasksAsked && c.tool.Tasks == mcp.TasksGiven
}

// mayBeHeld tells whether the result of the call is held here if it becomes no task.
func (c *call) mayBeHeld() bool { return c.tasks != 0 && c.request.Tasks == mcp.TasksAsked }

// user returns who holds what the call takes.
func (c *call) user() share.User { return share.User(c.caller.Principal.User()) }

// spelt returns how the client names the item. A tool was found by its very name, which
// is in memory already.
func (c *call) spelt() string {
	if c.tool != nil && c.task == nil {
		return c.tool.Exposed
	}
	return c.method.spelt(c.params)
}
