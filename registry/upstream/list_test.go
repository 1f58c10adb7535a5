package upstream_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// TestEndlessListsAreRefused shows that no list keeps the gateway busy for ever.
func TestEndlessListsAreRefused(t *testing.T) {
	t.Parallel()
	n := atomic.Int64{}
	tool := `{"name":"a","inputSchema":{"type":"object"}}`
	for name, test := range map[string]struct {
		list func(w http.ResponseWriter, m wire)
		want string
	}{
		"same cursor": {func(w http.ResponseWriter,
			m wire,
		) {
			sendJSON(w, m.ID, `{"tools":[],"nextCursor":"x"}`)
		}, "cursor that came before"},
		"empty cursor": {func(w http.ResponseWriter,
			m wire,
		) {
			sendJSON(w, m.ID, `{"tools":[],"nextCursor":""}`)
		}, "cursor that came before"},
		"number cursor": {func(w http.ResponseWriter,
			m wire,
		) {
			sendJSON(w, m.ID, `{"tools":[],"nextCursor":1}`)
		}, "is no string"},
		"always new ones": {func(w http.ResponseWriter, m wire) {
			sendJSON(w, m.ID, fmt.Sprintf(`{"tools":[],"nextCursor":"%d"}`, n.Add(1)))
		}, "pages"},
		"too many tools": {func(w http.ResponseWriter, m wire) {
			sendJSON(w, m.ID, `{"tools":[`+strings.Repeat(tool+",", 5000)+tool+`]}`)
		}, "more than 5000 items"},
		"no array": {func(w http.ResponseWriter, m wire) { sendJSON(w, m.ID, `{"tools":{}}`) }, "no array"},
		"nothing":  {func(w http.ResponseWriter, m wire) { sendJSON(w, m.ID, `{}`) }, "no array"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// a thousand pages may take their time
			bubble(t, &wired{web: web{modern: true, list: test.list}}, func(t *testing.T, r *rig) {
				if s := r.last(); !s.Tried || s.Up || !strings.Contains(s.Problem, test.want) {
					t.Errorf("status: got %+v, want down because of %q", s, test.want)
				}
			})
		})
	}
}

// TestEmptyCursorIsReal shows that an empty cursor leads to another page in the modern
// era and ends a list before.
func TestEmptyCursorIsReal(t *testing.T) {
	t.Parallel()
	list := func(w http.ResponseWriter, m wire) {
		if m.Params.Cursor == nil {
			sendJSON(w, m.ID, `{"tools":[{"name":"first","inputSchema":{"type":"object"}}],"nextCursor":""}`)
			return
		}
		sendJSON(w, m.ID, `{"tools":[{"name":"second","inputSchema":{"type":"object"}}],"nextCursor":null}`)
	}
	for modern, want := range map[bool][]string{true: {"first", "second"}, false: {"first"}} {
		r := start(t, serve(t, &web{modern: modern, list: list}).config())
		r.untilUp()
		if got := r.tools(); !slices.Equal(got, want) {
			t.Errorf("modern %v: got %q, want %q", modern, got, want)
		}
		cfg := serve(t, &web{modern: modern, list: list}).config()
		cfg.Personal, cfg.Memory = true, share.New(64<<20)
		r = start(t, cfg)
		r.untilUp()
		if got, _, err := r.offered(user("acme", "https://a.example", "ann")); err != nil || !slices.Equal(got, want) {
			t.Errorf("modern %v: got %q (%v) for one user, want %q", modern, got, err, want)
		}
	}
}

// TestServerWithoutToolsIsUp tells an empty list from a broken one.
func TestServerWithoutToolsIsUp(t *testing.T) {
	t.Parallel()
	s := serve(t, &web{list: func(w http.ResponseWriter,
		m wire,
	) {
		sendError(w, 200, m.ID, -32601, "no tools")
	}})
	r := start(t, s.config())
	r.untilUp()
	if got := r.last(); got.Tools != 0 {
		t.Errorf("status: got %+v, want up without tools", got)
	}
}

// TestListChangesOverHTTP announces a change on the stream of each era, cuts the stream,
// and changes the list while nobody listens.
func TestListChangesOverHTTP(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprintf("modern=%v", modern), func(t *testing.T) {
			t.Parallel()
			var name atomic.Value
			name.Store("one")
			s := serve(t, &web{modern: modern, session: "s"})
			if modern {
				s.session = ""
			}
			announce, cut := make(chan bool), make(chan bool)
			follow := func(w http.ResponseWriter, r *http.Request, hello, meta string) {
				send := events(w)
				send("%s", hello)
				for {
					select {
					case <-announce:
						send(
							"%s", data(
								`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{%s}}`,
								meta))
					case <-cut:
						panic(http.ErrAbortHandler)
					case <-r.Context().Done():
						return
					}
				}
			}
			s.stream = func(w http.ResponseWriter, r *http.Request) { follow(w, r, ": hello\n\n", "") }
			s.listen = func(w http.ResponseWriter, r *http.Request, m wire) {
				meta := fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/subscriptionId":%s}`, m.ID)
				follow(
					w, r, data(
						`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},%s}}`, meta), meta)
			}
			s.list = func(w http.ResponseWriter, m wire) {
				sendJSON(w, m.ID, fmt.Sprintf( // the next check would come after ten minutes
					`{"tools":[{"name":%q,"inputSchema":{"type":"object"}}],"ttlMs":3600000}`, name.Load()))
			}
			r := start(t, s.config())
			r.untilTool("one")
			name.Store("two")
			give(t, announce)
			r.untilTool("two")
			name.Store("three")
			give(t, cut)
			r.untilTool("three")
			if s := r.last(); s.Restarts != 0 {
				t.Errorf("a cut stream restarted the upstream: %+v", s)
			}
		})
	}
}

// give sends on a channel, in bounded time.
func give(t *testing.T, to chan<- bool) {
	t.Helper()
	select {
	case to <- true:
	case <-time.After(limit):
		t.Fatal("waited in vain for a listener")
	}
}
