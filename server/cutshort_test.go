package server_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server"
	"github.com/drawbridge-mcp/drawbridge/server/once"
)

// A panic in a goroutine that answers a client, or looks after its call, ended the
// process.

type brittleWriter struct {
	*httptest.ResponseRecorder
	write bug
}

func (w *brittleWriter) Write(data []byte) (int, error) {
	w.write.bite()
	return w.ResponseRecorder.Write(data)
}

// expectIdle fails if something is in work, for which a shutdown would wait, or a stream
// has a place.
func (w *world) expectIdle(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if left := w.Wait(ctx); left != 0 || ctx.Err() != nil {
		t.Errorf("%d requests are still in work", left)
	}
	if open := w.streamsOpen(t); open != 0 {
		t.Errorf("%d streams are open, want none", open)
	}
}

// attempt sends m, lets the slow calls go that it makes after a while, and returns
// whether the connection was broken.
func (w *world) attempt(t *testing.T, out http.ResponseWriter, m message) (broken bool) {
	t.Helper()
	r := m.request(t.Context(), "")
	r.RequestURI, r.RemoteAddr = r.URL.RequestURI(), "192.0.2.1:1234"
	over := make(chan bool)
	go func() {
		defer func() {
			problem, _ := recover().(error)
			over <- errors.Is(problem, http.ErrAbortHandler)
		}()
		w.Handler().ServeHTTP(out, r)
	}()
	select {
	case broken = <-over:
		return broken
	case <-time.After(time.Minute):
	}
	w.letGo()
	return <-over
}

func TestPanicInTheStreamOfAnAnswerLeavesTheProcessRunning(t *testing.T) {
	for name, c := range map[string]struct {
		tool        string
		begin, next int64
		code        int // 0: the connection is broken
		text        string
	}{
		"when it begins": {tool: "slow", begin: 1, code: http.StatusOK, text: "late"},
		"before anything is sent": {
			tool: "slow", next: 1, code: http.StatusInternalServerError,
			text: "DB-INTERNAL",
		},
		"when a part was sent": {tool: "slow", next: 2},
		"begun by a notification": {
			tool: "progress", next: 1, code: http.StatusInternalServerError,
			text: "DB-INTERNAL",
		},
		"a part after a notification": {tool: "slow_progress", next: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log logBuffer
				var events brittleLog
				w := newWorld(t, noting(&log), logged(&events))
				id := w.open(t, "alice", mcp.Revision2511)
				events.begin.set(c.begin)
				events.next.set(c.next)
				out := httptest.NewRecorder()
				switch broken := w.attempt(t, out, legacyCall(id, c.tool)); {
				case broken != (c.code == 0):
					t.Errorf("the connection was broken: %v; got %d %s", broken, out.Code, out.Body)
				case !broken && (out.Code != c.code || !strings.Contains(out.Body.String(), c.text)):
					t.Errorf("got %d %s, want %d with %s", out.Code, out.Body, c.code, c.text)
				}
				synctest.Wait()
				w.expectPanics(t, &log, 1)
				w.expectIdle(t)
			})
		})
	}
}

func TestPanicWhileACallIsSilentLeavesTheProcessRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		w := newWorld(t, noting(&log))
		desk := &brittleDesk{Desk: w.gateway}
		w.Server = server.NewWithDesk(w.config, desk)
		desk.stream.set(1)
		out := &brittleWriter{ResponseRecorder: httptest.NewRecorder()}
		if broken := w.attempt(t, out, modernCall("slow")); broken || out.Code != http.StatusOK ||
			!strings.Contains(out.Body.String(), "late") {
			t.Errorf("before anything was sent: got %d %s, want the result", out.Code, out.Body)
		}
		w.expectPanics(t, &log, 1)
		out = &brittleWriter{ResponseRecorder: httptest.NewRecorder()}
		out.write.set(1)
		if broken := w.attempt(t, out, modernCall("slow")); !broken ||
			strings.Contains(out.Body.String(), "late") {
			t.Errorf("when a part was sent: got %d %s, want a broken connection", out.Code, out.Body)
		}
		w.expectPanics(t, &log, 2)
		w.expectIdle(t)
	})
}

func TestPanicInARequestOverSSELeavesTheProcessRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		var events brittleLog
		var b bug
		w := newWorld(t, noting(&log), logged(&events))
		w.behind(&fakeDesk{refuse: func(audit.Record) { b.bite() }})
		stream, address := w.openSSE(t, "alice")
		post := func(body string) string {
			t.Helper()
			if got := w.do(t, posted(address, body)); got.Code != http.StatusAccepted {
				t.Fatalf("got %d %s, want 202", got.Code, got.Body)
			}
			wait(t)
			return stream.text()
		}
		b.set(1)
		if got := post(`{"jsonrpc":"2.0","id":7,"method":"initialize","params":{}}`); !strings.Contains(got,
			`"id":7,"error"`) || !strings.Contains(got, "DB-INTERNAL") {
			t.Errorf("got %q, want an error", got)
		}
		if got := post(pingBody); !strings.Contains(got, `"id":1,"result"`) {
			t.Errorf("after the panic: got %q, want a result", got)
		}
		w.expectPanics(t, &log, 1)
		events.add.set(1)
		post(pingBody)
		stream.mu.Lock()
		ended := stream.ended
		stream.mu.Unlock()
		if !ended {
			t.Error("the client waits for an answer that cannot come")
		}
		w.expectPanics(t, &log, 2)
		w.expectIdle(t)
	})
}

func TestPanicInABatchLeavesTheProcessRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		var events brittleLog
		w := newWorld(t, noting(&log), logged(&events))
		w.asking()
		id := w.openAsking(t, mcp.Revision2503)
		events.add.set(1)
		got := w.do(t, inSession("POST", id, "["+askRoots+"]"))
		if !strings.Contains(got.Body.String(), "DB-INTERNAL") {
			t.Errorf("got %d %s, want an error", got.Code, got.Body)
		}
		w.expectPanics(t, &log, 1)
		w.expectIdle(t)
	})
}

type brittleStore struct {
	once.Store
	wanted bug
}

type brittleClaim struct {
	once.Claim
	wanted *bug
}

func (s *brittleStore) Begin(ctx context.Context, r once.Request) (once.Claim, *once.Answer, error) {
	claim, kept, err := s.Store.Begin(ctx, r)
	if claim != nil {
		claim = &brittleClaim{claim, &s.wanted}
	}
	return claim, kept, err
}

func (c *brittleClaim) Wanted() bool {
	c.wanted.bite()
	return c.Claim.Wanted()
}

func TestPanicWhileNobodyWaitsForACallLeavesTheProcessRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		store := &brittleStore{Store: once.NewMemory(share.New(share.DefaultMemory))}
		w := newWorld(t, noting(&log), func(w *world) { w.config.Once = store })
		store.wanted.set(1)
		ctx, leave := context.WithCancel(t.Context())
		over := w.begins(ctx, keyedCall("slow", "k"))
		wait(t)
		leave()
		<-over
		if started, cancelled := w.counts(); started != 1 || cancelled != 1 {
			t.Errorf("got %d calls begun and %d cancelled, want 1, 1", started, cancelled)
		}
		w.expectPanics(t, &log, 1)
		w.expectIdle(t)
	})
}
