package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"slices"
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

// sight is what a tenant sees of one state of the catalogue.
type sight struct {
	catalogue *registry.Catalogue
	view      *registry.View
	grants    sync.Map // ruleSet → *grant
	count     atomic.Int32
	idle      func() []idle // patterns not known to match anything; worked out once
}

// grant is what callers with one set of matching rules see and may use: lists and calls follow from the same decision.
// It is immutable, and is made once per change of catalogue or policy.
type grant struct {
	byName  map[string]*granted // tools, also those of servers that have been down for long, which no list shows
	lists   [listKinds]list
	tasked  bool // some tools run only as tasks
	digests Digests
}

// list is one list as callers with a grant see it.
type list struct{ items []*registry.Item }

// granted is a tool that a caller may use, with the buckets that its calls cost. It is shared by all callers with the
// same grant, so the buckets name no sharer yet.
type granted struct {
	tool    *registry.Tool
	buckets []ratelimit.Bucket
}

// bucketsFor returns the buckets that a call of the tool costs that user.
func (t *granted) bucketsFor(user string) []ratelimit.Bucket {
	buckets := slices.Clone(t.buckets)
	for i := range buckets {
		buckets[i].Sharer = user
	}
	return buckets
}

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

// grantOf returns what the caller may see and use now.
func (g *Gateway) grantOf(c Caller) *grant {
	s := g.look(c.Tenant)
	if known, ok := s.grants.Load(c.rules); ok {
		return known.(*grant)
	}
	made := newGrant(c.Tenant, s.view, c.rules)
	if s.count.Add(1) > maxGrants {
		return made
	}
	kept, _ := s.grants.LoadOrStore(c.rules, made)
	return kept.(*grant)
}

func newGrant(t *Tenant, view *registry.View, rules ruleSet) *grant {
	made := &grant{byName: make(map[string]*granted)}
	var all []*registry.Item
	for _, tool := range view.Tools {
		if !t.allows(rules, &tool.Item) || isStranded(tool) {
			continue
		}
		made.byName[tool.Exposed] = &granted{tool: tool, buckets: t.bucketsOf(tool)}
		if !view.Lists(tool.Server) {
			continue
		}
		all = append(all, &tool.Item)
		if needsTask(tool) {
			made.tasked = true
			continue
		}
		made.lists[listedTools].items = append(made.lists[listedTools].items, &tool.Item)
	}
	if made.tasked {
		made.lists[listedAllTools].items = all
	}
	for _, prompt := range view.Prompts {
		made.lists[listedPrompts].add(t, view, rules, &prompt.Item)
	}
	for _, resource := range view.Resources {
		made.lists[listedResources].add(t, view, rules, &resource.Item)
	}
	for _, template := range view.Templates {
		made.lists[listedTemplates].add(t, view, rules, &template.Item)
	}
	made.digests = Digests{
		Tools:     digest(view, all),
		Prompts:   digest(view, made.lists[listedPrompts].items),
		Resources: digest(view, made.lists[listedResources].items, made.lists[listedTemplates].items),
	}
	return made
}

// add adds the item if the rules allow it and its server has not been down for long.
func (l *list) add(t *Tenant, view *registry.View, rules ruleSet, item *registry.Item) {
	if view.Lists(item.Server) && t.allows(rules, item) {
		l.items = append(l.items, item)
	}
}

// listFor returns the list that a request is for. Clients that can ask for tasks see the tools that run only so.
func (m *grant) listFor(r *Request) listKind {
	kind := listOf(r.Method)
	if kind == listedTools && m.tasked && r.Tasks == mcp.TasksAsked {
		return listedAllTools
	}
	return kind
}

// digest returns a digest of lists of items. It also changes when a server of one of the items announces a change.
func digest(view *registry.View, lists ...[]*registry.Item) string {
	sum := sha256.New()
	for _, items := range lists {
		server := ""
		for _, item := range items {
			if item.Server != server {
				server = item.Server
				sum.Write(strconv.AppendUint(nil, view.Announced(item.Server, item.Kind), 10))
			}
			line(sum, item.Raw)
		}
		line(sum, nil)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func line(sum hash.Hash, raw mcp.RawJSON) {
	sum.Write(raw)
	sum.Write([]byte{'\n'})
}

// shown returns the definition of an item in the form in which the lists of the tenant show it.
func (m *grant) shown(t *Tenant, item *registry.Item) mcp.RawJSON {
	if t.inlineRefs && item.Kind == registry.KindTool {
		return m.byName[item.Exposed].tool.Inlined()
	}
	return item.Raw
}

// bucketsOf returns the buckets that a call of the tool costs: one for each pattern of the limits that fits its name.
func (t *Tenant) bucketsOf(tool *registry.Tool) []ratelimit.Bucket {
	var buckets []ratelimit.Bucket
	n := policyNameOf(&tool.Item)
	for _, l := range t.tools {
		if n.fits(l.pattern) {
			key := "tool\x00" + t.ID + "\x00" + l.pattern + "\x00" + tool.Exposed
			buckets = append(buckets, ratelimit.Bucket{Key: key, Limit: l.limit})
		}
	}
	return buckets
}

// Digests identify the lists that a caller sees. Each changes if, and only if, its list changes, or a server of which
// the list has at least one item announces a change. The digest of the tools covers also those that run only as tasks,
// so it is the same for all clients of a caller.
type Digests struct{ Tools, Prompts, Resources string } // Resources: with their templates

// of returns the digest that covers a list.
func (d *Digests) of(kind listKind) string {
	switch kind {
	case listedTools, listedAllTools:
		return d.Tools
	case listedPrompts:
		return d.Prompts
	default:
		return d.Resources
	}
}

// Lists returns the digests of the lists that the caller sees now.
func (g *Gateway) Lists(c Caller) Digests { return g.grantOf(c).digests }

// HeaderParams returns which arguments of the named tool are repeated in Mcp-Param-* headers. It returns none if the
// caller does not see the tool.
func (g *Gateway) HeaderParams(c Caller, tool string) []registry.HeaderParam {
	if found := g.grantOf(c).byName[tool]; found != nil && !needsTask(found.tool) {
		return found.tool.Headers
	}
	return nil
}
