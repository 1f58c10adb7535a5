package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// record returns the line of the audit for the call. Arguments are never in it, only
// their digest, which digest makes.
func (c *call) record(failure failure, started time.Time) audit.Record {
	principal := &c.caller.Principal
	r := audit.Record{
		Time: started, RequestID: c.request.ID, TenantID: c.caller.Tenant.ID,
		Issuer: principal.Issuer, Subject: principal.Subject, ClientID: principal.ClientID,
		Method: c.request.Method, Item: c.spelt(), Outcome: c.kind(failure), Reason: failure.reason,
		Duration: time.Since(started), Upstream: c.upstream, Repairs: int(c.repairs.Load()),
		Scopes: principal.Scopes, Named: c.caller.Tenant.scopes, Remote: c.request.From.Remote,
		Session: c.request.From.Session, Client: c.request.From.Name, Version: c.request.From.Version,
		Config: c.gateway.tenants.Load().config,
	}
	c.request.Ended = Ended{r.Outcome, r.Reason}
	r.Server = c.unreached
	if c.item != nil {
		r.Server, r.WholeName = c.item.Server, c.item.WholeName()
	}
	if u := failure.unknown; u != nil && u.there {
		r.Rule, r.Missing = u.rule, u.missing
		if u.item != nil {
			r.Server, r.WholeName = u.item.Server, u.item.WholeName()
		}
	}
	if c.state != nil || c.outcome == outcomeAsks {
		r.CallID = c.callID()
	}
	if c.task != nil {
		r.Item, r.CallID = c.task.tool, c.task.callID
	}
	return r
}

// digestForm is what every digest begins with.
const digestForm = "sha256:"

// digestTime is about how long it takes to digest one byte.
const digestTime = 2 * time.Nanosecond

// digest returns the digest of the arguments for the record, "" if there are none. That
// of long ones waits for its turn, and a record must be made even if the caller has left
// meanwhile.
func (g *Gateway) digest(ctx context.Context, c *call) string {
	arguments := c.params.Value("arguments")
	if arguments == nil {
		return ""
	}
	if estimate := time.Duration(len(arguments)) * digestTime; estimate >= fairqueue.Small {
		if leave, err := g.config.Turns.Finish(context.WithoutCancel(ctx), c.user(), estimate); err == nil {
			defer leave()
		}
	}
	sum := sha256.Sum256(arguments)
	var text [len(digestForm) + 2*sha256.Size]byte
	return string(hex.AppendEncode(append(text[:0], digestForm...), sum[:]))
}

// kind returns how the call ended, in the one word that audit and metrics use.
func (c *call) kind(failure failure) string {
	switch {
	case failure.told != nil:
		return failure.kind
	case c.outcome != "":
		return c.outcome
	}
	return "ok"
}

// logInside writes the text of an error that the client is not told to the log. What a
// server did to a call is a warning, because the server may be back at the next call; all
// else is a fault of the gateway or of what it stands on.
func (g *Gateway) logInside(ctx context.Context, r *audit.Record, failure failure, err error) {
	line := []any{
		"request_id", r.RequestID, "tenant", r.TenantID, "server", r.Server, "item", r.Item,
		"error", err,
	}
	switch {
	case failure.reason == reasonLost:
		g.config.Logger.WarnContext(ctx, "a call's server was lost", line...)
	case failure.reason == reasonStart:
		g.config.Logger.WarnContext(ctx, "a call could not start at its server", line...)
	case failure.kind == kindProtocol:
		g.config.Logger.WarnContext(ctx, "a call's server gave an answer that cannot be used", line...)
	case failure.kind == kindHidden:
		g.config.Logger.WarnContext(ctx, "a call's server hid text where it cannot be removed", line...)
	default:
		g.config.Logger.ErrorContext(ctx, "call failed inside", line...)
	}
}

// unrecordable refuses a call of which nothing has happened yet, because the audit has no
// room for its record.
func (g *Gateway) unrecordable(ctx context.Context, c *call) *mcp.Error {
	failure := explain(errUnrecordable)
	g.config.Metrics.Refused(failure.kind, c.caller.Tenant.ID, failure.reason)
	g.config.Logger.DebugContext(ctx, "call refused: it could not be recorded", "request_id", c.request.ID)
	return failure.told
}

// kept puts r on record, and tells whether that succeeded in time. If it did not, the log
// says which record may be missing.
func (g *Gateway) kept(ctx context.Context, r *audit.Record) bool {
	err := g.config.Audit.Keep(r)
	if err != nil {
		g.config.Logger.ErrorContext(ctx, "a call was made and could not be recorded in time", "request_id",
			r.RequestID, "tenant", r.TenantID,
			"item", r.Item, "outcome", r.Outcome, "error", err)
	}
	return err == nil
}

// Refuse records a refusal of the door: a failed login, a foreign origin, a limit. A
// record with a Count sums up refusals that were counted one by one when they happened,
// so it is not counted in the metrics again.
func (g *Gateway) Refuse(ctx context.Context, r audit.Record) {
	if r.Count == 0 {
		g.config.Metrics.Refused(r.Outcome, r.TenantID, r.Reason)
	}
	if r.TenantID != "" {
		r.Config = g.tenants.Load().config
	}
	if err := g.config.Audit.Write(&r); err != nil { // it is refused already
		g.config.Logger.DebugContext(ctx, "refusal not on record", "request_id", r.RequestID, "error", err)
	}
}
