package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// maxCallerViews is how many different sets of rules are remembered per tenant and
// catalogue, and how many of lists for users.
const maxCallerViews = 1024

// tenantView is what a tenant sees of one state of the catalogue.
type tenantView struct {
	catalogue *registry.Catalogue
	view      *registry.View
	callers   cache[ruleSet, *callerView]
	buckets   cache[*registry.Tool, []ratelimit.Bucket] // of the tools that were called
	// patterns not known to match anything; worked out once. nil where nobody asks for
	// them
	idle func() []idle
	// what clients see by the extensions that they declare, where lists depend on them
	variants cache[*registry.View, *tenantView]

	personal bool                       // of users to whom servers offer lists of their own
	ofOthers cache[string, *tenantView] // of such users, by the numbers of their lists
}

// callerViewKey is what a callerView depends on. Tenants with the same servers have the
// same view.
type callerViewKey struct {
	view    *registry.View
	allowed grants
}

// callerView is what callers to whom the same is allowed see and may use: lists and calls
// follow from the same decision. Lists have also what is announced and may not be used.
// It is immutable, and is made once per change of catalogue or policy. Tenants with the
// same servers share it, so there is nothing of a tenant in it.
type callerView struct {
	// ordered by exposed name; also those of servers that have been down for long, which
	// no list shows
	tools   []*registry.Tool
	lists   [listKinds][]*registry.Item
	tasked  bool // some tools run only as tasks
	digests Digests
	// of the servers of which at least one item is listed
	extensions mcp.Extensions
	apps       // nothing where no server has any
}

// tool returns the tool with that exposed name, nil if those callers may not use
// one.
func (m *callerView) tool(name string) *registry.Tool {
	i, found := slices.BinarySearchFunc(m.tools, name,
		func(t *registry.Tool, name string) int { return strings.Compare(t.Exposed, name) })
	if !found {
		return nil
	}
	return m.tools[i]
}

// newCallerView returns the view of what is allowed, whose lists have what is announced,
// too; see Tenant.allowed. Its digests have Content only if that is compared.
func newCallerView(view *registry.View, allowed grants, compared bool) *callerView {
	made := &callerView{}
	views := readableViews(view, allowed.usable)
	var all []*registry.Item
	var shown []*registry.Tool // the same
	for i, tool := range view.Tools {
		mayUse, listed := allowed.of(i)
		if !listed || isUncallable(tool) {
			continue
		}
		if mayUse {
			made.tools = append(made.tools, tool)
		}
		if !view.Lists(tool.Server) {
			continue
		}
		made.hasApps = made.hasApps || tool.AppURI != ""
		form := &tool.Item
		if tool.AppURI != "" && !views[tool.AppURI] {
			form = tool.ListedAs(registry.Viewless)
		}
		all, shown = append(all, form), append(shown, tool)
		made.tasked = made.tasked || tool.TaskOnly
	}
	for i, item := range itemsIn(view)[len(view.Tools):] {
		if _, listed := allowed.of(len(view.Tools) + i); listed && view.Lists(item.Server) {
			kind := listsOfKinds[item.Kind]
			made.lists[kind] = append(made.lists[kind], item)
		}
	}
	slices.SortFunc(made.tools,
		func(a, b *registry.Tool) int { return strings.Compare(a.Exposed, b.Exposed) })
	made.listTools(view, shown, all)
	made.extensions = extensionsOf(view, made)
	for i, lists := range [...][][]*registry.Item{
		digestOfTools: {all, made.aliases}, digestOfPrompts: {made.lists[listedPrompts]},
		digestOfResources: {
			made.lists[listedResources], made.lists[listedTemplates], made.lists[listedSkills],
		},
	} {
		made.digests[i].Listed = digest(view.Announced, lists...)
		if compared {
			made.digests[i].Content = digest(unannounced, lists...)[:contentDigits]
		}
	}
	return made
}

// extensionsOf returns the extensions of the servers of a callerView, in the order of the
// view.
func extensionsOf(view *registry.View, made *callerView) (all mcp.Extensions) {
	for _, list := range made.lists {
		for i, item := range list {
			if i == 0 || item.Server != list[i-1].Server {
				all = all.With(view.Extensions(item.Server))
			}
		}
	}
	return all
}

// contentDigits is how many digits of a digest are kept of what lists hold.
const contentDigits = 16

// unannounced is for digests that leave out what servers announce.
func unannounced(string, registry.Kind) uint64 { return 0 }

// listFor returns the list that a request is for. Clients that know tasks see the tools
// that run only so.
func (m *callerView) listFor(r *Request) listKind {
	kind := listOf(r.Method)
	if kind != listedTools {
		return kind
	}
	if m.hasApps && r.Extensions.Has(mcp.ExtensionApps) {
		kind = listedForApps
	}
	if m.tasked && r.Tasks != 0 {
		kind = withTasks[kind]
	}
	return kind
}

// digest returns a digest of lists of items. It also changes when what announced says of
// a server of one of the items does.
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

// Digests identify the lists that a caller sees: those of tools, of prompts, and of
// resources with their templates and skills, in this order.
type Digests [3]Digest

// The indices in Digests.
const (
	digestOfTools = iota
	digestOfPrompts
	digestOfResources
)

// Digest identifies the lists of one kind.
type Digest struct {
	// Listed changes if, and only if, a list changes, or a server of which it has at
	// least one item announces a change. That of the tools covers also those that run
	// only as tasks, so it is the same for all clients of a caller.
	Listed string
	// Content is of the same lists, and leaves out what servers announced: replicas that
	// offer a caller the same have the same. It is empty where there are no other
	// replicas.
	Content string
}

// and returns digests that change if d or other does.
func (d Digests) and(other Digests) Digests {
	both := func(a, b string) string {
		if a == "" {
			return ""
		}
		sum := sha256.Sum256([]byte(a + b))
		return hex.EncodeToString(sum[:])[:len(a)]
	}
	for i := range d {
		d[i] = Digest{both(d[i].Listed, other[i].Listed), both(d[i].Content, other[i].Content)}
	}
	return d
}

// listKind is one of the lists that clients ask for.
type listKind int

// The lists.
const (
	listedTools      listKind = iota
	listedAllTools            // with those that run as tasks only
	listedForApps             // for hosts of apps
	listedAllForApps          // for hosts of apps, with those that run as tasks only
	listedPrompts
	listedResources
	listedTemplates
	listedSkills
	listKinds // how many there are
)

// listings says of each list by which method clients ask for it, the purpose that its
// cursors are sealed for, so that a cursor of one list is not valid for another, and
// which digest covers it.
var listings = [listKinds]struct {
	method, purpose string
	digest          int
}{
	listedTools:      {mcp.MethodToolsList, "cursor", digestOfTools},
	listedAllTools:   {mcp.MethodToolsList, "cursor of all tools", digestOfTools},
	listedForApps:    {mcp.MethodToolsList, "cursor for apps", digestOfTools},
	listedAllForApps: {mcp.MethodToolsList, "cursor of all tools for apps", digestOfTools},
	listedPrompts:    {mcp.MethodPromptsList, "cursor of prompts", digestOfPrompts},
	listedResources:  {mcp.MethodResourcesList, "cursor of resources", digestOfResources},
	listedTemplates:  {mcp.MethodTemplatesList, "cursor of templates", digestOfResources},
	listedSkills:     {mcp.MethodSkillsList, "cursor of skills", digestOfResources},
}

// withTasks has for each list of tools the one that has also those that run as tasks
// only.
var withTasks = map[listKind]listKind{listedTools: listedAllTools, listedForApps: listedAllForApps}

// listsOfKinds has the list of each kind of items but tools, of which there are several.
var listsOfKinds = map[registry.Kind]listKind{
	registry.KindPrompt: listedPrompts, registry.KindResource: listedResources,
	registry.KindTemplate: listedTemplates, registry.KindSkill: listedSkills,
}

// listOf returns the first list that a method asks for.
func listOf(method string) listKind {
	for kind := range listKinds {
		if listings[kind].method == method {
			return kind
		}
	}
	panic("gateway: no list is asked for by " + method)
}

// member is what the list is called in a result.
func (k listKind) member() string { return mcp.MethodOf(listings[k].method).Result }

func (k listKind) purpose() string { return listings[k].purpose }

// grants are what callers may do with the items of a view, kind after kind in the order
// of Kind's constants, and with the views of its apps, which stand behind all items.
type grants struct {
	usable    bitset
	announced bitset // items that are listed although they are not usable; "" where none is
}

// of tells whether callers may use one of them, and whether lists have it.
func (g grants) of(i int) (mayUse, listed bool) {
	mayUse = g.usable.has(i)
	return mayUse, mayUse || g.announced.has(i)
}

// bitset says of each of a number of things yes or no: no of those behind its end. It is
// comparable.
type bitset string

func (s bitset) has(i int) bool { return i/8 < len(s) && s[i/8]&(1<<(i%8)) != 0 }

// isUncallable tells whether nobody can call the tool, because it runs only as a task and
// its server offers no tasks.
func isUncallable(tool *registry.Tool) bool { return tool.TaskOnly && tool.Tasks != mcp.TasksAsked }

// itemsIn returns the items of a view, kind after kind: tools, prompts, resources,
// templates and skills.
func itemsIn(view *registry.View) []*registry.Item {
	all := make([]*registry.Item, 0, len(view.Tools))
	for _, tool := range view.Tools {
		all = append(all, &tool.Item)
	}
	return slices.Concat(all, view.Prompts, view.Resources, view.Templates, view.Skills)
}

// itemsOf returns how many items a view has.
func itemsOf(view *registry.View) int {
	return len(view.Tools) + len(view.Prompts) + len(view.Resources) + len(view.Templates) + len(view.Skills)
}
