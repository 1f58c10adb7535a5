package config

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// tenants reads the mapping of tenants into r.cfg.Tenants, in the order of the files. All
// other keys have been read.
func (r *reader) tenants(n *node) {
	if n.kind == mapping && len(n.members) == 0 {
		r.fault(n, "without a tenant nobody is let in")
	}
	serving, around := r.servingTenants(), r.around()
	r.cfg.Tenants = make([]gateway.TenantConfig, 0, len(n.members))
	r.entries(n, "tenants", func(m member) {
		if !gateway.IsTenantID(m.name) {
			r.fault(m.key,
				"a tenant's name has 1 to 64 letters, digits, dots, - and _, and begins with a letter or "+
					"digit")
		}
		now := remembered{key: r.keyOf(m, around, serving[m.name])}
		before := r.known.tenants[m.name]
		t := before.tenant
		if now.key != before.key || now.key == (digest{}) {
			warned := r.warned
			read := r.wholeTenant(m, serving[m.name])
			if t == nil || !t.Equal(&read) { // equal ones are the same memory
				t = &read
			}
			// its auth goes into the servers, which each load makes anew
			if r.warned > warned || r.open(m).member("auth") != nil {
				now.key = digest{}
			}
		}
		r.cfg.Tenants = append(r.cfg.Tenants, *t)
		now.tenant = &r.cfg.Tenants[len(r.cfg.Tenants)-1] // there is room for all
		now.tenant.Position = positionOf(m.key)
		r.next.tenants[m.name] = now
	})
}

// servingTenants returns the issuers whose tokens, or whose people, may be of each
// tenant.
func (r *reader) servingTenants() map[string][]string {
	serving := make(map[string][]string)
	for _, pair := range r.cfg.speakers(slices.Sorted(maps.Keys(r.index.tenants))) {
		serving[pair[1]] = append(serving[pair[1]], pair[0])
	}
	return serving
}

func positionOf(n *node) gateway.Position { return gateway.Position{File: n.file, Line: n.line} }

// wholeTenant reads one tenant, and warns of it if there is no problem.
func (r *reader) wholeTenant(m member, serving []string) gateway.TenantConfig {
	t := gateway.TenantConfig{ID: m.name, Position: positionOf(m.key)}
	value := r.open(m)
	r.tenant(&t, value)
	if len(r.problems) == 0 {
		r.warnTenant(serving, member{m.name, m.key, value})
	}
	return t
}

// tenant reads one tenant into t, its servers first: all else is checked against them.
func (r *reader) tenant(t *gateway.TenantConfig, n *node) {
	if servers := n.member("servers"); servers != nil {
		r.eachText(servers, "servers", func(at *node, name string) {
			t.Servers = append(t.Servers, name)
			r.checkServerName(at)
		})
	}
	r.object(n, "a tenant", fields{
		"servers": func(*node) {},
		"rules": func(n *node) {
			r.sequence(n, "rules", func(item *node) { t.Rules = append(t.Rules, r.rule(t, item)) })
		},
		"limits":      r.tenantLimits(t),
		"auth":        r.tenantAuth(t.ID, t.Servers),
		"output":      r.output(&t.Output),
		"inline_refs": into(&t.InlineRefs, r.boolean),
		"card": func(n *node) {
			if t.Card = r.boolean(n); t.Card && r.root.member("card") == nil {
				r.fault(n, "the gateway has no card: card at the top says what stands in it")
			}
		},
		"acknowledge": r.acknowledge,
	})
	r.watchPatterns(t, n)
	r.need(n, "the tenant", "servers")
}

// checkServerName reports a server in a tenant's list that the config does not have.
func (r *reader) checkServerName(at *node) {
	if r.index.servers != nil && r.index.servers[at.text] == nil && !r.full() {
		r.faultHint(at, nearestKey(at.raw, r.index.servers), "there is no server %q", at.raw)
	}
}

// rule reads one rule of the tenant t: to whom it applies, and what it allows or denies.
func (r *reader) rule(t *gateway.TenantConfig, n *node) gateway.Rule {
	rule := gateway.Rule{Line: n.line - t.Position.Line}
	ok := r.object(n, "a rule", fields{
		"scopes":   into(&rule.Scopes, r.nonEmpty("scopes")),
		"subjects": into(&rule.Subjects, r.subjects),
		"allow":    into(&rule.Allow, r.patterns(t, "allow")),
		"deny":     into(&rule.Deny, r.patterns(t, "deny")),
		"announce": into(&rule.Announce, r.boolean),

		"acknowledge": r.acknowledge,
	})
	r.faultEach(
		wrong{ok && n.member("allow") == nil && n.member("deny") == nil, n, "a rule needs allow or deny"},
		wrong{
			rule.Announce && len(rule.Scopes) == 0, n.member("announce"),
			"announce tells which scope is lacking; this rule names no scopes",
		},
		wrong{
			rule.Announce && n.member("allow") == nil, n.member("announce"),
			"announce goes with allow: what a rule denies is shown to nobody",
		})
	return rule
}

// nonEmpty reads a list that must not be empty. A list that is left out means everyone of
// the tenant. If an empty list meant the same, whoever removes the last name from it
// would open the rule to all.
func (r *reader) nonEmpty(what string) func(*node) []string {
	return r.filled("an empty list of "+what+"; leave it out if the rule is for everyone of the tenant",
		r.textsOf(what))
}

// subjects reads the users that a rule is for, each as issuer#subject: the same subject
// of another issuer is another user.
func (r *reader) subjects(n *node) []string {
	texts := r.nonEmpty("subjects")(n)
	for _, item := range n.items {
		issuer, subject, found := strings.Cut(item.text, "#")
		switch {
		case item.kind != scalar || item.text == "":
		case !found || issuer == "" || subject == "":
			r.fault(item, "%q is not issuer#subject, like https://login.example/#alice", item.raw)
		case strings.Contains(subject, "*"):
			r.fault(item, "%q: a * stands for nobody here; name each, or write scopes, or leave subjects "+
				"out for everyone of the tenant", item.raw)
		default:
			r.checkSubject(item)
		}
	}
	return texts
}

// patterns reads patterns of exposed names. A bare pattern means tools; prompt:,
// resource: and skill: before it mean the other kinds.
func (r *reader) patterns(t *gateway.TenantConfig, what string) func(*node) []string {
	return func(n *node) (out []string) {
		r.faultEmpty(n, "an empty list of patterns")
		r.eachText(n, what, func(at *node, pattern string) {
			out = append(out, pattern)
			word, after, _ := strings.Cut(pattern, ":")
			kind, rest := gateway.PatternKind(pattern)
			switch {
			case kind == registry.KindTool && patternShape.MatchString(pattern):
				r.checkToolPattern(t, at, pattern)
			case kind == registry.KindTool:
				r.fault(at, "%q is not a pattern: it has letters, digits, _ - . / : and single spaces, and "+
					"* stands for any run of characters", at.raw)
			case kind == "" && after != "":
				r.faultHint(at, nearest(word+":", []string{"prompt:", "resource:", "skill:"}),
					"%q: a pattern begins with prompt:, resource: or skill:, or is bare and means tools",
					at.raw)
			case rest != strings.TrimSpace(rest) || rest == "" || (kind == registry.KindResource ||
				kind == registry.KindSkill) && strings.ContainsAny(rest, " \t\r\n"):
				r.fault(at, "%q names nothing", at.raw)
			case kind == registry.KindPrompt:
				r.checkPatternServer(t, at, rest)
			default:
				r.checkResourceServer(t, at, rest)
			}
		})
		return out
	}
}

// tenantLimits reads the limits of a tenant. Some fields are pointers because zero is a
// limit of its own, which lets nothing through, and nil leaves the default of package
// gateway.
func (r *reader) tenantLimits(t *gateway.TenantConfig) func(*node) {
	l, many := &t.Limits, pointer(r.between(0, 1_000_000))
	return r.section("limits of a tenant", fields{
		"requests":      into(&l.Requests, r.limit),
		"calls":         into(&l.Calls, r.limit),
		"user_calls":    into(&l.UserCalls, r.limit),
		"concurrency":   into(&l.Concurrency, many),
		"streams":       into(&l.Streams, many),
		"sessions":      into(&l.Sessions, many),
		"user_sessions": into(&l.UserSessions, many),
		"tools":         func(n *node) { r.toolLimits(t, n) },
	})
}

// toolLimits reads the limits of tools, by patterns of their names.
func (r *reader) toolLimits(t *gateway.TenantConfig, n *node) {
	t.Limits.Tools, t.ToolLines = map[string]ratelimit.Limit{}, map[string]int{}
	r.entries(n, "tools", func(m member) {
		kind, _ := gateway.PatternKind(m.name)
		if kind == registry.KindTool && patternShape.MatchString(m.name) {
			r.checkToolPattern(t, m.asText(), m.name)
		} else {
			r.fault(m.key, "%q is not a pattern of tools", m.name)
		}
		t.Limits.Tools[m.name], t.ToolLines[m.name] = *r.limit(m.value), m.key.line-t.Position.Line
	})
}

// limit reads a rate with its burst, as in {rate: 10, burst: 20}, or 0, which lets
// nothing through. It never returns nil.
func (r *reader) limit(n *node) *ratelimit.Limit {
	var l ratelimit.Limit
	if n.kind == scalar && (n.text == "0" || r.faultBroken(n)) {
		return &l
	}
	if n.kind != mapping {
		r.fault(n, "a limit is {rate: 10, burst: 20}, how many a second and how many at one moment, or 0")
		return &l
	}
	if r.object(n, "a limit", fields{
		"rate":  into(&l.Rate, r.rate),
		"burst": into(&l.Burst, r.between(1, 1_000_000_000)),
	}) {
		r.need(n, "the limit", "rate", "burst")
	}
	return &l
}

// output reads what is to be done with the text in answers of servers.
func (r *reader) output(p *sanitize.Policy) func(*node) {
	return r.section("output", fields{
		"secrets":     into(&p.Secrets, r.mode("redact", "block", "off")),
		"hidden_text": into(&p.HiddenText, r.mode("remove", "off")),
		"max_text":    into(&p.MaxText, r.textSize),
		"max_binary":  into(&p.MaxBinary, r.textSize),
	})
}

// mode reads one of those allowed. One that is none of them yields the zero mode, but
// then there is a problem and the policy is never used.
func (r *reader) mode(allowed ...string) func(*node) sanitize.Mode {
	return func(n *node) sanitize.Mode {
		return map[string]sanitize.Mode{
			"redact": sanitize.Repair, "remove": sanitize.Repair, "off": sanitize.Off,
			"block": sanitize.Block,
		}[r.choice(n, allowed...)]
	}
}

func (r *reader) textSize(n *node) int { return int(r.size(n)) }

// around returns a digest of what every tenant depends on, when all other keys have been
// read. What a tenant says depends, beside its own text, on the names, prefixes and kinds
// of servers, on the names of issuers, on whether there is a card, and on what the whole
// config acknowledges. On which issuers serve it, see keyOf; on variables of the
// environment, see there too.
func (r *reader) around() digest {
	around := sha256.New()
	for i := range r.cfg.Servers {
		s := &r.cfg.Servers[i]
		// a hash has no errors
		_, _ = fmt.Fprintf(around, "server %q %q %t\n", s.Name, s.Prefix, len(s.Builtin) > 0)
	}
	_, _ = fmt.Fprintf(around, "issuers %q\ncard %t\n", r.index.issuers, r.root.member("card") != nil)
	for _, item := range r.root.child("acknowledge").items {
		_, _ = fmt.Fprintf(around, "acknowledge %q\n", item.text)
	}
	return digest(around.Sum(nil))
}
