package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

func TestAnswersOfEveryForm(t *testing.T) {
	const answer = `{"jsonrpc":"2.0","id":1,"result":{}}`
	event := ": hello\n\nid: 7\ndata:\n\nevent: message\ndata: {\"method\":\"other\"}\n\ndata: " + answer + "\n\n"
	for _, test := range []struct {
		name, wire string
		closes     bool
	}{
		{"known length", "HTTP/1.1 200 OK\r\ncontent-length: 36\r\nContent-Type: application/json\r\n\r\n" + answer, false},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n" + answer[:16] + "\r\n14;x=y\r\n" + answer[16:] + "\r\n0\r\n\r\n", false},
		{"events in chunks", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x", len(event)) + "\r\n" + event + "\r\n0\r\n\r\n", false},
		{"until the end", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + event, true},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 36\r\n\r\n" + answer, true},
		{"said to close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 36\r\n\r\n" + answer, true},
	} {
		in := bufio.NewReader(strings.NewReader(test.wire))
		h, err := readAnswerHead(in)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		body, err := readAnswerBody(in, h, nil)
		if h.events {
			body = lastEvent(body)
		}
		if err != nil || string(body) != answer || h.closes != test.closes {
			t.Errorf("%s: got %q, closes %t, %v; want %q, %t", test.name, body, h.closes, err, answer, test.closes)
		}
		if _, err := in.ReadByte(); err != io.EOF {
			t.Errorf("%s: something is left to read", test.name)
		}
	}
}

func TestBrokenAnswersAreErrors(t *testing.T) {
	for _, wire := range []string{
		"", "SSH-2.0-OpenSSH\r\n", "HTTP/1.1 abc no\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfour", "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n0\r\n\r\n",
	} {
		in := bufio.NewReader(strings.NewReader(wire))
		h, err := readAnswerHead(in)
		if err == nil {
			_, err = readAnswerBody(in, h, nil)
		}
		if err == nil {
			t.Errorf("%q was read without an error", wire)
		}
	}
}

func TestWrongAnswersAreErrors(t *testing.T) {
	want := []byte("the words")
	for _, answer := range []string{`{"result":{"content":"other words"}}`, `{"error":{"message":"the words"}}`} {
		if checkCall([]byte(answer), want) == nil {
			t.Errorf("%s passed", answer)
		}
	}
	if checkList([]byte(strings.Repeat(`"inputSchema"`, peerTools-1))) == nil {
		t.Error("a list that lacks a tool passed")
	}
}

// serveUpstreamOfPeers runs the server that stands behind peers until the test is over.
func serveUpstreamOfPeers(t *testing.T) (*peerUpstream, gateTarget) {
	t.Helper()
	u := newPeerUpstream()
	s := httptest.NewServer(u)
	t.Cleanup(s.Close)
	return u, gateTarget{addr: strings.TrimPrefix(s.URL, "http://"), path: "/mcp"}
}

func TestCallerSpeaksBothEras(t *testing.T) {
	_, target := serveUpstreamOfPeers(t)
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		target.era = era
		c, err := connectPeer(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		if err := c.learn(t.Context()); err != nil || c.name != "echo" {
			t.Fatalf("%v: the tool is %q, %v", era, c.name, err)
		}
		if (c.session != "") != (era == mcp.Legacy) {
			t.Errorf("%v: session %q", era, c.session)
		}
		request, want := c.call(7)
		c.close() // the next request opens a connection
		answer, err := c.ask(t.Context(), request)
		if err == nil {
			err = checkCall(answer, want)
		}
		if err != nil || !bytes.Contains(want, []byte("connection 7")) {
			t.Errorf("%v: %v, %s", era, err, want)
		}
	}
}

// TestStreamsHearOfChanges counts those that hear of a change after it, not of one before.
func TestStreamsHearOfChanges(t *testing.T) {
	u, target := serveUpstreamOfPeers(t)
	target.era = mcp.Legacy
	w := &watch{}
	defer w.close()
	const streams = 5
	for range streams {
		c, err := connectPeer(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		c.close()
		w.callers = append(w.callers, c)
		if err := w.open(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	for _, length := range []string{"longer", "shorter"} {
		before := u.tools().Size()
		begun := time.Now()
		if w.reached(begun) != 0 {
			t.Errorf("before it is %s, %d heard", length, w.reached(begun))
		}
		u.change()
		if err := world.Within(t.Context(), time.Minute, "all hear", func() bool { return w.reached(begun) == streams }); err != nil {
			t.Fatal(err)
		}
		if last := w.lastAfter(begun); last <= 0 || u.tools().Size() == before {
			t.Errorf("%s: last after %v, %d bytes before and %d after", length, last, before, u.tools().Size())
		}
	}
}

func TestStdioServerAnnouncesChanges(t *testing.T) {
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- servePeerStdio(in, out) }()
	lines := bufio.NewScanner(fromServer)
	lines.Buffer(nil, 1<<20)
	next := func(want string) {
		t.Helper()
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Fatalf("got %.200q, %v; want %q", lines.Text(), lines.Err(), want)
		}
	}
	_, _ = io.WriteString(toServer, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05"}}`+"\n")
	next(`"protocolVersion":"2024-11-05"`)
	_, _ = io.WriteString(toServer, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"+`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`+"\n")
	next(`"inputSchema"`)
	if err := syscall.Kill(os.Getpid(), changeSignal); err != nil {
		t.Fatal(err)
	}
	next("tools/list_changed")
	_ = toServer.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
