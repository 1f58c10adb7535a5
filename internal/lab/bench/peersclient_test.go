package main

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

func TestWrongAnswersAreErrors(t *testing.T) {
	want := []byte("the words")
	for _, answer := range []string{
		`{"result":{"content":"other words"}}`,
		`{"error":{"message":"the words"}}`,
	} {
		if checkCall([]byte(answer), want) == nil {
			t.Errorf("%s passed", answer)
		}
	}
	if checkList([]byte(strings.Repeat(`"inputSchema"`, upstream.Announced-1))) == nil {
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
		c, err := connectPeer(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		defer c.line.Close()
		if err := c.learn(t.Context()); err != nil || c.name != "echo" {
			t.Fatalf("%v: the tool is %q, %v", era, c.name, err)
		}
		if (c.session != "") != (era == mcp.Legacy) {
			t.Errorf("%v: session %q", era, c.session)
		}
		request, want := c.call(7)
		c.line.Close() // the next request opens a connection
		answer, err := c.ask(t.Context(), request)
		if err == nil {
			err = checkCall(answer, want)
		}
		if err != nil || !bytes.Contains(want, []byte("connection 7")) {
			t.Errorf("%v: %v, %s", era, err, want)
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
		c, err := connectPeer(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		c.line.Close()
		w.callers = append(w.callers, c)
		if err := w.open(t.Context(), c); err != nil {
			t.Fatal(err)
		}
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
