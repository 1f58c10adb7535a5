package gateway

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// look returns what the tenant sees of the present catalogue.
func (g *Gateway) look(t *Tenant) *sight {
	catalogue := g.config.Registry.Catalogue()
	if s := t.seen.Load(); s != nil && s.catalogue == catalogue {
		return s
	}
	s := &sight{catalogue: catalogue, view: catalogue.View(t.servers)}
	s.idle = sync.OnceValue(func() []idle { return t.idle(s.view) })
	t.seen.Store(s)
	return s
}

// sightOf returns what the tenant of the caller sees of the present catalogue, with the
// lists that servers have for the caller alone.
func (g *Gateway) sightOf(c *Caller) *sight {
	s := g.look(c.Tenant)
	if c.personal.lists == nil {
		return s
	}
	return s.with(c)
}

// with returns the sight of those to whom servers offer the lists of the caller.
func (s *sight) with(c *Caller) *sight {
	var key []byte
	for _, server := range s.view.Personal {
		number := uint64(0)
		if own := c.personal.lists[server.Name]; own != nil {
			number = own.Number()
		}
		key = binary.BigEndian.AppendUint64(key, number)
	}
	if known, ok := s.ofOthers.Load(string(key)); ok {
		return known.(*sight)
	}
	if s.others.Add(1) > maxGrants { // lists that nobody has any more would fill the memory
		s.ofOthers.Clear()
		s.others.Store(1)
	}
	made := &sight{
		catalogue: s.catalogue, view: s.catalogue.ViewOf(c.Tenant.servers, c.personal.lists), personal: true,
	}
	kept, _ := s.ofOthers.LoadOrStore(string(key), made)
	return kept.(*sight)
}

// informed returns what servers offer to the caller alone. It waits for that as long as
// registry.Personal does.
func (g *Gateway) informed(ctx context.Context, c *Caller) personalLists {
	servers := g.look(c.Tenant).view.Personal
	if len(servers) == 0 {
		return personalLists{}
	}
	return askedOf(ctx, servers, c.Principal)
}

// reminded is informed without a request.
func (g *Gateway) reminded(c *Caller) personalLists {
	servers := g.look(c.Tenant).view.Personal
	if len(servers) == 0 {
		return personalLists{}
	}
	return knownOf(servers, c.Principal)
}

// lookAs returns what the caller sees of the present catalogue whose client declares these
// extensions. Nearly everywhere that is the same for all.
func (g *Gateway) lookAs(c *Caller, declared mcp.Extensions) *sight {
	s := g.sightOf(c)
	if view := s.view.For(declared); view != s.view {
		return s.of(view)
	}
	return s
}

// of returns what is seen through one of the variants of the view.
func (s *sight) of(view *registry.View) *sight {
	if known, ok := s.variants.Load(view); ok {
		return known.(*sight)
	}
	known, _ := s.variants.LoadOrStore(view,
		&sight{catalogue: s.catalogue, view: view, idle: s.idle, personal: s.personal})
	return known.(*sight)
}

// grantOf returns what the caller may see and use now, whatever its client declares.
func (g *Gateway) grantOf(c Caller) *grant { return g.grantIn(g.sightOf(&c), c) }

// grantAs returns what the caller may see and use now whose client declares these
// extensions.
func (g *Gateway) grantAs(c Caller, declared mcp.Extensions) *grant {
	return g.grantIn(g.lookAs(&c, declared), c)
}

// grantIn returns what the caller may see and use of what its tenant sees.
func (g *Gateway) grantIn(s *sight, c Caller) *grant {
	if known, ok := s.grants.Load(c.rules); ok {
		return known.(*grant)
	}
	allowed := c.Tenant.allowed(s.view, c.rules)
	if s.count.Add(1) > maxGrants {
		return newGrant(s.view, allowed, g.grants.compared)
	}
	if s.personal { // it ends with the sight
		kept, _ := s.grants.LoadOrStore(c.rules, newGrant(s.view, allowed, g.grants.compared))
		return kept.(*grant)
	}
	kept, _ := s.grants.LoadOrStore(c.rules, g.grants.of(s, allowed))
	return kept.(*grant)
}

// toolBuckets appends the buckets of tools that a call of the tool costs the user of the
// caller.
func (g *Gateway) toolBuckets(buckets []ratelimit.Bucket, tool *registry.Tool,
	caller *Caller,
) []ratelimit.Bucket {
	t := caller.Tenant
	if tool == nil || len(t.tools) == 0 {
		return buckets
	}
	s := g.sightOf(caller)
	known, ok := s.buckets.Load(tool)
	if !ok {
		known, _ = s.buckets.LoadOrStore(tool, t.bucketsOf(tool))
	}
	own := len(buckets)
	buckets = append(buckets, known.([]ratelimit.Bucket)...)
	key := caller.key()
	for i := own; i < len(buckets); i++ {
		buckets[i].Sharer = key
	}
	return buckets
}

// bucketsOf returns the buckets that a call of the tool costs: one for each pattern of
// the limits that fits its name. All users share them, so they name no sharer yet.
func (t *Tenant) bucketsOf(tool *registry.Tool) []ratelimit.Bucket {
	var buckets []ratelimit.Bucket
	n := policyNameOf(&tool.Item)
	for _, l := range t.tools {
		if n.fits(l.pattern) {
			key := "tool\x00" + t.ID + "\x00" + l.pattern + "\x00" + tool.Exposed
			buckets = append(buckets, ratelimit.Bucket{Key: key, Limit: l.limit, Group: t.ID})
		}
	}
	return buckets
}

// Lists returns the digests of the lists that the caller sees now, whatever its client
// declares.
func (g *Gateway) Lists(c Caller) Digests {
	s := g.sightOf(&c)
	all := g.grantIn(s, c).digests
	for _, view := range s.view.Variants() {
		all = all.and(g.grantIn(s.of(view), c).digests)
	}
	return all
}

// HeaderParams returns which arguments of the named tool are repeated in Mcp-Param-*
// headers. It returns none if the caller does not see the tool.
func (g *Gateway) HeaderParams(c Caller, tool string) []registry.HeaderParam {
	granted := g.grantOf(c)
	found := granted.tool(tool)
	if found == nil {
		found = granted.own[tool]
	}
	if found != nil {
		return found.Headers
	}
	return nil
}
