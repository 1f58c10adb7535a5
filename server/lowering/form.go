package lowering

import (
	"bytes"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// forms are those of the items of lists, by revision. The desk applies them, which
// remembers what comes of it. It is never changed.
var forms = formsOf(mcp.Revisions())

// Form returns the form that the items of lists have in a revision.
func Form(revision string) *gateway.Form { return forms[revision] }

func formsOf(revisions []string) map[string]*gateway.Form {
	table := make(map[string]*gateway.Form, len(revisions))
	for _, revision := range revisions {
		table[revision] = &gateway.Form{
			Revision: revision,
			Differs:  func(kind string, item mcp.RawJSON) bool { return mayDiffer(kind, revision, item) },
			Of: func(kind string, item mcp.RawJSON) mcp.RawJSON {
				definition, ok := mcp.ObjectOf(item)
				if !ok {
					return item
				}
				return lowerItem(kind, revision, definition).JSON()
			},
		}
	}
	return table
}

// mayDiffer is a cheap test whether an item can have another form in a revision.
func mayDiffer(kind, revision string, item mcp.RawJSON) bool {
	switch {
	case kind == mcp.ResultSkills: // hosts compare them byte by byte
		return false
	case revision < mcp.Revision2511:
		return true
	case kind != mcp.ResultTools:
		return false
	}
	if Tasks(revision) != 0 {
		return bytes.Contains(item, []byte(`"outputSchema"`))
	}
	return bytes.Contains(item, []byte(`"execution"`))
}

// lowerItem brings the definition of an item into a revision. Icons exist since
// 2025-11-25, titles, also of the arguments of prompts, and _meta since 2025-06-18.
func lowerItem(kind, revision string, item mcp.Object) mcp.Object {
	if revision < mcp.Revision2511 {
		item = item.Without("icons")
	}
	if revision < mcp.Revision2506 {
		item = item.Without("title", "_meta")
	}
	switch {
	case kind == mcp.ResultTools:
		return lowerTool(revision, item)
	case kind == mcp.ResultPrompts && revision < mcp.Revision2506:
		return withoutEach(item, "arguments", "title")
	}
	return item
}

// lowerTool brings what only tools have into a revision. Annotations exist since
// 2025-03-26. An output schema must describe an object since 2025-06-18, and may describe
// any value since 2026-07-28. How a tool runs as a task concerns the clients of one
// revision only.
func lowerTool(revision string, tool mcp.Object) mcp.Object {
	if Tasks(revision) == 0 {
		tool = tool.Without("execution")
	}
	if revision < mcp.Revision2503 {
		tool = tool.Without("annotations")
	}
	if revision < mcp.Revision2506 || revision < mcp.Revision2607 &&
		tool.Object("outputSchema").Text("type") != "object" {
		tool = tool.Without("outputSchema")
	}
	return tool
}

// HasMethod tells whether sessions of that revision have the method. It is true for a
// method that nobody knows: the desk refuses that.
func HasMethod(revision, method string) bool {
	known := mcp.MethodOf(method)
	return known.Only != mcp.Modern && (!known.OfTasks() || Tasks(revision) != 0)
}

// Tasks returns the form of tasks that clients of the revision know.
func Tasks(revision string) mcp.Tasks {
	if revision == mcp.Revision2511 {
		return mcp.TasksAsked
	}
	return 0
}
