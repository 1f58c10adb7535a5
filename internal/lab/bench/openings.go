package main

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// openListen opens a stream of the modern era.
func openListen(ctx context.Context, c *crowd) *caller {
	return c.posts.dial(ctx).begins(client.Request{
		Revision: c.posts.revision, RPC: mcp.MethodListen,
		Body: client.Message("1", mcp.MethodListen, `"notifications":{"toolsListChanged":true}`,
			c.posts.revision),
	})
}

// openGet opens a session, lists the tools as every client does, and opens the session's
// stream.
func openGet(ctx context.Context, c *crowd) *caller {
	opened := c.posts.open(ctx)
	defer must.Else(opened.close)
	opened.say(client.Initialized, "")
	opened.say(client.Listing, "")
	return opened.begins(client.Request{
		Method: http.MethodGet, Revision: opened.revision,
		Session: opened.session,
	})
}

// openSSE opens a session over HTTP+SSE, and on it what every client does: the handshake,
// and a list of tools. One connection carries what all of them post.
func openSSE(ctx context.Context, c *crowd) *caller {
	opened := c.posts.dial(ctx)
	defer must.Else(opened.close)
	opened.begins(client.Request{Method: http.MethodGet, Path: "/sse"})
	path := opened.until("data: ")
	for _, body := range []string{
		client.Initialize(mcp.Revision2024, client.Unable), client.Initialized,
		client.Listing,
	} {
		answered(c.posting.Exchange(client.Request{
			Addr: c.posts.addr, Path: path, Token: c.posts.token,
			Body: body,
		}.Bytes(), 1<<10))
		if body != client.Initialized { // which has no answer
			opened.until(`data: {"jsonrpc":"2.0"`)
		}
	}
	return opened
}

// begins sends a request of the target's client and reads the head of the answer, which
// must be an event stream.
func (c *caller) begins(r client.Request) *caller {
	defer must.Else(c.close)
	r.Addr, r.Path, r.Token = c.target.addr, cmp.Or(r.Path, c.target.path), c.target.token
	a := c.line.Conn.Begin(r.Bytes())
	must.Be(a.Status == http.StatusOK && a.Events, "open a stream: status %d", a.Status)
	return c
}

// until reads lines until one begins so, and returns the rest of it.
func (c *caller) until(beginning string) string {
	for {
		line := must.Have(c.line.Conn.In.ReadString('\n'))
		if rest, found := strings.CutPrefix(line, beginning); found {
			return strings.TrimSpace(rest)
		}
	}
}
