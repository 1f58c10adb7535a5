package gateway

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// TenantConfig is the whole policy of one tenant: which servers it can reach, and what
// its callers may do there. It is shared with the Tenant that is compiled from it: do not
// modify what it holds afterwards. Whoever reads one from outside has checked it: no two
// tenants have one ID, and what stands in rules are patterns.
type TenantConfig struct {
	ID      string   // see IsTenantID
	Servers []string // it can reach, in order of precedence
	Rules   []Rule   // none: nothing is allowed
	Limits  Limits
	Output  sanitize.Policy
	// InlineRefs shows the tools of lists with the local references in their schemas
	// inlined.
	InlineRefs bool
	// Card: anybody may read the server card of its endpoint; no part of the policy.
	Card bool
	// MayMatchNothing: patterns of Limits.Tools that match nothing are meant, and no
	// warning. Rules have their own.
	MayMatchNothing bool
	Position        Position // where it stands, for the records; no part of the policy
	// ToolLines says where Limits.Tools stand: how many lines below the tenant.
	ToolLines map[string]int
}

// Limits are the limits of a tenant. Nil stands for the default; a value of zero lets
// nothing pass. The users of a tenant share Requests, Calls and Tools: one alone gets
// half of a burst at once and the whole rate in the long run, and leaves room for the
// others, see ratelimit.Bucket.
type Limits struct {
	// HTTP requests; a batch costs its length. Default 100/s, burst 200
	Requests    *ratelimit.Limit
	Calls       *ratelimit.Limit           // calls of the whole tenant. Default 50/s, burst 100
	UserCalls   *ratelimit.Limit           // calls of one issuer and subject. Default 10/s, burst 20
	Tools       map[string]ratelimit.Limit // calls of each tool that the pattern names, as in rules
	Concurrency *int                       // calls at once, one user half of them. Default 64
	Streams     *int                       // event streams at once, one user half of them. Default 500
	// Sessions and UserSessions are how many sessions of clients live at once, of the
	// tenant and of one issuer and subject, whatever clients it has. Default 10,000 and
	// 1000.
	Sessions, UserSessions *int
}

// Defaults of Limits.
const (
	defaultConcurrency = 64
	defaultStreams     = 500

	defaultSessions     = 10_000
	defaultUserSessions = 1_000
)

// tenantID is the form of tenant ids. An id is a name in the config, a segment of paths
// and a label of metrics.
var tenantID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// IsTenantID tells whether id can be the id of a tenant.
func IsTenantID(id string) bool { return tenantID.MatchString(id) }

// Tenant is the compiled policy of one tenant. It is shared, and immutable but for its
// cache.
type Tenant struct {
	ID string

	config      TenantConfig // that it was compiled from
	servers     []string
	rules       []rule
	conditions  []condition // of the rules, each once
	announced   []bool      // of each condition, whether a rule with it has announce
	scopes      []string    // that the rules name, sorted, each once; nil: none
	requests    ratelimit.Bucket
	calls       ratelimit.Bucket
	userCalls   ratelimit.Limit
	tools       []toolLimit // in order of pattern
	concurrency int
	streams     int
	sessions    int
	ofUser      int // sessions of one user
	output      sanitize.Policy
	inlineRefs  bool

	seen atomic.Pointer[tenantView] // what this tenant sees of the newest catalogue
}

type toolLimit struct {
	pattern string
	limit   ratelimit.Limit
}

// directory holds all tenants that are served at one time. It is immutable but for its
// cache.
type directory struct {
	byID     map[string]*Tenant
	ids      []string                             // sorted
	stands   map[string]Position                  // where each tenant stands in the config
	config   string                               // digest of the config; "" where there is none
	warnings cache[*registry.Catalogue, []string] // of the newest; see Gateway.Warnings
}

// Position is where something stands in the config. The zero Position is nowhere.
type Position struct {
	File string
	Line int // from 1
}

// newDirectory compiles tenants of a config with that digest, and takes those from before
// whose config is the same.
func newDirectory(config string, tenants []TenantConfig, before *directory) *directory {
	next := &directory{
		byID:   make(map[string]*Tenant, len(tenants)),
		stands: make(map[string]Position, len(tenants)),
		config: config[:min(len(config), shownDigest)],
	}
	for i := range tenants {
		id := tenants[i].ID
		next.byID[id], next.stands[id] = before.compiled(&tenants[i]), tenants[i].Position
	}
	next.ids = slices.Sorted(maps.Keys(next.byID))
	return next
}

// shownDigest is how much of the digest of the config stands in records.
const shownDigest = 12

// compiled returns the tenant with that config: the one that is there, if it was compiled
// from an equal one. Where parts of both configs are the same memory, as package config
// leaves them for a tenant whose text did not change, the comparison does not look into
// them.
func (d *directory) compiled(cfg *TenantConfig) *Tenant {
	if t := d.byID[cfg.ID]; t != nil && t.config.Equal(cfg) {
		return t
	}
	return compileTenant(cfg)
}

// Equal tells whether both are the same policy, whose rules stand at the same lines of
// the tenant.
func (cfg *TenantConfig) Equal(other *TenantConfig) bool {
	same := *other
	same.Position = cfg.Position
	return reflect.DeepEqual(cfg, &same)
}

// ofRule is locationOf for a rule of the tenant that stands there.
func (p Position) ofRule(number int, r *Rule) string {
	if p.File == "" {
		return fmt.Sprintf("rule %d", number+1)
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line+r.Line)
}

func compileTenant(cfg *TenantConfig) *Tenant {
	t := &Tenant{
		ID:      cfg.ID,
		config:  *cfg,
		servers: cfg.Servers,
		requests: ratelimit.Bucket{
			Key: "requests\x00" + cfg.ID, Group: cfg.ID,
			Limit: or(cfg.Limits.Requests, ratelimit.Limit{Rate: 100, Burst: 200}),
		},
		calls: ratelimit.Bucket{
			Key: "calls\x00" + cfg.ID, Group: cfg.ID,
			Limit: or(cfg.Limits.Calls, ratelimit.Limit{Rate: 50, Burst: 100}),
		},
		userCalls:   or(cfg.Limits.UserCalls, ratelimit.Limit{Rate: 10, Burst: 20}),
		concurrency: or(cfg.Limits.Concurrency, defaultConcurrency),
		streams:     or(cfg.Limits.Streams, defaultStreams),
		sessions:    or(cfg.Limits.Sessions, defaultSessions),
		ofUser:      or(cfg.Limits.UserSessions, defaultUserSessions),
		output:      cfg.Output,
		inlineRefs:  cfg.InlineRefs,
	}
	for pattern, limit := range cfg.Limits.Tools {
		t.tools = append(t.tools, toolLimit{pattern, limit})
	}
	slices.SortFunc(t.tools, func(a, b toolLimit) int { return strings.Compare(a.pattern, b.pattern) })
	t.rules = make([]rule, 0, len(cfg.Rules))
	for i := range cfg.Rules {
		t.rules = append(t.rules, compileRule(&cfg.Rules[i]))
	}
	t.number()
	return t
}

// number collects the conditions of the rules, and the scopes that they name.
func (t *Tenant) number() {
	known := make(map[string]int)
	for i := range t.rules {
		r := &t.rules[i]
		key := r.key()
		n, found := known[key]
		if !found {
			n = len(t.conditions)
			known[key] = n
			t.conditions = append(t.conditions, r.condition)
			t.announced = append(t.announced, false)
			t.scopes = append(t.scopes, r.scopes...)
		}
		r.number = n
		t.announced[n] = t.announced[n] || r.announce
	}
	slices.Sort(t.scopes)
	t.scopes = slices.Compact(t.scopes)
}

// Sessions returns how many sessions may live at once: of the whole tenant, and of one
// user. Zero means none.
func (t *Tenant) Sessions() (all, ofUser int) { return t.sessions, t.ofUser }

func or[T any](value *T, fallback T) T {
	if value == nil {
		return fallback
	}
	return *value
}

// key returns the key of the caller's user where users, tenants and tools are counted in
// one map. It is put together in one step, and once for each request. For a stream, which
// is resolved at each change of the lists, it is not needed.
func (c *Caller) key() string {
	if c.userKey != "" {
		return c.userKey
	}
	p := &c.Principal
	return "user\x00" + p.TenantID + "\x00" + p.Issuer + "\x00" + p.Subject
}

// matching returns which rules of the tenant apply to the principal.
func (t *Tenant) matching(p *auth.Principal) ruleSet {
	var buffer [32]byte
	set := slices.Grow(buffer[:0], len(t.conditions))
	for i := range t.conditions {
		match := byte(0)
		switch {
		case !t.conditions[i].concerns(p):
		case t.conditions[i].hasScopes(p):
			match = applies
		case t.announced[i]:
			match = lacksScopes
		}
		set = append(set, match)
	}
	return ruleSet(set)
}

// effect is what one rule says of an item for a caller.
type effect byte

const (
	silent    effect = iota // it applies, and none of its patterns names the item
	unapplied               // the caller does not fit its condition
	allowing
	denying
)

// allows tells whether the rules in set allow the item.
func (t *Tenant) allows(set ruleSet, item *registry.Item) bool {
	n := policyNameOf(item)
	allowed, _ := t.judge(set, &n, nil)
	return allowed
}

// judge is the one loop over the rules of a tenant: it tells whether those in set allow
// what is called n, and which of them decided, by its place among the rules: the first
// that denies or else the first that allows, -1 for none. If each is not nil, it is told
// what every rule says; otherwise the loop ends at the first denial.
func (t *Tenant) judge(set ruleSet, n *policyName, each func(rule int, says effect)) (allowed bool, by int) {
	by = -1
	denied := false
	for i := range t.rules {
		r := &t.rules[i]
		says := silent
		switch {
		case !set.has(r):
			says = unapplied
		case r.denies(n):
			says = denying
		case (each != nil || !allowed) && r.allow.match(n):
			says = allowing
		}
		switch {
		case says == denying && !denied:
			denied, by = true, i
		case says == allowing && by < 0:
			by = i
		}
		allowed = allowed || says == allowing
		if each != nil {
			each(i, says)
		} else if denied {
			break
		}
	}
	return allowed && !denied, by
}

// whyNot returns why the caller may not use an item that the rules do not allow: which
// rule decides, the scopes that it wants and the caller lacks, and the word for it in the
// records. Where no rule denies the item, the rule is the first one that would allow it
// to this subject with other scopes, -1 for none; one that may be announced comes first.
func (t *Tenant) whyNot(c *Caller, n *policyName) (reason string, rule int, missing []string) {
	_, by := t.judge(c.rules, n, nil)
	if by >= 0 {
		return reasonDenied, by, nil
	}
	for i := range t.rules {
		r := &t.rules[i]
		if c.rules.has(r) || by >= 0 && !r.announce || !r.concerns(&c.Principal) {
			continue
		}
		if !r.allow.match(n) || r.denies(n) { // a rule that does both would deny, with its scopes
			continue
		}
		if by = i; r.announce {
			break
		}
	}
	switch {
	case by < 0:
		return reasonNoRule, by, nil
	case t.rules[by].announce:
		reason = reasonScope
	default:
		reason = reasonLacking
	}
	return reason, by, c.lacking(t.rules[by].scopes)
}

// lacking returns those of the scopes that the caller's token does not have.
func (c *Caller) lacking(scopes []string) []string {
	return without(scopes, c.Principal.Scopes)
}

// Caller is who sends a request, and the policy of the tenant that applies. Only Admit
// and Resolve make one. It is valid for one request; whatever lives longer, such as a
// stream, resolves the principal again each time. What it says belongs together: do not
// modify it.
type Caller struct {
	Principal auth.Principal
	Tenant    *Tenant

	rules    ruleSet // of the tenant, that match the principal
	userKey  string  // see key; "": it was not made yet
	personal personalLists

	// Of the config that was in force when the caller was resolved: its digest, and where
	// the tenant stands in it. A stream may keep a caller for hours, and would keep all
	// tenants of that time with the directory itself.
	config string
	stands Position
}

// announces tells whether an item that no rule allows or denies is shown all the same: a
// rule with announce would allow it to this caller with more scopes.
func (t *Tenant) announces(set ruleSet, n *policyName) bool {
	return slices.ContainsFunc(t.rules, func(r rule) bool {
		return r.announce && set[r.number] == lacksScopes && r.allow.match(n) && !r.denies(n)
	})
}

// mayUse tells whether the caller may use an item that it has found before. It does not
// ask whether the catalogue still has the item: a server that is lost, or takes back an
// item, takes nothing from a call that it runs already.
func (c *Caller) mayUse(item *registry.Item) bool {
	return slices.Contains(c.Tenant.servers, item.Server) && c.Tenant.allows(c.rules, item)
}

// allowed returns what the rules let callers do with the items of the view and the views
// of its apps. Of items that they do not allow it also says which they announce.
func (t *Tenant) allowed(view *registry.View, rules ruleSet) grants {
	all := itemsIn(view)
	items := len(all)
	for _, uri := range view.AppURIs() {
		shown, _ := view.Resource(uri) // nil: there is none
		all = append(all, shown)
	}
	usable := make([]byte, (len(all)+7)/8)
	var announced []byte
	for n, item := range all {
		if item == nil {
			continue
		}
		name := policyNameOf(item)
		switch allowed, by := t.judge(rules, &name, nil); {
		case allowed:
			usable[n/8] |= 1 << (n % 8)
		case by < 0 && n < items && t.announces(rules, &name):
			announced = append(announced, make([]byte, len(usable)-len(announced))...)
			announced[n/8] |= 1 << (n % 8)
		}
	}
	return grants{bitset(usable), bitset(announced)}
}

// ofUser returns how many of that many slots of a tenant one of its users may hold.
func ofUser(slots int) int { return (slots + 1) / 2 }
