package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// TestListIsNotCopiedForEachRequest asks for the same long list again and again, and
// counts the memory that this takes. The text of the list itself must not be among it,
// however the answer is sent.
func TestListIsNotCopiedForEachRequest(t *testing.T) {
	w := newWorld(t, offering(t, 1000))
	h := w.Handler()
	id := w.open(t, "alice", mcp.Revision2503)
	const streamed = "text/event-stream, application/json;q=0.5"
	batch := legacyList(id, "")
	batch.body = "[" + batch.body + "]"
	for name, ask := range map[string]message{
		"in a batch":         batch,
		"modern":             modernList(""),
		"modern as a stream": modernList("").with("Accept", streamed),
		"legacy":             legacyList(id, ""),
	} {
		const requests = 50
		list := int64(len(w.do(t, ask).Body.String()))
		out := &sink{header: make(http.Header)}
		before := allocated()
		for range requests {
			clear(out.header)
			h.ServeHTTP(out, ask.request(t.Context(), ""))
		}
		if each := (allocated() - before) / requests; out.status != http.StatusOK || list < 150_000 ||
			each > list/2 {
			t.Errorf(
				"%s: got %d, and %d bytes of memory a request for a list of %d, want less than half of that",
				name, out.status, each, list)
		}
	}
}

// allocated returns how many bytes have been allocated so far.
func allocated() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.TotalAlloc)
}

// TestLongListArrivesWhole reads long lists page by page over connections, in every form
// in which they are sent.
func TestLongListArrivesWhole(t *testing.T) {
	w := newWorld(t, offering(t, 2500))
	base := w.serve(t)
	newest, older := w.open(t, "alice", mcp.Revision2511), w.open(t, "alice", mcp.Revision2503)
	const streamed = "text/event-stream, application/json;q=0.5"
	for name, ask := range map[string]func(cursor string) message{
		"modern": modernList,
		"modern as a stream": func(
			cursor string,
		) message {
			return modernList(cursor).with("Accept", streamed)
		},
		"legacy": func(cursor string) message { return legacyList(newest, cursor) },
		"legacy as a stream": func(cursor string) message {
			return legacyList(newest, cursor).with("Accept", streamed)
		},
		"older": func(cursor string) message { return legacyList(older, cursor) },
		"in a batch": func(cursor string) message {
			m := legacyList(older, cursor)
			m.body = "[" + m.body + "]"
			return m
		},
	} {
		seen, titled := map[string]bool{}, 0
		for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
			text := received(t, base, ask(cursor))
			var answer struct {
				Result struct {
					Tools      []struct{ Name, Title string }
					NextCursor string
				}
			}
			if err := json.Unmarshal([]byte(text), &answer); err != nil || pages > 2 {
				t.Fatalf("%s, page %d: %v of %.200s", name, pages, err, text)
			}
			for _, tool := range answer.Result.Tools {
				seen[tool.Name] = true
				if tool.Title != "" {
					titled++
				}
			}
			cursor = answer.Result.NextCursor
		}
		want := 1250
		if name == "older" || name == "in a batch" {
			want = 0
		}
		if len(seen) != 2500 || titled != want {
			t.Errorf("%s: got %d tools, %d of them with a title, want 2500 and %d", name, len(seen), titled,
				want)
		}
	}
}

// received returns the message that answers a request over a connection, whether it comes
// as JSON or on a stream.
func received(t *testing.T, base string, m message) string {
	t.Helper()
	response, err := http.DefaultClient.Do(m.request(t.Context(), base))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("got %d, %v", response.StatusCode, err)
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		_, event, _ := strings.Cut(string(body), `data: {`)
		line, _, _ := strings.Cut("{"+event, "\n")
		return line
	}
	if want := strconv.Itoa(len(body)); response.Header.Get("Content-Length") != want {
		t.Errorf("got Content-Length %q, want %s", response.Header.Get("Content-Length"), want)
	}
	return strings.TrimSuffix(strings.TrimPrefix(string(body), "["), "]")
}
