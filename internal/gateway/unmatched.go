package gateway

import (
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

// Bounds of the work that is spent on guessing what patterns may have meant.
const (
	maxGuesses = 20   // patterns of one tenant
	maxGuessed = 1000 // names that a pattern is compared with
)

// watched is a pattern that should match something, so that an operator is told if it
// does not.
type watched struct {
	PatternPosition

	kind registry.Kind
	text string // of the pattern, without its kind
}

// UnmatchedIn returns the patterns of tenants that match nothing in a catalogue, also
// those that the config acknowledges, tenant after tenant.
func UnmatchedIn(catalogue *registry.Registry, tenants []TenantConfig) (out []Unmatched) {
	now := catalogue.Catalogue()
	for i := range tenants {
		t := compileTenant(&tenants[i])
		out = append(out, certain(t.idle(now.View(t.servers), true))...)
	}
	return out
}

// certain returns those of which it is certain that they match nothing.
func certain(all []idle) (out []Unmatched) {
	for _, one := range all {
		if one.known {
			out = append(out, one.Unmatched)
		}
	}
	return out
}

// watched returns the patterns of a tenant. Those that the config acknowledges to match
// nothing are among them if meant is set. Nobody keeps them: with very many tenants they
// would take as much memory as the rules.
func (t *Tenant) watched(meant bool) []watched {
	var all []watched
	for i := range t.config.Rules {
		if r := &t.config.Rules[i]; meant || !r.MayMatchNothing {
			all = watchedIn(all, PatternPosition{Tenant: t.ID, Rule: i + 1}, r.Allow)
			all = watchedIn(all, PatternPosition{Tenant: t.ID, Rule: i + 1, Deny: true}, r.Deny)
		}
	}
	if t.config.MayMatchNothing && !meant {
		return all
	}
	for _, l := range t.tools {
		all = watchedIn(all, PatternPosition{Tenant: t.ID}, []string{l.pattern})
	}
	return all
}

// watchedIn adds the patterns of one place, except those that consist of stars.
func watchedIn(all []watched, at PatternPosition, texts []string) []watched {
	for _, text := range texts {
		w := watched{PatternPosition: at}
		w.kind, w.text = PatternKind(text)
		w.Pattern = text
		if strings.Trim(w.text, "*") != "" {
			all = append(all, w)
		}
	}
	return all
}

// idle returns the patterns that are not known to match anything in the view, see
// watched.
func (t *Tenant) idle(view *registry.View, meant bool) []idle {
	var out []idle
	// of the view, when a pattern has to be compared with all of them
	var names map[registry.Kind][]policyName
	guesses := 0
	for _, w := range t.watched(meant) {
		if w.isIn(view) {
			continue
		}
		known, possible := t.knows(view, &w)
		if possible {
			continue
		}
		if names == nil {
			names = policyNames(view)
		}
		if slices.ContainsFunc(names[w.kind], func(n policyName) bool { return n.fits(w.text) }) {
			continue
		}
		found := idle{Unmatched: Unmatched{PatternPosition: w.PatternPosition}, known: known}
		if known && guesses < maxGuesses {
			guesses++
			found.Nearest = t.guess(view, &w, names[w.kind])
		}
		out = append(out, found)
	}
	return out
}

// isIn tells whether the pattern is the name of a tool in the view, as most patterns of
// most tenants are: so that they need not be compared with every name.
func (w *watched) isIn(view *registry.View) bool {
	if w.kind != registry.KindTool {
		return false
	}
	_, err := view.Lookup(w.text)
	return err == nil
}

// policyNames returns what the tools and prompts of a view are called in patterns.
func policyNames(view *registry.View) map[registry.Kind][]policyName {
	names := make(map[registry.Kind][]policyName)
	for _, item := range itemsIn(view)[:len(view.Tools)+len(view.Prompts)] {
		names[item.Kind] = append(names[item.Kind], policyNameOf(item))
	}
	return names
}

// knows tells two things about a pattern. known: the lists of all servers whose items it
// could name are known. possible: it may match something although no list shows such an
// item.
func (t *Tenant) knows(view *registry.View, w *watched) (known, possible bool) {
	known = true
	for _, server := range t.servers {
		if !registry.MayMatch(w.text, view.Beginning(w.kind, server)) {
			continue
		}
		known = known && view.Listed(server, w.kind)
		possible = possible || isOfURIs(w.kind) && view.Reads(server)
	}
	return known, possible
}

// guess returns the pattern that the operator may have meant, "" if nothing looks
// similar. If the pattern begins with the prefix of a server, only what follows the
// prefix is compared.
func (t *Tenant) guess(view *registry.View, w *watched, names []policyName) string {
	beginning := ""
	for _, server := range t.servers {
		if b := view.Beginning(w.kind, server); len(b) > len(beginning) && strings.HasPrefix(w.text, b) {
			beginning = b
		}
	}
	var candidates []string
	for i := 0; i < len(names) && len(candidates) < maxGuessed; i++ {
		for _, name := range []string{names[i].name, names[i].whole} {
			if rest, ok := strings.CutPrefix(name, beginning); ok && rest != "" {
				candidates = append(candidates, rest)
			}
		}
	}
	nearest := registry.Nearest(strings.TrimPrefix(w.text, beginning), candidates)
	switch {
	case nearest == "":
		return ""
	case w.kind == registry.KindTool:
		return beginning + nearest
	}
	return string(w.kind) + ":" + beginning + nearest
}

// maxWarnings is how many warnings are returned or logged with their text. Further ones
// are only counted.
const maxWarnings = 100
