package main

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

func TestWrongAnswersAreErrors(t *testing.T) {
	want := []byte("the words")
	for _, answer := range []string{
		`{"result":{"content":"other words"}}`,
		`{"error":{"message":"the words"}}`,
	} {
		if must.Try(func() { checkCall([]byte(answer), want) }) == nil {
			t.Errorf("%s passed", answer)
		}
	}
	few := []byte(strings.Repeat(`"inputSchema"`, upstream.Announced-1))
	if must.Try(func() { checkList(few) }) == nil {
		t.Error("a list that lacks a tool passed")
	}
}

// serveUpstreamOfPeers runs the server that stands behind peers until the test is over.
func serveUpstreamOfPeers(t *testing.T) (*upstream.Quick, gateTarget) {
	t.Helper()
	u := upstream.NewQuick(true)
	s := httptest.NewServer(u)
	t.Cleanup(s.Close)
	return u, gateTarget{addr: strings.TrimPrefix(s.URL, "http://"), path: "/mcp"}
}

func TestCallerSpeaksBothEras(t *testing.T) {
	_, target := serveUpstreamOfPeers(t)
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		target.era = era
		c := connectPeer(t.Context(), target)
		defer c.line.Close()
		if c.learn(t.Context()); c.name != "echo" {
			t.Fatalf("%v: the tool is %q", era, c.name)
		}
		if (c.session != "") != (era == mcp.Legacy) {
			t.Errorf("%v: session %q", era, c.session)
		}
		request, want := c.call(7)
		c.line.Close() // the next request opens a connection
		checkCall(c.ask(t.Context(), request), want)
		if !bytes.Contains(want, []byte("connection 7")) {
			t.Errorf("%v: %s", era, want)
		}
	}
}

// TestStreamsHearOfChanges counts those that hear of a change after it, not of one
// before.
func TestStreamsHearOfChanges(t *testing.T) {
	u, target := serveUpstreamOfPeers(t)
	target.era = mcp.Legacy
	w := &watch{}
	defer w.close()
	const streams = 5
	for range streams {
		c := connectPeer(t.Context(), target)
		c.line.Close()
		w.callers = append(w.callers, c)
		w.open(t.Context(), c)
	}
	for _, length := range []string{"longer", "shorter"} {
		before := u.Tools().Size()
		begun := time.Now()
		w.forget()
		if told := w.toldSince(t.Context(), begun, 0); len(told) != 0 {
			t.Errorf("before it is %s, %d heard", length, len(told))
		}
		u.Change()
		told := w.toldSince(t.Context(), begun, time.Minute)
		if len(told) != streams || told[0] <= 0 || u.Tools().Size() == before {
			t.Errorf("%s: told after %v, %d bytes before and %d after", length, told, before,
				u.Tools().Size())
		}
	}
}
