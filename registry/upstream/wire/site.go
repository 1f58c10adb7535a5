package wire

import (
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Site says where a server over HTTP is and how it is reached.
type Site struct {
	URL     string
	Client  http.RoundTripper // not an http.Client, so that there are no redirects and no cookies
	Headers map[string]string // sent with every request; the protocol's own cannot be set
	Version string            // of the gateway, for User-Agent
	Chatter *Chatter          // of the server; nil: what it sends is read as fast as it comes
	Memory  Memory
	Turns   *fairqueue.Queue // at reading what is large; nil: it is read at once
}

// baseHeader returns the headers of messages: the operator's and our own. Those of the
// protocol cannot be the operator's.
func baseHeader(at Site) http.Header {
	base := http.Header{}
	for name, value := range at.Headers {
		base.Set(name, value)
	}
	base.Set("Content-Type", "application/json")
	base.Set("Accept", "application/json, text/event-stream")
	base.Set("User-Agent", "drawbridge/"+at.Version)
	for _, name := range []string{
		mcp.HeaderSessionID, mcp.HeaderProtocolVersion, mcp.HeaderMethod,
		mcp.HeaderName, mcp.HeaderLastEventID,
	} {
		base.Del(name)
	}
	return base
}

// streamHeader returns the headers of a GET for a stream, made from those of a POST.
func streamHeader(post http.Header) http.Header {
	get := post.Clone()
	get.Del("Content-Type")
	get.Set("Accept", "text/event-stream")
	return get
}
