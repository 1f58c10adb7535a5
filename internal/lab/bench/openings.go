package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// openListen opens a stream of the modern era.
func openListen(ctx context.Context, c *crowd) (*caller, error) {
	opened, err := c.posts.dial(ctx)
	if err != nil {
		return nil, err
	}
	body := client.Message("1", mcp.MethodListen, `"notifications":{"toolsListChanged":true}`,
		c.posts.revision)
	return opened.begins(client.Request{Revision: c.posts.revision, RPC: mcp.MethodListen, Body: body})
}

// openGet opens a session, lists the tools as every client does, and opens the session's
// stream.
func openGet(ctx context.Context, c *crowd) (*caller, error) {
	opened, err := c.posts.open(ctx)
	if err != nil {
		return nil, err
	}
	if _, err = opened.say(client.Initialized, http.StatusAccepted); err == nil {
		_, err = opened.say(client.Listing, http.StatusOK)
	}
	if err != nil {
		opened.close()
		return nil, err
	}
	return opened.begins(client.Request{
		Method: http.MethodGet, Revision: c.posts.revision,
		Session: opened.session,
	})
}

// openSSE opens a session over HTTP+SSE, and on it what every client does: the handshake,
// and a list of tools. One connection carries what all of them post.
func openSSE(ctx context.Context, c *crowd) (_ *caller, err error) {
	opened, err := c.posts.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			opened.close()
		}
	}()
	if _, err = opened.begins(client.Request{Method: http.MethodGet, Path: "/sse"}); err != nil {
		return nil, err
	}
	path, err := opened.until("data: ")
	if err != nil {
		return nil, err
	}
	if c.posting == nil {
		if c.posting, err = client.Dial(ctx, c.posts.addr, ""); err != nil {
			return nil, err
		}
	}
	for _, body := range []string{
		client.Initialize(mcp.Revision2024, client.Unable), client.Initialized,
		client.Listing,
	} {
		a, err := c.posting.Exchange(client.Request{
			Addr: c.posts.addr, Path: path, Token: c.posts.token,
			Body: body,
		}.Bytes(), 1<<10)
		if err == nil && a.Status != http.StatusAccepted {
			err = fmt.Errorf("status %d: %.300s", a.Status, a.Body)
		}
		if err == nil && body != client.Initialized { // which has no answer
			_, err = opened.until(`data: {"jsonrpc":"2.0"`)
		}
		if err != nil {
			return nil, err
		}
	}
	return opened, nil
}

// begins sends a request of the target's client and reads the head of the answer, which
// must be an event stream.
func (c *caller) begins(r client.Request) (*caller, error) {
	r.Addr, r.Token = c.target.addr, c.target.token
	a, err := c.conn.Begin(r.Bytes())
	if err == nil && (a.Status != http.StatusOK || !a.Events) {
		err = fmt.Errorf("open a stream: status %d", a.Status)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// until reads lines until one begins so, and returns the rest of it.
func (c *caller) until(beginning string) (string, error) {
	for {
		line, err := c.conn.In.ReadString('\n')
		if err != nil {
			return "", err
		}
		if rest, found := strings.CutPrefix(line, beginning); found {
			return strings.TrimSpace(rest), nil
		}
	}
}
