package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// bulk adds a server with a tool whose answers have that many bytes, and are held as
// those of other servers are.
func bulk(size int) func(*world) {
	return func(w *world) {
		for i := range w.tenants {
			w.tenants[i].Servers = append(w.tenants[i].Servers, "store")
		}
		w.registry.Replace(registry.Source{Name: "store", Tools: []registry.Offer{{
			Definition: object(`{"name":"bulk","inputSchema":{"type":"object"}}`), Timeout: time.Hour,
			Call: func(_ context.Context, c *registry.Call) (mcp.Object, error) {
				if err := c.Memory.Resize(int64(size)); err != nil {
					return mcp.Object{}, &registry.MemoryError{Server: "store", Err: err}
				}
				return object(`{"content":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]}`), nil
			},
		}}})
	}
}

// unreading is a client that takes the header of an answer, and of its body nothing until
// it is woken.
type unreading struct {
	*httptest.ResponseRecorder
	awake <-chan struct{}
	once  sync.Once
	waits func()
}

func (d *unreading) Write(p []byte) (int, error) {
	if len(p) > share.Covered {
		d.once.Do(d.waits)
		<-d.awake
	}
	return len(p), nil // what a client has read is in its own memory
}

// deafClients are clients that do not read, and how many of them have an answer before
// them.
type deafClients struct {
	w       *world
	h       http.Handler
	awake   chan struct{}
	mu      sync.Mutex     // guards the fields below
	waiting map[string]int // by token
}

func newDeafClients(w *world) *deafClients {
	return &deafClients{w: w, h: w.Handler(), awake: make(chan struct{}), waiting: map[string]int{}}
}

// call sends a request and comes back when its answer is ready.
func (d *deafClients) call(t *testing.T, m message) {
	t.Helper()
	r := m.request(t.Context(), "")
	r.RequestURI, r.RemoteAddr = r.URL.RequestURI(), "192.0.2.1:1234"
	go func() {
		client := &unreading{
			ResponseRecorder: httptest.NewRecorder(), awake: d.awake,
			waits: func() { d.note(m.token) },
		}
		d.h.ServeHTTP(client, r)
		if client.Code != http.StatusOK || client.Header().Get("Retry-After") != "" {
			t.Errorf("%s: got %d %v, want 200 and no advice to make the call again", m.token, client.Code,
				client.Header())
		}
	}()
}

func (d *deafClients) note(token string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting[token]++
}

func (d *deafClients) waits(token string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting[token]
}

// bulkCalls are the ways in which an answer reaches a client.
func bulkCalls(t *testing.T, w *world) map[string]func(token string) message {
	t.Helper()
	sessions := map[string]string{}
	for _, token := range []string{"alice", "bob", "alice-globex"} {
		sessions[token] = w.open(t, token, mcp.Revision2511)
	}
	modern := func(token string) message { return modernCall("bulk").as(token) }
	n := 0
	return map[string]func(token string) message{
		"modern": modern,
		"modern, streamed": func(
			token string,
		) message {
			return modern(token).with("Accept", "text/event-stream, application/json")
		},
		"legacy": func(token string) message {
			n++
			return legacyCall(sessions[token], "bulk").as(token).id(fmt.Sprint(n))
		},
	}
}

// id gives a request another id.
func (m message) id(id string) message {
	m.body = strings.Replace(m.body, `"id":1,`, `"id":`+id+`,`, 1)
	return m
}

// TestAnswersForSlowClientsStayWithinTheirShare lets one user make thirty calls with
// answers of a megabyte and read none of them. Uncounted, thirty answers of 15 MB would
// end the process.
func TestAnswersForSlowClientsStayWithinTheirShare(t *testing.T) {
	const size = 1_000_000
	for _, form := range []string{"modern", "modern, streamed", "legacy"} {
		bubble(t, func(t *testing.T, w *world) {
			b, clients := w.config.Memory, newDeafClients(w)
			call := bulkCalls(t, w)[form]
			sessions := b.InUse()
			for range 30 {
				clients.call(t, call("alice"))
			}
			synctest.Wait()
			got := clients.waits("alice")
			if got < 2 || int64(got)*size > b.Most() || b.InUse() > b.Most() || b.InUse() < int64(got)*size {
				t.Errorf("%s: %d answers wait, %d are held, want as many as fit into %d", form, got, b.InUse(),
					b.Most())
			}
			clients.call(t, call("bob"))
			clients.call(t, call("alice-globex"))
			synctest.Wait()
			if clients.waits("bob") != 1 || clients.waits("alice-globex") != 1 {
				t.Errorf("%s: a colleague has %d answers and another tenant %d, want 1 each", form,
					clients.waits("bob"), clients.waits("alice-globex"))
			}
			close(clients.awake)
			synctest.Wait()
			if got := b.InUse() - sessions; got != 0 {
				t.Errorf("%s: %d bytes are held after all answers were read", form, got)
			}
		}, memory(32<<20), busy, bulk(size))
	}
}

// TestAnswerWithoutRoomIsNoAdviceToRepeat: the call was made, so its error has a code of
// its own, and neither a status nor a time that clients take as a reason to make it
// again.
func TestAnswerWithoutRoomIsNoAdviceToRepeat(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for form, call := range bulkCalls(t, w) {
			if form == "modern, streamed" {
				call = bulkCalls(t, w)["modern"]
			}
			sessions := w.config.Memory.InUse()
			got := record(w.Handler(), call("alice").request(t.Context(), ""))
			body := got.Body.String()
			if got.Code != http.StatusOK || !strings.Contains(body, `"code":"DB-OUTPUT-MEMORY"`) ||
				strings.Contains(body, "retryAfter") || got.Header().Get("Retry-After") != "" {
				t.Errorf("%s: got %d %v %.300s", form, got.Code, got.Header(), body)
			}
			if got := w.do(t, modernCall("echo")); got.Code != http.StatusOK {
				t.Errorf("%s: a small call after it: got %d %s", form, got.Code, got.Body)
			}
			if held := w.config.Memory.InUse() - sessions; held != 0 {
				t.Errorf("%s: %d are held in the end", form, held)
			}
		}
	}, memory(4<<20), bulk(900_000))
}
