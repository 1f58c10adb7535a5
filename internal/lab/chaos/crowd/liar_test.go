package crowd_test

import (
	"bufio"
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// liar stands between a crowd and a gateway, and does once in a while what no gateway
// may. Without that it passes all on.
type liar struct {
	world *world.World
	calls atomic.Int64 // of tools, so far
	lies  atomic.Int64

	twice bool // sends the request to the gateway twice
	// gives another answer in place of the one of the gateway
	answer  func(w http.ResponseWriter, answer string)
	without func(w http.ResponseWriter, request string) // answers by itself
	// of a notification makes another, or several, or none
	event    func(event string) string
	stranger string // the tenant that the gateway is told
	ends     bool   // ends the stream after such an event
	// resumes streams not at the last event, but where they were resumed first
	rewinds bool
	firsts  sync.Map // of rewinds: session → event
}

func (l *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	call := strings.Contains(string(body), `"tools/call"`)
	lie := call && !l.rewinds && l.calls.Add(1)%5 == 0
	if lie {
		l.lies.Add(1)
	}
	if lie && l.without != nil {
		l.without(w, string(body))
		return
	}
	if lie && l.twice {
		if response, err := l.pass(r, body, lie); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	}
	response, err := l.pass(r, body, lie)
	if err != nil {
		panic(http.ErrAbortHandler) // the connection breaks
	}
	defer response.Body.Close()
	if lie && l.answer != nil {
		text, _ := io.ReadAll(response.Body)
		l.answer(w, string(text))
		return
	}
	maps.Copy(w.Header(), response.Header)
	w.WriteHeader(response.StatusCode)
	_ = http.NewResponseController(w).Flush()
	l.stream(w, response.Body)
}

// pass sends a request on.
func (l *liar) pass(r *http.Request, body []byte, lie bool) (*http.Response, error) {
	out, err := http.NewRequestWithContext(r.Context(), r.Method, l.world.URL+r.URL.RequestURI(),
		bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	out.Header = r.Header.Clone()
	if lie && l.stranger != "" {
		out.Header.Set("Authorization", "Bearer "+l.world.Token(l.stranger, "user-0"))
	}
	if last := r.Header.Get(mcp.HeaderLastEventID); l.rewinds && last != "" {
		if first, known := l.firsts.LoadOrStore(r.Header.Get(mcp.HeaderSessionID), last); known &&
			first != last {
			l.lies.Add(1)
			out.Header.Set(mcp.HeaderLastEventID, first.(string))
		}
	}
	return http.DefaultTransport.RoundTrip(out)
}

// stream passes an answer on line by line, and lies about the lines that are
// notifications of one of these methods.
func (l *liar) stream(w http.ResponseWriter, body io.Reader) {
	in := bufio.NewReader(body)
	for {
		line, err := in.ReadString('\n')
		lied := false
		if l.event != nil && (strings.Contains(line, mcp.NotifyProgress) ||
			strings.Contains(line, mcp.NotifyResourceUpdated)) {
			l.lies.Add(1)
			line = l.event(line)
			lied = true
		}
		_, _ = io.WriteString(w, line)
		_ = http.NewResponseController(w).Flush()
		if err != nil || lied && l.ends {
			return
		}
	}
}

// TestLiesAreFound shows that a crowd and its ledger notice what must not be: each lie
// shows as what it is.
func TestLiesAreFound(t *testing.T) {
	t.Parallel()
	w, server := begin(t)
	for name, test := range map[string]struct {
		kind string
		liar *liar
		want func(*ledger.Verdict) int
	}{
		"a request is sent twice": {
			"2026 calls", &liar{twice: true},
			func(v *ledger.Verdict) int { return v.Twice },
		},
		"an answer is kept back": {"2026 calls", &liar{answer: func(w http.ResponseWriter, _ string) {
			_ = http.NewResponseController(w).Flush()
			<-time.After(7 * time.Second) // longer than the patience of these clients
		}}, func(v *ledger.Verdict) int { return v.Unanswered }},
		"an answer is made up": {"2026 calls", &liar{without: func(w http.ResponseWriter, request string) {
			_, rest, _ := strings.Cut(request, `"nonce":"`)
			_, id, _ := strings.Cut(request, `"id":`)
			id, _, _ = strings.Cut(id, ",")
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+id+
				`,"result":{"content":[{"type":"text","text":"serial 1 nonce `+rest[:16]+` tenant red"}]}}`)
		}}, func(v *ledger.Verdict) int { return v.Unexecuted }},
		"what was done is said not to be": {
			"2025 calls",
			&liar{answer: func(w http.ResponseWriter, _ string) {
				w.WriteHeader(http.StatusServiceUnavailable)
			}}, func(v *ledger.Verdict) int { return v.Denied },
		},
		"an event is left out": {"2025 calls", &liar{event: func(line string) string {
			if strings.Contains(line, `"progress":1,`) {
				return "\n"
			}
			return line
		}}, func(v *ledger.Verdict) int { return v.EventsLost }},
		"an event comes twice": {
			"2024", &liar{event: func(line string) string { return line + "\n" + line }},
			func(v *ledger.Verdict) int { return v.EventsTwice },
		},
		"a change is not told": {
			"2025 listen", &liar{event: func(string) string { return "\n" }},
			func(v *ledger.Verdict) int { return v.ChangesLost },
		},
		"a change is not told, and the stream ends": {
			"2025 listen", &liar{event: func(string) string { return "\n" }, ends: true},
			func(v *ledger.Verdict) int { return v.ChangesLost },
		},
		"a resumed stream begins too early": {
			"2025 listen", &liar{rewinds: true},
			func(v *ledger.Verdict) int { return v.EventsTwice },
		},
		"a change is told to another": {
			"2026 listen", &liar{event: func(
				line string,
			) string {
				return strings.Replace(line, "://thing/", "://thing/x", 1)
			}},
			func(v *ledger.Verdict) int { return v.WrongTenant },
		},
		"a call is made for another tenant": {
			"2026 calls", &liar{stranger: "blue"},
			func(v *ledger.Verdict) int { return v.WrongTenant },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.liar.world = w
			between := httptest.NewServer(test.liar)
			defer between.Close()
			book := ledger.New()
			c := crowd.Start(t.Context(), crowd.Config{
				URL: between.URL, Token: w.Token, Ledger: book,
				Loads: []crowd.Load{{Kinds: []string{test.kind}, Size: 3}}, Tenants: []string{"red"},
				Patience: 5 * time.Second, ChangePatience: 2 * time.Second,
			})
			eventually(t, "there are lies", func() bool { return test.liar.lies.Load() > 5 })
			v := end(t, c, book, w, server)
			if test.want(&v) == 0 {
				t.Errorf("the lie was not found: %+v", v)
			}
		})
	}
}
