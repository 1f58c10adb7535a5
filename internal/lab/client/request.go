package client

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Request is one request to an endpoint, in the words of one revision.
type Request struct {
	Addr      string
	Method    string // of HTTP; "" is POST
	Path      string // "" is /mcp
	Token     string // "" sends none
	Revision  string // "" is not said
	Session   string
	LastEvent string      // the id of the event after which a stream is to go on; "" is none
	RPC       string      // the method of the message
	Tool      string      // for tools/call
	Accept    string      // "" names JSON, then event streams
	More      [][2]string // further headers, by name
	Body      string
	// the Content-Length if it is not that of the body; negative: the body is chunked,
	// and Body is its start
	Announce int
}

// Bytes returns the request as it goes over the wire.
func (r Request) Bytes() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", cmp.Or(r.Method, http.MethodPost),
		cmp.Or(r.Path, "/mcp"), r.Addr)
	if r.Token != "" {
		r.Token = "Bearer " + r.Token
	}
	if mcp.EraOf(r.Revision) != mcp.Modern {
		r.RPC, r.Tool = "", ""
	}
	for _, h := range append([][2]string{
		{"Accept", cmp.Or(r.Accept, "application/json, text/event-stream")},
		{mcp.HeaderProtocolVersion, r.Revision},
		{"Authorization", r.Token},
		{mcp.HeaderSessionID, r.Session},
		{mcp.HeaderLastEventID, r.LastEvent},
		{mcp.HeaderMethod, r.RPC},
		{mcp.HeaderName, r.Tool},
	}, r.More...) {
		if h[1] != "" {
			fmt.Fprintf(&b, "%s: %s\r\n", h[0], h[1])
		}
	}
	switch {
	case r.Announce < 0:
		fmt.Fprintf(&b, "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n",
			len(r.Body), r.Body)
	case r.Body != "":
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			max(r.Announce, len(r.Body)), r.Body)
	default:
		b.WriteString("\r\n")
	}
	return b.Bytes()
}

// Able are capabilities of a client that can be asked something, and Unable of one that
// cannot.
const (
	Able   = `{"elicitation":{}}`
	Unable = `{}`
)

// Message returns the body of a request with these members of params, without their
// braces. Meta are members of _meta, in the same form. In the newest era, what a client
// says of itself stands before them.
func Message(id, rpc, params, revision string, meta ...string) string {
	if mcp.EraOf(revision) == mcp.Modern {
		meta = append([]string{`"io.modelcontextprotocol/protocolVersion":"` + revision +
			`","io.modelcontextprotocol/clientCapabilities":{}`}, meta...)
	}
	members := strings.Join(meta, ",")
	if members != "" {
		members = `"_meta":{` + members + `}`
		if params != "" {
			members += ","
		}
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + rpc + `","params":{` + members + params + `}}`
}

// Initialize returns the body that opens a session.
func Initialize(revision, capabilities string) string {
	return Message("0", mcp.MethodInitialize, `"protocolVersion":"`+revision+`","capabilities":`+capabilities+
		`,"clientInfo":{"name":"lab","version":"1"}`, "")
}

// What clients of sessions say before they wait: without the first they are told nothing,
// and without the second they know no list that could change.
const (
	Initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	Listing     = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
)
