package gateway

import (
	"cmp"
	"context"
	"encoding/binary"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// tenantViewFor returns what the tenant sees of the present catalogue.
func (g *Gateway) tenantViewFor(t *Tenant) *tenantView {
	catalogue := g.config.Registry.Catalogue()
	if s := t.seen.Load(); s != nil && s.catalogue == catalogue {
		return s
	}
	s := &tenantView{catalogue: catalogue, view: catalogue.View(t.servers)}
	s.idle = sync.OnceValue(func() []idle { return t.idle(s.view, false) })
	t.seen.Store(s)
	return s
}

// tenantViewOf returns what the tenant of the caller sees of the present catalogue, with
// the lists that servers have for the caller alone.
func (g *Gateway) tenantViewOf(c *Caller) *tenantView {
	s := g.tenantViewFor(c.Tenant)
	if c.personal.lists == nil {
		return s
	}
	return s.with(c)
}

// with returns the view of those to whom servers offer the lists of the caller.
func (s *tenantView) with(c *Caller) *tenantView {
	var key []byte
	for _, server := range s.view.Personal {
		key = binary.BigEndian.AppendUint64(key, c.personal.lists[server.Name].Number())
	}
	// without a bound, lists that nobody has any more would fill the memory
	return s.ofOthers.get(string(key), maxCallerViews, func() *tenantView {
		view := s.catalogue.ViewOf(c.Tenant.servers, c.personal.lists)
		return &tenantView{catalogue: s.catalogue, view: view, personal: true}
	})
}

// informed returns what servers offer to the caller alone. It waits for that as long as
// registry.Personal does.
func (g *Gateway) informed(ctx context.Context, c *Caller) personalLists {
	servers := g.tenantViewFor(c.Tenant).view.Personal
	if len(servers) == 0 {
		return personalLists{}
	}
	return askedOf(ctx, servers, c.Principal)
}

// tenantViewAs returns what the caller sees of the present catalogue whose client
// declares these extensions. Nearly everywhere that is the same for all.
func (g *Gateway) tenantViewAs(c *Caller, declared mcp.Extensions) *tenantView {
	s := g.tenantViewOf(c)
	if view := s.view.For(declared); view != s.view {
		return s.of(view)
	}
	return s
}

// of returns what is seen through one of the variants of the view.
func (s *tenantView) of(view *registry.View) *tenantView {
	return s.variants.get(view, unbounded, func() *tenantView {
		return &tenantView{catalogue: s.catalogue, view: view, personal: s.personal}
	})
}

// callerViewOf returns what the caller may see and use now, whatever its client declares.
func (g *Gateway) callerViewOf(c Caller) *callerView { return g.callerViewIn(g.tenantViewOf(&c), c) }

// callerViewAs returns what the caller may see and use now whose client declares these
// extensions.
func (g *Gateway) callerViewAs(c Caller, declared mcp.Extensions) *callerView {
	return g.callerViewIn(g.tenantViewAs(&c, declared), c)
}

// callerViewIn returns what the caller may see and use of what its tenant sees.
func (g *Gateway) callerViewIn(s *tenantView, c Caller) *callerView {
	return s.callers.get(c.rules, maxCallerViews, func() *callerView {
		allowed := c.Tenant.allowed(s.view, c.rules)
		// where there are other replicas, what callers see here may be compared with what
		// they see there
		makes := func() *callerView { return newCallerView(s.view, allowed, g.self != "") }
		// it ends with the tenant's view, or this tenant alone could have any number
		if s.personal || s.callers.made.Load() > maxCallerViews {
			return makes()
		}
		return g.callerViews.get(callerViewKey{s.view, allowed}, unbounded, makes)
	})
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
	s := g.tenantViewOf(caller)
	known := s.buckets.get(tool, unbounded, func() []ratelimit.Bucket { return t.bucketsOf(tool) })
	own := len(buckets)
	buckets = append(buckets, known...)
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
	s := g.tenantViewOf(&c)
	all := g.callerViewIn(s, c).digests
	for _, view := range s.view.Variants() {
		all = all.and(g.callerViewIn(s.of(view), c).digests)
	}
	return all
}

// HeaderParams returns which arguments of the named tool are repeated in Mcp-Param-*
// headers by clients that declare these extensions. It returns none if the caller does
// not see the tool.
func (g *Gateway) HeaderParams(c Caller, declared mcp.Extensions, tool string) []registry.HeaderParam {
	visible := g.callerViewAs(c, declared)
	if found := cmp.Or(visible.tool(tool), visible.own[tool]); found != nil {
		return found.Headers
	}
	return nil
}
