package upstream_test

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// TestPanicInAReaderEndsItsConnectionAlone has the gateway itself fail in a goroutine
// that reads what a server says on its own: that connection ends, and what comes after it
// is as before.
func TestPanicInAReaderEndsItsConnectionAlone(t *testing.T) {
	t.Parallel()
	unasked := &web{session: "s", stream: func(w http.ResponseWriter, r *http.Request) {
		events(w)("%s", data(`{"jsonrpc":"2.0","id":"unasked","result":{}}`))
		<-r.Context().Done()
	}}
	for name, test := range map[string]struct {
		cfg  upstream.Config
		tool string
	}{
		"child":          {command("legacy"), "garbage"},
		"modern child":   {command("modern"), "garbage"},
		"SSE":            {serveStreamed(t, &streamed{}).config(), "garbage"},
		"stream of GETs": {serve(t, unasked).config(), "tool"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, test.cfg, nil)
			var panics atomic.Int64
			cfg, count := r.cfg, r.cfg.Count
			cfg.Panicked = func() { panics.Add(1) }
			var armed atomic.Bool
			armed.Store(true)
			cfg.Count = func(kind upstream.Anomaly, n int) {
				if armed.CompareAndSwap(true, false) {
					panic("a fault of ours")
				}
				count(kind, n)
			}
			r.up = upstream.New(cfg, r.reg)
			r.run()
			r.untilTool(test.tool)
			for deadline := time.Now().Add(limit); ; wait(t.Context(), 5*time.Millisecond) {
				_, err := r.call(t.Context(), test.tool, `{}`, nil)
				if panics.Load() == 1 && err == nil {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("got %d panics counted and %v, want one, and then calls that succeed", panics.Load(), err)
				}
			}
		})
	}
}

// tripping panics when it is to send the nth message with a method, as a fault of the
// gateway would.
type tripping struct {
	http.RoundTripper

	method string
	nth    int64
	sent   atomic.Int64
}

func (f *tripping) RoundTrip(r *http.Request) (*http.Response, error) {
	what := r.Method
	if r.GetBody != nil {
		body, _ := r.GetBody()
		text, _ := io.ReadAll(body)
		m, _ := mcp.ParseObject(text)
		what = m.Text("method")
	}
	if what == f.method && f.sent.Add(1) == f.nth {
		panic("a fault of ours")
	}
	return f.RoundTripper.RoundTrip(r)
}

// TestPanicOnTheWayToAServerEndsNothingElse has the gateway itself fail at each step that
// no call takes: the server is up all the same after a while, and is called.
func TestPanicOnTheWayToAServerEndsNothingElse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		modern bool
		method string
		nth    int64
	}{
		"the first question":    {true, "server/discover", 1},
		"a subscription":        {true, "subscriptions/listen", 1},
		"a proof of life":       {true, "server/discover", 2},
		"a list":                {true, "tools/list", 1},
		"a handshake":           {false, "initialize", 1},
		"a session of a pool":   {false, "initialize", 2},
		"a stream":              {false, http.MethodGet, 1},
		"a stream of a session": {false, http.MethodGet, 2},
		"a ping":                {false, "ping", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &origin{}
				var panics atomic.Int64
				server := &web{modern: test.modern, open: map[string]bool{}, listen: stay, stream: stays}
				if !test.modern {
					server.session = "s"
				}
				s.become(server)
				r := start(t, upstream.Config{
					URL: originURL, Panicked: func() { panics.Add(1) },
					Client: &http.Client{Transport: &tripping{RoundTripper: s, method: test.method, nth: test.nth}},
				})
				time.Sleep(10 * time.Second)
				if r.last().Up {
					_, _ = r.call(t.Context(), "tool", `{}`, nil)
				}
				time.Sleep(10 * time.Minute)
				if got, err := r.call(t.Context(), "tool", `{}`, nil); err != nil || text(got) != "ok" || panics.Load() != 1 {
					t.Errorf("got %s, %v (%s) and %d panics counted, want ok and 1", got.JSON(), err, cause(err), panics.Load())
				}
				r.stop()
				s.become(nil)
			})
		})
	}
}

// TestPanicBesideACallEndsNothingElse has the gateway itself fail on the goroutines that
// send beside what waits for the answer, and in a handshake: what comes after it is as
// before, and no stream is left behind.
func TestPanicBesideACallEndsNothingElse(t *testing.T) {
	t.Parallel()
	sse := func(t *testing.T) (upstream.Config, func() int) {
		t.Helper()
		s := serveStreamed(t, &streamed{})
		return s.config(), func() int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.sessions)
		}
	}
	streamable := func(t *testing.T) (upstream.Config, func() int) {
		t.Helper()
		s := serve(t, &web{session: "s", call: func(w http.ResponseWriter, r *http.Request, m wire) {
			if m.Params.Name == "slow" {
				<-r.Context().Done()
				return
			}
			sendJSON(w, m.ID, `{"content":[{"type":"text","text":"ok"}]}`)
		}, list: func(w http.ResponseWriter, m wire) {
			sendJSON(w, m.ID, `{"tools":[{"name":"slow","inputSchema":{"type":"object"}},`+
				`{"name":"echo","inputSchema":{"type":"object"}}]}`)
		}})
		return s.config(), func() int { return 1 }
	}
	for name, test := range map[string]struct {
		serve  func(t *testing.T) (cfg upstream.Config, streams func() int)
		method string
	}{
		"a call over SSE":              {sse, "tools/call"},
		"a cancellation over SSE":      {sse, "notifications/cancelled"},
		"a cancellation":               {streamable, "notifications/cancelled"},
		"the end of a handshake (SSE)": {sse, "notifications/initialized"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, streams := test.serve(t)
			var panics atomic.Int64
			cfg.Panicked = func() { panics.Add(1) }
			cfg.Client = &http.Client{Transport: &tripping{
				RoundTripper: &http.Transport{}, method: test.method, nth: 1,
			}}
			r := start(t, cfg)
			r.untilTool("slow")
			// a call that is given up before it is sent is not cancelled at the server
			eventually(t, "it panicked", func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				_, _ = r.call(ctx, "slow", `{}`, nil)
				return panics.Load() == 1
			})
			r.untilUp()
			if got, err := r.call(t.Context(), "echo", `{}`, nil); err != nil || panics.Load() != 1 {
				t.Errorf("got %s, %v and %d panics counted, want an answer and 1", got.JSON(), err, panics.Load())
			}
			eventually(t, "one stream is left", func() bool { return streams() == 1 })
		})
	}
}

// TestPanicAtASubscriptionIsForgotten has the gateway itself fail where it asks a server
// for a subscription. Whoever subscribes after that has the server asked again: it is not
// subscribed yet, whatever the session remembers.
func TestPanicAtASubscriptionIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		server := &web{
			session: "s", open: map[string]bool{}, stream: stays,
			declares: `{"tools":{},"resources":{"subscribe":true}}`,
			other: map[string]func(w http.ResponseWriter, r *http.Request, m wire){
				"resources/list": func(w http.ResponseWriter, _ *http.Request, m wire) {
					sendJSON(w, m.ID, `{"resources":[{"name":"it","uri":"x:it"}]}`)
				},
				"resources/subscribe": func(w http.ResponseWriter, _ *http.Request, m wire) {
					asked.Add(1)
					sendJSON(w, m.ID, `{}`)
				},
			},
		}
		s := &origin{}
		s.become(server)
		var panics atomic.Int64
		r := start(t, upstream.Config{
			URL: originURL, Panicked: func() { panics.Add(1) },
			Client: &http.Client{Transport: &tripping{RoundTripper: s, method: "resources/subscribe", nth: 1}},
		})
		time.Sleep(10 * time.Second)
		first, second := newWatcher(t), newWatcher(t)
		if err := first.follow(r, "t", "x:it"); err == nil || panics.Load() != 1 {
			t.Errorf("got %v and %d panics counted, want an error and 1", err, panics.Load())
		}
		if err := second.follow(r, "t", "x:it"); err != nil || asked.Load() != 1 {
			t.Errorf("got %v, and the server was asked %d times, want a subscription at the server", err, asked.Load())
		}
		first.cancel()
		second.cancel()
		r.stop()
		s.become(nil)
	})
}

// stay keeps a subscription open, stays a stream of GET.
func stay(w http.ResponseWriter, r *http.Request, m wire) {
	events(w)("%s", data(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged",`+
		`"params":{"notifications":{"toolsListChanged":true},`+
		`"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, m.ID))
	<-r.Context().Done()
}

func stays(w http.ResponseWriter, r *http.Request) {
	events(w)(": open\n\n")
	<-r.Context().Done()
}
