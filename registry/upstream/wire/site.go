package wire

import (
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Site is a server over HTTP.
type Site struct {
	URL     string
	Client  http.RoundTripper // and not a client around it: no redirects, no cookies
	Headers map[string]string // sent with every request; those of the protocol itself cannot be set
	Version string            // of the gateway
}

// baseHeader makes the headers of messages: the operator's and our own.
func baseHeader(at Site) http.Header {
	base := http.Header{}
	for name, value := range at.Headers {
		base.Set(name, value)
	}
	base.Set("Content-Type", "application/json")
	base.Set("Accept", "application/json, text/event-stream")
	base.Set("User-Agent", "drawbridge/"+at.Version)
	for _, name := range []string{mcp.HeaderSessionID, mcp.HeaderProtocolVersion, mcp.HeaderMethod, mcp.HeaderName, mcp.HeaderLastEventID} {
		base.Del(name)
	}
	return base
}

// streamHeader makes the headers of streams out of those of messages.
func streamHeader(post http.Header) http.Header {
	get := post.Clone()
	get.Del("Content-Type")
	get.Set("Accept", "text/event-stream")
	return get
}
