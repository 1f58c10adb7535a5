package crowd_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// mute is a gateway that takes requests and says nothing of use.
type mute func(w http.ResponseWriter, r *http.Request, method string)

func (m mute) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, method, _ := strings.Cut(string(body), `"method":"`)
	method, _, _ = strings.Cut(method, `"`)
	m(w, r, method)
}

// answer answers with JSON.
func answer(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, body)
}

// until keeps a request open until its client ends it.
func until(r *http.Request) { <-r.Context().Done() }

// initialized answers initialize, whatever its id and revision, and takes notifications.
// It returns false for other requests.
func initialized(w http.ResponseWriter, method string) bool {
	switch method {
	case "initialize":
		w.Header().Set("Mcp-Session-Id", "s")
		answer(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}`)
	case "notifications/initialized":
		w.WriteHeader(http.StatusAccepted)
	default:
		return false
	}
	return true
}

// session begins a session over HTTP+SSE, whose stream says no more.
func session(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "event: endpoint\ndata: /messages\n\n")
	_ = http.NewResponseController(w).Flush()
	until(r)
}

// TestRequestsWithoutAnAnswerAreCounted shows that what is no call of a tool may not be
// lost without a word either.
func TestRequestsWithoutAnAnswerAreCounted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind, trouble string
		mute          mute
	}{
		"initialize is not answered": {
			crowd.Brief, "POST /mcp: no answer",
			func(_ http.ResponseWriter, r *http.Request, _ string) { until(r) },
		},
		"initialize has no end": {
			crowd.Brief, "POST /mcp: an answer without an end",
			func(w http.ResponseWriter, r *http.Request, _ string) {
				_ = http.NewResponseController(w).Flush()
				until(r)
			},
		},
		"initialize is refused with status 200": {
			crowd.Brief, "2025 brief: DB-BUSY",
			func(w http.ResponseWriter, _ *http.Request, _ string) {
				answer(
					w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no","data":{"code":"DB-BUSY"}}}`)
			},
		},
		"initialize has an empty stream": {
			crowd.Brief, "2025 brief: an answer without a result",
			func(w http.ResponseWriter, _ *http.Request, _ string) {
				w.Header().Set("Content-Type", "text/event-stream")
			},
		},
		"initialized is not answered": {
			crowd.Brief, "POST /mcp: no answer",
			func(w http.ResponseWriter, r *http.Request, method string) {
				if method != "initialize" || !initialized(w, method) {
					until(r)
				}
			},
		},
		"DELETE is not answered": {
			crowd.Brief, "DELETE /mcp: no answer",
			func(w http.ResponseWriter, r *http.Request, method string) {
				switch {
				case r.Method == http.MethodDelete:
					until(r)
				case !initialized(w, method):
					w.WriteHeader(http.StatusTooManyRequests)
				}
			},
		},
		"the stream of a session does not begin": {
			"2025 listen", "GET /mcp: no answer",
			func(w http.ResponseWriter, r *http.Request, method string) {
				switch {
				case r.Method == http.MethodGet:
					until(r)
				case !initialized(w, method):
					answer(w, `{"jsonrpc":"2.0","id":2,"result":{}}`)
				}
			},
		},
		"subscribe is not answered": {
			"2025 listen", "POST /mcp: no answer",
			func(w http.ResponseWriter, r *http.Request, method string) {
				if r.Method != http.MethodPost || !initialized(w, method) {
					until(r)
				}
			},
		},
		"listen is not answered": {
			"2026 listen", "POST /mcp: no answer",
			func(_ http.ResponseWriter, r *http.Request, _ string) { until(r) },
		},
		"listen is refused with status 200": {
			"2026 listen", "2026 listen: error -32603",
			func(w http.ResponseWriter, _ *http.Request, _ string) {
				answer(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}`)
			},
		},
		"the stream of HTTP+SSE does not begin": {
			"2024", "GET /sse: no answer",
			func(_ http.ResponseWriter, r *http.Request, _ string) { until(r) },
		},
		"the stream of HTTP+SSE ends at once": {
			"2024", "2024: a session that ended before it began",
			func(w http.ResponseWriter, _ *http.Request, _ string) {
				w.Header().Set("Content-Type", "text/event-stream")
			},
		},
		"initialize over HTTP+SSE is accepted, and silence": {
			"2024", "2024: initialize was not answered",
			func(w http.ResponseWriter, r *http.Request, _ string) {
				if r.Method == http.MethodGet {
					session(w, r)
					return
				}
				w.WriteHeader(http.StatusAccepted)
			},
		},
		"a message over HTTP+SSE is not answered": {
			"2024", "POST /messages: no answer",
			func(w http.ResponseWriter, r *http.Request, _ string) {
				if r.Method == http.MethodGet {
					session(w, r)
				}
				until(r)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			between := httptest.NewServer(test.mute)
			defer between.Close()
			c := begun(t, between.URL, test.kind)
			eventually(t, test.trouble+" is counted", func() bool { return c.Troubles()[test.trouble] > 0 })
			dismiss(t, c)
			for what, n := range c.Answers() {
				if n != 0 {
					t.Errorf("%s: %d answers of a gateway that says nothing", what, n)
				}
			}
		})
	}
}

// TestARefusedHandshakeOverSSEIsCounted has a server of its own, since the refusal comes
// on the stream.
func TestARefusedHandshakeOverSSEIsCounted(t *testing.T) {
	t.Parallel()
	asked := make(chan mcp.ID, 100)
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "event: endpoint\ndata: /messages\n\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case id := <-asked:
				_, _ = fmt.Fprintf(
					w, `data: {"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"no"}}`+"\n\n", id)
			case <-r.Context().Done():
			}
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
		if m, err := mcp.Decode(body); err == nil {
			asked <- m.ID
		}
	}))
	defer between.Close()
	c := begun(t, between.URL, "2024")
	eventually(t, "the refusal is counted", func() bool { return c.Troubles()["2024: error -32603"] > 0 })
	dismiss(t, c)
	if n := c.Deeds().Sessions; n != 0 {
		t.Errorf("%d sessions of a gateway that opens none", n)
	}
}

// TestACallEndsThoughItsAnswerIsNotTaken asks a client on the stream of its call, and
// takes no answer: since the replica that asked has died, which the stream says when it
// is resumed, or since there is no such session, and the stream says nothing.
func TestACallEndsThoughItsAnswerIsNotTaken(t *testing.T) {
	t.Parallel()
	const question = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`
	for name, test := range map[string]struct {
		status int // of the refusal
		code   string
		then   func(w http.ResponseWriter, r *http.Request) // what the stream does
		want   string
	}{
		"the replica has died": {
			http.StatusServiceUnavailable, "DB-REPLICAS", func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get(mcp.HeaderLastEventID) != "" {
					_, _ = io.WriteString(w, "data: "+errorOf("DB-REPLICA-GONE")+"\n\n")
				}
			}, "DB-REPLICA-GONE",
		},
		"there is no such session": {
			http.StatusNotFound, "DB-SESSION",
			func(_ http.ResponseWriter, r *http.Request) { until(r) }, "connection broken",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers := make(chan struct{}, 1000)
			between := httptest.NewServer(mute(func(w http.ResponseWriter, r *http.Request, method string) {
				switch {
				case r.Method == http.MethodGet || method == "tools/call":
					w.Header().Set("Content-Type", "text/event-stream")
					if r.Header.Get(mcp.HeaderLastEventID) == "" {
						_, _ = io.WriteString(w, "id: 1\ndata: "+question+"\n\n")
					} else {
						<-answers
					}
					_ = http.NewResponseController(w).Flush()
					test.then(w, r)
				case method == "":
					answers <- struct{}{}
					w.Header().Set("Retry-After", "1")
					w.WriteHeader(test.status)
					answer(w, errorOf(test.code))
				default:
					initialized(w, method)
				}
			}))
			defer between.Close()
			book := ledger.New()
			c := crowd.Start(t.Context(), crowd.Config{
				URL: between.URL, Token: func(string, string) string { return "" }, Ledger: book,
				Loads: []crowd.Load{{Kinds: []string{"2025 calls"}}}, Tenants: []string{"red"},
				Patience: 3 * time.Second,
			})
			eventually(t, "calls end", func() bool { return len(book.Failures()) > 2 })
			dismiss(t, c)
			for _, f := range book.Failures() {
				if f.How != test.want && !strings.HasSuffix(f.Kind, "stay") { // which is cancelled, and not resumed
					t.Errorf("a call %s ended with %q, want %q", f.Kind, f.How, test.want)
				}
			}
		})
	}
}

// errorOf is an answer with that code.
func errorOf(code string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no","data":{"code":%q}}}`, code)
}

// begun starts one client of a kind, of little patience.
func begun(t *testing.T, url, kind string) *crowd.Crowd {
	t.Helper()
	return crowd.Start(t.Context(), crowd.Config{
		URL: url, Token: func(string, string) string { return "" }, Ledger: ledger.New(),
		Loads: []crowd.Load{{Kinds: []string{kind}}}, Tenants: []string{"red"},
		Patience: 500 * time.Millisecond, ChangePatience: time.Second,
	})
}

// dismiss ends a crowd at once.
func dismiss(t *testing.T, c *crowd.Crowd) {
	t.Helper()
	ended, end := context.WithCancel(t.Context())
	end()
	_ = c.Stop(ended) // some wait still
}

// TestACrowdThatIsEndedCountsNothing ends a crowd while all its clients wait.
func TestACrowdThatIsEndedCountsNothing(t *testing.T) {
	t.Parallel()
	waiting := make(chan struct{}, 100)
	between := httptest.NewServer(mute(func(_ http.ResponseWriter, r *http.Request, _ string) {
		waiting <- struct{}{}
		until(r)
	}))
	defer between.Close()
	c := crowd.Start(t.Context(), crowd.Config{
		URL: between.URL, Token: func(string, string) string { return "" }, Ledger: ledger.New(),
		Loads: []crowd.Load{{Kinds: crowd.Kinds}}, Tenants: []string{"red"}, Patience: patience,
	})
	for range crowd.Kinds {
		<-waiting
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := c.Stop(ended); err == nil {
		t.Error("nobody waited")
	}
	if troubles := c.Troubles(); len(troubles) > 0 {
		t.Errorf("got troubles %v of clients who were told to go", troubles)
	}
}
