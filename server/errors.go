package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// statusOf is the one table from the code of an error of the desk, in an era, to an HTTP
// status. A code that is not in it is sent with status 200, like any other answer: an
// upstream chooses its codes freely, so none of them may decide anything here.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
func statusOf(code int, era mcp.Era) int {
	switch code {
	case mcp.CodeForbidden, mcp.CodeLimited, mcp.CodeUnavailable:
		return code
	case mcp.CodeMethodNotFound:
		if era == mcp.Modern {
			return http.StatusNotFound
		}
	case mcp.CodeMissingCapability:
		if era == mcp.Modern {
			return http.StatusBadRequest
		}
	}
	return http.StatusOK
}

// refusal is an error that the door itself finds, together with its HTTP status. Refusals
// are shared: do not modify.
type refusal struct {
	status int
	told   *mcp.Error
}

// Bounds of what one session, or one request for notices, may subscribe to.
const (
	maxSubscriptions = 256
	// maxURI is the longest URI that may be subscribed to, in bytes: longer ones are in
	// no notice of a server.
	maxURI = 8 << 10
)

// sessionsRetry is how long a caller is told to wait if all sessions are in use.
const sessionsRetry = 5 * time.Second

// The refusals of the door. Codes outside the protocol's range read like the status.
var (
	errKeysUnavailable = later(refuseWith(http.StatusServiceUnavailable, "DB-AUTH-UNAVAILABLE",
		"The token cannot be checked now"), 5*time.Second)
	errHost   = refuseWith(http.StatusForbidden, "DB-HOST", "This host name is not served")
	errOrigin = refuseWith(http.StatusForbidden, "DB-ORIGIN",
		"Requests from this origin are not allowed")
	errNotFound = refuseWith(http.StatusNotFound, "DB-NOT-FOUND",
		"There is nothing at this path: the endpoint for MCP is /mcp")
	errMethod = refuseWith(http.StatusMethodNotAllowed, "DB-HTTP-METHOD",
		"This HTTP method is not offered here")
	errAccept = refuseWith(http.StatusNotAcceptable, "DB-ACCEPT",
		"Accept must allow application/json and text/event-stream")
	errHTTPVersion = refuseWith(http.StatusHTTPVersionNotSupported, "DB-HTTP-VERSION",
		"Event streams need HTTP/1.1: a proxy in between may have to be told so, as nginx with proxy_http_version 1.1")
	errMediaType = refuseWith(http.StatusUnsupportedMediaType, "DB-MEDIA-TYPE",
		"The body must be application/json in UTF-8, without Content-Encoding")
	errOverload = later(refuseWith(http.StatusServiceUnavailable, "DB-OVERLOAD",
		"Too many requests are in work: try again later"), time.Second)
	errOverloadMemory = later(refuseWith(http.StatusServiceUnavailable, "DB-OVERLOAD-MEMORY",
		"Too little memory is left for a request of this size: try again later"), time.Second)
	errTenantMemory = later(refuseWith(http.StatusTooManyRequests, "DB-LIMIT-MEMORY",
		"The requests of this tenant hold its whole share of the memory: try again when some have ended, or send less"), time.Second)
	errUserMemory = later(refuseWith(http.StatusTooManyRequests, "DB-LIMIT-MEMORY",
		"Your requests hold your whole share of the memory: try again when some have ended, or send less"),
		time.Second)
	errOverloadWork = later(refuseWith(http.StatusServiceUnavailable, "DB-OVERLOAD-WORK",
		"The gateway has too much work for a request of this size: try again later"), time.Second)
	errTenantWork = later(refuseWith(http.StatusTooManyRequests, "DB-LIMIT-WORK",
		"Too many large requests of this tenant wait: try again when some have ended, or send less"),
		time.Second)
	errUserWork = later(refuseWith(http.StatusTooManyRequests, "DB-LIMIT-WORK",
		"Too many of your large requests wait: try again when some have ended, or send less"), time.Second)
	errStreams = later(refuseWith(http.StatusServiceUnavailable, "DB-OVERLOAD-STREAMS",
		"Too many event streams are open: try again later"), 5*time.Second)
	errStreamShare = later(refuseWith(http.StatusTooManyRequests, "DB-LIMIT-STREAMS",
		"You or your tenant have used your share of the event streams: close some, or try again later"),
		5*time.Second)
	errDraining = later(refuseWith(http.StatusServiceUnavailable, "DB-DRAINING",
		"This instance is stopping: try again"), time.Second)
	errSession = refuseWith(http.StatusNotFound, "DB-SESSION",
		"No such session: initialize a new one")
	errSessions = later(refuseWith(http.StatusTooManyRequests, "DB-LIMIT-SESSIONS",
		"All sessions of this tenant are in use: end one with DELETE, or try again later"), sessionsRetry)
	errUserSessions = later(refuseWith(http.StatusTooManyRequests, "DB-LIMIT-SESSIONS",
		"All sessions that you may have are in use: end one with DELETE, close its streams, or try again later"), sessionsRetry)
	errNoSessions = refuseWith(http.StatusTooManyRequests, "DB-LIMIT-SESSIONS",
		"The limits here allow no sessions: use revision 2026-07-28, which needs none")
	errNoSession = refuseWith(http.StatusBadRequest, "DB-SESSION-MISSING",
		"Mcp-Session-Id is missing: send initialize first, then the Mcp-Session-Id of its answer; or send MCP-Protocol-Version: 2026-07-28, which needs no session")
	errKey = refuseWith(http.StatusBadRequest, "DB-IDEMPOTENCY-KEY",
		"Idempotency-Key must be one text of 1 to 128 visible ASCII characters")
	errKeyBody = refuseWith(http.StatusUnprocessableEntity, "DB-IDEMPOTENCY-BODY",
		"Another body was sent under this Idempotency-Key within the last ten minutes: send another key")
	errKeyAnswer = refuseWith(http.StatusConflict, "DB-IDEMPOTENCY-ANSWER",
		"The call under this Idempotency-Key was made, and its answer was too large to keep: it is not made again")
	errKeyOutcome = refuseWith(http.StatusConflict, "DB-IDEMPOTENCY-OUTCOME",
		"The instance that had the call under this Idempotency-Key is gone: it may have taken effect, so it is not made again")
	errKeys = later(refuseWith(http.StatusTooManyRequests, "DB-IDEMPOTENCY-FULL",
		"Too many answers are kept for you, or too many of your requests wait for one: try again later, or without Idempotency-Key"), 5*time.Second)
	errReplicas = later(refuseWith(http.StatusServiceUnavailable, "DB-REPLICAS",
		"What the replicas of this gateway share cannot be reached now: try again"), time.Second)
	errEvent = refuseWith(http.StatusNotFound, "DB-EVENT",
		"No such event, or what followed it is no longer kept")
	errBody = refuseAs(http.StatusBadRequest, mcp.CodeParse,
		"Parse error: the body could not be read")
	errBatch = refuseAs(http.StatusBadRequest, mcp.CodeInvalidRequest,
		"Invalid request: batches belong to revision 2025-03-26 only")
	errIDInUse = refuseAs(http.StatusBadRequest, mcp.CodeInvalidRequest,
		"Invalid request: this id is in use by a request in flight")
	errResponse = refuseAs(http.StatusBadRequest, mcp.CodeInvalidRequest,
		"Invalid request: a client sends no responses")
	errURI = refuseAs(http.StatusBadRequest, mcp.CodeInvalidParams,
		"Invalid params: uri must be a string")
	errURISize = refuseAs(http.StatusBadRequest, mcp.CodeInvalidParams,
		"Invalid params: uri has more than %d bytes, so no change of it could be told", maxURI)
	errTasks = badRequest(&mcp.Error{
		Code: mcp.CodeMissingCapability, Message: "Only clients that declare the extension can follow tasks",
		Data: mcp.NewObject(mcp.Member{
			Name:  "requiredCapabilities",
			Value: mcp.NeedsTasks(mcp.Object{}).JSON(),
		}).JSON(),
	})
	errLevel = refuseAs(http.StatusBadRequest, mcp.CodeInvalidParams,
		"Invalid params: level must be one of debug, info, notice, warning, error, critical, alert, emergency")
	errSubscriptions = refuseAs(http.StatusBadRequest, mcp.CodeInvalidParams,
		"Invalid params: there are too many subscriptions, %d at most", maxSubscriptions)
	errGone    = mcp.Stable(mcp.CodeInternal, "DB-CANCELLED", "The call was cancelled")
	errStopped = mcp.Stable(mcp.CodeInternal, "DB-STOPPED",
		"The gateway stopped before the call had ended; the call may have taken effect")
	errHomeGone = mcp.Stable(mcp.CodeInternal, "DB-REPLICA-GONE",
		"The replica that ran the call is gone; the call may have taken effect")
	errForwardLost = mcp.Stable(mcp.CodeInternal, "DB-REPLICA-LOST",
		"The replica that keeps this has not answered; the request may have taken effect")
	errBegun = mcp.Stable(mcp.CodeInternal, "DB-AUDIT",
		"The rest of the call cannot be recorded, so it was not made; the call may have taken effect")
	errUnkept = mcp.Stable(mcp.CodeInternal, "DB-OUTPUT-MEMORY",
		"The call was made, and its answer is larger than the memory that is left to keep it for you: ask for less at once")
	errNotAsked      = mcp.Stable(mcp.CodeInternal, "DB-INPUT", "The client cannot be asked this")
	errUnknownMethod = mcp.Errorf(mcp.CodeMethodNotFound, "Method not found").WithStable()
	errPanic         = refuseAs(http.StatusInternalServerError, mcp.CodeInternal, "Internal error")
)

// tooLate refuses a body that came too slowly.
func (s *service) tooLate() *refusal {
	return refuseWith(http.StatusRequestTimeout, "DB-BODY-TIME",
		fmt.Sprintf(
			"The body came too slowly: after %v it must come with %s a second, and within %v in all (limits.read_timeout)",
			bodyGrace, mcp.InBytes(bodyRate), s.config.ReadTimeout))
}

// tooLarge refuses a body over the limit of the config.
func (s *service) tooLarge() *refusal {
	return refuseWith(http.StatusRequestEntityTooLarge, "DB-BODY-SIZE",
		"The body is larger than limits.max_body, "+mcp.InBytes(s.config.MaxBody)+": send less")
}

// tooLargeForMemory refuses a body that a user could not hold even if nobody held
// anything.
func (s *service) tooLargeForMemory() *refusal {
	return refuseWith(http.StatusRequestEntityTooLarge, "DB-BODY-SIZE",
		"The body is larger than one user may ever hold of the memory (limits.memory), "+
			mcp.InBytes(s.roomForBody)+": send less")
}

// ofMemory returns the refusal for an error of package share about memory, nil for any
// other.
func ofMemory(err error) *refusal {
	switch {
	case errors.Is(err, share.ErrUser):
		return errUserMemory
	case errors.Is(err, share.ErrTenant):
		return errTenantMemory
	case errors.Is(err, share.ErrTotal):
		return errOverloadMemory
	}
	return nil
}

// unrecordable is the stable code with which the desk refuses a call because it could not
// be recorded. Nothing of the call has happened, so a client may repeat it. If an earlier
// round of the same call has happened, the client is told errBegun instead.
const unrecordable = "DB-AUDIT-FULL"

func refuseWith(status int, stable, message string) *refusal {
	return &refusal{status, mcp.Stable(status, stable, message)}
}

func later(r *refusal, after time.Duration) *refusal { return &refusal{r.status, r.told.After(after)} }

func refuseAs(status, code int, format string, args ...any) *refusal {
	return &refusal{status, mcp.Errorf(code, format, args...).WithStable()}
}

// badRequest refuses a message for a fault that decoding found in it.
func badRequest(err error) *refusal { return &refusal{http.StatusBadRequest, toldOf(err).WithStable()} }

// toldOf returns what the client may be told of err.
func toldOf(err error) *mcp.Error {
	if told, ok := errors.AsType[*mcp.Error](err); ok {
		return told
	}
	return errPanic.told
}

// refuse answers with an error of the door, and puts the refusal on record. id is the id
// of the message, "" if none was read.
func (x *exchange) refuse(id mcp.ID, r *refusal) {
	x.recordRefusal(r)
	x.answerError(id, r.told, r.status)
}

// turnAway refuses a request before anybody asks who sent it, because of the state that
// the gateway is in. It is counted, and not put on record, because nothing bounds how
// many such requests there are.
func (x *exchange) turnAway(r *refusal) {
	x.service.metrics.Refused(recordedAs(r.status), "", r.told.StableCode())
	x.answerError("", r.told, r.status)
}

// recordRefusal puts a refusal on record if the caller is admitted. The limits of
// admitted callers bound how many such records there are. Before that, only the stages
// that refuse unauthenticated callers record it, in sums.
func (x *exchange) recordRefusal(r *refusal) {
	if x.caller.Tenant != nil {
		x.record(recordedAs(r.status), r.told.StableCode())
	}
}

// recordedAs returns the outcome of a refusal for the audit, in the same words that calls
// have.
func recordedAs(status int) string {
	switch status {
	case http.StatusForbidden:
		return "forbidden"
	case http.StatusNotFound:
		return "unknown"
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return "limited"
	case http.StatusInternalServerError,
		http.StatusOK: // 200: an error of the desk that statusOf does not list
		return "internal"
	}
	return "invalid_request"
}

// answerError answers with a JSON-RPC error that names the HTTP request.
func (x *exchange) answerError(id mcp.ID, e *mcp.Error, status int) {
	x.outcome = outcomeFor(e)
	if e.RetryAfter > 0 {
		seconds := (e.RetryAfter + time.Second - 1) / time.Second
		x.Header().Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
	}
	if status == http.StatusForbidden {
		x.announceScope(e)
	}
	x.writeJSON(status, mcp.AppendError(nil, id, e.OfRequest(x.id)))
}

// outcomeFor returns the outcome of an error for the log.
func outcomeFor(e *mcp.Error) string {
	if stable := e.StableCode(); strings.HasPrefix(stable, "DB-") {
		return cut(stable)
	}
	return "error " + strconv.Itoa(e.Code)
}

// The refusals of tokens. Their texts stand in WWW-Authenticate, too: visible ASCII
// without quotation marks.
var (
	errNoToken = refuseWith(http.StatusUnauthorized, "DB-AUTH-MISSING",
		"A token is required: send it as Authorization: Bearer")
	errScheme = refuseWith(http.StatusUnauthorized, "DB-AUTH-MISSING",
		"Authorization has another scheme than Bearer: a token is required, as Authorization: Bearer")
	errToken = refuseWith(http.StatusUnauthorized, "DB-AUTH-TOKEN",
		"The token is not understood: it is damaged, or of an issuer or key that is not known here")
	errExpired = refuseWith(http.StatusUnauthorized, "DB-AUTH-EXPIRED",
		"The token has expired: get a new one")
	errEarly = refuseWith(http.StatusUnauthorized, "DB-AUTH-EARLY",
		"The token is not yet valid: try later, or compare the clocks of its issuer and this gateway")
	errAudience = refuseWith(http.StatusUnauthorized, "DB-AUTH-AUDIENCE",
		"The token is for another audience: get one for this gateway")
	errLifetime = refuseWith(http.StatusUnauthorized, "DB-AUTH-LIFETIME",
		"The token is valid for too long: get one that is valid for a shorter time")
	errClaims = refuseWith(http.StatusUnauthorized, "DB-AUTH-CLAIMS",
		"The token is genuine, but is not for a tenant here or lacks a claim: ask the operator")
)

// severalTenants tells a caller whose token is for several tenants at which addresses
// each is served.
func (x *exchange) severalTenants() *mcp.Error {
	addresses := make([]string, len(x.principal.Tenants))
	for i, tenant := range x.principal.Tenants {
		addresses[i] = x.settings.base() + tenantPath + url.PathEscape(tenant) + endpointPath
	}
	return refuseWith(http.StatusForbidden, "DB-TENANT-CHOICE",
		"The token is for several tenants: connect to the address of one of them: "+strings.Join(addresses,
			", ")).told
}

// refusedLogin is the one table from the reason why a token was refused to what its
// bearer is told. As long as its signature has not been verified, every fault gets the
// same answer; otherwise a stranger could try out issuers, keys and forgeries. After
// that, the issuer itself gave out the token, and its bearer may know what to do.
func refusedLogin(why *auth.Error) *refusal {
	switch {
	case why.Reason == "missing":
		return errNoToken
	case why.Reason == "scheme":
		return errScheme
	case why.Reason == "unavailable": // reveals that the issuer is known, but else a client would discard a good token
		return errKeysUnavailable
	case why.Issuer == "":
		return errToken
	}
	switch why.Reason {
	case "expired":
		return errExpired
	case "early":
		return errEarly
	case "audience":
		return errAudience
	case "lifetime":
		return errLifetime
	}
	return errClaims
}

// challenge adds the header that asks for a token. params say what was wrong with the one
// that came, and where tokens can be had if there is such a place. A header with the
// scheme alone is not allowed. https://www.rfc-editor.org/rfc/rfc6750#section-3 and
// https://www.rfc-editor.org/rfc/rfc9728#section-5.1
func (x *exchange) challenge(params ...string) {
	if metadata := x.metadataURL(); metadata != "" {
		params = append(params, `resource_metadata="`+metadata+`"`)
	}
	if len(params) == 0 {
		params = []string{`realm="drawbridge"`}
	}
	x.Header().Set("WWW-Authenticate", "Bearer "+strings.Join(params, ", "))
}

// announceScope names the missing scope in the header, if the desk says that the caller
// may know it.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
func (x *exchange) announceScope(e *mcp.Error) {
	data, _ := mcp.ObjectOf(e.Data)
	scope := data.Text("scope")
	if scope == "" || strings.ContainsFunc(scope,
		func(c rune) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' }) {
		return
	}
	x.challenge(`error="insufficient_scope"`, `scope="`+scope+`"`)
}
