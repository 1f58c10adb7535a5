package registry

import (
	"bytes"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// This file maps the URIs in results and errors of servers with a prefix to their exposed form. Most results have no
// URI, so it looks for one in the bytes first, and takes apart only values that may have one.
//
//	result ── content ─────────── block: resource_link, resource, tool_result (again content)
//	       ├─ contents ────────── the contents of a resource
//	       ├─ messages ────────── message ── content
//	       ├─ inputRequests ───── a request for sampling ── params ── messages
//	       └─ result (of a task)─ content

// mayHoldURI tells, without parsing, whether a value can have a member named uri. The name may be written with \u
// escapes, so a value with any such escape may have one.
func mayHoldURI(raw mcp.RawJSON) bool {
	return bytes.Contains(raw, []byte(`"uri"`)) || bytes.Contains(raw, []byte(`\u`))
}

// exposedResult maps the URIs in a result. The same Object comes back when there is nothing to map.
func (o *origin) exposedResult(result mcp.Object) mcp.Object {
	var m *mapper
	mapped := result
	for name, value := range result.Members {
		switch name {
		case "content", "contents", "messages", "inputRequests", "result":
		default:
			continue
		}
		if !mayHoldURI(value) {
			continue
		}
		if m == nil {
			m = o.mapper()
		}
		if fresh := m.member(name, value); fresh != nil {
			mapped = mapped.With(name, fresh)
		}
	}
	return mapped
}

// exposedError maps the URI in the data of a JSON-RPC error that the server sent: the error of resources/read for an
// unknown URI repeats it there.
// https://modelcontextprotocol.io/specification/2026-07-28/server/resources#error-handling
func (o *origin) exposedError(err error) error {
	worded, ok := err.(*mcp.Error) //nolint:errorlint // one that is wrapped is for the log
	if !ok || !worded.Data.IsObject() {
		return err
	}
	data := o.mapper().contents(worded.Data)
	if data == nil {
		return err
	}
	mapped := *worded
	mapped.Data = data
	return &mapped
}

// mapper maps the URIs in one result. Its methods return the new JSON of a value, or nil for a value that stays as it
// is. A value of the wrong shape stays as it is.
type mapper struct {
	origin  *origin
	service *service
	work    int // left for matching templates, for all URIs of the result together; see maxMatching
}

func (o *origin) mapper() *mapper { return &mapper{o, o.service.Load(), maxMatching} }

// member maps the value of one of the members of a result that exposedResult names.
func (m *mapper) member(name string, value mcp.RawJSON) mcp.RawJSON {
	switch name {
	case "content":
		return each(value, m.block)
	case "contents":
		return each(value, m.contents)
	case "messages":
		return each(value, m.message)
	case "result": // of a task
		return within(value, "content", func(content mcp.RawJSON) mcp.RawJSON { return each(content, m.block) })
	}
	return m.questions(value)
}

// each applies mapped to raw, or to every element when raw is an array: the content of a message is one block or a
// list.
func each(raw mcp.RawJSON, mapped func(mcp.RawJSON) mcp.RawJSON) mcp.RawJSON {
	if !mayHoldURI(raw) {
		return nil
	}
	if !raw.IsArray() {
		return mapped(raw)
	}
	elements, _ := raw.Elements()
	changed := false
	for i, element := range elements {
		if fresh := mapped(element); fresh != nil {
			elements[i], changed = fresh, true
		}
	}
	if !changed {
		return nil
	}
	return mcp.Array(elements)
}

// within applies mapped to one member of an object and returns the object with it.
func within(raw mcp.RawJSON, name string, mapped func(mcp.RawJSON) mcp.RawJSON) mcp.RawJSON {
	object, ok := mcp.ObjectOf(raw)
	if !ok {
		return nil
	}
	value := object.Value(name)
	if value == nil {
		return nil
	}
	fresh := mapped(value)
	if fresh == nil {
		return nil
	}
	return object.With(name, fresh).JSON()
}

// block maps a content block.
func (m *mapper) block(raw mcp.RawJSON) mcp.RawJSON {
	if !mayHoldURI(raw) {
		return nil
	}
	object, _ := mcp.ObjectOf(raw)
	switch object.Text("type") {
	case "resource_link":
		return within(raw, "uri", m.link)
	case "resource":
		return within(raw, "resource", m.contents)
	case "tool_result":
		return within(raw, "content", func(content mcp.RawJSON) mcp.RawJSON { return each(content, m.block) })
	}
	return nil
}

func (m *mapper) contents(raw mcp.RawJSON) mcp.RawJSON { return within(raw, "uri", m.uri) }

func (m *mapper) message(raw mcp.RawJSON) mcp.RawJSON {
	return within(raw, "content", func(content mcp.RawJSON) mcp.RawJSON { return each(content, m.block) })
}

// questions maps inputRequests, an object of requests by key: the messages of those that ask for sampling. Requests of
// other methods have no messages.
func (m *mapper) questions(raw mcp.RawJSON) mcp.RawJSON {
	requests, ok := mcp.ObjectOf(raw)
	if !ok || !mayHoldURI(raw) {
		return nil
	}
	mapped, changed := requests, false
	for key, request := range requests.Members {
		fresh := within(request, "params", func(params mcp.RawJSON) mcp.RawJSON {
			return within(params, "messages", func(messages mcp.RawJSON) mcp.RawJSON { return each(messages, m.message) })
		})
		if fresh != nil {
			mapped, changed = mapped.With(key, fresh), true
		}
	}
	if !changed {
		return nil
	}
	return mapped.JSON()
}

// link maps the URI of a resource link. A link to the web that the server does not serve itself stays: the client
// fetches it from there.
func (m *mapper) link(raw mcp.RawJSON) mcp.RawJSON {
	uri, _ := raw.Text()
	switch strings.ToLower(schemeOf(uri)) {
	case "http", "https":
		if !m.service.knows(uri, &m.work) {
			return nil
		}
	}
	return m.uri(raw)
}

// uri maps a URI that belongs to the server. A text without a scheme is no absolute URI and stays.
func (m *mapper) uri(raw mcp.RawJSON) mcp.RawJSON {
	uri, _ := raw.Text()
	switch strings.ToLower(schemeOf(uri)) {
	case "":
		return nil
	case "data", "javascript", "vbscript":
		if !m.service.knows(uri, &m.work) {
			return nil
		}
	}
	return mcp.String(m.origin.exposed(uri))
}
