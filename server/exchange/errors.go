package exchange

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// StatusOf is the one table from the code of an error of the desk, in an era, to an HTTP
// status. A code that is not in it is sent with status 200, like any other answer: an
// upstream chooses its codes freely, so none of them may decide anything here.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
func StatusOf(code int, era mcp.Era) int {
	switch {
	case code == mcp.CodeForbidden, code == mcp.CodeLimited, code == mcp.CodeUnavailable:
		return code
	case era == mcp.Modern && code == mcp.CodeMethodNotFound:
		return http.StatusNotFound
	case era == mcp.Modern && code == mcp.CodeMissingCapability:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// Refusal is an error that the door itself finds, together with its HTTP status. Refusals
// are shared: do not modify.
type Refusal struct {
	Status int
	Err    *mcp.Error
}

// ReadTimeout is how long the body of a request may take.
const ReadTimeout = 10 * time.Second

// How slowly a body may come. Every request that is being read has one of the slots for
// requests in work, so whoever sends a few bytes and waits would keep others out for the
// whole of ReadTimeout.
const (
	bodyGrace = 2 * time.Second
	bodyRate  = 1 << 10 // bytes a second, beyond bodyGrace
)

// Bounds of what one session, or one request for notices, may subscribe to.
const (
	MaxSubscriptions = 256
	// MaxURI is the longest URI that may be subscribed to, in bytes: longer ones are in
	// no notice of a server.
	MaxURI = 8 << 10
)

// sessionsRetry is how long a caller is told to wait if all sessions are in use.
const sessionsRetry = 5 * time.Second

// The refusals of the door. Codes outside the protocol's range read like the status.
var (
	ErrKeysUnavailable = later(NewRefusal(http.StatusServiceUnavailable, "DB-AUTH-UNAVAILABLE",
		"The token cannot be checked now"), 5*time.Second)
	ErrHost   = NewRefusal(http.StatusForbidden, "DB-HOST", "This host name is not served")
	ErrOrigin = NewRefusal(http.StatusForbidden, "DB-ORIGIN",
		"Requests from this origin are not allowed")
	ErrNotFound = NewRefusal(http.StatusNotFound, "DB-NOT-FOUND",
		"There is nothing at this path: the endpoint for MCP is /mcp")
	ErrMethod = NewRefusal(http.StatusMethodNotAllowed, "DB-HTTP-METHOD",
		"This HTTP method is not offered here")
	ErrAccept = NewRefusal(http.StatusNotAcceptable, "DB-ACCEPT",
		"Accept must allow application/json and text/event-stream")
	ErrHTTPVersion = NewRefusal(http.StatusHTTPVersionNotSupported, "DB-HTTP-VERSION",
		"Event streams need HTTP/1.1: a proxy in between may have to be told so, as nginx with "+
			"proxy_http_version 1.1")
	errMediaType = NewRefusal(http.StatusUnsupportedMediaType, "DB-MEDIA-TYPE",
		"The body must be application/json in UTF-8, without Content-Encoding")
	errTooLate = NewRefusal(http.StatusRequestTimeout, "DB-BODY-TIME", fmt.Sprintf(
		"The body came too slowly: after %v it must come with %s a second, and within %v in all",
		bodyGrace, mcp.InBytes(bodyRate), ReadTimeout))
	ErrOverload = later(NewRefusal(http.StatusServiceUnavailable, "DB-OVERLOAD",
		"Too many requests are in work: try again later"), time.Second)
	errOverloadMemory = later(NewRefusal(http.StatusServiceUnavailable, "DB-OVERLOAD-MEMORY",
		"Too little memory is left for a request of this size: try again later"), time.Second)
	errTenantMemory = later(NewRefusal(http.StatusTooManyRequests, "DB-LIMIT-MEMORY",
		"The requests of this tenant hold its whole share of the memory: try again when some have ended, "+
			"or send less"), time.Second)
	errUserMemory = later(NewRefusal(http.StatusTooManyRequests, "DB-LIMIT-MEMORY",
		"Your requests hold your whole share of the memory: try again when some have ended, or send less"),
		time.Second)
	errOverloadWork = later(NewRefusal(http.StatusServiceUnavailable, "DB-OVERLOAD-WORK",
		"The gateway has too much work for a request of this size: try again later"), time.Second)
	errTenantWork = later(NewRefusal(http.StatusTooManyRequests, "DB-LIMIT-WORK",
		"Too many large requests of this tenant wait: try again when some have ended, or send less"),
		time.Second)
	errUserWork = later(NewRefusal(http.StatusTooManyRequests, "DB-LIMIT-WORK",
		"Too many of your large requests wait: try again when some have ended, or send less"), time.Second)
	ErrStreams = later(NewRefusal(http.StatusServiceUnavailable, "DB-OVERLOAD-STREAMS",
		"Too many event streams are open: try again later"), 5*time.Second)
	ErrStreamShare = later(NewRefusal(http.StatusTooManyRequests, "DB-LIMIT-STREAMS",
		"You or your tenant have used your share of the event streams: close some, or try again later"),
		5*time.Second)
	ErrDraining = later(NewRefusal(http.StatusServiceUnavailable, "DB-DRAINING",
		"This instance is stopping: try again"), time.Second)
	ErrSession = NewRefusal(http.StatusNotFound, "DB-SESSION",
		"No such session: initialize a new one")
	ErrSessions = later(NewRefusal(http.StatusTooManyRequests, "DB-LIMIT-SESSIONS",
		"All sessions of this tenant are in use: end one with DELETE, or try again later"), sessionsRetry)
	ErrUserSessions = later(NewRefusal(http.StatusTooManyRequests, "DB-LIMIT-SESSIONS",
		"All sessions that you may have are in use: end one with DELETE, close its streams, or try again "+
			"later"), sessionsRetry)
	ErrNoSessions = NewRefusal(http.StatusTooManyRequests, "DB-LIMIT-SESSIONS",
		"The limits here allow no sessions: use revision 2026-07-28, which needs none")
	ErrNoSession = NewRefusal(http.StatusBadRequest, "DB-SESSION-MISSING",
		"Mcp-Session-Id is missing: send initialize first, then the Mcp-Session-Id of its answer; or send "+
			"MCP-Protocol-Version: 2026-07-28, which needs no session")
	ErrNoSSESession = NewRefusal(http.StatusBadRequest, "DB-SESSION-MISSING",
		"sessionId is missing: send messages to the address that the stream of GET "+SSEPath+" begins with")
	errKey = NewRefusal(http.StatusBadRequest, "DB-IDEMPOTENCY-KEY",
		"Idempotency-Key must be one text of 1 to 128 visible ASCII characters")
	ErrKeyBody = NewRefusal(http.StatusUnprocessableEntity, "DB-IDEMPOTENCY-BODY",
		"Another body was sent under this Idempotency-Key within the last ten minutes: send another key")
	ErrKeyAnswer = NewRefusal(http.StatusConflict, "DB-IDEMPOTENCY-ANSWER",
		"The call under this Idempotency-Key was made, and its answer was too large to keep: it is not "+
			"made again")
	ErrKeyOutcome = NewRefusal(http.StatusConflict, "DB-IDEMPOTENCY-OUTCOME",
		"The instance that had the call under this Idempotency-Key is gone: it may have taken effect, so "+
			"it is not made again")
	ErrKeys = later(NewRefusal(http.StatusTooManyRequests, "DB-IDEMPOTENCY-FULL",
		"Too many answers are kept for you, or too many of your requests wait for one: try again later, or "+
			"without Idempotency-Key"), 5*time.Second)
	ErrReplicas = later(NewRefusal(http.StatusServiceUnavailable, "DB-REPLICAS",
		"What the replicas of this gateway share cannot be reached now: try again"), time.Second)
	// neither 404 nor 400, by which clients give up their session
	ErrEvent = NewRefusal(http.StatusGone, "DB-EVENT",
		"No such event, or what followed it is no longer kept")
	errBody = Refusalf(http.StatusBadRequest, mcp.CodeParse,
		"Parse error: the body could not be read")
	ErrBatch = Refusalf(http.StatusBadRequest, mcp.CodeInvalidRequest,
		"Invalid request: batches belong to revision 2025-03-26 only")
	ErrIDInUse = Refusalf(http.StatusBadRequest, mcp.CodeInvalidRequest,
		"Invalid request: this id is in use by a request in flight")
	ErrResponse = Refusalf(http.StatusBadRequest, mcp.CodeInvalidRequest,
		"Invalid request: a client sends no responses")
	ErrURI = Refusalf(http.StatusBadRequest, mcp.CodeInvalidParams,
		"Invalid params: uri must be a string")
	ErrURISize = Refusalf(http.StatusBadRequest, mcp.CodeInvalidParams,
		"Invalid params: uri has more than %d bytes, so no change of it could be told", MaxURI)
	ErrTasks = BadRequest(&mcp.Error{
		Code: mcp.CodeMissingCapability, Message: "Only clients that declare the extension can follow tasks",
		Data: mcp.NewObject(mcp.Member{
			Name:  "requiredCapabilities",
			Value: mcp.NeedsTasks(mcp.Object{}).JSON(),
		}).JSON(),
	})
	ErrLevel = Refusalf(http.StatusBadRequest, mcp.CodeInvalidParams,
		"Invalid params: level must be one of debug, info, notice, warning, error, critical, alert, "+
			"emergency")
	ErrSubscriptions = Refusalf(http.StatusBadRequest, mcp.CodeInvalidParams,
		"Invalid params: there are too many subscriptions, %d at most", MaxSubscriptions)
	ErrCancelledCall = mcp.Stable(mcp.CodeInternal, "DB-CANCELLED", "The call was cancelled")
	ErrStopped       = mcp.Stable(mcp.CodeInternal, "DB-STOPPED",
		"The gateway stopped before the call had ended; the call may have taken effect")
	ErrHomeGone = mcp.Stable(mcp.CodeInternal, "DB-REPLICA-GONE",
		"The replica that ran the call is gone; the call may have taken effect")
	ErrForwardLost = mcp.Stable(mcp.CodeInternal, "DB-REPLICA-LOST",
		"The replica that keeps this has not answered; the request may have taken effect")
	ErrBegun = mcp.Stable(mcp.CodeInternal, "DB-AUDIT",
		"The rest of the call cannot be recorded, so it was not made; the call may have taken effect")
	ErrUnkept = mcp.Stable(mcp.CodeInternal, "DB-OUTPUT-MEMORY",
		"The call was made, and its answer is larger than the memory that is left to keep it for you: ask "+
			"for less at once")
	ErrNotAsked      = mcp.Stable(mcp.CodeInternal, "DB-INPUT", "The client cannot be asked this")
	ErrUnknownMethod = mcp.Errorf(mcp.CodeMethodNotFound, "Method not found").WithStable()
	ErrPanic         = Refusalf(http.StatusInternalServerError, mcp.CodeInternal, "Internal error")
)

// TooLarge refuses a body over the limit of the config, in bytes.
func TooLarge(most int64) *Refusal {
	return NewRefusal(http.StatusRequestEntityTooLarge, "DB-BODY-SIZE",
		"The body is larger than limits.max_body, "+mcp.InBytes(most)+": send less")
}

// tooLargeForMemory refuses a body that a user could not hold even if nobody held
// anything.
func tooLargeForMemory(most int64) *Refusal {
	return NewRefusal(http.StatusRequestEntityTooLarge, "DB-BODY-SIZE",
		"The body is larger than one user may ever hold of the memory (limits.memory), "+
			mcp.InBytes(most)+": send less")
}

// RefusalOfMemory returns the refusal for an error of package share about memory, nil
// for any other.
func RefusalOfMemory(err error) *Refusal { return memoryRefusals.Of(err) }

// Refusals are the refusals for some errors, in the order in which these are looked for.
type Refusals []struct {
	Err     error
	Refusal *Refusal
}

// Of returns the refusal for an error, nil if there is none.
func (all Refusals) Of(err error) *Refusal {
	for _, one := range all {
		if errors.Is(err, one.Err) {
			return one.Refusal
		}
	}
	return nil
}

var (
	memoryRefusals = Refusals{
		{share.ErrUser, errUserMemory},
		{share.ErrTenant, errTenantMemory},
		{share.ErrTotal, errOverloadMemory},
	}
	// workRefusals are for who gets no turn to keep a processor busy.
	workRefusals = Refusals{
		{fairqueue.ErrUser, errUserWork},
		{fairqueue.ErrTenant, errTenantWork},
		{fairqueue.ErrTotal, errOverloadWork},
	}
)

// Unrecordable is the stable code with which the desk refuses a call because it could not
// be recorded. Nothing of the call has happened, so a client may repeat it. If an earlier
// round of the same call has happened, the client is told ErrBegun instead.
const Unrecordable = "DB-AUDIT-FULL"

// NewRefusal returns a refusal whose code reads like its status.
func NewRefusal(status int, stable, message string) *Refusal {
	return &Refusal{status, mcp.Stable(status, stable, message)}
}

func later(r *Refusal, after time.Duration) *Refusal { return &Refusal{r.Status, r.Err.After(after)} }

// Refusalf returns a refusal with a code of JSON-RPC.
func Refusalf(status, code int, format string, args ...any) *Refusal {
	return &Refusal{status, mcp.Errorf(code, format, args...).WithStable()}
}

// BadRequest refuses a message for a fault that decoding found in it.
func BadRequest(err error) *Refusal {
	return &Refusal{http.StatusBadRequest, ErrorOf(err).WithStable()}
}

// RefusalOf refuses a request with an error of the desk, which is answered in an era.
func RefusalOf(err error, era mcp.Era) *Refusal {
	rpcErr := ErrorOf(err)
	return &Refusal{StatusOf(rpcErr.Code, era), rpcErr}
}

// ErrorOf returns what the client may be told of err.
func ErrorOf(err error) *mcp.Error {
	rpcErr, _ := errors.AsType[*mcp.Error](err)
	return cmp.Or(rpcErr, ErrPanic.Err)
}

// outcomesByStatus has the outcomes of refusals that are not invalid requests.
var outcomesByStatus = map[int]string{
	http.StatusForbidden: "forbidden", http.StatusNotFound: "unknown",
	http.StatusTooManyRequests: "limited", http.StatusServiceUnavailable: "limited",
	http.StatusInternalServerError: "internal",
	http.StatusOK:                  "internal", // an error of the desk that StatusOf does not list
}

// recorded returns the outcome and the reason of a refusal for the audit.
func (r *Refusal) recorded() (outcome, reason string) {
	reason = r.Err.StableCode()
	return recordedAs(r.Status, reason), reason
}

// recordedAs returns the outcome of a refusal with that code for the audit, in the same
// words that calls have.
func recordedAs(status int, code string) string {
	outcome := cmp.Or(outcomesByStatus[status], "invalid_request")
	if outcome == "internal" { // of several kinds, such as of a replica that is lost
		return cmp.Or(gateway.OutcomeOf(code), outcome)
	}
	return outcome
}

// outcomeFor returns the outcome of an error for the log.
func outcomeFor(e *mcp.Error) string {
	if stable := e.StableCode(); strings.HasPrefix(stable, "DB-") {
		return Cut(stable)
	}
	return "error " + strconv.Itoa(e.Code)
}

// The refusals of tokens. Their texts stand in WWW-Authenticate, too: visible ASCII
// without quotation marks.
var (
	ErrNoToken = NewRefusal(http.StatusUnauthorized, "DB-AUTH-MISSING",
		"A token is required: send it as Authorization: Bearer")
	ErrScheme = NewRefusal(http.StatusUnauthorized, "DB-AUTH-MISSING",
		"Authorization has another scheme than Bearer: a token is required, as Authorization: Bearer")
	errToken = NewRefusal(http.StatusUnauthorized, "DB-AUTH-TOKEN",
		"The token is not understood: it is damaged, or of an issuer or key that is not known here")
	errExpired = NewRefusal(http.StatusUnauthorized, "DB-AUTH-EXPIRED",
		"The token has expired: get a new one")
	errEarly = NewRefusal(http.StatusUnauthorized, "DB-AUTH-EARLY",
		"The token is not yet valid: try later, or compare the clocks of its issuer and this gateway")
	errAudience = NewRefusal(http.StatusUnauthorized, "DB-AUTH-AUDIENCE",
		"The token is for another audience: get one for this gateway")
	errLifetime = NewRefusal(http.StatusUnauthorized, "DB-AUTH-LIFETIME",
		"The token is valid for too long: get one that is valid for a shorter time")
	errClaims = NewRefusal(http.StatusUnauthorized, "DB-AUTH-CLAIMS",
		"The token is genuine, but is not for a tenant here or lacks a claim: ask the operator")
)

// The refusals of tokens by the reason. Those of verifiedRefusals are only for tokens
// whose signature was verified.
var (
	loginRefusals = map[string]*Refusal{
		"missing": ErrNoToken, "scheme": ErrScheme,
		// It reveals that the issuer is known, but else a client would discard a good
		// token.
		"unavailable": ErrKeysUnavailable,
	}
	verifiedRefusals = map[string]*Refusal{
		"expired": errExpired, "early": errEarly, "audience": errAudience, "lifetime": errLifetime,
	}
)

// RefusedLogin is the one table from the reason why a token was refused to what its
// bearer is told. As long as its signature has not been verified, every fault gets the
// same answer; otherwise whoever has none could try out issuers, keys and forgeries.
// After that, the issuer itself gave out the token, and its bearer may know what to do.
func RefusedLogin(why *auth.Error) *Refusal {
	listed := loginRefusals[why.Reason]
	if why.Issuer == "" {
		return cmp.Or(listed, errToken)
	}
	return cmp.Or(listed, verifiedRefusals[why.Reason], errClaims)
}
