package client_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

func TestAnswersOfEveryForm(t *testing.T) {
	t.Parallel()
	const answer = `{"jsonrpc":"2.0","id":1,"result":{}}`
	event := ": hello\n\nid: 7\ndata:\n\nevent: message\ndata: {\"method\":\"other\"}\n\ndata: " + answer +
		"\n\n"
	for _, test := range []struct {
		name, wire string
		closes     bool
	}{
		{"known length", "HTTP/1.1 200 OK\r\ncontent-length: 36\r\nContent-Type: application/json\r\n\r\n" +
			answer, false},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n" + answer[:16] +
			"\r\n14;x=y\r\n" + answer[16:] + "\r\n0\r\n\r\n", false},
		{"events in chunks", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x", len(event)) + "\r\n" + event + "\r\n0\r\n\r\n", false},
		{"until the end", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + event, true},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 36\r\n\r\n" + answer, true},
		{
			"said to close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 36\r\n\r\n" + answer,
			true,
		},
	} {
		c := &client.Conn{In: bufio.NewReader(strings.NewReader(test.wire))}
		a, err := must.Got(func() *client.Answer { return c.Answer(1 << 10) })
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		body := a.Body
		if a.Events {
			body = client.LastEvent(body)
		}
		if string(body) != answer || a.Closing != test.closes {
			t.Errorf("%s: got %q, closes %t; want %q, %t", test.name, body, a.Closing, answer, test.closes)
		}
		if _, err := c.In.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: something is left to read", test.name)
		}
	}
}

func TestBrokenAnswersAreErrors(t *testing.T) {
	t.Parallel()
	for _, wire := range []string{
		"", "SSH-2.0-OpenSSH\r\n", "HTTP/1.1 abc no\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfour",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n0\r\n\r\n",
	} {
		c := &client.Conn{In: bufio.NewReader(strings.NewReader(wire))}
		if err := must.Try(func() { c.Answer(1 << 10) }); err == nil {
			t.Errorf("%q was read without an error", wire)
		}
	}
}

// TestARequestIsWhatAServerReads sends requests of both eras on one connection, to a
// server that says what it has read, and keeps the beginning of each answer.
func TestARequestIsWhatAServerReads(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set(mcp.HeaderSessionID, "s")
		_, _ = fmt.Fprint(w, r.Method, " ", r.URL.Path, " ", r.Header.Get("Authorization"), " ",
			r.Header.Get(mcp.HeaderProtocolVersion), " ",
			r.Header.Get(mcp.HeaderMethod), " ", r.Header.Get(mcp.HeaderSessionID), " ", string(body))
	}))
	defer server.Close()
	addr := strings.TrimPrefix(server.URL, "http://")
	c := client.Dial(t.Context(), addr, "")
	defer c.Close()
	for want, r := range map[string]client.Request{
		"POST /mcp Bearer t 2026-07-28 ping  " + client.Message("1", "ping", "", mcp.LatestModern): {
			Token: "t", Revision: mcp.LatestModern, RPC: "ping", Body: client.Message("1", "ping", "",
				mcp.LatestModern),
		},
		"POST /mcp  2025-11-25  old " + client.Listing: {
			Revision: mcp.LatestLegacy, RPC: "tools/list",
			Session: "old", Body: client.Listing,
		},
		"GET /sse     ": {Method: http.MethodGet, Path: "/sse"},
	} {
		r.Addr = addr
		before := c.Traffic()
		a := c.Exchange(r.Bytes(), 20)
		if a.Status != http.StatusOK || a.Session != "s" {
			t.Fatalf("%+v", a)
		}
		if got := string(a.Body); got != want[:min(20, len(want))] || a.Size != int64(len(want)) {
			t.Errorf("got %q of %d bytes, want %q", got, a.Size, want)
		}
		if got := c.Traffic() - before; got < int64(len(want)+len(r.Bytes())) {
			t.Errorf("%d bytes are counted", got)
		}
	}
}
