package config

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/builtin"
)

// This file refuses patterns that can never match. The hazard is a rule that denies: with
// a slip in its pattern it denies nothing, and nobody notices. A pattern that may match
// later, when a server offers more, is not refused but gets the warning no-match, see
// Judge.

// watchPatterns notes where each pattern of a tenant stands, so that a later warning can
// name its place, and marks the rules whose patterns may match nothing without a warning.
func (r *reader) watchPatterns(t *gateway.TenantConfig, n *node) {
	note := func(position gateway.PatternPosition, at *node, acknowledged []*node) {
		if r.known.lasting {
			return
		}
		position.Tenant = t.ID
		r.cfg.patterns[position] = awaited{at.problem(at.raw), acknowledged}
	}
	all := r.acknowledgements(codeNoMatch, n, r.root)
	t.MayMatchNothing = len(all) > 0
	for _, m := range n.child("limits").child("tools").members {
		note(gateway.PatternPosition{Pattern: m.name}, m.asText(), all)
	}
	for i := range t.Rules {
		item := n.child("rules").items[i]
		own := slices.Concat(all, r.acknowledgements(codeNoMatch, item))
		t.Rules[i].MayMatchNothing = len(own) > 0
		for _, at := range item.child("allow").items {
			note(gateway.PatternPosition{Rule: i + 1, Pattern: at.text}, at, own)
		}
		for _, at := range item.child("deny").items {
			note(gateway.PatternPosition{Rule: i + 1, Deny: true, Pattern: at.text}, at, own)
		}
	}
}

// checkSubject reports a subject of an issuer that the config does not have.
func (r *reader) checkSubject(at *node) {
	known := r.index.issuers
	// without servers not all issuers are known
	if r.index.servers == nil || len(known) == 0 || slices.Contains(known, issuerOf(at.text)) {
		return
	}
	issuer := issuerOf(at.raw)
	r.faultHint(at, nearest(issuer, known), "%q matches nobody: there is no issuer %q", at.raw, issuer)
}

// issuerOf returns the issuer of issuer#subject. Only the subject may hold a # itself.
func issuerOf(user string) string {
	issuer, _, _ := strings.Cut(user, "#")
	return issuer
}

// checkToolPattern reports a pattern of tools that no tool's name can ever fit. For a
// pattern without a star, the names of built-in tools are known and compared; what other
// servers offer shows only when they run.
func (r *reader) checkToolPattern(t *gateway.TenantConfig, at *node, pattern string) {
	before := len(r.problems)
	r.checkPatternServer(t, at, pattern)
	r.checkOnePattern(t, at, pattern)
	if len(r.problems) > before || strings.Contains(pattern, "*") {
		return
	}
	var known []string // names of tools as a pattern would have them
	for _, name := range t.Servers {
		s := r.index.servers[name]
		if s == nil || !registry.MayMatch(pattern, registry.Beginning(s.Prefix)) {
			continue
		}
		if len(s.Builtin) == 0 {
			return // what it offers is known when it runs
		}
		for _, name := range builtin.Names() {
			known = append(known, registry.Beginning(s.Prefix)+name)
		}
	}
	if len(known) > 0 && !slices.Contains(known, pattern) {
		r.faultHint(at, nearest(at.raw, known), "%q can match nothing: there is no such built-in tool",
			at.raw)
	}
}

// checkOnePattern reports several patterns of tools that are written as one. A name may
// have a space in it.
func (r *reader) checkOnePattern(t *gateway.TenantConfig, at *node, pattern string) {
	for _, word := range strings.Fields(pattern)[1:] {
		for _, name := range t.Servers {
			if s := r.index.servers[name]; s != nil && s.Prefix != "" &&
				strings.HasPrefix(word, registry.Beginning(s.Prefix)) {
				r.fault(at, "%q is more than one pattern: write each by itself, as in [a, b]", at.raw)
				return
			}
		}
	}
}

// reachesUnknown tells whether the tenant names a server that the config does not have.
// That is a problem of its own, and until it is corrected nothing can be said about
// patterns that mean the server.
func (r *reader) reachesUnknown(t *gateway.TenantConfig) bool {
	return slices.ContainsFunc(t.Servers, func(name string) bool { return r.index.servers[name] == nil })
}

// checkPatternServer reports a pattern of tools or prompts that fits the names of no
// server of the tenant. Exposed names begin with the prefix of their server, so a pattern
// must too, or begin with a star.
func (r *reader) checkPatternServer(t *gateway.TenantConfig, at *node, pattern string) {
	if strings.HasPrefix(pattern, "*") || r.reachesUnknown(t) {
		return
	}
	var servers []*Server
	var prefixes []string
	for _, name := range t.Servers {
		s := r.index.servers[name]
		if registry.MayMatch(pattern, registry.Beginning(s.Prefix)) {
			return
		}
		servers, prefixes = append(servers, s), append(prefixes, s.Prefix)
	}
	kind, raw := "", at.raw
	if rest, ok := strings.CutPrefix(raw, "prompt:"); ok {
		kind, raw = "prompt:", rest
	}
	name, rest, found := strings.Cut(raw, "__")
	if !found {
		r.faultHint(at, behindPrefix(kind, raw, prefixes),
			"%q can match nothing: names begin with a server's prefix and __, and this tenant reaches %s",
			at.raw, cmp.Or(strings.Join(prefixes, ", "), "no server"))
		return
	}
	for _, s := range servers {
		switch {
		case s.Prefix == name && rest == "":
			r.faultHint(at, at.raw+"*",
				"%q can match nothing: it is what names begin with, and no whole name", at.raw)
			return
		case s.Name == name:
			r.faultHint(at, kind+registry.Beginning(s.Prefix)+rest,
				"%q can match nothing: the server %q has the prefix %q", at.raw, name, s.Prefix)
			return
		}
	}
	r.faultHint(at, nearest(name, prefixes), "%q can match nothing: this tenant reaches no server %q", at.raw,
		name)
}

// behindPrefix returns the pattern that may have been meant by one without __, "" if none
// is near: one that begins with a prefix of the tenant and separates the rest in another
// way, or where there is one prefix alone, the name behind it.
func behindPrefix(kind, raw string, prefixes []string) string {
	for _, prefix := range prefixes {
		rest, begins := strings.CutPrefix(raw, prefix)
		if own := strings.TrimLeft(rest, "._-:/"); begins && prefix != "" && (rest == "" || own != rest) {
			return kind + registry.Beginning(prefix) + cmp.Or(own, "*")
		}
	}
	if len(prefixes) == 1 {
		return kind + registry.Beginning(prefixes[0]) + raw
	}
	return ""
}

// checkResourceServer reports a pattern of resources or skills whose server the tenant
// does not reach. The part of such a pattern after resource: or skill: is the name of the
// server, a colon, and the URI as the server itself has it.
func (r *reader) checkResourceServer(t *gateway.TenantConfig, at *node, pattern string) {
	if strings.HasPrefix(pattern, "*") || r.reachesUnknown(t) ||
		slices.ContainsFunc(t.Servers,
			func(server string) bool { return registry.MayMatch(pattern, server+":") }) {
		return
	}
	name, _, found := strings.Cut(pattern, ":")
	switch {
	case strings.HasPrefix(name, "mcp."):
		r.fault(at, "%q can match nothing: a pattern of resources is resource:, a server's name, a colon "+
			"and the URI as the server has it, without mcp.", at.raw)
	case !found:
		r.fault(at, "%q can match nothing: a pattern of resources is resource:, a server's name, a colon "+
			"and its URIs, like resource:files:*", at.raw)
	default:
		r.faultHint(at, nearest(name, t.Servers), "%q can match nothing: this tenant reaches no such server",
			at.raw)
	}
}

// patternShape has the characters of most names that servers give to their tools. A star
// stands for any other one.
var patternShape = regexp.MustCompile(`^[\p{L}\p{M}\p{N}_./:*-]+( [\p{L}\p{M}\p{N}_./:*-]+)*$`)

// warnTenant warns of a tenant that no issuer serves or in which nothing is allowed, of
// rules that deny less than they seem to, and of subjects in its rules whose issuer does
// not serve it. Serving are the issuers whose tokens may be for the tenant.
func (r *reader) warnTenant(serving []string, m member) {
	if len(serving) == 0 {
		r.warn(codeUnserved, m.key, []*node{m.value},
			"no issuer serves the tenant %q, so nobody can be of it", m.name)
		return
	}
	rules := m.value.child("rules")
	if !slices.ContainsFunc(rules.items, func(rule *node) bool { return rule.member("allow") != nil }) {
		r.warn(codeNothing, m.key, []*node{m.value},
			"no rule of the tenant %q allows anything, so nobody can use anything; write rules: [{allow: "+
				"[\"*\"]}]", m.name)
	}
	allowed := kindsAllowed(rules)
	for _, rule := range rules.items {
		r.warnDeny(allowed, rule, m.value)
		for _, item := range rule.child("subjects").items {
			if !slices.Contains(serving, issuerOf(item.text)) {
				r.warn(codeForeignSubject, item, []*node{rule, m.value},
					"%q is nobody of this tenant: its issuer does not serve it", item.raw)
			}
		}
	}
}

// warnDeny warns of a rule that denies "*", which is every tool, and leaves prompts or
// resources to what some rule of the tenant allows.
func (r *reader) warnDeny(allowed []string, rule, tenant *node) {
	deny := rule.child("deny").items
	all := slices.IndexFunc(deny, func(at *node) bool { return at.text == "*" })
	if all < 0 {
		return
	}
	var left []string
	for _, kind := range allowed {
		denied := slices.ContainsFunc(deny, func(at *node) bool {
			rest, found := strings.CutPrefix(at.text, kind)
			return found && strings.Trim(rest, "*:") == ""
		})
		if !denied {
			left = append(left, `"`+kind+`*"`)
		}
	}
	if len(left) > 0 {
		r.warn(codeDeniesTools, deny[all], []*node{rule, tenant},
			`"*" denies tools alone, and what rules allow beside them stays allowed; deny %s, too`,
			strings.Join(left, " and "))
	}
}

// kindsAllowed returns the kinds beside tools of which some rule allows something.
func kindsAllowed(rules *node) []string {
	return slices.DeleteFunc([]string{"prompt:", "resource:", "skill:"}, func(kind string) bool {
		return !slices.ContainsFunc(rules.items, func(rule *node) bool {
			return slices.ContainsFunc(rule.child("allow").items,
				func(at *node) bool { return strings.HasPrefix(at.text, kind) })
		})
	})
}
