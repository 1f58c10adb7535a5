package server_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// forms is a server of everything that asks, behind the real desk.
type forms struct {
	mu      sync.Mutex // guards the field below
	updated func(uri string)
}

func (f *forms) source() registry.Source {
	return registry.Source{
		Name: "forms",
		Tools: []registry.Offer{{
			Definition: object(`{"name":"sign","inputSchema":{"type":"object"}}`), Timeout: time.Minute,
			Call: f.use,
		}},
		Prompts:   []mcp.Object{object(`{"name":"greet"}`)},
		Resources: []mcp.Object{object(`{"uri":"file:///a","name":"a"}`)},
		Use:       f.use,
		Reads:     true,
		Subscribe: func(_ context.Context, _ share.User, _ string, updated func(string), _ func()) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.updated = updated
			return nil
		},
	}
}

// use asks who it is, and then greets.
func (f *forms) use(_ context.Context, c *registry.Call) (mcp.Object, error) {
	answer := c.Params.Object("inputResponses").Object("who")
	if answer.Len() == 0 {
		return object(
			`{"resultType":"input_required","requestState":"inner","inputRequests":{"who":{"method":"elicitation/create",` +
				`"params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}}}`), nil
	}
	text := answer.Text("action") + " " + answer.Object("content").Text("name") + " with state " +
		c.Params.Text("requestState")
	switch c.Method {
	case mcp.MethodPromptsGet:
		return object(`{"messages":[{"role":"user","content":{"type":"text","text":"` + text + `"}}]}`), nil
	case mcp.MethodResourcesRead:
		return object(`{"contents":[{"uri":"` + c.Target + `","text":"` + text + `"}]}`), nil
	}
	return textResult(text), nil
}

func (f *forms) change() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.updated("file:///a")
}

func newFormsWorld(t *testing.T) (*world, *forms) {
	t.Helper()
	return newFormsWorldOf(t, func(*world) {})
}

// newFormsWorldOf is newFormsWorld with what change has changed.
func newFormsWorldOf(t *testing.T, change func(*world)) (*world, *forms) {
	t.Helper()
	f := &forms{}
	w := newWorld(t, func(w *world) {
		change(w)
		w.tenants[0].Servers = []string{"box", "forms"}
		w.tenants[0].Rules = []gateway.Rule{{Allow: []string{"*", "prompt:*", "resource:*"}}}
	})
	for _, refusal := range w.registry.Replace(f.source()) {
		t.Fatalf("refused: %+v", refusal)
	}
	return w, f
}

// TestEverythingThatAsks asks from a tool, a prompt and a resource of a real catalogue,
// through the real desk.
func TestEverythingThatAsks(t *testing.T) {
	w, _ := newFormsWorld(t)
	base := w.serve(t)
	id := w.openAsking(t, mcp.Revision2506)
	for method, params := range map[string]string{
		mcp.MethodToolsCall: `"name":"sign"`, mcp.MethodPromptsGet: `"name":"greet"`,
		mcp.MethodResourcesRead: `"uri":"file:///a"`,
	} {
		body := `{"jsonrpc":"2.0","id":"` + method + `","method":"` + method + `","params":{` + params + `}}`
		stream := call(t.Context(), t, base, inSession("POST", id, body))
		stream.expect(t, "id: p")
		line := stream.line(t)
		question := questionID.FindStringSubmatch(line)
		if question == nil || strings.Contains(line, `"mode"`) {
			t.Fatalf("%s: got %s, want a question in the form of the revision", method, line)
		}
		answer := `{"jsonrpc":"2.0","id":"` + question[1] +
			`","result":{"action":"accept","content":{"name":"Ann"}}}`
		if got := w.do(t, inSession("POST", id, answer)); got.Code != http.StatusAccepted {
			t.Fatalf("%s: got %d, want 202", method, got.Code)
		}
		stream.expect(t, "id: p", `accept Ann with state inner`, "")
	}
	mute := w.open(t, "alice", mcp.Revision2511)
	if got := w.do(t, legacyCall(mute, "sign")).Body.String(); !strings.Contains(got, `"isError":true`) ||
		!strings.Contains(got, "elicitation") {
		t.Errorf("a client that cannot be asked: got %s, want a result that says what is missing", got)
	}
	if got := w.do(t, modernCall("sign")); got.Code != http.StatusBadRequest ||
		!strings.Contains(got.Body.String(), `"code":-32021`) {
		t.Errorf("a modern one: got %d %s, want 400 with -32021", got.Code, got.Body)
	}
}

// TestUpdatesOfTheCatalogue subscribes in both eras to a resource of a real catalogue,
// until the caller may not read it.
func TestUpdatesOfTheCatalogue(t *testing.T) {
	w, forms := newFormsWorld(t)
	base := w.serve(t)
	id := w.open(t, "alice", mcp.Revision2506)
	subscribe := inSession("POST", id,
		`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///a"}}`)
	if got := w.do(t, subscribe).Body.String(); !strings.Contains(got, `"result":{}`) {
		t.Fatalf("got %s, want {}", got)
	}
	legacy := call(t.Context(), t, base, inSession("GET", id, ""))
	forms.change()
	legacy.expect(t, "id: g", `"method":"notifications/resources/updated","params":{"uri":"file:///a"}`)

	m := modernListen()
	m.body = strings.Replace(m.body, `{"toolsListChanged":true}`,
		`{"resourceSubscriptions":["file:///a","file:///a/../b"]}`, 1)
	modern := call(t.Context(), t, base, m)
	modern.expect(t, `"notifications":{"resourceSubscriptions":["file:///a"]}`)
	forms.change()
	modern.expect(t, `"method":"notifications/resources/updated","params":{"uri":"file:///a"`)

	w.tenants[0].Servers = []string{"box"}
	w.setTenants(t, w.tenants)
	forms.change()
	w.EndStreams()
	modern.expect(t, `"resultType":"complete"`, "")
}

// TestRecordsOfSubscriptionsSayWhoseTheyAre subscribes in both eras.
func TestRecordsOfSubscriptionsSayWhoseTheyAre(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	record, err := audit.Open(audit.Config{File: file})
	if err != nil {
		t.Fatal(err)
	}
	w, _ := newFormsWorldOf(t, func(w *world) { w.audit = record })
	base := w.serve(t)
	m := modernListen()
	m.body = strings.NewReplacer(`{"toolsListChanged":true}`, `{"resourceSubscriptions":["file:///a"]}`,
		`"progressToken":"t"`,
		`"io.modelcontextprotocol/clientInfo":{"name":"inspector","version":"2"}`).Replace(m.body)
	call(t.Context(), t, base, m).expect(t, `"resourceSubscriptions":["file:///a"]`)
	id := w.open(t, "alice", mcp.Revision2506)
	call(t.Context(), t, base, inSession("POST", id,
		`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///a"}}`)).expect(t,
		`"result":{}`)
	lines, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"client":"inspector","client_version":"2","remote":"127.0.0.1","method":"resources/subscribe"`,
		`"remote":"127.0.0.1","session":"`,
	} {
		if !strings.Contains(string(lines), want) {
			t.Errorf("got %s, want %s in it", lines, want)
		}
	}
}

// TestNoChangeIsToldAfterTheRightToReadItHasEnded ends the right to read a resource while
// a stream is looking for what it has to tell, and then changes the resource. The stream
// judged that change by what its caller was allowed before.
func TestNoChangeIsToldAfterTheRightToReadItHasEnded(t *testing.T) {
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) {
			w, forms := newFormsWorld(t)
			without := slices.Clone(w.tenants)
			without[0].Servers = []string{"box"}
			var armed atomic.Bool
			ended := make(chan struct{})
			w.behind(&fakeDesk{lists: func(d gateway.Digests) gateway.Digests {
				if armed.CompareAndSwap(true, false) {
					w.setTenants(t, without)
					forms.change()
					close(ended)
				}
				return d
			}})
			m := modernListen()
			m.body = strings.Replace(m.body, `"toolsListChanged":true`,
				`"resourceSubscriptions":["file:///a"]`, 1)
			if era == "legacy" {
				id := w.open(t, "alice", mcp.Revision2511) // whose streams begin with an event
				w.do(t, inSession("POST", id,
					`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///a"}}`))
				m = inSession("GET", id, "")
			}
			stream := call(t.Context(), t, w.serve(t), m)
			stream.line(t) // it is open
			armed.Store(true)
			w.offer(t, "extra") // so that the stream looks
			<-ended
			w.EndStreams()
			for line := stream.line(t); line != ""; line = stream.line(t) {
				if strings.Contains(line, mcp.NotifyResourceUpdated) {
					t.Errorf("the client was told: %s", line)
				}
			}
		})
	}
}
