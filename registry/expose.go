package registry

import (
	"bytes"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// mayHoldURI tells whether a value can have a member uri, without taking it apart. An escape may stand for anything.
func mayHoldURI(raw mcp.RawJSON) bool {
	return bytes.Contains(raw, []byte(`"uri"`)) || bytes.Contains(raw, []byte(`\u`))
}

// exposedResult maps the URIs in a result. The same Object comes back when there are none.
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

// exposedError maps the URI in the data of an error that the server worded.
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

// mapper brings URIs of one source into their exposed form. Its methods return nil for what stays as it is.
type mapper struct {
	origin  *origin
	service *service
	work    int // that may still be spent on matching templates
}

func (o *origin) mapper() *mapper { return &mapper{o, o.service.Load(), maxMatching} }

// member maps a member of a result.
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

// each maps raw, or every element of raw when it is an array.
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

// within maps the member of an object.
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

// questions maps the messages of requests for sampling.
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

// link maps the URI of a resource link, unless the client fetches it itself.
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
