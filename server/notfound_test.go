package server_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// lastLine returns the last line of a log.
func lastLine(log *bytes.Buffer) mcp.Object {
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	return object(lines[len(lines)-1])
}

// TestLogSaysWhichSessionWasEvictedAndWhy opens a session too many. The log says which
// one ended, for which limit and how long it was idle, and the line of the request that
// is told 404 says why.
func TestLogSaysWhichSessionWasEvictedAndWhy(t *testing.T) {
	var log bytes.Buffer
	bubble(t, func(t *testing.T, w *world) {
		first := w.open(t, "alice", mcp.Revision2511)
		wait(t)
		log.Reset()
		w.open(t, "alice", mcp.Revision2511)
		evicted := object(strings.SplitN(log.String(), "\n", 2)[0])
		if evicted.Text("msg") != "session evicted" || evicted.Text("limit") != "user_sessions" ||
			evicted.Text("tenant") != "acme" ||
			len(evicted.Text("session")) != 12 || strings.Contains(first, evicted.Text("session")) ||
			!evicted.Has("idle_seconds") {
			t.Errorf("got %s, want a line about the session that ended", &log)
		}
		if w.alive(t, "alice", first) {
			t.Fatal("the first session lives")
		}
		if line := lastLine(&log); line.Text("reason") != "evicted" || line.Text("code") != "DB-SESSION" ||
			line.Text("outcome") != "unknown" {
			t.Errorf("got %s, want the reason evicted", line.JSON())
		}
	}, bounded(10, 1), logging(&log))
}

// TestLogSaysWhyASessionIsNotFound asks for sessions that ended otherwise, and for some
// that never were. All get one answer; the log tells them apart.
func TestLogSaysWhyASessionIsNotFound(t *testing.T) {
	var log bytes.Buffer
	bubble(t, func(t *testing.T, w *world) {
		id := w.open(t, "alice", mcp.Revision2511)
		idle := w.open(t, "alice", mcp.Revision2511)
		if got := w.do(t, inSession(http.MethodDelete, id,
			"").as("alice")); got.Code != http.StatusNoContent {
			t.Fatalf("delete: got %d %s", got.Code, got.Body)
		}
		answers := make(map[string]bool)
		for _, test := range []struct {
			token, id, want string
			after           time.Duration
		}{
			{"alice", id, "ended", 0},
			{"bob", idle, "foreign", 0},
			{"alice", "nothing", "unreadable", 0},
			{"alice", idle, "idle", time.Hour},
			{"alice", idle, "idle", 0},
		} {
			time.Sleep(test.after)
			got := w.do(t, inSession("POST", test.id, pingBody).as(test.token))
			answers[nameless(t, got)] = true
			if line := lastLine(&log); got.Code != http.StatusNotFound || line.Text("reason") != test.want {
				t.Errorf("got %d and %s, want 404 and the reason %s", got.Code, line.JSON(), test.want)
			}
		}
		if len(answers) != 1 {
			t.Errorf("got %d answers, want one that tells nothing: %v", len(answers), answers)
		}
		w.open(t, "alice", mcp.Revision2511)
		if lastLine(&log).Has("reason") {
			t.Errorf("got %s, want no reason where a session was found", &log)
		}
	}, logging(&log))
}
