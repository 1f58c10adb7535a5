package upstream_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// origin is a place where one server after the other is found, without a network: time is
// exact, and streams stream.
type origin struct {
	mu      sync.Mutex // guards the fields below
	handler http.Handler
	end     context.CancelFunc // breaks what the server has open
	life    context.Context    //nolint:containedctx // of the server that is there now
	seen    []string           // what was asked, in order
}

// become puts another server in the place of the one before, whose streams break; nil is
// none at all.
func (o *origin) become(handler http.Handler) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.end != nil {
		o.end()
	}
	o.life, o.end = context.WithCancel(context.Background())
	o.handler, o.seen = handler, nil
}

// learn changes the server without breaking anything.
func (o *origin) learn(handler http.Handler) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.handler, o.seen = handler, nil
}

func (o *origin) asked() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.seen, " ")
}

func (o *origin) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	what := r.Method
	if m, err := mcp.ParseObject(body); err == nil {
		what = m.Text("method")
	}
	o.mu.Lock()
	handler, life := o.handler, o.life
	o.seen = append(o.seen, what)
	o.mu.Unlock()
	if handler == nil {
		return nil, errRefused
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	context.AfterFunc(life, func() { cancel(io.ErrUnexpectedEOF) })
	r = r.Clone(ctx)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	out, in := io.Pipe()
	w := &streaming{header: http.Header{}, body: in, started: make(chan int, 1)}
	go func() {
		defer func() {
			if recover() != nil { // http.ErrAbortHandler
				cancel(io.ErrUnexpectedEOF)
			}
		}()
		handler.ServeHTTP(w, r)
		w.WriteHeader(http.StatusOK)
		_ = in.Close()
	}()
	context.AfterFunc(ctx, func() { _ = in.CloseWithError(context.Cause(ctx)) })
	select {
	case status := <-w.started:
		return &http.Response{
			StatusCode: status, Header: w.header, Body: &cancelled{out, cancel},
			ContentLength: -1,
		}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

var errRefused = fmt.Errorf("connection refused")

// streaming is a response that is read while it is written.
type streaming struct {
	header  http.Header
	body    *io.PipeWriter
	once    sync.Once
	started chan int
}

func (w *streaming) Header() http.Header { return w.header }
func (w *streaming) Flush()              { w.WriteHeader(http.StatusOK) }

func (w *streaming) WriteHeader(status int) { w.once.Do(func() { w.started <- status }) }

func (w *streaming) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// cancelled is a body whose end is seen by the server.
type cancelled struct {
	*io.PipeReader
	cancel context.CancelCauseFunc
}

func (c *cancelled) Close() error {
	c.cancel(io.ErrClosedPipe)
	return c.PipeReader.Close()
}

const originURL = "http://server.invalid/base/sse"

// visit runs an upstream at an origin on exact time.
func visit(t *testing.T, cfg upstream.Config, story func(t *testing.T, o *origin, r *rig),
	first http.Handler,
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &origin{}
		o.become(first)
		cfg.URL, cfg.Client = originURL, &http.Client{Transport: o}
		r := start(t, cfg)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		story(t, o, r)
		r.stop()
		o.become(nil)
	})
}

func legacyWeb() *web    { return &web{session: "s", open: map[string]bool{}} }
func modernWeb() *web    { return &web{modern: true, open: map[string]bool{}} }
func overSSE() *streamed { return &streamed{} }

// onlyModern refuses what is not of its era in the way that its documents ask for.
type onlyModern struct {
	web
	code int
}

func newOnlyModern(code int) *onlyModern {
	return &onlyModern{web: web{modern: true, open: map[string]bool{}}, code: code}
}

func (s *onlyModern) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case r.Header.Get("Mcp-Protocol-Version") != mcp.Revision2607:
		body, _ := io.ReadAll(r.Body)
		m, _ := mcp.ParseObject(body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(
			w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"m","data":{"supported":["2026-07-28"]}}}`, m.Value("id"), s.code)
	default:
		s.web.ServeHTTP(w, r)
	}
}

// TestTransportsAreFoundByAsking shows what is asked of each kind of server, and that a
// type in the config decides.
func TestTransportsAreFoundByAsking(t *testing.T) {
	t.Parallel()
	sse := mcp.Revision2024
	for name, test := range map[string]struct {
		server   http.Handler
		kind     string
		revision string // "": down
		asked    string // begins so
	}{
		"modern":      {modernWeb(), "", mcp.Revision2607, "server/discover tools/list"},
		"modern only": {newOnlyModern(-32022), "", mcp.Revision2607, "server/discover tools/list"},
		"legacy": {
			legacyWeb(), "", mcp.Revision2511,
			"server/discover initialize notifications/initialized",
		},
		"SSE": {
			overSSE(), "", sse,
			"server/discover initialize GET initialize notifications/initialized",
		},
		"SSE, as the config has": {overSSE(), "sse", sse, "GET initialize notifications/initialized"},
		"SSE, but http": {
			overSSE(), "http", "",
			"server/discover initialize server/discover initialize",
		},
		"SSE, but streamable": {
			overSSE(), "streamable-http", "",
			"server/discover initialize server/discover initialize",
		},
		"legacy, but sse": {legacyWeb(), "sse", "", "GET GET"},
		"modern as http":  {modernWeb(), "http", mcp.Revision2607, "server/discover"},
		"legacy as http": {
			legacyWeb(), "streamable-http", mcp.Revision2511,
			"server/discover initialize",
		},
		"nothing but 404": {
			http.NotFoundHandler(), "", "",
			"server/discover initialize GET server/discover initialize GET",
		},
		"nothing but 500": {
			http.HandlerFunc(func(w http.ResponseWriter,
				_ *http.Request,
			) {
				w.WriteHeader(http.StatusInternalServerError)
			}),
			"", "", "server/discover initialize server/discover",
		},
	} {
		visit(t, upstream.Config{Type: test.kind}, func(t *testing.T, o *origin, r *rig) {
			if got := r.last(); got.Up != (test.revision != "") || got.Revision != test.revision {
				t.Errorf("%s: got %+v, want revision %q", name, got, test.revision)
			}
			if got := o.asked(); !strings.HasPrefix(got, test.asked) {
				t.Errorf("%s: asked %.200s…, want %s…", name, got, test.asked)
			}
		}, test.server)
	}
}

// TestEveryRefusalOfPOSTLeadsToGET answers POST with each status that servers over
// HTTP+SSE were seen to.
func TestEveryRefusalOfPOSTLeadsToGET(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 401, 403, 404, 405, 406, 415, 422} {
		s := overSSE()
		visit(t, upstream.Config{}, func(t *testing.T, _ *origin, r *rig) {
			if got := r.last(); !got.Up || got.Revision != mcp.Revision2024 {
				t.Errorf("POST answered %d: got %+v, want up", status, got)
			}
		}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && r.URL.Path == "/base/sse" {
				w.WriteHeader(status)
				return
			}
			s.ServeHTTP(w, r)
		}))
	}
}

// TestTrap03_NamedRevisionsDecide answers the first question with lists of revisions, as
// a result and as an error.
func TestTrap03_NamedRevisionsDecide(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		`["2026-07-28"]`: mcp.Revision2607,
		`["2024-11-05","2026-07-28","2099-01-01"]`: mcp.Revision2607,
		`["2025-11-25","2025-06-18"]`:              mcp.Revision2511,
		`["2099-01-01","2024-11-05"]`:              mcp.Revision2511, // what initialize agrees on
		`[]`:                                       mcp.Revision2511,
		`"2026-07-28"`:                             mcp.Revision2511,
		`[20260728,null]`:                          "",
		`["2099-01-01"]`:                           "",
	} {
		for _, asError := range []bool{false, true} {
			s := legacyWeb()
			s.session = ""
			s.discover = func(w http.ResponseWriter, m wire) {
				if !asError {
					sendJSON(w, m.ID, `{"supportedVersions":`+list+`}`)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprintf(
					w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"m","data":{"supported":%s}}}`, m.ID, list)
			}
			visit(t, upstream.Config{}, func(t *testing.T, o *origin, r *rig) {
				got := r.last()
				if got.Revision != want || got.Up != (want != "") {
					t.Errorf("%s, error %v: got %+v, want revision %q", list, asError, got, want)
				}
				if want == "" && (got.Problem != "server supports no revision that is spoken here" ||
					strings.Contains(o.asked(), "initialize")) {
					t.Errorf("%s, error %v: got %q after %s", list, asError, got.Problem, o.asked())
				}
			}, s)
		}
	}
}

// TestReplacedServersAreServedAgain puts another kind of server in the place of one, as
// an upgrade or a downgrade does. Those that break no stream are noticed when the list is
// asked for again.
func TestReplacedServersAreServedAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before, after http.Handler
		revision      string
	}{
		"legacy to modern only":     {legacyWeb(), newOnlyModern(-32022), mcp.Revision2607},
		"legacy to strictly modern": {legacyWeb(), newOnlyModern(-32602), mcp.Revision2607},
		"legacy to SSE":             {legacyWeb(), overSSE(), mcp.Revision2024},
		"modern to legacy":          {modernWeb(), legacyWeb(), mcp.Revision2511},
		"modern to SSE":             {modernWeb(), overSSE(), mcp.Revision2024},
		"SSE to legacy":             {overSSE(), legacyWeb(), mcp.Revision2511},
		"SSE to modern":             {overSSE(), newOnlyModern(-32022), mcp.Revision2607},
		"SSE to another":            {overSSE(), overSSE(), mcp.Revision2024},
	} {
		visit(t, upstream.Config{}, func(t *testing.T, o *origin, r *rig) {
			if !r.last().Up {
				t.Fatalf("%s: got %+v, want up", name, r.last())
			}
			o.become(test.after)
			time.Sleep(60 * time.Second) // a check, and a backoff
			synctest.Wait()
			if got := r.last(); !got.Up || got.Revision != test.revision || len(r.tools()) == 0 {
				t.Errorf("%s: got %+v, want revision %s after %s", name, got, test.revision, o.asked())
			}
			o.become(test.before)
			time.Sleep(60 * time.Second)
			synctest.Wait()
			if got := r.last(); !got.Up {
				t.Errorf("%s and back: got %+v, want up after %s", name, got, o.asked())
			}
		}, test.before)
	}
}

// TestLearnedEraIsFoundOut lets a server of the legacy era, which goes on answering as
// before, learn the modern one.
func TestLearnedEraIsFoundOut(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]http.Handler{"Streamable HTTP": legacyWeb(), "HTTP+SSE": overSSE()} {
		both := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Mcp-Protocol-Version") == mcp.Revision2607 {
				modernWeb().ServeHTTP(w, r)
				return
			}
			server.ServeHTTP(w, r)
		})
		visit(t, upstream.Config{}, func(t *testing.T, o *origin, r *rig) {
			o.learn(both)
			time.Sleep(9 * time.Minute)
			if got := r.last(); !got.Up || got.Revision == mcp.Revision2607 || got.Restarts != 0 {
				t.Errorf("%s: after 9 min got %+v, want what it was", name, got)
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if got := r.last(); !got.Up || got.Revision != mcp.Revision2607 || got.Restarts != 1 {
				t.Errorf("%s: after 11 min got %+v, want %s", name, got, mcp.Revision2607)
			}
		}, server)
	}
}

// TestWhatWasFoundIsTriedFirst counts the ways that are tried when a known server comes
// back.
func TestWhatWasFoundIsTriedFirst(t *testing.T) {
	t.Parallel()
	visit(t, upstream.Config{}, func(t *testing.T, o *origin, r *rig) {
		o.become(nil)
		time.Sleep(time.Second)
		o.become(overSSE())
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got, want := o.asked(), "server/discover GET initialize notifications/initialized"; !r.last().Up ||
			!strings.HasPrefix(got, want) {
			t.Errorf("asked %s…, want %s…", got, want)
		}
	}, overSSE())
}

// TestMissingEndpointHasALimit opens a stream that says everything but where messages go.
func TestMissingEndpointHasALimit(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]string{
		"silence": "", "comments": ": x\n\n",
		"other events": "event: ping\ndata: x\n\n", "half an event": "x",
	} {
		visit(t, upstream.Config{Type: "sse"}, func(t *testing.T, o *origin, r *rig) {
			if got := r.last(); got.Up || got.Problem != "no answer to the handshake in time" {
				t.Errorf("%s: got %+v, want down for lack of time", name, got)
			}
			if got := o.asked(); got != "GET GET" {
				t.Errorf("%s: asked %s, want one stream at a time", name, got)
			}
		}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for send := events(w); wait(r.Context(), 100*time.Millisecond); {
				if say != "" { // a hundred reads of nothing are an error of their own
					send("%s", say)
				}
			}
		}))
	}
}

// TestSilentStreamIsNoticed leaves the stream open and answers nothing any more.
func TestSilentStreamIsNoticed(t *testing.T) {
	t.Parallel()
	s := overSSE()
	var deaf atomic.Bool
	s.accept = func(w http.ResponseWriter, _ *http.Request, _ wire) bool {
		if deaf.Load() {
			w.WriteHeader(http.StatusAccepted)
		}
		return deaf.Load()
	}
	visit(t, upstream.Config{Type: "sse"}, func(t *testing.T, _ *origin, r *rig) {
		deaf.Store(true)
		time.Sleep(55 * time.Second) // a check, and the time it may take
		synctest.Wait()
		if got := r.last(); got.Up {
			t.Errorf("got %+v, want down", got)
		}
		deaf.Store(false)
		time.Sleep(45 * time.Second)
		synctest.Wait()
		if got := r.last(); !got.Up || got.Restarts != 1 {
			t.Errorf("got %+v, want up again", got)
		}
	}, s)
}

// TestUpsetChildIsNotAskedForEver counts the processes that a child costs which the first
// question ends: such a one is asked twice, since the first may have ended for another
// reason.
func TestUpsetChildIsNotAskedForEver(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]int{"upset": 4, "silent": 2, "legacy": 2} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			cfg := shared(command(kind))
			starts := filepath.Join(t.TempDir(), "starts")
			cfg.Env["SELF"], cfg.Env["STARTS"] = cfg.Command, starts
			cfg.Command, cfg.Args = "/bin/sh", []string{"-c", `echo >> "$STARTS"; exec "$SELF"`}
			r := start(t, cfg)
			r.untilTool("crash")
			eventually(t, "all were asked", func() bool {
				lines, err := os.ReadFile(starts)
				return err == nil && len(lines) == want-1 && r.up.Load().Processes == 1
			})
			_, _ = r.call(t.Context(), "crash", `{}`, nil)
			r.until("it is up again", func() bool { return r.last().Up && r.last().Restarts == 1 })
			lines, err := os.ReadFile(starts)
			if got := len(lines); err != nil || got != want {
				t.Errorf("processes: got %d, %v, want %d", got, err, want)
			}
		})
	}
}

// lossy is a way to an origin of which the network loses connections without a word: as
// many requests as have a connection from before wait in vain.
type lossy struct {
	*origin

	idle atomic.Int32
}

func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.idle.Add(-1) >= 0 {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return l.origin.RoundTrip(r)
}

func (l *lossy) CloseIdleConnections() { l.idle.Store(0) }

// TestLostServerIsReachedOverNewConnections has the network lose all connections to a
// server of both eras without a word. Once that is noticed, the server is up at once, and
// of the era that it was.
func TestLostServerIsReachedOverNewConnections(t *testing.T) {
	t.Parallel()
	for _, idle := range []int32{2, 100} {
		synctest.Test(t, func(t *testing.T) {
			l := &lossy{origin: &origin{}}
			l.become(&web{modern: true, speaks: mcp.Revision2511})
			r := start(t, upstream.Config{URL: originURL, Client: &http.Client{Transport: l}})
			synctest.Wait()
			l.idle.Store(idle)
			time.Sleep(2 * time.Minute) // in which the lists, or a sign of life, are asked for in vain
			if got := r.last(); !got.Up || got.Restarts != 1 || got.Revision != mcp.Revision2607 {
				t.Errorf("%d idle connections: got %+v, want up again as a modern server", idle, got)
			}
			r.stop()
			l.become(nil)
		})
	}
}
