package gateway

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// Rule allows or denies. It matches a caller who has all of Scopes (none: every caller) and, when Subjects is not
// empty, is one of them. An item is allowed if some rule that matches the caller allows it and none denies it.
type Rule struct {
	Scopes   []string
	Subjects []string // "issuer#subject"
	Allow    []string // patterns; a bare one means tools, prompt:NAME prompts, resource:SERVER:URI resources and templates
	Deny     []string
	Announce bool // a caller who lacks nothing but Scopes is told which, instead of that the item is unknown
}

// rule is a Rule with its patterns sorted by kind.
type rule struct {
	scopes   []string
	subjects []string
	allow    patterns
	deny     patterns
	announce bool
}

// patterns are those of one list of a rule, by the kind of item that they name.
type patterns struct{ tools, prompts, resources []string }

// match tells whether one of the patterns names the item of that kind with that policy name.
func (p *patterns) match(kind registry.Kind, name string) bool {
	switch kind {
	case registry.KindTool:
		return matchesAny(p.tools, name)
	case registry.KindPrompt:
		return matchesAny(p.prompts, name)
	case registry.KindResource, registry.KindTemplate:
		return matchesAny(p.resources, name)
	}
	return false
}

// denies tells whether the rule denies the item of that kind with that policy name. A URI is denied in every spelling:
// its server may decode it before it looks, and look without the fragment, the query and what ends the path.
func (r *rule) denies(kind registry.Kind, name string) bool {
	if kind != registry.KindResource && kind != registry.KindTemplate {
		return r.deny.match(kind, name)
	}
	if len(r.deny.resources) == 0 {
		return false
	}
	for range maxDecodings + 1 {
		if r.deniesBeginning(kind, name) {
			return true
		}
		decoded, err := url.PathUnescape(name)
		if err != nil || decoded == name {
			return false
		}
		name = decoded
	}
	return false
}

// deniesBeginning tells whether the rule denies a URI, or what is left of it without its last parts.
func (r *rule) deniesBeginning(kind registry.Kind, uri string) bool {
	for _, end := range []string{"", "#", "?", ";"} {
		if end != "" {
			uri, _, _ = strings.Cut(uri, end)
		}
		if r.deny.match(kind, uri) || r.deny.match(kind, strings.TrimRight(uri, "/. ")) {
			return true
		}
	}
	return false
}

// maxDecodings is how many layers of percent-encoding a pattern that denies looks through.
const maxDecodings = 3

// decoded returns patterns of URIs together with their decoded forms.
func decoded(patterns []string) []string {
	for _, pattern := range slices.Clone(patterns) {
		if text, err := url.PathUnescape(pattern); err == nil && text != pattern {
			patterns = append(patterns, text)
		}
	}
	return patterns
}

// ruleSet names the rules of a tenant that match a caller: one byte a rule, 1 for a match. Callers with equal sets see
// the same.
type ruleSet string

func compileRule(cfg *Rule) (rule, error) {
	r := rule{scopes: cfg.Scopes, subjects: cfg.Subjects, announce: cfg.Announce}
	var err error
	if r.allow, err = compilePatterns(cfg.Allow); err != nil {
		return rule{}, err
	}
	if r.deny, err = compilePatterns(cfg.Deny); err != nil {
		return rule{}, err
	}
	r.deny.resources = decoded(r.deny.resources)
	if len(cfg.Allow)+len(cfg.Deny) == 0 {
		return rule{}, fmt.Errorf("it neither allows nor denies anything")
	}
	return r, nil
}

// compilePatterns sorts patterns by the kind that they name.
func compilePatterns(texts []string) (patterns, error) {
	var p patterns
	for _, text := range texts {
		kind, rest, found := strings.Cut(text, ":")
		switch {
		case !found && text != "":
			p.tools = append(p.tools, text)
		case rest != "" && kind == "prompt":
			p.prompts = append(p.prompts, rest)
		case rest != "" && kind == "resource":
			p.resources = append(p.resources, rest)
		default:
			return patterns{}, fmt.Errorf("pattern %q: want a tool's name, prompt:NAME or resource:SERVER:URI, with * for any run of characters", text)
		}
	}
	return p, nil
}

// matching returns which rules of the tenant match the principal.
func (t *Tenant) matching(p auth.Principal) ruleSet {
	var buffer [32]byte
	set := buffer[:0]
	for i := range t.rules {
		match := byte(0)
		if t.rules[i].concerns(p) && t.rules[i].hasScopes(p) {
			match = 1
		}
		set = append(set, match)
	}
	return ruleSet(set)
}

// concerns tells whether the rule is for this subject, whatever its scopes.
func (r *rule) concerns(p auth.Principal) bool {
	return len(r.subjects) == 0 || slices.ContainsFunc(r.subjects, func(s string) bool {
		issuer, ok := strings.CutSuffix(s, "#"+p.Subject)
		return ok && issuer == p.Issuer
	})
}

func (r *rule) hasScopes(p auth.Principal) bool {
	for _, scope := range r.scopes {
		if !slices.Contains(p.Scopes, scope) {
			return false
		}
	}
	return true
}

// allows tells whether the rules in set allow the item of that kind with that policy name.
func (t *Tenant) allows(set ruleSet, kind registry.Kind, name string) bool {
	allowed := false
	for i := range t.rules {
		if set[i] == 0 {
			continue
		}
		if t.rules[i].denies(kind, name) {
			return false
		}
		allowed = allowed || t.rules[i].allow.match(kind, name)
	}
	return allowed
}

// missingScopes returns the scopes with which the caller could use the item, when a rule says that it may be told.
func (t *Tenant) missingScopes(c Caller, kind registry.Kind, name string) []string {
	for i := range t.rules {
		if c.rules[i] == 1 && t.rules[i].denies(kind, name) {
			return nil
		}
	}
	for i := range t.rules {
		r := &t.rules[i]
		if r.announce && c.rules[i] == 0 && r.concerns(c.Principal) && r.allow.match(kind, name) {
			return r.scopes
		}
	}
	return nil
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return registry.MatchName(pattern, name) })
}
