package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// Explanation says what becomes of a request, as far as config, caller, item and
// arguments decide it, and why.
type Explanation struct {
	Outcome, Reason string     // as in the record; "ok": the request would be sent to its server
	Err             *mcp.Error // that the client would read; nil for none
	Text            string     // of the result with which wrong arguments are refused; "" for none

	Kind   registry.Kind
	Name   string
	Server string // "" if no server of the tenant can have an item of that name
	// Guessed: nobody knows what the server offers, so the rules were asked about the
	// name alone.
	Guessed bool

	Pattern string     // that names the item alone, for a rule
	Rules   []RuleSays // all, in their order; none where there is no such item
	Rule    string     // where the rule stands that refuses the item; "" for none
	Missing []string   // scopes that the rule wants and the token lacks

	Limits []LimitSays // all that the request counts in
	Output sanitize.Policy
}

// RuleSays is what one rule says of an item for a caller.
type RuleSays struct {
	Location string
	Applies  bool
	Allows   bool   // one of its patterns names the item, whether or not the rule applies
	Denies   bool   // the same, of the patterns that deny
	Pattern  string // that names the item
	// Why the rule does not apply: the scopes that the token lacks, or that the caller is
	// not one of its subjects.
	Missing []string
	Others  bool
}

// LimitSays is one limit that a request counts in.
type LimitSays struct {
	Setting  string // under limits of the tenant
	Rate     ratelimit.Limit
	Slots    int // calls at once; zero for rates
	User     int // how many of them one user may have at once; zero where users share none
	Never    bool
	Location string // where the limit of a tool stands; "" for others
}

// toolLimits begins the Setting of a limit of tools, before their pattern.
const toolLimits = "tools "

// errReached ends an explanation: nothing but the server is left to decide.
var errReached = errors.New("the item would be used")

// Explain says what would become of a request of the principal, without using the item.
// It runs the stages of every call that config, caller, item and arguments decide in. It
// takes tokens and slots as a call would, so it is for a gateway that serves nobody. An
// error says that the tenant is not served, or admits nothing.
func (g *Gateway) Explain(ctx context.Context, p auth.Principal, r *Request) Explanation {
	caller, err := g.Admit(ctx, p, 1)
	return g.explained(ctx, caller, err, r, g.limited, g.resolved, g.validated)
}

// ExplainItem is Explain as far as only tenant, rules and item decide: it takes nothing,
// and knows nothing of arguments.
func (g *Gateway) ExplainItem(ctx context.Context, p auth.Principal, r *Request) Explanation {
	caller, err := g.Resolve(p)
	unpaid := func(next Handler) Handler {
		return func(ctx context.Context, c *call) (mcp.Object, error) {
			c.prepaid = true
			return next(ctx, c)
		}
	}
	return g.explained(ctx, caller, err, r, unpaid, g.resolved)
}

// explained runs stages with a request of a caller, or says why the caller is none.
func (g *Gateway) explained(
	ctx context.Context, caller Caller, err error, r *Request, stages ...Stage,
) Explanation {
	m := g.methods[r.Method]
	if m == nil {
		return Explanation{Outcome: outcomeRequest, Err: errMethod}
	}
	c := g.newCall(caller, r, m)
	e := Explanation{Kind: kindOf(r.Method), Name: c.spelt()}
	if caller.Tenant != nil {
		e.Limits, e.Output = g.limits(caller.Tenant, nil), caller.Tenant.output
	}
	var failure failure
	if err != nil {
		rpcErr, _ := errors.AsType[*mcp.Error](err)
		failure = limitReached(rpcErr)
		if rpcErr.Code == mcp.CodeForbidden { // in the words of the door's record
			failure.kind = outcomeForbidden
		}
	} else {
		_, err := stack(stages, reached)(ctx, c)
		e.item(g, c, err)
		if err = e.guess(g, c, err); errors.Is(err, errReached) {
			err = nil
		}
		if c.outcome == outcomeInvalid {
			e.Text = c.wrong.Text
		}
		failure = failureOf(err)
	}
	e.Outcome, e.Reason, e.Err = c.kind(failure), failure.reason, failure.rpcErr
	if u := failure.unknown; u != nil {
		e.Rule, e.Missing = u.rule, u.missing
	}
	return e
}

func reached(context.Context, *call) (mcp.Object, error) { return mcp.Object{}, errReached }

// item notes what the rules say of the item that the request means, if there is one.
func (e *Explanation) item(g *Gateway, c *call, err error) {
	item := c.item
	if unknown, ok := errors.AsType[*unknownError](err); ok {
		item = unknown.item
	}
	if item == nil && c.charged != nil {
		item = &c.charged.Item
	}
	if item == nil {
		return
	}
	n := policyNameOf(item)
	e.Server = item.Server
	e.judge(g, &c.caller, &n)
}

// guess judges a name that is not in the catalogue, and that a server of the tenant may
// have whose lists are not known. It returns the error that a request would end in if the
// server has the item, and err where no server may have it.
func (e *Explanation) guess(g *Gateway, c *call, err error) error {
	view := g.viewOf(c)
	unknown, _ := errors.AsType[*unknownError](err)
	down, _ := errors.AsType[*registry.DownError](err)
	switch {
	case e.Server != "":
		e.Guessed = !view.Listed(e.Server, e.Kind)
		return err
	case unknown == nil && down == nil && !errors.Is(err, errUnlisted):
		return err
	}
	item := view.Unreached(e.Kind, e.Name)
	n := policyName{kind: e.Kind, name: e.Name}
	if item != nil {
		n, e.Server = policyNameOf(item), item.Server
	} else if e.Server = c.caller.Tenant.unprefixed(view, e.Kind); e.Server == "" {
		return err
	}
	e.Guessed = true
	e.judge(g, &c.caller, &n)
	if allowed, _ := c.caller.Tenant.judge(c.caller.rules, &n, nil); !allowed {
		return g.refused(&c.caller, &n, e.Name)
	}
	never := func(l LimitSays) bool { return l.Never && strings.HasPrefix(l.Setting, toolLimits) }
	if slices.ContainsFunc(e.Limits, never) {
		return limitError{&ratelimit.ExceededError{}, []rate{{codeToolLimit, "tools"}}}
	}
	return nil
}

// unprefixed returns the server without a prefix whose items of that kind are not known,
// "" for none.
func (t *Tenant) unprefixed(view *registry.View, kind registry.Kind) string {
	if kind == registry.KindResource {
		return ""
	}
	for _, server := range t.servers {
		if view.Beginning(kind, server) == "" && !view.Listed(server, kind) {
			return server
		}
	}
	return ""
}

// judge notes what every rule says of the item that is called n, and its limits.
func (e *Explanation) judge(g *Gateway, c *Caller, n *policyName) {
	t := c.Tenant
	stands := g.tenants.Load()
	e.Rules, e.Pattern, e.Limits = nil, n.pattern(), g.limits(t, n)
	t.judge(c.rules, n, func(i int, says effect) {
		r := &t.rules[i]
		one := RuleSays{
			Location: stands.locationOf(t, i), Applies: says != unapplied,
			Allows: says == allowing, Denies: says == denying,
		}
		if says == unapplied {
			one.Others, one.Missing = !r.concerns(&c.Principal), c.lacking(r.scopes)
			one.Denies = r.denies(n)
			one.Allows = !one.Denies && r.allow.match(n)
		}
		cfg := &t.config.Rules[i]
		switch {
		case one.Denies:
			one.Pattern = naming(cfg.Deny, n, true)
		case one.Allows:
			one.Pattern = naming(cfg.Allow, n, false)
		}
		e.Rules = append(e.Rules, one)
	})
}

// naming returns the first of the patterns that names what is called n, or that denies
// it, as it is written.
func naming(patterns []string, n *policyName, denies bool) string {
	for _, pattern := range patterns {
		r := compileRule(&Rule{Allow: []string{pattern}, Deny: []string{pattern}})
		if r.allow.match(n) || denies && r.denies(n) {
			return pattern
		}
	}
	return ""
}

// limits returns the limits that a call of the tenant counts in, with those of the tool
// that is called n, nil for none.
func (g *Gateway) limits(t *Tenant, n *policyName) []LimitSays {
	all := t.limitsOf(func(pattern string) bool {
		return n != nil && n.kind == registry.KindTool && n.fits(pattern)
	})
	stands := g.tenants.Load().stands[t.ID]
	for i := range all {
		pattern, isTool := strings.CutPrefix(all[i].Setting, toolLimits)
		if line := t.config.ToolLines[pattern]; isTool && line > 0 {
			all[i].Location = fmt.Sprintf("%s:%d", stands.File, stands.Line+line)
		}
	}
	return all
}

// ToolLimits returns the limits under tools of a tenant that calls of the named tool
// count in.
func (g *Gateway) ToolLimits(tenant, tool string) []LimitSays {
	t := g.tenants.Load().byID[tenant]
	if t == nil {
		return nil
	}
	all := g.limits(t, &policyName{kind: registry.KindTool, name: tool})
	return slices.DeleteFunc(all, func(l LimitSays) bool { return !strings.HasPrefix(l.Setting, toolLimits) })
}

// limitsOf returns the limits of the tenant, and those of tools whose patterns count.
func (t *Tenant) limitsOf(counts func(pattern string) bool) []LimitSays {
	all := []LimitSays{
		{Setting: "requests", Rate: t.requests.Limit, User: t.requests.Limit.Most()},
		{Setting: "calls", Rate: t.calls.Limit, User: t.calls.Limit.Most()},
		{Setting: "user_calls", Rate: t.userCalls},
		{
			Setting: "concurrency", Slots: t.concurrency, User: ofUser(t.concurrency),
			Never: t.concurrency == 0,
		},
	}
	for _, l := range t.tools {
		if counts(l.pattern) {
			all = append(all, LimitSays{
				Setting: toolLimits + l.pattern, Rate: l.limit, User: l.limit.Most(),
			})
		}
	}
	for i := range all {
		if l := &all[i]; l.Setting != "concurrency" {
			l.Never = l.Rate.Rate <= 0 || l.Rate.Burst <= 0
		}
	}
	return all
}

// String says the limit in words.
func (l LimitSays) String() string {
	switch {
	case l.Never:
		return l.Setting + ": lets nothing through"
	case l.Slots > 0:
		return fmt.Sprintf("%s: %d at once", l.Setting, l.Slots)
	}
	rate := strconv.FormatFloat(l.Rate.Rate, 'f', -1, 64)
	return fmt.Sprintf("%s: %s a second, %d at once", l.Setting, rate, l.Rate.Burst)
}

// Usable returns what the rules let a caller use of what servers offer, without tools
// that nobody can call, kind after kind. The error says that the tenant is not served.
func (g *Gateway) Usable(p auth.Principal) ([]*registry.Item, error) {
	c, err := g.Resolve(p)
	if err != nil {
		return nil, err
	}
	view := g.tenantViewOf(&c).view
	var items []*registry.Item
	for i, item := range itemsIn(view) { // the tools first
		uncallable := i < len(view.Tools) && isUncallable(view.Tools[i])
		if !uncallable && c.Tenant.allows(c.rules, item) {
			items = append(items, item)
		}
	}
	return items, nil
}

// Names returns what the tenant of a principal calls the items of a kind that it has.
func (g *Gateway) Names(p auth.Principal, kind registry.Kind) []string {
	c, err := g.Resolve(p)
	if err != nil {
		return nil
	}
	if kind == registry.KindTemplate {
		kind = registry.KindResource
	}
	var names []string
	for _, item := range itemsIn(g.tenantViewOf(&c).view) {
		if item.Kind == kind {
			names = append(names, item.Exposed)
		}
	}
	return names
}

// ScopesNamed returns the scopes that the rules of a tenant name, sorted, each once: of a
// token these alone are on record. Do not modify it.
func (g *Gateway) ScopesNamed(tenant string) []string {
	if t := g.tenants.Load().byID[tenant]; t != nil {
		return t.scopes
	}
	return nil
}
