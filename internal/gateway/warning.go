package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

// Warnings returns what an operator should mend, and how: items that are left out because
// another server has one of the same name, tools that nobody can call, and patterns that
// match nothing. They are shared: do not modify them. Load balancers ask every second, so
// that they are worked out once for each state of tenants and catalogue.
func (g *Gateway) Warnings() []string {
	return g.tenants.Load().warnings.get(g.config.Registry.Catalogue(), 1, g.newWarnings)
}

func (g *Gateway) newWarnings() []string {
	warnings := g.LeftOut()
	for _, u := range g.Unmatched() {
		warnings = append(warnings, u.String())
	}
	if more := len(warnings) - maxWarnings; more > 0 {
		warnings = append(warnings[:maxWarnings], fmt.Sprintf("%d more of such warnings", more))
	}
	return warnings
}

// LeftOut returns those of Warnings that are about items and not about patterns, all of
// them.
func (g *Gateway) LeftOut() (warnings []string) {
	said := make(map[*registry.Tool]bool)
	directory := g.tenants.Load()
	for _, id := range directory.ids {
		view := g.tenantViewFor(directory.byID[id]).view
		for _, c := range view.Collisions {
			warnings = append(warnings, fmt.Sprintf(
				"tenant %s: %s %q of server %s is left out, because server %s, which stands before it, has "+
					"one of that name; give one of them another prefix, or change the order of servers",
				id, c.Kind, c.Exposed, c.Dropped, c.Winner))
		}
		if with := serversWithApps(view); len(with) > 1 {
			warnings = append(warnings, fmt.Sprintf(
				"tenant %s: servers %s have apps; to hosts they are one server, so that an app of one can "+
					"call tools of the others; deny those tools, or give each server a tenant of its own",
				id, strings.Join(with, ", ")))
		}
		for _, tool := range view.Tools {
			if isUncallable(tool) && !said[tool] {
				said[tool] = true
				warnings = append(warnings, fmt.Sprintf(
					"tool %q of server %s is left out, because it runs as a task only, which its server "+
						"does not offer; let the server declare tasks, or allow calls without one",
					tool.Exposed, tool.Server))
			}
		}
	}
	return warnings
}

// serversWithApps returns the servers of a view that have apps.
func serversWithApps(view *registry.View) (servers []string) {
	for _, tool := range view.Tools {
		if tool.AppURI != "" && !slices.Contains(servers, tool.Server) {
			servers = append(servers, tool.Server)
		}
	}
	return servers
}

// reportCollisions counts the items that are left out because of their names, and logs
// those that were not reported before, each once: Warnings names all tenants that have
// it. It returns all that count as reported.
func (g *Gateway) reportCollisions(ctx context.Context,
	before map[registry.Collision]bool,
) map[registry.Collision]bool {
	now := make(map[registry.Collision]bool)
	lines := 0
	dropped := make(map[string]int)
	for c := range before {
		dropped[c.Dropped] = 0
	}
	directory := g.tenants.Load()
	for _, id := range directory.ids {
		for _, c := range g.tenantViewFor(directory.byID[id]).view.Collisions {
			if now[c] {
				continue
			}
			now[c] = true
			dropped[c.Dropped]++
			if !before[c] && lines < maxWarnings {
				lines++
				g.config.Logger.WarnContext(ctx, "item left out: its name is taken",
					slog.String("tenant", id),
					slog.String("kind", string(c.Kind)), slog.String("item", c.Exposed),
					slog.String("server", c.Dropped), slog.String("kept_by", c.Winner),
					slog.String("cure", "give one server another prefix"))
			}
		}
	}
	for server, n := range dropped {
		g.config.Metrics.ItemsRefused(server, "collision", n)
	}
	return now
}

// Unmatched returns the patterns of all tenants that match nothing in the present
// catalogue, except acknowledged ones, in the order of tenants and of places in them.
func (g *Gateway) Unmatched() []Unmatched {
	var out []Unmatched
	directory := g.tenants.Load()
	for _, id := range directory.ids {
		out = append(out, certain(g.tenantViewFor(directory.byID[id]).idle())...)
	}
	return out
}

// reportUnmatched counts the patterns that match nothing, and logs those that were not
// reported before. It returns all that count as reported. A pattern stays reported while
// a server that it could be about is away; otherwise a server that comes and goes would
// fill the log.
func (g *Gateway) reportUnmatched(ctx context.Context,
	before map[PatternPosition]bool,
) map[PatternPosition]bool {
	now := make(map[PatternPosition]bool)
	count, lines := 0, 0
	directory := g.tenants.Load()
	for _, id := range directory.ids {
		for _, one := range g.tenantViewFor(directory.byID[id]).idle() {
			if one.known {
				count++
			}
			if one.known || before[one.PatternPosition] {
				now[one.PatternPosition] = true
			}
			if one.known && !before[one.PatternPosition] && lines < maxWarnings {
				lines++
				g.config.Logger.WarnContext(ctx, "a pattern matches nothing",
					slog.String("code", CodeNoMatch), slog.String("tenant", id),
					slog.Int("rule", one.Rule), slog.Bool("deny", one.Deny),
					slog.String("pattern", one.Pattern), slog.String("nearest", one.Nearest))
			}
		}
	}
	g.config.Metrics.ConfigWarnings(CodeNoMatch, count)
	return now
}
