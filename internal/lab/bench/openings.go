package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// openListen opens a stream of the modern era.
func openListen(ctx context.Context, c *crowd) (*caller, error) {
	t := c.posts
	body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"` + t.revision + `","io.modelcontextprotocol/clientCapabilities":{}}}}`
	opened, err := t.dial(ctx, &atomic.Int64{})
	if err != nil {
		return nil, err
	}
	request := t.head("POST", "/mcp") + fmt.Sprintf("%s: subscriptions/listen\r\nContent-Length: %d\r\n\r\n%s", mcp.HeaderMethod, len(body), body)
	return opened, opened.begins(request)
}

// What clients of sessions say before they wait: without the first they are told nothing, and without the second they
// know no list that could change.
const (
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	listing     = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
)

// openGet opens a session, lists the tools as every client does, and opens the session's stream.
func openGet(ctx context.Context, c *crowd) (*caller, error) {
	t := c.posts
	opened, err := t.dial(ctx, &atomic.Int64{})
	if err != nil {
		return nil, err
	}
	if opened.session, err = t.openSession(opened); err != nil {
		return nil, errors.Join(err, opened.conn.Close())
	}
	err = opened.say(t.post(initialized, "", opened.session), http.StatusAccepted)
	if err == nil {
		err = opened.say(t.post(listing, "", opened.session), http.StatusOK)
	}
	if err != nil {
		return nil, errors.Join(err, opened.conn.Close())
	}
	return opened, opened.begins(t.head("GET", "/mcp") + mcp.HeaderSessionID + ": " + opened.session + "\r\n\r\n")
}

// openSSE opens a session over HTTP+SSE, and on it what every client does: the handshake, and a list of tools. One
// connection carries what all of them post.
func openSSE(ctx context.Context, c *crowd) (*caller, error) {
	t := c.posts
	opened, err := t.dial(ctx, &atomic.Int64{})
	if err != nil {
		return nil, err
	}
	if err := opened.begins(t.head("GET", "/sse") + "\r\n"); err != nil {
		return nil, err
	}
	path, err := opened.until("data: ")
	if err != nil {
		return nil, errors.Join(err, opened.conn.Close())
	}
	poster, err := c.poster(ctx)
	if err != nil {
		return nil, errors.Join(err, opened.conn.Close())
	}
	handshake := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
	for _, body := range []string{handshake, initialized, listing} {
		request := t.head("POST", path) + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
		if err := poster.say([]byte(request), http.StatusAccepted); err != nil {
			return nil, errors.Join(err, opened.conn.Close())
		}
		if body == initialized {
			continue // which has no answer
		}
		if _, err := opened.until(`data: {"jsonrpc":"2.0"`); err != nil {
			return nil, errors.Join(err, opened.conn.Close())
		}
	}
	return opened, nil
}

// poster returns the connection on which all streams of HTTP+SSE post.
func (c *crowd) poster(ctx context.Context) (*caller, error) {
	if c.posting != nil {
		return c.posting, nil
	}
	var err error
	c.posting, err = c.posts.dial(ctx, &atomic.Int64{})
	return c.posting, err
}

// head returns the beginning of a request, all but what differs between streams.
func (t *target) head(method, path string) string {
	head := method + " " + path + " HTTP/1.1\r\nHost: " + t.addr + "\r\nAccept: application/json, text/event-stream\r\nAuthorization: Bearer " + t.token + "\r\n"
	if method == "POST" {
		head += "Content-Type: application/json\r\n"
	}
	if path == "/mcp" {
		head += "MCP-Protocol-Version: " + t.revision + "\r\n"
	}
	return head
}

// begins sends a request and reads the head of the answer, which must be an event stream.
func (c *caller) begins(request string) error {
	_, err := c.conn.Write([]byte(request))
	status := ""
	for line := "x"; err == nil && strings.TrimSpace(line) != ""; {
		if line, err = c.in.ReadString('\n'); status == "" {
			status = strings.TrimSpace(line)
		}
	}
	if err != nil || !strings.Contains(status, " 200 ") {
		c.close()
		return fmt.Errorf("open a stream: %q (%w)", status, err)
	}
	return nil
}

// until reads lines until one begins so, and returns the rest of it.
func (c *caller) until(beginning string) (string, error) {
	for {
		line, err := c.in.ReadString('\n')
		if err != nil {
			return "", err
		}
		if rest, found := strings.CutPrefix(line, beginning); found {
			return strings.TrimSpace(rest), nil
		}
	}
}

// say sends a request and reads the whole answer, which must have that status.
func (c *caller) say(request []byte, status int) error {
	if _, err := c.conn.Write(request); err != nil {
		return err
	}
	response, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was read to its end
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != status {
		return fmt.Errorf("status %d instead of %d", response.StatusCode, status)
	}
	return nil
}
