package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// lineTaker is a handler that takes lines of requests as they are.
type lineTaker struct {
	slog.Handler

	taken *int // how many it took so
}

var _ exchange.LineHandler = lineTaker{}

func (l lineTaker) HandleLine(ctx context.Context, at time.Time, level slog.Level, message string,
	attrs []slog.Attr,
) error {
	*l.taken++
	record := slog.NewRecord(at, level, message, 0)
	record.AddAttrs(attrs...)
	return l.Handle(ctx, record)
}

// TestTheLineOfARequestIsTheSameEitherWay compares the lines that a server writes with
// slog alone with those that it writes with a handler that takes them as they are.
func TestTheLineOfARequestIsTheSameEitherWay(t *testing.T) {
	t.Parallel()
	var plain, direct bytes.Buffer
	taken, n := 0, 0
	slow, fast := newWorld(t, logging(&plain)), newWorld(t, func(w *world) {
		w.config.Logger = slog.New(lineTaker{slog.NewJSONHandler(&direct, nil), &taken})
	})
	lost := legacyCall("no session of this server", "echo")
	for _, m := range []message{
		modernCall("echo"), modernCall("fails"), modernCall("no such\ntool" + strings.Repeat("x", 500)),
		modernCall("echo").as(""), modernCall("echo").as("bad"),
		modernCall("echo").with("Origin", "https://evil.example"), modernCall("echo").as("nobody"), lost,
		{method: http.MethodGet, path: "/%1b/nowhere", token: "alice"},
	} {
		slow.do(t, m)
		fast.do(t, m)
		n++
	}
	changing := regexp.MustCompile(`"(time|request_id|duration_seconds)":("[^"]+"|[0-9.e-]+)`)
	want, got := changing.ReplaceAllString(plain.String(), `"$1":0`),
		changing.ReplaceAllString(direct.String(), `"$1":0`)
	if got != want || taken != n || strings.Count(got, `"msg":"request"`) != n {
		t.Errorf("%d of %d lines taken as they are, got:\n%s\nwant:\n%s", taken, n, got, want)
	}
	for _, text := range []string{
		`"reason":"unreadable"`, `"origin":"https://evil.example"`,
		`"request_id":0,"tenant":"acme"}`,
	} {
		if !strings.Contains(got, text) {
			t.Errorf("no line with %s in\n%s", text, got)
		}
	}
}

// TestRequestsAreNotLoggedBelowTheirLevel sets a level above that of the line.
func TestRequestsAreNotLoggedBelowTheirLevel(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	taken := 0
	w := newWorld(t, func(w *world) {
		w.config.Logger = slog.New(lineTaker{slog.NewJSONHandler(&out,
			&slog.HandlerOptions{Level: slog.LevelWarn}), &taken})
	})
	w.do(t, modernCall("echo"))
	if taken > 0 || out.Len() > 0 {
		t.Errorf("%d lines taken: %s", taken, &out)
	}
}

// TestAForwardedRequestHasOneLine makes calls at a replica that does not lead their
// session. The replica that answers has the line. Where its answer breaks off, the one
// that the client has asked has a line, too. One that is forwarded in vain is refused to
// the client, and not on record, by that replica alone.
func TestAForwardedRequestHasOneLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var journals []*logBuffer
		c := together(t, 2, func(w *world) {
			journals = append(journals, &logBuffer{})
			noting(journals[len(journals)-1])(w)
		})
		expect := func(what string, got *httptest.ResponseRecorder, at int, texts ...string) {
			t.Helper()
			texts = append(texts, `"msg":"request"`, `"request_id":"`+got.Header().Get("X-Request-Id")+`"`)
			for i, j := range journals {
				if want := i == at; (len(j.lines(texts...)) == 1) != want {
					t.Errorf("%s: replica %d has the line: %v, want %v; its log: %s", what, i, !want, want, &j.text)
				}
			}
		}
		session := c.worlds[0].openAsking(t, mcp.Revision2511)
		expect("a call", c.worlds[1].do(t, legacyCall(session, "echo").id("2")), 0)
		ended := c.worlds[0].openAsking(t, mcp.Revision2511)
		c.worlds[0].do(t, inSession("DELETE", ended, ""))
		expect("a call of an ended session", c.worlds[1].do(t, legacyCall(ended, "echo").id("2")), 1,
			`"code":"DB-SESSION"`)
		c.worlds[0].wantRefused(t, "acme", "DB-REPLICAS", 0)
		began := c.worlds[1].begins(t.Context(), legacyCall(session, "slow_progress").id("3"))
		wait(t)
		c.hub.Leave(c.worlds[0].word().Member)
		expect("a call whose replica is gone", <-began, 1, `"code":"DB-REPLICA-LOST"`)
		c.worlds[0].letGo()
	})
}

// TestAStreamElsewhereHasOneLine opens streams at a replica that does not lead their
// session. One that its primary refuses has its line there, and one that is opened has it
// where it ends.
func TestAStreamElsewhereHasOneLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var journals []*logBuffer
		var refuses atomic.Bool // the primary takes nobody's token
		c := together(t, 2, func(w *world) {
			journals = append(journals, &logBuffer{})
			noting(journals[len(journals)-1])(w)
			verify, isPrimary := w.config.Verify, len(journals) == 1
			w.config.Verify = func(ctx context.Context, token string) (auth.Principal, error) {
				if isPrimary && refuses.Load() {
					token = "bad"
				}
				return verify(ctx, token)
			}
		})
		session := c.worlds[0].openAsking(t, mcp.Revision2511)
		expect := func(what string, at int, texts ...string) {
			t.Helper()
			wait(t)
			texts = append(texts, `"msg":"request"`, `"http_method":"GET"`)
			for i, j := range journals {
				want := 0
				if i == at {
					want = 1
				}
				if got := j.lines(texts...); len(got) != want {
					t.Errorf("%s: got %d lines at replica %d, want %d: %s", what, len(got), i, want, got)
				}
			}
		}
		l := c.worlds[1].hearing(t, inSession("GET", session, ""))
		l.conn.Close()
		expect("a stream that has ended", 1, `"status":200`)
		refuses.Store(true)
		c.worlds[1].do(t, inSession("GET", session, ""))
		expect("a stream that is refused", 0, `"status":401`)
	})
}
