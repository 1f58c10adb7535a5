package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

// CodeNoMatch is the code of the warning that a pattern matches nothing.
const CodeNoMatch = "no-match"

// Bounds of the work that is spent on guessing what patterns may have meant.
const (
	maxGuesses = 20   // patterns of one tenant
	maxGuessed = 1000 // names that a pattern is compared with
)

// PatternPlace says where a pattern stands.
type PatternPlace struct {
	Tenant  string
	Rule    int    // of the tenant, from 1; 0: its limits of tools
	Deny    bool   // the rule denies it
	Pattern string // as written
}

// Unmatched is a pattern that names nothing of what the servers of its tenant offer. It is reported only if the lists
// of all servers whose items it could name are known. A pattern that consists of stars is never reported. A resource
// can be read although no list shows it, so a pattern of resources is reported only if no server that it could be about
// serves resources.
type Unmatched struct {
	PatternPlace

	Nearest string // what it may have meant, as a pattern; "" when nothing looks like it
}

// String tells operators which pattern matches nothing, and what to do about it.
func (u Unmatched) String() string {
	text := fmt.Sprintf("tenant %s: %s %q, which matches nothing that its servers offer", u.Tenant, u.words(), u.Pattern)
	if u.Nearest != "" {
		text += fmt.Sprintf(" (did you mean %s?)", u.Nearest)
	}
	return text + "; correct it or, if it is meant, acknowledge " + CodeNoMatch + " there"
}

// words tells what is done with the pattern where it stands.
func (p *PatternPlace) words() string {
	switch {
	case p.Rule == 0:
		return "limits has tools"
	case p.Deny:
		return fmt.Sprintf("rule %d denies", p.Rule)
	}
	return fmt.Sprintf("rule %d allows", p.Rule)
}

// watched is a pattern that should match something, so that an operator is told if it does not.
type watched struct {
	PatternPlace

	kind registry.Kind
	text string // of the pattern, without its kind
}

// idle is a watched pattern that is not known to match anything.
type idle struct {
	Unmatched

	known bool // it is certain that it matches nothing
}

// watched returns the patterns of a tenant, except those that the config acknowledges to match nothing. Nobody keeps
// them: with very many tenants they would take as much memory as the rules.
func (t *Tenant) watched() []watched {
	var all []watched
	for i := range t.config.Rules {
		if r := &t.config.Rules[i]; !r.MayMatchNothing {
			all = watchedIn(all, PatternPlace{Tenant: t.ID, Rule: i + 1}, r.Allow)
			all = watchedIn(all, PatternPlace{Tenant: t.ID, Rule: i + 1, Deny: true}, r.Deny)
		}
	}
	if t.config.MayMatchNothing {
		return all
	}
	for _, l := range t.tools {
		all = watchedIn(all, PatternPlace{Tenant: t.ID}, []string{l.pattern})
	}
	return all
}

// watchedIn adds the patterns of one place, except those that consist of stars.
func watchedIn(all []watched, at PatternPlace, texts []string) []watched {
	for _, text := range texts {
		w := watched{PatternPlace: at}
		w.kind, w.text = PatternKind(text)
		w.Pattern = text
		if strings.Trim(w.text, "*") != "" {
			all = append(all, w)
		}
	}
	return all
}

// idle returns the patterns that are not known to match anything in the view.
func (t *Tenant) idle(view *registry.View) []idle {
	var out []idle
	var names map[registry.Kind][]policyName // of the view, when a pattern has to be compared with all of them
	guesses := 0
	for _, w := range t.watched() {
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
		if anyFits(names[w.kind], w.text) {
			continue
		}
		found := idle{Unmatched: Unmatched{PatternPlace: w.PatternPlace}, known: known}
		if known && guesses < maxGuesses {
			guesses++
			found.Nearest = t.guess(&w, names[w.kind])
		}
		out = append(out, found)
	}
	return out
}

// isIn tells whether the pattern is the name of a tool in the view, as most patterns of most tenants are: so that they
// need not be compared with every name.
func (w *watched) isIn(view *registry.View) bool {
	if w.kind != registry.KindTool {
		return false
	}
	_, err := view.Lookup(w.text)
	return err == nil
}

// policyNames returns what the tools and prompts of a view are called in patterns.
func policyNames(view *registry.View) map[registry.Kind][]policyName {
	tools, prompts := make([]policyName, len(view.Tools)), make([]policyName, len(view.Prompts))
	for i, tool := range view.Tools {
		tools[i] = policyNameOf(&tool.Item)
	}
	for i, prompt := range view.Prompts {
		prompts[i] = policyNameOf(&prompt.Item)
	}
	return map[registry.Kind][]policyName{registry.KindTool: tools, registry.KindPrompt: prompts}
}

// knows tells two things about a pattern. known: the lists of all servers whose items it could name are known.
// possible: it may match something although no list shows such an item.
func (t *Tenant) knows(view *registry.View, w *watched) (known, possible bool) {
	known = true
	for _, server := range t.servers {
		if !registry.MayMatch(w.text, t.beginning(w.kind, server)) {
			continue
		}
		known = known && view.Listed(server, w.kind)
		possible = possible || w.kind == registry.KindResource && view.Reads(server)
	}
	return known, possible
}

// beginning returns the text with which the policy names of the server's items of that kind begin.
func (t *Tenant) beginning(kind registry.Kind, server string) string {
	if kind == registry.KindResource {
		return server + ":"
	}
	prefix, set := t.prefixes[server]
	if !set {
		prefix = server
	}
	return registry.Beginning(prefix)
}

func anyFits(names []policyName, pattern string) bool {
	for i := range names {
		if names[i].fits(pattern) {
			return true
		}
	}
	return false
}

// guess returns the pattern that the operator may have meant, "" if nothing looks similar. If the pattern begins with
// the prefix of a server, only what follows the prefix is compared.
func (t *Tenant) guess(w *watched, names []policyName) string {
	beginning := ""
	for _, server := range t.servers {
		if b := t.beginning(w.kind, server); len(b) > len(beginning) && strings.HasPrefix(w.text, b) {
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

// Unmatched returns the patterns of all tenants that match nothing in the present catalogue, except acknowledged ones,
// in the order of tenants and of places in them.
func (g *Gateway) Unmatched() []Unmatched {
	var out []Unmatched
	directory := g.tenants.Load()
	for _, id := range directory.ids {
		for _, one := range g.look(directory.byID[id]).idle() {
			if one.known {
				out = append(out, one.Unmatched)
			}
		}
	}
	return out
}

// reportUnmatched counts the patterns that match nothing, and logs those that were not reported before. It returns all
// that count as reported. A pattern stays reported while a server that it could be about is away; otherwise a server
// that comes and goes would fill the log.
func (g *Gateway) reportUnmatched(ctx context.Context, before map[PatternPlace]bool) map[PatternPlace]bool {
	now := make(map[PatternPlace]bool)
	count := 0
	directory := g.tenants.Load()
	for _, id := range directory.ids {
		for _, one := range g.look(directory.byID[id]).idle() {
			if one.known {
				count++
			}
			if one.known || before[one.PatternPlace] {
				now[one.PatternPlace] = true
			}
			if one.known && !before[one.PatternPlace] && len(now) <= maxWarnings {
				g.config.Logger.WarnContext(ctx, "a pattern matches nothing", slog.String("code", CodeNoMatch), slog.String("tenant", id),
					slog.Int("rule", one.Rule), slog.Bool("deny", one.Deny), slog.String("pattern", one.Pattern), slog.String("nearest", one.Nearest))
			}
		}
	}
	g.config.Metrics.ConfigWarnings(CodeNoMatch, count)
	return now
}
