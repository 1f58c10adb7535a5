package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// sink is a response writer that costs next to nothing.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header { return s.header }

func (s *sink) WriteHeader(status int) { s.status = status }

func (*sink) Flush() {}

func (*sink) SetReadDeadline(time.Time) error { return nil }

func (*sink) SetWriteDeadline(time.Time) error { return nil }

func (*sink) Write(data []byte) (int, error) { return len(data), nil }

// BenchmarkCall is the door alone: the desk answers at once.
func BenchmarkCall(b *testing.B) {
	w := newWorld(b)
	result := textResult("hello").With("resultType", mcp.String("complete"))
	w.behind(&fakeDesk{handle: func(context.Context, gateway.Caller, *gateway.Request) (mcp.Object,
		error,
	) {
		return result, nil
	}})
	h := w.Handler()
	for name, m := range map[string]message{
		"modern": modernCall("echo"), "legacy": legacyCall(w.open(b, "alice", mcp.Revision2511), "echo"),
	} {
		b.Run(name, func(b *testing.B) { benchmark(b, h, m) })
	}
}

// BenchmarkCallThroughDesk is door and desk together, with a tool that runs in the
// process.
func BenchmarkCallThroughDesk(b *testing.B) {
	w := newWorld(b)
	benchmark(b, w.Handler(), modernCall("echo"))
}

func benchmark(b *testing.B, h http.Handler, m message) {
	r := m.request(b.Context(), "")
	r.RequestURI, r.RemoteAddr = r.URL.RequestURI(), "192.0.2.1:1234"
	out := &sink{header: make(http.Header)}
	b.ReportAllocs()
	for b.Loop() {
		r.Body = io.NopCloser(strings.NewReader(m.body))
		clear(out.header)
		h.ServeHTTP(out, r)
	}
	if out.status != http.StatusOK {
		b.Fatalf("got %d, want 200", out.status)
	}
}

// anyUser takes every token for good: it is the subject.
func anyUser(_ context.Context, token string) (auth.Principal, error) {
	return auth.Principal{
		Issuer: "https://issuer.test", Subject: token, ClientID: "app", TenantID: "acme",
		Expiry: time.Now().Add(time.Hour),
	}, nil
}

// BenchmarkInitialize opens sessions where there are as many as may be, so that one ends
// for each, and lets the client say that it is there.
func BenchmarkInitialize(b *testing.B) {
	for _, test := range []struct {
		name        string
		users, each int
	}{
		{"1 session", 1, 1},
		{"10000 of 20 users", 20, 500},
		{"20000 of one tenant", 40, 500},
	} {
		b.Run(test.name, func(b *testing.B) {
			w := newWorld(b, bounded(test.users*test.each, test.each),
				func(w *world) { w.config.Verify = anyUser })
			for n := range test.users * test.each {
				w.open(b, fmt.Sprint("user", n%test.users), mcp.Revision2511)
			}
			h := w.Handler()
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				user := fmt.Sprint("user", n%test.users)
				opened := record(h, initialize(mcp.Revision2511).as(user).request(b.Context(), ""))
				if opened.Code != http.StatusOK {
					b.Fatalf("got %d %s", opened.Code, opened.Body)
				}
				begin := inSession("POST", opened.Header().Get(mcp.HeaderSessionID),
					`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				record(h, begin.as(user).request(b.Context(), ""))
			}
		})
	}
}

// TestThousandIdleStreams bounds what an idle GET stream keeps in memory. The clients are
// bare connections.
func TestThousandIdleStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("opens 1000 connections")
	}
	const streams, limit = 1000, 56 << 20 // measured: 38 MiB, and 48 MiB with the race detector
	w := newWorld(
		t, func(
			w *world,
		) {
			w.tenants[0].Limits.Streams = nil
			n := 2 * streams
			w.tenants[0].Limits.Streams = &n
		})
	s := httptest.NewServer(w.Handler())
	defer func() { w.EndStreams(); s.Close() }()
	before := resident()
	for i := range streams {
		id := w.open(t, "alice", mcp.Revision2511)
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer c.Close()
		fmt.Fprintf(
			c, "GET /mcp HTTP/1.1\r\nHost: mcp.test\r\nAuthorization: Bearer alice\r\nAccept: text/event-stream\r\nMcp-Session-Id: %s\r\n\r\n", id)
		line, err := bufio.NewReaderSize(c, 16).ReadString('\n')
		if err != nil || !strings.Contains(line, "200") {
			t.Fatalf("stream %d: got %q, %v", i, line, err)
		}
	}
	used := resident() - before
	t.Logf("%d streams: %d KiB in all, %d KiB each", streams, used>>10, used>>10/streams)
	if used > limit {
		t.Errorf("got %d MiB for %d idle streams, want at most %d", used>>20, streams, limit>>20)
	}
}

// resident returns the memory of heap and stacks that is in use.
func resident() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapInuse + m.StackInuse)
}

// BenchmarkLargeBody is the door alone, for a call whose body has nearly 4 MiB. B/op
// shows how often its bytes are copied.
func BenchmarkLargeBody(b *testing.B) {
	w := newWorld(b)
	result := textResult("hello").With("resultType", mcp.String("complete"))
	w.behind(&fakeDesk{handle: func(context.Context, gateway.Caller, *gateway.Request) (mcp.Object,
		error,
	) {
		return result, nil
	}})
	m := modernCall("echo")
	m.body = strings.Replace(m.body, `"arguments":{`, `"arguments":{"large":"`+strings.Repeat("x", 4_000_000)+
		`",`, 1)
	benchmark(b, w.Handler(), m)
}
