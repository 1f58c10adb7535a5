package gateway

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// Rule allows or denies items. It applies to callers who have all of Scopes (if there are
// none: to every caller) and, if Subjects is not empty, are one of them. A caller may use
// an item if at least one rule that applies to the caller allows it and none denies it.
type Rule struct {
	Scopes   []string
	Subjects []string // "issuer#subject"; the issuer has no #
	// patterns; a bare one means tools, prompt:NAME prompts, resource:SERVER:URI
	// resources and templates, skill:SERVER:URI skills with their files
	Allow    []string
	Deny     []string
	Announce bool // a caller who lacks nothing but Scopes is told which, instead of that the item is unknown
	// MayMatchNothing: patterns of this rule that match nothing are meant, and no
	// warning.
	MayMatchNothing bool
	Line            int // where it stands: how many lines below its tenant
}

// rule is a Rule with its patterns sorted by kind.
type rule struct {
	condition
	number   int // of the condition among those of the tenant
	allow    patterns
	deny     patterns
	announce bool
}

// condition says to whom a rule applies. Most rules of a tenant have one of a few
// conditions, so these are looked at once for each request, and not each rule: a tenant
// may have a thousand rules.
type condition struct{ scopes, subjects []string }

// key is the same for two conditions that are the same.
func (c *condition) key() string {
	if len(c.scopes)+len(c.subjects) == 0 {
		return "" // most are for everyone
	}
	return fmt.Sprintf("%q %q", c.scopes, c.subjects)
}

// patterns are those of one list of a rule, by the kind of item that they name: those of
// resources name templates, too.
type patterns map[registry.Kind][]string

// policyName is what an item is called in patterns: by the name that clients see and, if
// that is another one, by the name that its server gives it.
//
// A pattern names an item that it fits by either. Where it denies, that is the safe side.
// Where it allows, it is no more than the operator wrote: both names begin with the
// prefix of the item's server, so no pattern reaches another server's items by one that
// it does not reach by the other; and what follows is the server's choice in both, so a
// server that wants a name which a pattern fits could as well have taken that one.
type policyName struct {
	kind        registry.Kind
	name, whole string   // whole: "" if it is the same
	skills      []string // the names of those that a resource is a file of, or may be taken for one
}

func policyNameOf(item *registry.Item) policyName {
	return policyName{
		kind: item.Kind, name: item.PolicyName(), whole: item.WholeName(), skills: item.Skills(),
	}
}

// pattern returns the pattern for a rule that names the item alone.
func (n *policyName) pattern() string { return patternPrefixes[n.kind] + n.name }

// patternPrefixes are what patterns of items of each kind begin with; those of tools are
// bare.
var patternPrefixes = map[registry.Kind]string{
	registry.KindPrompt: "prompt:", registry.KindResource: "resource:", registry.KindTemplate: "resource:",
	registry.KindSkill: "skill:",
}

// fits tells whether the pattern, which must be one for items of this kind, names the
// item.
func (n *policyName) fits(pattern string) bool {
	return registry.MatchName(pattern, n.name) || n.whole != "" && registry.MatchName(pattern, n.whole)
}

// match tells whether at least one of the patterns names the item, or a skill that it is
// a file of, in that very spelling.
func (p patterns) match(n *policyName) bool {
	return slices.ContainsFunc(p.of(n.kind), n.fits) ||
		slices.ContainsFunc(n.skills, func(skill string) bool {
			return strings.HasPrefix(n.name, skill[:strings.LastIndexByte(skill, '/')+1]) &&
				matchesAny(p[registry.KindSkill], skill)
		})
}

// of returns the patterns for items of that kind.
func (p patterns) of(kind registry.Kind) []string {
	if kind == registry.KindTemplate {
		kind = registry.KindResource
	}
	return p[kind]
}

// denies tells whether the rule denies the item. For a URI this looks at every spelling:
// the server may decode the URI before it looks for the resource, may ignore its
// fragment, its query and some characters at the end of its path, and may know its host
// by other spellings (see registry.UsualSpelling). Otherwise a caller could get around
// the rule by spelling the URI differently. A file is denied with each skill that it is
// in.
func (r *rule) denies(n *policyName) bool {
	switch n.kind {
	case registry.KindResource, registry.KindTemplate, registry.KindSkill:
		return deniesURI(r.deny.of(n.kind), n.name) || slices.ContainsFunc(n.skills,
			func(skill string) bool { return deniesURI(r.deny[registry.KindSkill], skill) })
	default:
		return r.deny.match(n)
	}
}

// deniesURI tells whether one of the patterns, which deny, fits a URI in any spelling.
func deniesURI(patterns []string, uri string) bool {
	if len(patterns) == 0 {
		return false
	}
	for spelling := range registry.Spellings(uri) {
		if matchesAny(patterns, spelling) {
			return true
		}
	}
	return false
}

// deniesSomeOf tells whether the rule denies any URI that begins so; the name of its
// server and a colon come first.
func (r *rule) deniesSomeOf(beginning string) bool {
	mayMatch := func(pattern string) bool { return registry.MayMatch(pattern, beginning) }
	return slices.ContainsFunc(r.deny[registry.KindResource], mayMatch) ||
		slices.ContainsFunc(r.deny[registry.KindSkill], mayMatch)
}

// withSpelling returns patterns of URIs and, in addition, what spell makes of each.
func withSpelling(patterns []string, spell func(string) string) []string {
	for _, pattern := range slices.Clone(patterns) {
		if other := spell(pattern); other != pattern {
			patterns = append(patterns, other)
		}
	}
	return patterns
}

// isOfURIs tells whether patterns of items of that kind are of URIs.
func isOfURIs(kind registry.Kind) bool {
	return kind == registry.KindResource || kind == registry.KindSkill
}

// ruleSet says which rules of a tenant apply to a caller, one byte for each condition:
// applies if the caller fits it, lacksScopes if only scopes are lacking and a rule with
// it has announce, else 0. Callers with the same set see the same items.
type ruleSet string

const (
	applies     = 1
	lacksScopes = 2
)

// has tells whether the rule applies.
func (s ruleSet) has(r *rule) bool { return s[r.number] == applies }

func compileRule(cfg *Rule) rule {
	r := rule{
		condition: condition{cfg.Scopes, cfg.Subjects}, announce: cfg.Announce,
		allow: compilePatterns(cfg.Allow), deny: compilePatterns(cfg.Deny),
	}
	for kind, names := range r.deny {
		if isOfURIs(kind) {
			r.deny[kind] = withSpelling(withSpelling(names, registry.Decode), registry.UsualSpelling)
		}
	}
	return r
}

// compilePatterns sorts patterns by the kind of item that they name. A text that is no
// pattern would deny nothing, and nobody would notice.
func compilePatterns(texts []string) patterns {
	p := make(patterns)
	for _, text := range texts {
		kind, pattern := PatternKind(text)
		if kind == "" {
			panic("gateway: no pattern: " + text)
		}
		p[kind] = append(p[kind], pattern)
	}
	return p
}

// PatternKind returns the kind of the items that a pattern of a rule names, and the
// pattern of their names. A kind and a colon before it say which kind; without them it is
// tools. What stands before a colon within a tool's name is no kind: it has the end of a
// prefix, or a star. The kind is "" for a text that is no pattern.
func PatternKind(text string) (kind registry.Kind, pattern string) {
	prefix, rest, found := strings.Cut(text, ":")
	switch {
	case text == "":
		return "", ""
	case !found, strings.ContainsRune(prefix, '*'), strings.Contains(prefix, "__"):
		return registry.KindTool, text
	case rest != "" && (prefix == string(registry.KindPrompt) || prefix == string(registry.KindResource) ||
		prefix == string(registry.KindSkill)):
		return registry.Kind(prefix), rest
	}
	return "", ""
}

// concerns tells whether the rule is meant for this subject, whatever scopes its token
// has.
func (c *condition) concerns(p *auth.Principal) bool {
	return len(c.subjects) == 0 || slices.ContainsFunc(c.subjects, func(s string) bool {
		issuer, subject, _ := strings.Cut(s, "#")
		return issuer == p.Issuer && subject == p.Subject
	})
}

func (c *condition) hasScopes(p *auth.Principal) bool { return hasAll(p.Scopes, c.scopes) }

// hasAll tells whether all has everything that is wanted.
func hasAll(all, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(one string) bool { return !slices.Contains(all, one) })
}

// without returns those of names that are not in others.
func without(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names),
		func(name string) bool { return slices.Contains(others, name) })
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns,
		func(pattern string) bool { return registry.MatchName(pattern, name) })
}

// CodeNoMatch is the code of the warning that a pattern matches nothing.
const CodeNoMatch = "no-match"

// PatternPosition says where a pattern stands.
type PatternPosition struct {
	Tenant  string
	Rule    int    // of the tenant, from 1; 0: its limits of tools
	Deny    bool   // the rule denies it
	Pattern string // as written
}

// Unmatched is a pattern that names nothing of what the servers of its tenant offer. It
// is reported only if the lists of all servers whose items it could name are known. A
// pattern that consists of stars is never reported. A resource can be read although no
// list shows it, so a pattern of resources is reported only if no server that it could be
// about serves resources.
type Unmatched struct {
	PatternPosition

	Nearest string // what it may have meant, as a pattern; "" when nothing looks like it
}

// String tells operators which pattern matches nothing, and what to do about it.
func (u Unmatched) String() string {
	text := fmt.Sprintf("tenant %s: %s %q, which matches nothing that its servers offer", u.Tenant,
		u.describe(),
		u.Pattern)
	if u.Nearest != "" {
		text += fmt.Sprintf(" (did you mean %s?)", u.Nearest)
	}
	return text + "; correct it or, if it is meant, acknowledge " + CodeNoMatch + " there"
}

// describe tells what is done with the pattern where it stands.
func (p *PatternPosition) describe() string {
	switch {
	case p.Rule == 0:
		return "limits has tools"
	case p.Deny:
		return fmt.Sprintf("rule %d denies", p.Rule)
	}
	return fmt.Sprintf("rule %d allows", p.Rule)
}

// idle is a watched pattern that is not known to match anything.
type idle struct {
	Unmatched

	known bool // it is certain that it matches nothing
}
