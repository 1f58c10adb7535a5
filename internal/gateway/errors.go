package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// Outcomes of calls that end in a result. Those of errors are in failureOf.
const (
	outcomeToolError = "tool_error"
	outcomeInvalid   = "invalid_arguments"
	outcomeBadOutput = "bad_output"
	outcomeAsks      = "input_required"
	outcomeTask      = "task"
	outcomeRepeated  = "repeated"
)

// Outcomes of what the door refuses, too.
const (
	outcomeForbidden = "forbidden"
	outcomeLimited   = "limited"
	outcomeRequest   = "invalid_request"
)

// Outcomes of calls whose server cannot be used, broke the protocol, or hid text where it
// cannot be removed.
const (
	kindUnavailable = "unavailable"
	kindProtocol    = "protocol"
	kindHidden      = "hidden_text"
)

// Reasons of the outcome unavailable. By them the audit tells whether the call was made.
const (
	reasonDown  = "down"  // its server is known not to be there, so the call was not made
	reasonStart = "start" // no session for it was free or could be opened, so it was not made
	reasonLost  = "lost"  // its server went away before it answered, so the call may have taken effect

	// the replica that keeps the call could not be reached, so nothing happened to it
	reasonReplicas     = "replicas"
	reasonReplicaLost  = "replica_lost"  // that replica is gone, so the call may have taken effect
	reasonNotAnnounced = "not_announced" // the server does not announce changes of the resource
)

// Reasons of the outcome cancelled, where it was not the client.
const (
	reasonRevoked = "revoked"
	reasonStopped = "stopped"
)

// Reasons of the outcome forbidden, which only the records have.
const (
	reasonDenied = "denied"  // a rule denies the item
	reasonNoRule = "no_rule" // no rule allows it, whatever scopes the token has
	// the token lacks scopes of a rule with announce, and the client is told which
	reasonScope   = "scope"
	reasonLacking = "missing_scope" // the token lacks scopes of a rule, and the client is not told
)

// auditRetry is when a caller may come back whose call could not be recorded. The record
// mends itself within about a second of its cause.
const auditRetry = 5 * time.Second

var (
	errBusy = errors.New("too many calls at once")

	errServerFull    = errors.New("the server holds too many slots of the tenant or user")
	errServerCrowded = errors.New("the server holds too many slots of all tenants")

	// Usually it is known before a call is made that it cannot be recorded; in rare cases
	// it turns out only afterwards.
	errUnrecordable = errors.New("the call cannot be recorded")
	errUnrecorded   = errors.New("the call is not on record")

	errSubscriptions = errors.New("too many subscriptions")
	errNotAnnounced  = errors.New("the server does not tell of changes")
)

// unknownError says that an item does not exist, or not for this caller. The client
// cannot tell the two apart, unless a rule with Announce lets it know which scopes it
// lacks.
type unknownError struct {
	kind     registry.Kind
	name     string   // as the client called it
	there    bool     // the tenant has it
	answered bool     // its server says that it is not there
	scopes   []string // that the client is told to ask for

	// Of an item that is there, for the records alone: why the caller may not use it, the
	// rule that decides, and the scopes that the token lacks.
	item         *registry.Item
	reason, rule string
	missing      []string
}

func (e *unknownError) Error() string { return "unknown " + string(e.kind) }

// timeoutError says that the item's time is over, and how long that is.
type timeoutError struct {
	server string
	limit  time.Duration
}

func (e *timeoutError) Error() string { return "the item's time is over" }

// stateError says that a requestState cannot be used for this request.
type stateError struct{ reason string }

func (e *stateError) Error() string { return e.reason }

// taskError says that the id of a task is not valid, or belongs to another caller.
type taskError struct{ reason string }

func (e *taskError) Error() string { return e.reason }

// capabilityError says which capabilities a client lacks, for a question that its call
// raised or for the method it used.
type capabilityError struct{ required mcp.Object }

func (e *capabilityError) Error() string { return "the client cannot be asked" }

// panicError is a panic that happened while a call was being made.
type panicError struct {
	problem any
	stack   []byte // for the log
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.problem, e.stack) }

// upstreamError is an error whose text an upstream chose, after cleaning.
type upstreamError struct{ rpcErr *mcp.Error }

func (e *upstreamError) Error() string { return e.rpcErr.Error() }

// failure is what becomes of an error: how records name it and what the client is told.
// The zero failure means that there was no error.
type failure struct {
	kind    string
	reason  string // for the audit, finer than kind; may be empty
	rpcErr  *mcp.Error
	refusal bool // policy said no
	inside  bool // the text of the error belongs into the log and nowhere else
	// a tool's call ends in a result with isError that says so, for the model to go on
	// without
	asTool  bool
	unknown *unknownError // the error, if the item is not there for the caller
}

// counted tells whether a call that ended so counts among the refusals, and under which
// reason. Besides what policy refused that is what replicas, or the end of one, kept from
// its caller; the reason is the code then, because the one of the record stands for
// faults of servers, too.
func (f *failure) counted() (reason string, counts bool) {
	if f.rpcErr != nil {
		switch code := f.rpcErr.StableCode(); code {
		case "DB-REPLICAS", "DB-REPLICA-LOST", "DB-STOPPED":
			return code, true
		}
	}
	return f.reason, f.refusal
}

// failureOf is the one table from errors to what is recorded and what the client is told.
// An error that is not in it is an internal error to the client, and its text goes into
// the log only.
func failureOf(err error) failure {
	if err == nil {
		return failure{}
	}
	for _, judge := range byType {
		if f, found := judge(err); found {
			return f
		}
	}
	return explainEnd(err)
}

// byType are what becomes of errors by their types, and of what is bounded. The first
// that knows an error decides.
var byType = []func(error) (f failure, found bool){
	when(unheld),
	when(func(e *registry.SubscribedError) failure { return limitReached(unfollowed(e)) }),
	tooMuch,
	whenLimit,
	when(unknownItem),
	// before what it may wrap, such as down and what the server answered: it alone knows
	// whether anything was sent
	when(notAvailable),
	when(func(e *stateError) failure {
		return failure{
			kind: outcomeRequest, reason: e.reason, refusal: true,
			rpcErr: mcp.Stable(mcp.CodeInvalidParams, "DB-STATE",
				"Invalid params: requestState does not belong to this request, or has expired; call again "+
					"without it"),
		}
	}),
	when(func(e *taskError) failure {
		return failure{
			kind: "unknown", reason: e.reason, refusal: e.reason != taskGone,
			rpcErr: mcp.Stable(mcp.CodeInvalidParams, "DB-TASK",
				"Invalid params: this client has no task with this taskId, or no longer has it"),
		}
	}),
	when(func(e *capabilityError) failure {
		lacking := mcp.Stable(mcp.CodeMissingCapability, "DB-CAPABILITY",
			"This needs a capability that the client does not declare")
		return failure{
			kind:   "missing_capability",
			rpcErr: lacking.With("requiredCapabilities", e.required.JSON()),
		}
	}),
	when(func(e *upstreamError) failure {
		return failure{kind: "upstream_error", rpcErr: passable(e.rpcErr)}
	}),
	when(func(e *mcp.Error) failure {
		return failure{kind: outcomeRequest, reason: e.StableCode(), refusal: true, rpcErr: e}
	}),
	when(func(e *timeoutError) failure {
		return failure{kind: "timeout", rpcErr: mcp.Stable(mcp.CodeInternal, "DB-TIMEOUT",
			fmt.Sprintf("The server %s did not answer in time, which is %v for this call", e.server,
				e.limit))}
	}),
	when(func(e *registry.DownError) failure {
		return failure{kind: kindUnavailable, reason: reasonDown, rpcErr: isDown(e)}
	}),
	when(func(*registry.ProtocolError) failure {
		return failure{
			kind: kindProtocol, inside: true,
			rpcErr: mcp.Stable(mcp.CodeInternal, "DB-UPSTREAM-PROTOCOL",
				"The server gave an answer that cannot be used"),
		}
	}),
	withheld,
}

// when returns the judge of errors of a type.
func when[T error](explain func(T) failure) func(error) (failure, bool) {
	return func(err error) (failure, bool) {
		if one, ok := errors.AsType[T](err); ok {
			return explain(one), true
		}
		return failure{}, false
	}
}

// whenLimit judges what a limit of calls refused, or why it could not be checked.
func whenLimit(err error) (f failure, found bool) {
	limit, ok := errors.AsType[limitError](err)
	if exceeded, is := errors.AsType[*ratelimit.ExceededError](err); is {
		return limitReached(limit.clientError(exceeded)), true
	}
	if !ok || !explainEnd(err).inside { // or the call was ended meanwhile
		return failure{}, false
	}
	return failure{
		kind: outcomeLimited, reason: "DB-LIMITER", refusal: true, inside: true,
		rpcErr: mcp.Stable(mcp.CodeUnavailable, "DB-LIMITER",
			"The limits cannot be checked now").After(time.Second),
	}, true
}

// fixed is an error that is told in the same words each time.
type fixed struct {
	err     error
	failure failure
}

// findFixed returns what becomes of the first of the errors in a table that err is.
func findFixed(table []fixed, err error) (f failure, found bool) {
	for i := range table {
		if errors.Is(err, table[i].err) {
			return table[i].failure, true
		}
	}
	return failure{}, false
}

// limitReached is what becomes of a call that a limit refuses.
func limitReached(rpcErr *mcp.Error) failure {
	return failure{kind: outcomeLimited, reason: rpcErr.StableCode(), refusal: true, rpcErr: rpcErr}
}

// explainEnd explains what the desk could not do, why a call was ended from outside, and
// whatever else is not in the table of failureOf.
func explainEnd(err error) failure {
	if f, found := findFixed(ends, err); found {
		return f
	}
	return failure{
		kind: "internal", inside: true,
		rpcErr: mcp.Stable(mcp.CodeInternal, "DB-INTERNAL", "Internal error"),
	}
}

// ends is the table of explainEnd.
var ends = []fixed{
	{sanitize.ErrBlocked, failure{
		kind: "blocked", refusal: true,
		rpcErr: mcp.Stable(mcp.CodeInternal, "DB-OUTPUT-SECRET", "The answer holds a secret and is withheld"),
	}},
	{errUnrecordable, failure{
		kind: "unrecordable", reason: "DB-AUDIT-FULL", refusal: true,
		rpcErr: mcp.Stable(mcp.CodeUnavailable, "DB-AUDIT-FULL",
			"The call cannot be recorded now, so it was not made: try again later").After(auditRetry),
	}},
	// Clients repeat calls that end with a status 5xx or with Retry-After. This one may
	// have taken effect, so it has neither.
	{errUnrecorded, failure{
		kind: "unrecorded", inside: true,
		rpcErr: mcp.Stable(mcp.CodeInternal, "DB-AUDIT",
			"The call could not be recorded, so its outcome is withheld; it may have taken effect"),
	}},
	{errNotAnnounced, failure{
		kind: kindUnavailable, reason: reasonNotAnnounced,
		rpcErr: mcp.Stable(mcp.CodeInvalidParams, "DB-SUBSCRIBE",
			"The server of this resource does not announce its changes"),
	}},
	{ErrRevoked, failure{
		kind: "cancelled", reason: reasonRevoked, refusal: true,
		rpcErr: mcp.Stable(mcp.CodeInternal, "DB-CANCELLED", "The call was cancelled"),
	}},
	// It has no status and no time to come back, since it may have taken effect.
	{ErrStopped, failure{
		kind: "cancelled", reason: reasonStopped,
		rpcErr: mcp.Stable(mcp.CodeInternal, "DB-STOPPED",
			"The gateway stopped before the call had ended; the call may have taken effect"),
	}},
	{context.Canceled, failure{
		kind:   "cancelled",
		rpcErr: mcp.Stable(mcp.CodeInternal, "DB-CANCELLED", "The call was cancelled"),
	}},
	{errHomeUnreached, failure{
		kind: kindUnavailable, reason: reasonReplicas,
		rpcErr: mcp.Stable(mcp.CodeUnavailable, "DB-REPLICAS",
			"The replica that keeps this call cannot be reached now; nothing happened to the call. Try "+
				"again in 1 s").After(time.Second),
	}},
	{errHomeLost, failure{
		kind: kindUnavailable, reason: reasonReplicaLost,
		rpcErr: mcp.Stable(mcp.CodeInternal, "DB-REPLICA-LOST",
			"The replica that kept this call is gone, and the call with it; it may have taken effect. "+
				"A repeat with this requestState cannot succeed"),
	}},
	{context.DeadlineExceeded, failure{
		kind:   "timeout",
		rpcErr: mcp.Stable(mcp.CodeInternal, "DB-TIMEOUT", "The call did not end in time"),
	}},
}

// tooMuch is the part of failureOf for what is bounded at the same time, not by time.
// found is false if err is nothing of that.
func tooMuch(err error) (f failure, found bool) {
	switch {
	case errors.Is(err, errBusy):
		return limitReached(noSlot(err, "DB-LIMIT-CONCURRENCY", "calls", "limits.concurrency",
			time.Second)), true
	case errors.Is(err, errSubscriptions):
		return limitReached(noSlot(err, "DB-LIMIT-SUBSCRIPTIONS", "subscriptions", "a fixed bound",
			streamsRetry)), true
	}
	return findFixed(bounds, err)
}

// serversFull is what the client is told when too many calls wait for a server. The text
// is for a model: calls to other servers go on.
const serversFull = "Too many calls wait for this server. Nothing was sent to it. Try again later, or " +
	"go on without it."

// bounds is the table of tooMuch.
var bounds = []fixed{
	{errServerFull, limitReached(mcp.Stable(mcp.CodeLimited, "DB-LIMIT-SERVER",
		serversFull).After(time.Second))},
	{errServerCrowded, limitReached(mcp.Stable(mcp.CodeUnavailable, "DB-OVERLOAD-SERVER",
		serversFull).After(time.Second))},
	{fairqueue.ErrUser, limitReached(mcp.Stable(mcp.CodeLimited, "DB-LIMIT-WORK",
		"Too many of your large requests wait: try again when some have ended, or send "+
			"less").After(time.Second))},
	{fairqueue.ErrTenant, limitReached(mcp.Stable(mcp.CodeLimited, "DB-LIMIT-WORK",
		"Too many large requests of this tenant wait: try again when some have ended, or send "+
			"less").After(time.Second))},
	{fairqueue.ErrTotal, limitReached(mcp.Stable(mcp.CodeUnavailable, "DB-OVERLOAD-WORK",
		"The gateway has too much work to check arguments of this size: try again "+
			"later").After(time.Second))},
	{share.ErrNever, limitReached(mcp.Stable(mcp.CodeLimited, "DB-LIMIT-MEMORY",
		"This takes more memory than one user may ever hold here (limits.memory): send less, or ask "+
			"for less at once"))},
	{share.ErrUser, limitReached(mcp.Stable(mcp.CodeLimited, "DB-LIMIT-MEMORY",
		"Your requests hold your whole share of the memory: try again when some have ended, or send "+
			"less").After(time.Second))},
	{share.ErrTenant, limitReached(mcp.Stable(mcp.CodeLimited, "DB-LIMIT-MEMORY",
		"The requests of this tenant hold its whole share of the memory: try again when some have "+
			"ended, or send less").After(time.Second))},
	{share.ErrTotal, limitReached(mcp.Stable(mcp.CodeUnavailable, "DB-OVERLOAD-MEMORY",
		"Too little memory is left to check arguments of this size: try again later").After(time.Second))},
}

// withheld says why an answer could not be cleaned. found is false if err does not say
// that.
func withheld(err error) (f failure, found bool) {
	if hidden, ok := errors.AsType[*sanitize.HiddenError](err); ok {
		return failure{
			kind: kindHidden, inside: true, asTool: true,
			rpcErr: mcp.Stable(mcp.CodeInternal, "DB-OUTPUT-HIDDEN",
				"The server's answer has hidden characters in "+hidden.Path+
					", where they cannot be removed, and is withheld"),
		}, true
	}
	if !errors.Is(err, sanitize.ErrTooLarge) {
		return failure{}, false
	}
	limit := "the tenant's output allows"
	if size, ok := errors.AsType[*sanitize.SizeError](err); ok {
		limit = "output." + size.Setting + " of the tenant allows, " + mcp.InBytes(int64(size.Limit))
	}
	return failure{kind: "too_large", rpcErr: mcp.Stable(mcp.CodeInternal, "DB-OUTPUT-SIZE",
		"The answer is larger than "+limit+"; ask for less at once")}, true
}

// unheld returns what becomes of a call whose answer cannot be held. The call was made,
// so nothing may advise to make it again: neither a status of 429 or 503, nor a time
// after which to try.
func unheld(err *registry.MemoryError) failure {
	reason, why := "total", "too little memory is left"
	switch {
	case errors.Is(err, share.ErrNever):
		reason, why = "never", "it is larger than one user may ever hold here (limits.memory)"
	case errors.Is(err, share.ErrUser):
		reason, why = "user", "your requests and their answers hold your whole share of the memory"
	case errors.Is(err, share.ErrTenant):
		reason, why = "tenant",
			"the requests of this tenant and their answers hold its whole share of the memory"
	}
	return failure{kind: "unheld", reason: reason, rpcErr: mcp.Stable(mcp.CodeInternal, "DB-OUTPUT-MEMORY",
		"The call was made, and its answer cannot be passed on: "+why+
			". Ask for less at once, or for less at the same time")}
}

// unfollowed returns what the client is told when the server follows as many resources as
// it may.
func unfollowed(err *registry.SubscribedError) *mcp.Error {
	whose := "All tenants together follow as many resources of the server " + err.Server + " as can be"
	switch {
	case errors.Is(err, share.ErrUser):
		whose = "You follow as many resources of the server " + err.Server + " as one user may now"
	case errors.Is(err, share.ErrTenant):
		whose = "This tenant follows as many resources of the server " + err.Server + " as it may now"
	}
	return mcp.Stable(mcp.CodeLimited, "DB-LIMIT-SUBSCRIPTIONS",
		whose+", by a fixed bound: end some subscriptions, or try again in "+
			inSeconds(streamsRetry)).After(streamsRetry)
}

func notAvailable(err *registry.UnavailableError) failure {
	if err.Credential != "" {
		return uncredited(err)
	}
	if err.Sent {
		return failure{
			kind: kindUnavailable, reason: reasonLost, inside: true,
			rpcErr: mcp.Stable(mcp.CodeInternal, "DB-UPSTREAM-LOST",
				"The server went away before it answered; the call may have taken effect"),
		}
	}
	down := func(text string) *mcp.Error {
		return mcp.Stable(mcp.CodeInternal, "DB-UPSTREAM-DOWN", "The server "+err.Server+text)
	}
	failed := failure{kind: kindUnavailable, reason: reasonStart, inside: true}
	switch {
	case err.SignIn:
		failed.rpcErr = down(" did not make the call: it wants a sign-in, and the operator of this gateway " +
			"must give a credential that it takes. Go on without it.").After(downRetryMax)
	case err.Status != 0: // as it would again, so there is no time to come back
		failed.rpcErr = down(fmt.Sprintf(" refused the request with the HTTP status %d; the call was not "+
			"made", err.Status))
	default:
		failed.rpcErr = down(" is not available now; the call was not made").After(time.Second)
	}
	return failed
}

// isUnsent tells whether err says that the server could not be reached and that nothing
// of this round was sent to it.
func isUnsent(err error) bool {
	if _, down := errors.AsType[*registry.DownError](err); down {
		return true
	}
	unavailable, ok := errors.AsType[*registry.UnavailableError](err)
	return ok && !unavailable.Sent
}

// Bounds of how long a client is told to wait before it asks again for a server that is
// down. Between them it is as long as the server has been down, since the gateway's own
// attempts come at such intervals.
const (
	downRetryMin = time.Second
	downRetryMax = 30 * time.Second
)

// isDown returns what the client is told when the server of an item is down. The text is
// for a model: it must neither conclude that the item does not exist, nor that its call
// may have had an effect.
func isDown(err *registry.DownError) *mcp.Error {
	what := string(err.Kind)
	if err.Kind == registry.KindTemplate {
		what = "resource template"
	}
	lasts := time.Since(err.Outage.Since)
	if err.SignIn {
		return mcp.Stable(mcp.CodeInternal, "DB-UPSTREAM-DOWN",
			fmt.Sprintf("The %s %s is not available: its server %s wants a sign-in, "+
				"and the operator of this gateway must give a credential that it takes. Nothing was "+
				"sent to it. Go on without it.",
				what, clip(err.Name, 256), err.Server)).After(downRetryMax)
	}
	how := "is down since"
	if !err.Outage.Reached {
		how = "could not be reached yet, since"
	}
	text := fmt.Sprintf("The %s %s is not available now: its server %s %s %s (%s ago). Nothing was sent to "+
		"it. Try again later, or go on without it.",
		what, clip(err.Name, 256), err.Server, how, err.Outage.Since.UTC().Format(time.RFC3339),
		lasts.Round(time.Second))
	return mcp.Stable(mcp.CodeInternal, "DB-UPSTREAM-DOWN",
		text).After(min(max(lasts, downRetryMin), downRetryMax).Round(time.Second))
}

func unknownItem(err *unknownError) failure {
	if len(err.scopes) > 0 {
		return failure{
			kind: outcomeForbidden, reason: err.reason, refusal: true, unknown: err,
			rpcErr: mcp.Stable(mcp.CodeForbidden, "DB-SCOPE", "The token lacks a scope for this "+
				string(err.kind)).With("scope", mcp.String(strings.Join(err.scopes, " "))),
		}
	}
	kind := "unknown"
	if err.there {
		kind = outcomeForbidden
	}
	return failure{
		kind: kind, reason: err.reason, refusal: !err.answered, rpcErr: notFound(err),
		unknown: err,
	}
}

// notFound returns what the client is told when an item does not exist, or not for it.
// For a resource the protocol prescribes the form.
// https://modelcontextprotocol.io/specification/2026-07-28/server/resources#error-handling
func notFound(err *unknownError) *mcp.Error {
	switch err.kind {
	case registry.KindPrompt:
		return mcp.Stable(mcp.CodeInvalidParams, "DB-PROMPT", "Unknown prompt: "+clip(err.name, 128))
	case registry.KindResource, registry.KindTemplate, registry.KindSkill:
		return mcp.Stable(mcp.CodeInvalidParams, "DB-RESOURCE", "Resource not found").With("uri",
			mcp.String(clip(err.name, 2048)))
	default:
		return mcp.Stable(mcp.CodeInvalidParams, "DB-TOOL", "Unknown tool: "+clip(err.name, 128))
	}
}

// clip returns at most the first n bytes of name, and cuts no character in half.
func clip(name string, n int) string {
	return strings.ToValidUTF8(name[:min(n, len(name))], "")
}

// passable returns an error of an upstream in the form in which it may reach a client.
// Its code stays if it means the same to our client. A code that speaks of the connection
// behind the gateway, or that reads like one of the gateway's own, becomes an internal
// error. A stable code that reads like one of ours is replaced.
func passable(e *mcp.Error) *mcp.Error {
	passed := &mcp.Error{Code: mcp.CodeInternal, Message: e.Message, Data: e.Data}
	reserved := e.Code >= -32768 && e.Code <= -32000 || e.Code >= 400 && e.Code < 600
	if !reserved || e.Code == mcp.CodeInvalidParams || e.Code == mcp.CodeMissingCapability {
		passed.Code = e.Code
	}
	if e.Data.IsNull() || strings.HasPrefix(e.StableCode(), "DB-") {
		passed = passed.With("code", mcp.String("DB-UPSTREAM-ERROR"))
	}
	if data, _ := mcp.ObjectOf(passed.Data); passed.Code == mcp.CodeMissingCapability &&
		!data.Value("requiredCapabilities").IsObject() {
		return passed.With("requiredCapabilities", mcp.RawJSON("{}"))
	}
	return passed
}

// ErrRevoked is the cause of a call's end when its caller may not go on with it: the
// token is not accepted any more, or the rules deny the item now. The door ends calls
// with this cause too.
var ErrRevoked = errors.New("the caller may not go on with this")

// ErrStopped is the cause of a call's end when the process stops and has waited for it
// for as long as it may. The door ends calls with this cause too.
var ErrStopped = errors.New("the gateway has stopped")

// Why a state is refused, as records say it. The client is not told which of these it
// was.
const (
	stateForged   = "state_forged"
	stateForeign  = "state_foreign"
	stateMismatch = "state_mismatch"
	stateExpired  = "state_expired"
)

var (
	// errHomeUnreached says that it cannot be known now where a call goes on. Nothing
	// happened to the call.
	errHomeUnreached = errors.New("the replica that keeps the call cannot be reached")
	// errHomeLost says that the home of a call has gone, and the call with it.
	errHomeLost = errors.New("the replica that kept the call is gone")
)

// errLater says that a replica of a later version runs, which may have sealed what cannot
// be opened here.
var errLater = fmt.Errorf("sealed by a later version, perhaps: %w", errHomeUnreached)

// Why the id of a task is refused, as records say it. The client is not told which of
// these it was.
const (
	taskForged    = "task_forged"
	taskForeign   = "task_foreign"
	taskMismatch  = "task_mismatch"
	taskForbidden = "task_forbidden"
	taskGone      = "task_gone" // its server says so
)

// streamsRetry is how long a caller is told to wait if all slots for streams are taken.
const streamsRetry = 5 * time.Second
