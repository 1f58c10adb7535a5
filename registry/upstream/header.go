package upstream

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// headerParam is an argument that a call repeats in a header.
type headerParam struct {
	header string   // the whole name
	path   []string // of property names, from the root of the arguments
}

// headerParams collects x-mcp-header along the chains of properties of an input schema. It does not check the rules
// for them: the catalogue refuses a tool that breaks one, and then nobody calls it.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#custom-headers-from-tool-parameters
func headerParams(inputSchema mcp.RawJSON) []headerParam {
	var params []headerParam
	var walk func(schema mcp.Object, path []string)
	walk = func(schema mcp.Object, path []string) {
		for name, value := range schema.Object("properties").Members {
			property, _ := mcp.ObjectOf(value)
			inner := slices.Concat(path, []string{name})
			if header := property.Text("x-mcp-header"); header != "" {
				params = append(params, headerParam{header: mcp.HeaderParamPrefix + header, path: inner})
			}
			walk(property, inner)
		}
	}
	root, _ := mcp.ObjectOf(inputSchema)
	walk(root, nil)
	return params
}

// withParams returns the tool's headers with the arguments that its schema wants repeated there.
func withParams(t *tool, arguments mcp.RawJSON) http.Header {
	header := t.header.Clone()
	for _, p := range t.params {
		value := arguments
		for _, name := range p.path {
			object, _ := mcp.ObjectOf(value)
			value = object.Value(name)
		}
		if text, ok := headerValue(value); ok {
			header.Set(p.header, text)
		}
	}
	return header
}

// headerValue returns the text of an argument as its Mcp-Param-* header carries it; ok is false when there is nothing
// to carry.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
func headerValue(raw mcp.RawJSON) (text string, ok bool) {
	if raw.IsNull() || raw.IsObject() || raw.IsArray() {
		return "", false
	}
	if text, ok = raw.Text(); ok {
		return mcp.EncodeHeader(text), true
	}
	if _, isInt := raw.Int(); isInt || raw[0] == 't' || raw[0] == 'f' {
		return string(raw), true
	}
	// An integer may be written 1.0 or 1e3; in the header it is decimal.
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || n != float64(int64(n)) {
		return string(raw), true
	}
	return strconv.FormatInt(int64(n), 10), true
}
