package exchange

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

// CutShort ends the answer to the request with that id after a panic, in the goroutine of
// its handler: with an error, or with a broken connection if a part was sent already,
// because half an answer must not look like a whole one.
func (x *Exchange) CutShort(id mcp.ID) {
	if x.Status != 0 {
		panic(http.ErrAbortHandler)
	}
	x.Refuse(id, ErrPanic)
}

// record puts a refusal of the door on record, even if the client has left meanwhile.
func (x *Exchange) record(outcome, reason string) {
	line := audit.Record{
		Time: x.Started, RequestID: x.ID, TenantID: x.Principal.TenantID,
		Issuer: x.Principal.Issuer, Subject: x.Principal.Subject, ClientID: x.Principal.ClientID,
		Name: x.Principal.Name, TokenID: x.Principal.TokenID, Claims: x.Principal.Recorded,
		Remote: x.Remote, Method: x.Method, Item: x.Tool, Outcome: outcome, Reason: reason,
		Duration: time.Since(x.Started),
	}
	if x.Refused != nil {
		line.Issuer, line.Audience, line.Expected = x.Refused.Issuer, x.Refused.Audience, x.Refused.Expected
		line.Claim, line.Found, line.Name = x.Refused.Claim, x.Refused.Found, x.Refused.Name
	}
	x.service.Desk.Refuse(x.Outliving(), line)
}

// RefuseAdmission answers a caller whom the desk does not let in, and puts that on
// record, in sums: no limit bounds how many such requests there are. Who sends more than
// it may gets the answer late.
func (x *Exchange) RefuseAdmission(err error) {
	x.service.DelayLimited(x, err)
	refused := RefusalOf(err, 0)
	outcome, reason := refused.recorded()
	x.service.RecordUnadmitted(x, outcome, reason)
	x.AnswerError("", refused.Err, refused.Status)
}

// Decode returns the message in a body. If it is malformed, decode refuses it and returns
// nil.
func (x *Exchange) Decode(raw mcp.RawJSON) *mcp.Message {
	m, err := mcp.DecodeRaw(raw)
	if err != nil {
		x.Refuse(m.ID, BadRequest(err))
		return nil
	}
	x.note(m)
	return m
}

// Acknowledge answers the request of a message that needs no answer.
func (x *Exchange) Acknowledge(refused *Refusal) {
	if !x.Refuses("", refused) {
		x.WriteStatus(http.StatusAccepted)
	}
}

// Refuse answers with an error of the door, and puts the refusal on record. id is the id
// of the message, "" if none was read.
func (x *Exchange) Refuse(id mcp.ID, r *Refusal) {
	x.RecordRefusal(r)
	x.AnswerError(id, r.Err, r.Status)
}

// Refuses is Refuse if there is a refusal, and tells whether there is.
func (x *Exchange) Refuses(id mcp.ID, r *Refusal) bool {
	if r != nil {
		x.Refuse(id, r)
	}
	return r != nil
}

// RefuseMethod refuses a request at a path that offers only these methods of HTTP.
func (x *Exchange) RefuseMethod(offered string) {
	x.Header().Set("Allow", offered)
	x.Refuse("", ErrMethod)
}

// statusElsewhere is how a replica refuses what another has forwarded to it. That one
// goes on with the request, and has its line, its record and its count.
const statusElsewhere = http.StatusMisdirectedRequest

// TurnAway refuses a request before anybody asks who sent it, because of the state that
// the gateway is in. It is counted, and not put on record, because nothing bounds how
// many such requests there are.
func (x *Exchange) TurnAway(r *Refusal) {
	if r.Status != statusElsewhere {
		outcome, reason := r.recorded()
		x.service.Metrics.Refused(outcome, "", reason)
	}
	x.AnswerError("", r.Err, r.Status)
}

// RecordRefusal puts a refusal on record if the caller is admitted. The limits of
// admitted callers bound how many such records there are. Before that, only the stages
// that do not let a caller in record it, in sums.
func (x *Exchange) RecordRefusal(r *Refusal) {
	if x.Caller.Tenant != nil && r.Status != statusElsewhere {
		x.record(r.recorded())
	}
}

// RecordCancelled puts on record that the request was given up before the desk had it.
func (x *Exchange) RecordCancelled(reason string) { x.record("cancelled", reason) }

// AnswerError answers with a JSON-RPC error that names the HTTP request.
func (x *Exchange) AnswerError(id mcp.ID, e *mcp.Error, status int) {
	x.Outcome = outcomeFor(e)
	if e.RetryAfter > 0 {
		seconds := (e.RetryAfter + time.Second - 1) / time.Second
		x.Header().Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
	}
	if status == http.StatusForbidden {
		x.announceScope(e)
	}
	x.WriteJSON(status, mcp.AppendError(nil, id, e.OfRequest(x.ID)))
}

// SeveralTenants tells a caller whose token is for several tenants at which addresses
// each is served.
func (x *Exchange) SeveralTenants() *mcp.Error {
	addresses := make([]string, len(x.Principal.Tenants))
	for i, tenant := range x.Principal.Tenants {
		addresses[i] = x.Settings.Base() + TenantPath + url.PathEscape(tenant) + EndpointPath
	}
	return NewRefusal(http.StatusForbidden, "DB-TENANT-CHOICE",
		"The token is for several tenants: connect to the address of one of them: "+strings.Join(addresses,
			", ")).Err
}

// Challenge adds the header that asks for a token. params say what was wrong with the one
// that came, and where tokens can be had if there is such a place. A header with the
// scheme alone is not allowed. https://www.rfc-editor.org/rfc/rfc6750#section-3 and
// https://www.rfc-editor.org/rfc/rfc9728#section-5.1
func (x *Exchange) Challenge(params ...string) {
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
func (x *Exchange) announceScope(e *mcp.Error) {
	data, _ := mcp.ObjectOf(e.Data)
	scope := data.Text("scope")
	if scope == "" || !isQuotable(scope) {
		return
	}
	for one := range strings.FieldsSeq(scope) {
		if x.Settings.CouldGrant != nil && !x.Settings.CouldGrant(&x.Principal, one) {
			return // a client that asked for it would sign in again and again
		}
	}
	x.Challenge(`error="insufficient_scope"`, `scope="`+scope+`"`)
}

// metadataURL returns where the metadata is of the endpoint that the request came to, ""
// if there is none, as at the addresses of access keys. Paths other than endpoints have
// the metadata of /mcp.
func (x *Exchange) metadataURL() string {
	rest := x.Request.URL.Path
	if tenant, found := strings.CutPrefix(rest, TenantPath); found {
		rest = tenant[max(strings.IndexByte(tenant, '/'), 0):] // a name may be written in several ways
	}
	if rest == KeyPath+EndpointPath {
		return ""
	}
	tenant, path := "", EndpointPath
	if gateway.IsTenantID(x.Tenant) {
		tenant, path = x.Tenant, TenantPath+x.Tenant+EndpointPath
	}
	if len(x.Settings.IssuersOf(tenant)) == 0 {
		return ""
	}
	return x.Settings.Base() + MetadataPath + path
}

// DelayLimited makes a client wait that was refused because it sends more than its tenant
// or user may.
func (s *Service) DelayLimited(x *Exchange, err error) {
	if ErrorOf(err).Code == mcp.CodeLimited {
		x.delay(&s.overLimit)
	}
}

// delay makes the client wait for its answer, without its slot among the requests in
// work.
func (x *Exchange) delay(by *delayer) {
	x.Reservation.ReleaseSlot()
	by.wait(x.Context(), x.Header(), x.Status != 0)
}

// maxRateWait bounds how much longer it takes for having been tried in vain.
const maxRateWait = 2 * time.Second

// AwaitRate waits until what is more than a rate allows may be tried again, and longer
// the more often it was tried in vain: many may wait for the same token, and each attempt
// is on record. It is false if that is not why it was refused, or would be after the
// deadline of ctx, or ctx ends.
func AwaitRate(ctx context.Context, refused *mcp.Error, inVain int) bool {
	if refused == nil || refused.RetryAfter <= 0 {
		return false
	}
	if code := refused.StableCode(); code != gateway.CodeTenantLimit && code != gateway.CodeUserLimit {
		return false
	}
	wait := max(refused.RetryAfter, min(time.Millisecond<<min(inVain, 11), maxRateWait))
	deadline, bounded := ctx.Deadline()
	return (!bounded || time.Until(deadline) >= wait) && pace.Wait(ctx, wait)
}
