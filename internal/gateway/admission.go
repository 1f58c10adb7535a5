package gateway

import (
	"context"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

// SetPolicy replaces all tenants at once by those of a config with that digest, which
// stands in the records of their calls.
func (g *Gateway) SetPolicy(config string, tenants []TenantConfig) {
	g.Enforce(g.Policy(config, tenants))
}

// Policy is the tenants of a config, ready to come into force.
type Policy struct{ tenants *directory }

// Policy returns what SetPolicy puts in force. Enforce takes no time then, while very
// many tenants that are new take seconds here. A tenant whose config is the same as
// before stays the same *Tenant, with all that is known of what it sees: of very many
// tenants a reload changes a few.
func (g *Gateway) Policy(config string, tenants []TenantConfig) Policy {
	return Policy{newDirectory(config, tenants, g.tenants.Load())}
}

// Enforce puts a policy of this gateway in force.
func (g *Gateway) Enforce(next Policy) {
	g.tenants.Store(next.tenants)
	g.rendered.forget()
	g.callerViews.forget()
	g.announce() // at once, whatever Run does now: rights may have ended
	pace.Signal(g.renewed)
}

// Resolve finds the tenant of a principal without charging for it. Streams use it,
// because they outlive the request that paid for them. The error is an *mcp.Error, the
// same for every tenant that is not served.
func (g *Gateway) Resolve(p auth.Principal) (Caller, error) {
	all := g.tenants.Load()
	t := all.byID[p.TenantID]
	if t == nil {
		return Caller{},
			mcp.Stable(mcp.CodeForbidden, "DB-TENANT",
				"This token gives no access here: its tenant is not served")
	}
	c := Caller{
		Principal: p, Tenant: t, rules: t.matching(&p), config: all.config, stands: all.stands[t.ID],
	}
	if servers := g.tenantViewFor(t).view.Personal; len(servers) > 0 {
		c.personal = knownOf(servers, p)
	}
	return c, nil
}

// Admit finds the tenant of a principal and takes n request tokens from it: none for a
// request that another replica has charged for. Errors are *mcp.Error: CodeForbidden if
// the tenant is not served, CodeLimited if it has too few tokens.
func (g *Gateway) Admit(ctx context.Context, p auth.Principal, n int) (Caller, error) {
	c, err := g.Resolve(p)
	if err != nil {
		return Caller{}, err
	}
	c.userKey = c.key()
	if n > 0 {
		err = g.Charge(ctx, c, n)
	}
	if err == nil {
		c.personal = g.informed(ctx, &c)
	}
	return c, err
}

// Charge takes n more request tokens from the tenant: a batch costs as many as it has
// requests. Errors are *mcp.Error.
func (g *Gateway) Charge(ctx context.Context, c Caller, n int) error {
	bucket := c.Tenant.requests
	bucket.N, bucket.Sharer = n, c.key()
	if err := g.config.Limiter.Take(ctx, bucket); err != nil {
		return failureOf(limitError{err, []rate{{CodeTenantLimit, "requests"}}}).rpcErr
	}
	return nil
}

// ChargedSize is how much of the body of a request one request token covers, in bytes.
const ChargedSize = 64 << 10

// ChargeSize takes more request tokens from the tenant for a body of size bytes, of which
// Admit has taken one: one for each further ChargedSize. Never does a request cost more
// than one user may take at once, or it could never be sent. Errors are *mcp.Error.
func (g *Gateway) ChargeSize(ctx context.Context, c Caller, size int64) error {
	n := min((size-1)/ChargedSize, int64(c.Tenant.requests.Limit.Most()-1))
	if n <= 0 {
		return nil
	}
	return g.Charge(ctx, c, int(n))
}
