package gateway

import (
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// apps is what a callerView has for hosts of apps (mcp.ExtensionApps). A view calls tools
// by the names that their server gives them, and the gateway cannot tell its calls from
// those of the model, nor from which view they come. So the lists say what the host must
// know to keep them apart.
type apps struct {
	hasApps bool // a tool has a view
	// tools that views may call, by the names that their servers give them; nil: several
	// servers have one of that name. Names that a tool is exposed under are not among
	// them
	own     map[string]*registry.Tool
	aliases []*registry.Item // of them, as they are listed
}

// readableViews returns which views of apps can be read, by their exposed URIs. They
// stand behind all items in what is allowed.
func readableViews(view *registry.View, allowed bitset) map[string]bool {
	readable := make(map[string]bool)
	first := itemsOf(view)
	for i, uri := range view.AppURIs() {
		readable[uri] = allowed.has(first + i)
	}
	return readable
}

// listTools makes the lists of tools out of all that are listed to anybody, and of the
// items by which they are. Clients that host no apps do not see the tools that only views
// are meant to call.
func (m *callerView) listTools(view *registry.View, tools []*registry.Tool, items []*registry.Item) {
	for i, tool := range tools {
		if !tool.AppOnly {
			m.enter(listedTools, tool, items[i])
		}
		if !m.hasApps {
			continue
		}
		item := items[i]
		if !view.Extensions(tool.Server).Has(mcp.ExtensionApps) {
			item = tool.ListedAs(registry.ForModels)
		}
		m.enter(listedForApps, tool, item)
	}
	if m.hasApps {
		m.nameOwn(view, tools)
	}
}

// enter adds a tool to one of the lists of tools and, where some tools run as tasks only,
// to the same list with those.
func (m *callerView) enter(list listKind, tool *registry.Tool, item *registry.Item) {
	if m.tasked {
		with := withTasks[list]
		m.lists[with] = append(m.lists[with], item)
	}
	if !tool.TaskOnly {
		m.lists[list] = append(m.lists[list], item)
	}
}

// nameOwn finds which tools views may call by the names that their servers give them, and
// lists them so as well.
func (m *callerView) nameOwn(view *registry.View, tools []*registry.Tool) {
	m.own = make(map[string]*registry.Tool)
	listed := make(map[string]bool, len(tools))
	for _, tool := range tools {
		listed[tool.Exposed] = true
	}
	for _, tool := range tools {
		if !tool.ForApps || !view.Extensions(tool.Server).Has(mcp.ExtensionApps) ||
			m.tool(tool.Name) != nil || listed[tool.Name] ||
			m.tool(tool.Exposed) == nil { // it is listed only
			continue
		}
		if _, several := m.own[tool.Name]; several {
			m.own[tool.Name] = nil
			continue
		}
		m.own[tool.Name] = tool
	}
	for _, tool := range tools {
		if m.own[tool.Name] == tool && tool.ListsOwnName() {
			alias := tool.ListedAs(registry.OwnNamed)
			m.aliases = append(m.aliases, alias)
			m.enter(listedForApps, tool, alias)
		}
	}
}

// isAmbiguous tells whether views of several servers may mean another tool by that name.
func (m *callerView) isAmbiguous(name string) bool {
	tool, known := m.own[name]
	return known && tool == nil
}
