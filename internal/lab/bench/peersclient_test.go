package main

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

func TestWrongAnswersAreErrors(t *testing.T) {
	words := &target{want: "the words"}
	for _, answer := range []string{
		`{"result":{"content":"other words"}}`,
		`{"error":{"message":"the words"}}`,
	} {
		if words.isAnswer([]byte(answer)) {
			t.Errorf("%s passed", answer)
		}
	}
	few := []byte(strings.Repeat(`"inputSchema"`, upstream.Announced-1))
	if isList(few) {
		t.Error("a list that lacks a tool passed")
	}
}

// serveUpstreamOfPeers runs the server that stands behind peers until the test is over.
func serveUpstreamOfPeers(t *testing.T) (*upstream.Quick, *contender) {
	t.Helper()
	u := upstream.NewQuick(true)
	s := httptest.NewServer(u)
	t.Cleanup(s.Close)
	return u, &contender{target: target{
		addr: strings.TrimPrefix(s.URL, "http://"), path: "/mcp",
		greets: true,
	}}
}

func TestCallerSpeaksBothEras(t *testing.T) {
	_, peer := serveUpstreamOfPeers(t)
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		c := peer.gate(era).saying(7).connect(t.Context())
		defer c.close()
		if peer.tool = c.learn(); peer.tool != "echo" {
			t.Fatalf("%v: the tool is %q", era, peer.tool)
		}
		if (c.session != "") != (era == mcp.Legacy) {
			t.Errorf("%v: session %q", era, c.session)
		}
		c = peer.gate(era).saying(7).connect(t.Context())
		defer c.close()
		c.line.Close() // the next request opens a connection
		if err := must.Try(c.call); err != nil || !strings.Contains(string(c.request), "connection 7") {
			t.Errorf("%v: %v of %s", era, err, c.request)
		}
	}
}

// TestStreamsHearOfChanges counts those that hear of a change after it, not of one
// before.
func TestStreamsHearOfChanges(t *testing.T) {
	u, peer := serveUpstreamOfPeers(t)
	w := &watch{}
	defer w.close()
	const streams = 5
	for range streams {
		c := peer.gate(mcp.Legacy).connect(t.Context())
		c.line.Close()
		w.callers = append(w.callers, c)
		w.open(c)
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
