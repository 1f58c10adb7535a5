package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

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
