package gateway

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
)

// record returns the line of the audit for the call.
func (c *call) record(ctx context.Context, failure failure, started time.Time) audit.Record {
	principal := &c.caller.Principal
	r := audit.Record{
		Time: started, RequestID: c.request.ID, TenantID: c.caller.Tenant.ID,
		Issuer: principal.Issuer, Subject: principal.Subject, ClientID: principal.ClientID,
		Name: principal.Name, TokenID: principal.TokenID, Claims: principal.Recorded,
		Method: c.request.Method, Item: c.spelt(), Outcome: c.kind(failure), Reason: failure.reason,
		Argument: c.wrong.Path,
		Duration: time.Since(started), Upstream: c.upstream, Repairs: int(c.repairs.Load()),
		Wait: c.request.Waited.total(), WaitedFor: c.request.Waited.longest(),
		Scopes: principal.Scopes, Ruled: c.caller.Tenant.scopes, Remote: c.request.From.Remote,
		Session: c.request.From.Session, Client: c.request.From.Name, Version: c.request.From.Version,
		Config: c.caller.config,
	}
	if failure.reason == reasonRevoked { // by what is in force now
		r.Config = c.gateway.tenants.Load().config
	}
	c.request.Ended = r.Outcome
	r.Server = c.unreached
	switch {
	case c.item != nil:
		r.Server, r.WholeName = c.item.Server, c.item.WholeName()
	case c.charged != nil: // a limit refused the call of a tool that the caller may use
		r.Server, r.WholeName = c.charged.Server, c.charged.WholeName()
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
		r.Item, r.CallID = c.task.Tool, c.task.CallID
	}
	r.Arguments, r.Named = c.gateway.digest(ctx, c), c.gateway.named(c, r.WholeName)
	return r
}

// digestTime is about how long it takes to digest one byte.
const digestTime = 2 * time.Nanosecond

// digest returns the digest of the arguments for the record, "" if there are none, or no
// key. That of long ones waits for its turn, and a record must be made even if the caller
// has left meanwhile.
func (g *Gateway) digest(ctx context.Context, c *call) string {
	arguments := c.params.Value("arguments")
	estimate := time.Duration(len(arguments)) * digestTime
	if g.config.Digests != nil && estimate >= fairqueue.Small {
		if release, err := g.config.Turns.Finish(context.WithoutCancel(ctx), c.user(), estimate); err == nil {
			defer release()
		}
	}
	return g.config.Digests.Digest(c.caller.Tenant.ID, arguments)
}

// maxRead is how many bytes of an argument are looked at for its record: more than are
// kept, because a secret shows itself by what follows its beginning.
const maxRead = 8 << 10

// named returns the arguments of the call that the operator wants on record: each
// without secrets and hidden text. Of an object or a list it tells no more than that it
// is one. whole is the whole name of the item, where that is another one.
func (g *Gateway) named(c *call, whole string) (named audit.Members) {
	if len(g.config.Recorded) == 0 {
		return nil
	}
	item := policyName{kind: kindOf(c.request.Method), name: c.spelt(), whole: whole}
	arguments, _ := mcp.ObjectOf(c.params.Value("arguments"))
	for _, r := range g.config.Recorded {
		if of, pattern := PatternKind(r.Pattern); of != item.kind || !item.fits(pattern) {
			continue
		}
		for _, name := range r.Names {
			value := arguments.Value(name)
			if value == nil || slices.ContainsFunc(named, func(m [2]string) bool { return m[0] == name }) {
				continue
			}
			text, ok := value.Text()
			switch {
			case ok:
			case value.IsObject():
				text = "{…}"
			case value.IsArray():
				text = "[…]"
			default: // a number or a word
				text = string(value)
			}
			cleaned := sanitize.Text(strings.ToValidUTF8(text[:min(len(text), maxRead)], ""))
			named = append(named, [2]string{name, clip(cleaned, audit.MaxValue)})
		}
	}
	return named
}

// kind returns how the call ended, in the one word that audit and metrics use.
func (c *call) kind(failure failure) string {
	if failure.rpcErr != nil {
		return failure.kind
	}
	return cmp.Or(c.outcome, "ok")
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
	case failure.kind == kindUnavailable: // see uncredited
		g.config.Logger.WarnContext(ctx, "a call had no credential that its server takes", line...)
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
	failure := failureOf(errUnrecordable)
	c.request.Ended = failure.kind
	g.config.Metrics.Refused(failure.kind, c.caller.Tenant.ID, failure.reason)
	g.config.Logger.DebugContext(ctx, "call refused: it could not be recorded", "request_id", c.request.ID)
	return failure.rpcErr
}

// recorded puts r on record, and tells whether that succeeded in time. If it did not, the
// log says which record may be missing.
func (g *Gateway) recorded(ctx context.Context, r *audit.Record) bool {
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
	g.Note(ctx, r)
}

// Note puts on record what the door did without the desk, such as to sign people in.
func (g *Gateway) Note(ctx context.Context, r audit.Record) {
	if r.TenantID != "" {
		r.Config = g.tenants.Load().config
	}
	if err := g.config.Audit.Write(&r); err != nil { // it has happened already
		g.config.Logger.DebugContext(ctx, "not on record", "request_id", r.RequestID, "error", err)
	}
}
