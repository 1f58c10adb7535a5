package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"slices"
	"strconv"
	"strings"
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
	buckets   sync.Map      // *registry.Tool → []ratelimit.Bucket, of the tools that were called
	idle      func() []idle // patterns not known to match anything; worked out once
}

// grant is what callers to whom the same is allowed see and may use: lists and calls follow from the same decision. It
// is immutable, and is made once per change of catalogue or policy. Tenants with the same servers share it, so there is
// nothing of a tenant in it.
type grant struct {
	tools   []*registry.Tool // ordered by exposed name; also those of servers that have been down for long, which no list shows
	lists   [listKinds]list
	tasked  bool // some tools run only as tasks
	digests Digests
}

// list is one list as callers with a grant see it.
type list struct{ items []*registry.Item }

// tool returns the tool with that exposed name, nil if callers with the grant may not use one.
func (m *grant) tool(name string) *registry.Tool {
	i, found := slices.BinarySearchFunc(m.tools, name, func(t *registry.Tool, name string) int { return strings.Compare(t.Exposed, name) })
	if !found {
		return nil
	}
	return m.tools[i]
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
	allowed := c.Tenant.allowed(s.view, c.rules)
	if s.count.Add(1) > maxGrants {
		return newGrant(s.view, allowed, g.grants.compared)
	}
	kept, _ := s.grants.LoadOrStore(c.rules, g.grants.of(s, allowed))
	return kept.(*grant)
}

// newGrant returns the grant of what is allowed. Its digests have Content only if that is compared.
func newGrant(view *registry.View, allowed bitset, compared bool) *grant {
	made := &grant{}
	n := 0
	next := func() bool { n++; return allowed.has(n - 1) }
	var all []*registry.Item
	for _, tool := range view.Tools {
		if !next() || isStranded(tool) {
			continue
		}
		made.tools = append(made.tools, tool)
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
		made.lists[listedPrompts].add(view, next(), &prompt.Item)
	}
	for _, resource := range view.Resources {
		made.lists[listedResources].add(view, next(), &resource.Item)
	}
	for _, template := range view.Templates {
		made.lists[listedTemplates].add(view, next(), &template.Item)
	}
	slices.SortFunc(made.tools, func(a, b *registry.Tool) int { return strings.Compare(a.Exposed, b.Exposed) })
	made.digests = Digests{
		Tools:     digest(view.Announced, all),
		Prompts:   digest(view.Announced, made.lists[listedPrompts].items),
		Resources: digest(view.Announced, made.lists[listedResources].items, made.lists[listedTemplates].items),
	}
	if compared {
		made.digests.Content = [3]string{
			digest(unannounced, all)[:contentDigits],
			digest(unannounced, made.lists[listedPrompts].items)[:contentDigits],
			digest(unannounced, made.lists[listedResources].items, made.lists[listedTemplates].items)[:contentDigits],
		}
	}
	return made
}

// contentDigits is how many digits of a digest are kept of what lists hold.
const contentDigits = 16

// unannounced is for digests that leave out what servers announce.
func unannounced(string, registry.Kind) uint64 { return 0 }

// add adds the item if it is allowed and its server has not been down for long.
func (l *list) add(view *registry.View, allowed bool, item *registry.Item) {
	if allowed && view.Lists(item.Server) {
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

// digest returns a digest of lists of items. It also changes when what announced says of a server of one of the items
// does.
func digest(announced func(server string, kind registry.Kind) uint64, lists ...[]*registry.Item) string {
	sum := sha256.New()
	for _, items := range lists {
		server := ""
		for _, item := range items {
			if item.Server != server {
				server = item.Server
				sum.Write(strconv.AppendUint(nil, announced(item.Server, item.Kind), 10))
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
		return m.tool(item.Exposed).Inlined()
	}
	return item.Raw
}

// foreseen returns the tool that a call will find, if the catalogue stays as it is; nil if it will find none, or nothing
// that has a limit of its own.
func (g *Gateway) foreseen(c *call) *registry.Tool {
	if c.method.Name != mcp.MethodToolsCall || len(c.caller.Tenant.tools) == 0 {
		return nil
	}
	return g.usable(c, c.params.Text("name"))
}

// toolBuckets appends the buckets of tools that a call of the tool costs the user of the caller.
func (g *Gateway) toolBuckets(buckets []ratelimit.Bucket, tool *registry.Tool, caller *Caller) []ratelimit.Bucket {
	t := caller.Tenant
	if tool == nil || len(t.tools) == 0 {
		return buckets
	}
	s := g.look(t)
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

// bucketsOf returns the buckets that a call of the tool costs: one for each pattern of the limits that fits its name.
// All users share them, so they name no sharer yet.
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

// Digests identify the lists that a caller sees. Each changes if, and only if, its list changes, or a server of which
// the list has at least one item announces a change. The digest of the tools covers also those that run only as tasks,
// so it is the same for all clients of a caller.
type Digests struct {
	Tools, Prompts, Resources string // Resources: with their templates
	// Content are digests of the same lists, in this order, that leave out what servers announced: replicas that offer a
	// caller the same have the same. They are empty where there are no other replicas.
	Content [3]string
}

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
	if found := g.grantOf(c).tool(tool); found != nil && !needsTask(found) {
		return found.Headers
	}
	return nil
}
