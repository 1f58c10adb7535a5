package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
)

// answering makes a world with that much memory whose tool echo answers with as many
// bytes as the argument size says.
func answering(t *testing.T, memory int64) (w *world, base string) {
	w = newWorld(t, func(w *world) {
		w.config.Memory = share.New(memory)
		w.config.Log = eventlog.NewMemory(eventlog.MemoryConfig{Memory: w.config.Memory})
	})
	w.behind(&fakeDesk{handle: func(_ context.Context, _ gateway.Caller, r *gateway.Request) (mcp.Object,
		error,
	) {
		var size int
		if _, err := fmt.Sscan(r.Params.Object("arguments").Text("size"), &size); err != nil {
			return mcp.Object{}, err
		}
		return textResult(strings.Repeat("x", size)), nil
	}})
	return w, w.serve(t)
}

// streamed calls echo in a session of 2025-11-25, for an answer of that size on a stream.
func streamed(t *testing.T, base, token, id string, size int) *answer {
	t.Helper()
	body := fmt.Sprintf(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"size":"%d"}}}`,
		size)
	return call(t.Context(), t, base, inSession("POST", id, body).as(token).with("Accept",
		"text/event-stream, application/json"))
}

// TestNoAnswerIsLostByAnothersDoing keeps an answer for a colleague and one for another
// tenant while a user has a flood of large answers, and resumes afterwards.
func TestNoAnswerIsLostByAnothersDoing(t *testing.T) {
	w, base := answering(t, 32<<20)
	quiet := map[string]string{}
	for _, token := range []string{"bob", "outsider"} {
		quiet[token] = w.open(t, token, mcp.Revision2511)
		streamed(t, base, token, quiet[token], 20_000).expect(t, "id: p1-0")
	}
	loud := w.open(t, "alice", mcp.Revision2511)
	for n := range 40 {
		got := streamed(t, base, "alice", loud, 1<<20)
		got.expect(t, fmt.Sprintf("id: p%d-0", n+1), "data:", "id:", `"result"`, "")
	}
	for token, id := range quiet {
		got := call(t.Context(), t, base, inSession("GET", id, "").as(token).with("Last-Event-ID", "p1-0"))
		if got.StatusCode != http.StatusOK {
			t.Errorf("%s resumes: got %d %s, want its answer", token, got.StatusCode, got.line(t))
			continue
		}
		got.expect(t, "id: p1-0", "data:", "id: p1-1", `"result"`)
	}
	if held := w.config.Memory.InUse(); held < 1<<20 || held > w.config.Memory.Total()/2 {
		t.Errorf("%d bytes are held, want some answers, and no more than half of %d", held,
			w.config.Memory.Total())
	}
	if top := w.config.Memory.Top(1); len(top) == 0 || top[0].TenantID != "acme" {
		t.Errorf("who holds most is %+v, want acme", top)
	}
}

// TestAnAnswerThatCannotBeKeptIsNotLostSilently asks for more than a user may keep.
func TestAnAnswerThatCannotBeKeptIsNotLostSilently(t *testing.T) {
	w, base := answering(t, 16<<20)
	id := w.open(t, "alice", mcp.Revision2511)
	got := streamed(t, base, "alice", id, 3<<20)
	got.expect(t, "id: p1-0", "data:", "id: p1-1", `"code":"DB-OUTPUT-MEMORY"`, "")
	// also if it takes long
	plain := call(t.Context(), t, base, legacyCallOf(id, 3<<20).with("Accept", "application/json"))
	if plain.Header.Get("Content-Type") != "application/json" ||
		!strings.Contains(plain.line(t), `"result"`) {
		t.Error("an answer that need not be kept was not given")
	}
}

func legacyCallOf(id string, size int) message {
	return inSession("POST", id,
		fmt.Sprintf(
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"size":"%d"}}}`, size))
}

// TestNoStreamWithoutMemory takes all memory, so that nothing of a stream could be kept.
func TestNoStreamWithoutMemory(t *testing.T) {
	w, base := answering(t, 16<<20)
	id := w.open(t, "alice", mcp.Revision2511)
	principal := principals()["alice"]
	alice := share.User(principal.User())
	for n := w.config.Memory.Most(); n > 0; n /= 2 {
		for w.config.Memory.Take(alice, n) == nil {
		}
	}
	got := w.do(t, inSession("GET", id, ""))
	if got.Code != http.StatusTooManyRequests || stable(t, got.Body) != "DB-LIMIT-MEMORY" {
		t.Errorf("a stream: got %d %s, want 429 and DB-LIMIT-MEMORY", got.Code, got.Body)
	}
	if plain := streamed(t, base, "alice", id, 10); plain.Header.Get("Content-Type") != "application/json" {
		t.Errorf("an answer that cannot be kept as a stream: got %q, want plain JSON",
			plain.Header.Get("Content-Type"))
	}
}
