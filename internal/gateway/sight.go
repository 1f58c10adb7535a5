package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// maxGrants is how many different sets of rules are remembered per tenant and catalogue; further ones are worked out
// each time.
const maxGrants = 1024

// sight is what a tenant sees of one catalogue.
type sight struct {
	catalogue *registry.Catalogue
	view      *registry.View
	grants    sync.Map // ruleSet → *grant
	count     atomic.Int32
}

// grant is what callers with one set of matching rules see and may use: one decision for list and call. It is
// immutable and made once per change of catalogue or policy.
type grant struct {
	tools  []*granted
	byName map[string]*granted
	digest string

	first atomic.Pointer[mcp.Object] // the first page of tools/list, once somebody asked
}

// granted is a tool that a caller may use, with the buckets that its calls cost.
type granted struct {
	tool    *registry.Tool
	index   int
	buckets []ratelimit.Bucket
}

// look returns what the tenant sees of the present catalogue.
func (g *Gateway) look(t *Tenant) *sight {
	catalogue := g.config.Registry.Catalogue()
	if s := t.seen.Load(); s != nil && s.catalogue == catalogue {
		return s
	}
	s := &sight{catalogue: catalogue, view: catalogue.View(t.servers)}
	t.seen.Store(s)
	return s
}

// grantOf returns what the caller sees and may use now.
func (g *Gateway) grantOf(c Caller) *grant {
	s := g.look(c.Tenant)
	if known, ok := s.grants.Load(c.rules); ok {
		return known.(*grant)
	}
	made := g.newGrant(c.Tenant, s.view, c.rules)
	if s.count.Add(1) > maxGrants {
		return made
	}
	kept, _ := s.grants.LoadOrStore(c.rules, made)
	return kept.(*grant)
}

func (g *Gateway) newGrant(t *Tenant, view *registry.View, rules ruleSet) *grant {
	made := &grant{byName: make(map[string]*granted)}
	hash := sha256.New()
	server := ""
	for _, tool := range view.Tools {
		if !t.allows(rules, tool.Exposed) {
			continue
		}
		one := &granted{tool: tool, index: len(made.tools), buckets: t.bucketsOf(tool)}
		made.tools = append(made.tools, one)
		made.byName[tool.Exposed] = one
		if tool.Server != server {
			server = tool.Server
			hash.Write(strconv.AppendUint(nil, view.Announced(server, registry.KindTool), 10))
		}
		hash.Write(tool.Raw)
		hash.Write([]byte{'\n'})
	}
	made.digest = hex.EncodeToString(hash.Sum(nil))
	return made
}

// bucketsOf returns the buckets of one tool, one for each pattern that its name matches.
func (t *Tenant) bucketsOf(tool *registry.Tool) []ratelimit.Bucket {
	var buckets []ratelimit.Bucket
	for _, l := range t.tools {
		if match(l.pattern, tool.Exposed) {
			key := "tool\x00" + t.ID + "\x00" + l.pattern + "\x00" + tool.Exposed
			buckets = append(buckets, ratelimit.Bucket{Key: key, Limit: l.limit})
		}
	}
	return buckets
}

// Digests identify the lists that a caller sees: each changes when, and only when, its list does, or a server of which
// the caller sees something in it says so.
type Digests struct{ Tools, Prompts, Resources string } // Resources: with their templates

// Lists returns the digests of what the caller sees now.
func (g *Gateway) Lists(c Caller) Digests { return Digests{Tools: g.grantOf(c).digest} }

// HeaderParams returns the Mcp-Param-* headers that repeat arguments of the named tool, none when the caller does not
// see it.
func (g *Gateway) HeaderParams(c Caller, tool string) []registry.HeaderParam {
	if found := g.grantOf(c).byName[tool]; found != nil {
		return found.tool.Headers
	}
	return nil
}

// Warnings returns what an operator should mend in the present catalogue, with the cure: tools that are left out
// because another server's tool has their name.
func (g *Gateway) Warnings() []string {
	var warnings []string
	directory := g.tenants.Load()
	for _, id := range directory.ids {
		for _, c := range g.look(directory.byID[id]).view.Collisions {
			warnings = append(warnings, fmt.Sprintf(
				"tenant %s: tool %q of server %s is left out, because server %s, which stands before it, has a tool of that name; give one of them another prefix, or change the order of servers",
				id, c.Exposed, c.Dropped, c.Kept))
		}
	}
	return warnings
}

// reportCollisions counts the tools that are left out for their names, and logs those that were not reported before. It
// returns what is reported now.
func (g *Gateway) reportCollisions(ctx context.Context, before map[registry.Collision]bool) map[registry.Collision]bool {
	now := make(map[registry.Collision]bool)
	dropped := make(map[string]int)
	for c := range before {
		dropped[c.Dropped] = 0
	}
	directory := g.tenants.Load()
	for _, id := range directory.ids {
		for _, c := range g.look(directory.byID[id]).view.Collisions {
			if !now[c] {
				dropped[c.Dropped]++
				now[c] = true
			}
			if !before[c] {
				g.config.Logger.WarnContext(ctx, "tool left out: its name is taken", slog.String("tenant", id),
					slog.String("tool", c.Exposed), slog.String("server", c.Dropped), slog.String("kept_by", c.Kept),
					slog.String("cure", "give one server another prefix"))
			}
		}
	}
	for server, n := range dropped {
		g.config.Metrics.ToolRefused(server, "collision", n)
	}
	return now
}
