package server

import (
	"bytes"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// lower removes from a result in the stateless form what the revision of a session does not know. What it knows, and
// what nobody here knows, stays as it is.
func (s *Server) lower(revision, method string, result mcp.Object) mcp.Object {
	asks := result.Text("resultType") == "input_required"
	result = lowerMeta(result.Without("resultType", "ttlMs", "cacheScope"))
	switch method {
	case mcp.MethodToolsCall:
		if asks {
			return unanswerable()
		}
		return lowerCall(revision, result)
	case mcp.MethodToolsList:
		return result.With("tools", s.lists.lower(revision, result.Value("tools")))
	}
	return result
}

// lowerMeta removes what only the stateless form has in _meta.
func lowerMeta(result mcp.Object) mcp.Object {
	if !result.Has("_meta") {
		return result
	}
	meta := result.Object("_meta").Without(mcp.MetaServerInfo)
	if meta.Len() == 0 {
		return result.Without("_meta")
	}
	return result.With("_meta", meta.JSON())
}

// unanswerable is the result of a call that would ask the user something, which nobody can pass on.
func unanswerable() mcp.Object {
	text := textBlock("This tool needs an answer from the user, and this connection cannot ask for one. The call was not carried out.")
	return mcp.NewObject(
		mcp.Member{Name: "content", Value: mcp.Array([]mcp.RawJSON{text})},
		mcp.Member{Name: "isError", Value: mcp.Bool(true)},
	)
}

func textBlock(text string) mcp.RawJSON {
	return mcp.NewObject(mcp.Member{Name: "type", Value: mcp.String("text")}, mcp.Member{Name: "text", Value: mcp.String(text)}).JSON()
}

// lowerCall brings the result of tools/call into a revision: structured content is an object since 2025-06-18, which
// also brought links to resources; audio came with 2025-03-26.
func lowerCall(revision string, result mcp.Object) mcp.Object {
	content, _ := result.Value("content").Elements()
	changed := result.Value("content") == nil // every handshake revision requires it
	structured := result.Value("structuredContent")
	if structured != nil && (revision < mcp.Revision2506 || !structured.IsObject()) {
		result = result.Without("structuredContent")
		if len(content) == 0 { // or the client would learn nothing
			content, changed = append(content, textBlock(string(structured))), true
		}
	}
	if revision < mcp.Revision2506 {
		for i, block := range content {
			if lowered := lowerBlock(revision, block); lowered != nil {
				content[i], changed = lowered, true
			}
		}
	}
	if !changed {
		return result
	}
	return result.With("content", mcp.Array(content))
}

// lowerBlock returns what stands for a block of a kind that came later, nil for one that may stay.
func lowerBlock(revision string, raw mcp.RawJSON) mcp.RawJSON {
	block, _ := mcp.ObjectOf(raw)
	switch kind := block.Text("type"); {
	case kind == "resource_link":
		text := block.Text("uri")
		if name := block.Text("name"); name != "" {
			text = name + ": " + text
		}
		return textBlock(text)
	case kind == "audio" && revision < mcp.Revision2503:
		return textBlock("[audio of type " + block.Text("mimeType") + ", which this connection cannot carry]")
	}
	return nil
}

// maxLowered is how many lists of tools are remembered in the form of an older revision.
const maxLowered = 64

// loweredLists remembers lists of tools in the form of older revisions. The desk makes a list once per change and
// hands out the same memory until then, which is what identifies it here.
type loweredLists struct {
	mu    sync.Mutex // guards the field below
	known map[loweredKey]mcp.RawJSON
}

type loweredKey struct {
	first    *byte // keeps the list alive, so that no other takes its place
	length   int
	revision string
}

func newLoweredLists() *loweredLists {
	return &loweredLists{known: make(map[loweredKey]mcp.RawJSON)}
}

// lower returns the tools in the form of a revision.
func (l *loweredLists) lower(revision string, tools mcp.RawJSON) mcp.RawJSON {
	if len(tools) == 0 || revision >= mcp.Revision2506 && !bytes.Contains(tools, []byte("outputSchema")) {
		return tools
	}
	key := loweredKey{&tools[0], len(tools), revision}
	l.mu.Lock()
	lowered, ok := l.known[key]
	l.mu.Unlock()
	if ok {
		return lowered
	}
	lowered = lowerTools(revision, tools)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.known) >= maxLowered {
		clear(l.known)
	}
	l.known[key] = lowered
	return lowered
}

func lowerTools(revision string, tools mcp.RawJSON) mcp.RawJSON {
	elements, _ := tools.Elements()
	for i, raw := range elements {
		if tool, ok := mcp.ObjectOf(raw); ok {
			elements[i] = lowerTool(revision, tool).JSON()
		}
	}
	return mcp.Array(elements)
}

// lowerTool brings a definition into a revision: an output schema describes an object since 2025-06-18, which also
// brought titles; annotations came with 2025-03-26.
func lowerTool(revision string, tool mcp.Object) mcp.Object {
	if revision < mcp.Revision2506 {
		tool = tool.Without("outputSchema", "title", "_meta")
	}
	if revision < mcp.Revision2503 {
		tool = tool.Without("annotations")
	}
	if tool.Has("outputSchema") && tool.Object("outputSchema").Text("type") != "object" {
		tool = tool.Without("outputSchema")
	}
	return tool
}
