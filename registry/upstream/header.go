package upstream

import (
	"net/http"
	"strconv"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// withParams returns the item's headers and the arguments that the tool's schema wants
// repeated in headers.
func withParams(i *item, params []registry.HeaderParam, arguments mcp.RawJSON) http.Header {
	header := i.header.Clone()
	for i := range params {
		if text, ok := headerValue(params[i].Argument(arguments)); ok {
			header.Set(mcp.HeaderParamPrefix+params[i].Header, text)
		}
	}
	return header
}

// headerValue returns the text with which an Mcp-Param-* header carries an argument. ok
// is false when there is nothing to carry: no value, null, an object or an array.
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
