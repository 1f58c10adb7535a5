package upstream_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// openings is a server of 2025-11-25 that wants its users to open an address: in the
// middle of the call "ask", and before the call "refuse". In each session the address has
// the same id, as in a server that counts them.
type openings struct {
	*web
	agreed chan struct{} // closed when the user has agreed

	mu    sync.Mutex             // guards the field below
	tells map[string]chan string // what is said on the session's own stream, by session
}

const opening = `"mode":"url","message":"open it","url":"https://done.test/","elicitationId":"theirs"`

func (o *openings) of(session string) chan string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tells == nil {
		o.tells = map[string]chan string{}
	}
	if o.tells[session] == nil {
		o.tells[session] = make(chan string, 10)
	}
	return o.tells[session]
}

// done says in the session of the latest call of that user that the address was opened.
func (o *openings) done(user string) {
	for _, one := range o.sights("tools/call") {
		if one.wire.Params.Arguments["token"] == user {
			o.of(one.header.Get("Mcp-Session-Id")) <- data(
				`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"theirs"}}`)
		}
	}
}

func serveOpenings(t *testing.T) *openings {
	t.Helper()
	o := &openings{agreed: make(chan struct{})}
	o.web = serve(t, &web{
		session: "s",
		stream: func(w http.ResponseWriter, r *http.Request) {
			send := events(w)
			for said := o.of(r.Header.Get("Mcp-Session-Id")); ; {
				select {
				case event := <-said:
					send("%s", event)
				case <-r.Context().Done():
					return
				}
			}
		},
		list: func(w http.ResponseWriter, m wire) {
			sendJSON(w, m.ID, `{"tools":[{"name":"ask","inputSchema":{"type":"object"}},{"name":"refuse","inputSchema":{"type":"object"}}]}`)
		},
		call: func(w http.ResponseWriter, _ *http.Request, m wire) {
			if m.Params.Name == "refuse" {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"open","data":{"elicitations":[{%s}]}}}`,
					m.ID, opening)
				return
			}
			send := events(w)
			send("%s", data(`{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{%s}}`, opening))
			<-o.agreed
			send("%s", data(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, okResult))
		},
	})
	return o
}

// TestWhoWasAskedToOpenAnAddressIsToldThatItIsDone has two users asked to open an address
// that has the same id for both, and the server say of one that all is done there: also
// after the call.
func TestWhoWasAskedToOpenAnAddressIsToldThatItIsDone(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"ask", "refuse"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			o := serveOpenings(t)
			r := start(t, o.config())
			r.untilTool(tool)
			told := map[string]chan string{"alice": make(chan string, 10), "bob": make(chan string, 10)}
			asked, ids, states := map[string]mcp.Object{}, map[string]string{}, map[string]string{}
			call := func(name, responses, state string) *registry.Call {
				c := person{"a", name, anyQuestion, ""}.call(t, name, responses, state, nil)
				if to := told[name]; to != nil { // else a client that knows no such notifications
					c.OnOpened = func(id string) { to <- id }
				}
				return c
			}
			for _, name := range []string{"alice", "bob", "carol"} {
				var err error
				if asked[name], states[name], _, err = r.round(t.Context(), tool, call(name, "", "")); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				for _, raw := range asked[name].Members {
					question, _ := mcp.ObjectOf(raw)
					ids[name] = question.Object("params").Text("elicitationId")
				}
			}
			if ids["alice"] == "" || ids["alice"] == "theirs" || ids["alice"] == ids["bob"] || ids["carol"] != "" {
				t.Errorf("ids %q, want one of the gateway's own for alice and bob, and none for carol", ids)
			}
			close(o.agreed)
			if tool == "ask" {
				if _, _, got, err := r.round(t.Context(), tool, call("alice", accept(asked["alice"], "yes"),
					states["alice"])); got != "ok" {
					t.Errorf("got %q, %v", got, err)
				}
			}
			o.done("alice")
			o.done("alice") // is told once
			o.done("carol")
			if got := await(t, told["alice"]); got != ids["alice"] {
				t.Errorf("alice is told of %q, want %q", got, ids["alice"])
			}
			o.done("bob")
			if got := await(t, told["bob"]); got != ids["bob"] {
				t.Errorf("bob is told of %q, want %q", got, ids["bob"])
			}
			if more := len(told["alice"]) + len(told["bob"]); more != 0 {
				t.Errorf("%d more were told, want none", more)
			}
		})
	}
}

// TestErrorThatNamesNoAddressKeepsItsData has a server refuse a prompt with the error for
// addresses to open, and say something else beside it.
func TestErrorThatNamesNoAddressKeepsItsData(t *testing.T) {
	t.Parallel()
	s := serve(t, &web{declares: `{"prompts":{}}`, other: map[string]handler{
		"prompts/list": func(w http.ResponseWriter, _ *http.Request, m wire) {
			sendJSON(w, m.ID, `{"prompts":[{"name":"greet"}]}`)
		},
		"prompts/get": func(w http.ResponseWriter, _ *http.Request, m wire) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"open","data":"see the manual"}}`, m.ID)
		},
	}})
	r := start(t, s.config())
	r.until("the prompt is there", func() bool { return len(r.view().Prompts) == 1 })
	_, err := r.use(r.prompt("greet"), person{tenant: "a"}.call(t, "", "", "", nil), mcp.MethodPromptsGet)
	answered, is := errors.AsType[*mcp.Error](err)
	if !is || string(answered.Data) != `"see the manual"` {
		t.Errorf("got %v, want the error with its data", err)
	}
}
