package upstream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// streamed is a small server over HTTP+SSE at /base/sse. What a test leaves zero behaves
// well.
type streamed struct {
	*httptest.Server
	// %s is the session; "": /base/messages?session=%s
	endpoint string
	open     func(w http.ResponseWriter, r *http.Request)              // GET, in place of everything
	event    func(message string) string                               // writes a message; nil: event
	accept   func(w http.ResponseWriter, r *http.Request, m wire) bool // POST; true: it has answered itself

	mu       sync.Mutex // guards the fields below
	seen     []seenRequest
	paths    []string // that were posted to
	sessions map[string]*fake
	closers  []context.CancelFunc
}

func serveStreamed(t testing.TB, s *streamed) *streamed {
	t.Helper()
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *streamed) config() upstream.Config {
	return upstream.Config{
		URL: s.URL + "/base/sse", Type: "sse", Shared: true, // one stream carries all
		Headers: map[string]string{"Authorization": "Bearer of-the-operator", "Mcp-Session-Id": "none"},
	}
}

func (s *streamed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m wire
	_ = json.Unmarshal(body, &m)
	s.mu.Lock()
	s.seen = append(s.seen, seenRequest{r.Method, r.Header.Clone(), string(body), m})
	session := s.sessions[r.URL.Query().Get("session")]
	s.mu.Unlock()
	switch {
	case r.Method == http.MethodGet && s.open != nil:
		s.open(w, r)
	case r.Method == http.MethodGet && r.URL.Path == "/base/sse":
		s.stream(w, r)
	case r.Method != http.MethodPost || r.URL.Path == "/base/sse":
		w.WriteHeader(http.StatusMethodNotAllowed)
	case session == nil:
		http.Error(w, "no such session", http.StatusNotFound)
	default:
		s.mu.Lock()
		s.paths = append(s.paths, r.URL.Path)
		s.mu.Unlock()
		if s.accept == nil || !s.accept(w, r, m) {
			w.WriteHeader(http.StatusAccepted)
			session.handle(m, body)
		}
	}
}

// stream serves one session.
func (s *streamed) stream(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	send := events(w)
	write := s.event
	if write == nil {
		write = event
	}
	f := newFake("old", lineWriter(func(line string) { send("%s", write(line)) }))
	s.mu.Lock()
	if s.sessions == nil {
		s.sessions = map[string]*fake{}
	}
	id := fmt.Sprint(len(s.closers) + 1)
	s.sessions[id] = f
	s.closers = append(s.closers, cancel)
	s.mu.Unlock()
	f.locked(func() { send("%s", s.address(id)) })
	<-ctx.Done()
	s.mu.Lock()
	delete(s.sessions, id)
	s.mu.Unlock()
	f.end()
}

func (s *streamed) address(id string) string {
	if s.endpoint == "" {
		return "event: endpoint\ndata: /base/messages?session=" + id + "\n\n"
	}
	return "event: endpoint\ndata: " + strings.ReplaceAll(s.endpoint, "%s", id) + "\n\n"
}

// hangUp ends all streams.
func (s *streamed) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, closeStream := range s.closers {
		closeStream()
	}
}

func (s *streamed) sights(method string) []seenRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []seenRequest
	for _, one := range s.seen {
		if one.wire.Method == method || one.http == method {
			found = append(found, one)
		}
	}
	return found
}

func event(message string) string {
	return "event: message\ndata: " + strings.TrimSpace(message) + "\n\n"
}

// lineWriter hands on what is written in one piece.
type lineWriter func(line string)

func (w lineWriter) Write(p []byte) (int, error) {
	w(string(p))
	return len(p), nil
}

func TestHTTPAndSSECarriesEverything(t *testing.T) {
	t.Parallel()
	s := serveStreamed(t, &streamed{})
	r := start(t, shared(s.config()))
	r.untilTool("badresult")
	if got := r.last(); got.Revision != mcp.Revision2024 || got.Tools != 23 {
		t.Errorf("status: got %+v, want 23 tools at %s", got, mcp.Revision2024)
	}
	var progress []string
	result, err := r.call(t.Context(), "progress", `{"arguments":{"n":5},"_meta":{"progressToken":"p"}}`,
		func(n mcp.Notification) {
			progress = append(progress, string(n.Params.Value("progress")))
		})
	if got := strings.Join(progress, " "); err != nil || text(result) != "done" || got != "0 1 2 3 4" {
		t.Errorf("progress: got %s, %s, %v", got, result.JSON(), cause(err))
	}
	if got := r.must("ask", `{}`); !strings.Contains(got, `\"id\":\"ping-1\",\"result\":{}`) ||
		!strings.Contains(got, `\"id\":7,\"error\"`) {
		t.Errorf("answers to the server: got %s", got)
	}
	if _, err := r.call(t.Context(), "fail", `{}`, nil); kindOf(mcp.Object{}, err) != "error" {
		t.Errorf("error of the server: got %v", err)
	}
	for tool, want := range map[string]string{
		"broken": "protocol", "foreign": "yours",
		"garbage": "after garbage",
	} {
		result, err := r.call(t.Context(), tool, `{}`, nil)
		if got := text(result); got != want && kindOf(result, err) != want {
			t.Errorf("%s: got %s, %v, want %s", tool, got, err, want)
		}
	}
	r.must("change", `{"arguments":{"name":"another"}}`)
	r.untilTool("another")
	for _, one := range append(s.sights(http.MethodGet), s.sights(http.MethodPost)...) {
		if got := one.header.Get("Authorization"); got != "Bearer of-the-operator" {
			t.Errorf("%s: authorization: got %q", one.http, got)
		}
		if one.header.Get("Mcp-Session-Id") != "" || one.header.Get("Mcp-Protocol-Version") != "" {
			t.Errorf("%s: headers of other transports: got %v", one.http, one.header)
		}
		if want := map[string]string{
			"GET":  "text/event-stream",
			"POST": "application/json, text/event-stream",
		}[one.http]; one.header.Get("Accept") != want {
			t.Errorf("%s: accept: got %q", one.http, one.header.Get("Accept"))
		}
	}
}

// TestLeavingACallOverSSETellsTheServer ends the wait for a call that hangs.
func TestLeavingACallOverSSETellsTheServer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := serveStreamed(t, &streamed{accept: func(w http.ResponseWriter, _ *http.Request, m wire) bool {
		if m.Params.Name == "slow" {
			w.WriteHeader(http.StatusAccepted)
			cancel() // the caller leaves while the call is at work
		}
		return m.Params.Name == "slow"
	}})
	r := start(t, s.config())
	r.untilTool("slow")
	if _, err := r.call(ctx, "slow", `{}`, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of the context", err)
	}
	call := s.sights("tools/call")[0]
	r.must("echo", `{}`) // each message has its own POST, so it may come first
	for deadline := time.Now().Add(limit); ; {
		if got := s.sights("notifications/cancelled"); len(got) == 1 {
			if string(got[0].wire.Params.RequestID) != string(call.wire.ID) {
				t.Errorf("cancelled: got %s, want request %s", got[0].body, call.wire.ID)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the server was not told")
		}
		r.must("echo", `{}`)
	}
}

// TestLostStreamLosesItsCalls ends the stream under a call, which may have run, and shows
// that the next stream serves.
func TestLostStreamLosesItsCalls(t *testing.T) {
	t.Parallel()
	s := &streamed{}
	s.accept = func(w http.ResponseWriter, _ *http.Request, m wire) bool {
		if m.Params.Name == "slow" {
			w.WriteHeader(http.StatusAccepted)
			go s.hangUp()
		}
		return m.Params.Name == "slow"
	}
	serveStreamed(t, s)
	r := start(t, s.config())
	r.untilTool("slow")
	if _, err := r.call(t.Context(), "slow", `{}`, nil); kindOf(mcp.Object{}, err) != "sent" {
		t.Errorf("got %v, want unavailable, sent", cause(err))
	}
	r.until("it is up again", func() bool { return r.last().Up && r.last().Restarts == 1 })
	r.must("echo", `{}`)
}

// TestAnswersToPOST shows what the status of a POST means for its call.
func TestAnswersToPOST(t *testing.T) {
	t.Parallel()
	answer := func(s *streamed, r *http.Request, m wire) {
		s.mu.Lock()
		session := s.sessions[r.URL.Query().Get("session")]
		s.mu.Unlock()
		session.text(m.ID, "ok")
	}
	answerFirst := func(s *streamed, hold bool) func(http.ResponseWriter, *http.Request, wire) {
		return func(w http.ResponseWriter, r *http.Request, m wire) {
			answer(s, r, m)
			if hold {
				<-r.Context().Done()
				return
			}
			w.WriteHeader(http.StatusAccepted)
		}
	}
	inBody := func(status int, body string) func(*streamed) func(http.ResponseWriter, *http.Request, wire) {
		return func(s *streamed) func(http.ResponseWriter, *http.Request, wire) {
			return func(w http.ResponseWriter, r *http.Request, m wire) {
				w.WriteHeader(status)
				fmt.Fprintf(w, body, m.ID)
				answer(s, r, m)
			}
		}
	}
	plain := func(status int) func(*streamed) func(http.ResponseWriter, *http.Request, wire) {
		return func(*streamed) func(http.ResponseWriter, *http.Request, wire) { return code(status) }
	}
	for name, test := range map[string]struct {
		post func(*streamed) func(http.ResponseWriter, *http.Request, wire)
		want string
	}{
		"answer before acceptance": {func(s *streamed) func(http.ResponseWriter, *http.Request,
			wire) {
			return answerFirst(s, false)
		}, "ok"},
		"never accepted": {func(s *streamed) func(http.ResponseWriter, *http.Request,
			wire) {
			return answerFirst(s, true)
		}, "ok"},
		"200, some text":      {inBody(200, "Accepted %s"), "ok"},
		"202, another answer": {inBody(202, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`), "ok"},
		"400":                 {plain(400), "not sent"},
		"401":                 {plain(401), "not sent"},
		"404":                 {plain(404), "not sent"},
		"429":                 {plain(429), "not sent"},
		"500":                 {plain(500), "sent"},
		"503":                 {plain(503), "sent"},
		"302": {func(*streamed) func(http.ResponseWriter, *http.Request, wire) {
			return func(w http.ResponseWriter, r *http.Request, _ wire) {
				http.Redirect(w, r, "/base/sse", http.StatusFound)
			}
		}, "protocol"},
		"reset": {func(*streamed) func(http.ResponseWriter, *http.Request, wire) {
			return func(http.ResponseWriter, *http.Request, wire) { panic(http.ErrAbortHandler) }
		}, "sent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &streamed{}
			s.accept = func(w http.ResponseWriter, r *http.Request, m wire) bool {
				if m.Method == "tools/call" && m.Params.Arguments["odd"] == true {
					test.post(s)(w, r, m)
					return true
				}
				return false
			}
			serveStreamed(t, s)
			r := start(t, s.config())
			r.untilTool("echo")
			result, err := r.call(t.Context(), "echo", `{"arguments":{"odd":true}}`, nil)
			if got := kindOf(result, err); got != test.want {
				t.Errorf("got %s (%s, %s), want %s", got, result.JSON(), cause(err), test.want)
			}
			r.untilTool("echo")
			r.must("echo", `{}`)
		})
	}
}

// TestACallWhoseAnswersAreRefusedWasMade has a server ask in the middle of a call, and
// refuse the message that answers: the call may have taken effect by then.
func TestACallWhoseAnswersAreRefusedWasMade(t *testing.T) {
	t.Parallel()
	s, asker := &streamed{}, make(chan *fake, 1)
	s.accept = func(w http.ResponseWriter, r *http.Request, m wire) bool {
		answers := m.Method == "" && string(m.ID) == "7"
		if answers {
			s.mu.Lock()
			asker <- s.sessions[r.URL.Query().Get("session")]
			s.mu.Unlock()
			w.WriteHeader(http.StatusBadRequest)
		}
		return answers
	}
	serveStreamed(t, s)
	cfg := s.config()
	cfg.Shared = false
	r := start(t, cfg)
	r.untilTool("ask")
	p := person{"a", "alice", `{"sampling":{}}`, ""}
	asked, state := r.first("ask", p)
	_, _, _, err := r.round(t.Context(), "ask", p.call(t, "t", accept(asked, "x"), state, nil))
	if got := kindOf(mcp.Object{}, err); got != "sent" {
		t.Errorf("got %s (%s), want unavailable, sent", got, cause(err))
	}
	await(t, asker).handle(wire{ID: json.RawMessage("7")}, nil) // so that it waits no longer
}

// TestTrap23_EndpointIsResolvedAgainstTheURL shows each form of address that a server
// behind a path may give, and that messages carry the same credentials as the stream.
func TestTrap23_EndpointIsResolvedAgainstTheURL(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ endpoint, path string }{
		"absolute path":   {"/base/messages?session=%s", "/base/messages"},
		"other path":      {"/elsewhere/messages?session=%s", "/elsewhere/messages"},
		"relative path":   {"messages?session=%s", "/base/messages"},
		"parent":          {"../messages?session=%s", "/messages"},
		"whole address":   {"%origin/base/messages?session=%s", "/base/messages"},
		"capital letters": {"HTTP://%host/m?session=%s", "/m"},
		"spaces around":   {"  /m?session=%s  ", "/m"},
		"fragment":        {"/m?session=%s#part", "/m"},
		"escapes":         {"/m%2Fn/?x=%20&session=%s", "/m/n/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveStreamed(t, &streamed{})
			host := strings.TrimPrefix(s.URL, "http://")
			s.endpoint = strings.NewReplacer("%origin", s.URL, "%host", host).Replace(test.endpoint)
			r := start(t, s.config())
			r.untilTool("echo")
			s.mu.Lock()
			defer s.mu.Unlock()
			if got := s.paths[0]; got != test.path {
				t.Errorf("posted to %s, want %s", got, test.path)
			}
			for _, one := range s.seen {
				if got := one.header.Get("Authorization"); got != "Bearer of-the-operator" {
					t.Errorf("%s %s: authorization: got %q", one.http, one.wire.Method, got)
				}
			}
		})
	}
}

// TestForeignEndpointIsToldWhereTheTransportIsFound too, and not that the server takes no
// POST.
func TestForeignEndpointIsToldWhereTheTransportIsFound(t *testing.T) {
	t.Parallel()
	s := serveStreamed(t, &streamed{endpoint: "http://mcp.internal:8000/messages?session=%s"})
	cfg := s.config()
	cfg.Type = ""
	r := start(t, cfg)
	r.until("an attempt ended", func() bool { return r.last().Tried })
	if got := r.last(); got.Up || got.Problem != "endpoint is not an address on the origin of the url" {
		t.Errorf("got %+v, want down because of the endpoint", got)
	}
}

// TestForeignEndpointIsRefused shows that no address gets the operator's credentials but
// those of the origin.
func TestForeignEndpointIsRefused(t *testing.T) {
	t.Parallel()
	var visits sync.Map
	foreign := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter,
		r *http.Request,
	) {
		visits.Store(r.URL.String(), true)
	}))
	t.Cleanup(foreign.Close)
	host := strings.TrimPrefix(foreign.URL, "http://")
	for name, address := range map[string]string{
		"other port":         foreign.URL + "/m?session=%s",
		"without scheme":     "//" + host + "/m?session=%s",
		"other scheme":       "https://%host/m?session=%s",
		"other host":         "http://localhost:%port/m?session=%s",
		"user":               "http://%host@" + host + "/m?session=%s",
		"user on the origin": "http://user@%host/m?session=%s",
		"backslashes":        `\\` + host + "/m?session=%s",
		"no address":         "javascript:alert(1)",
		"opaque":             "http:m?session=%s",
		"two lines":          "/m?session=%s\ndata: x",
		"empty":              "",
		"space within":       "/m ?session=%s",
		"control character":  "/m\x01?session=%s",
		"bad escape":         "http://%host%/",
		"endless":            "/m?session=%s&x=" + strings.Repeat("x", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveStreamed(t, &streamed{})
			own := strings.TrimPrefix(s.URL, "http://")
			s.endpoint = strings.NewReplacer("%host", own, "%port",
				own[strings.LastIndex(own, ":")+1:]).Replace(address)
			if address == "" {
				s.endpoint = " "
			}
			r := start(t, s.config())
			r.until("an attempt ended", func() bool { return r.last().Tried })
			if got := r.last(); got.Up ||
				!strings.Contains(got.Problem, "endpoint is not an address on the origin") {
				t.Errorf("got %+v, want down because of the endpoint", got)
			}
			if got := s.sights(http.MethodPost); len(got) > 0 {
				t.Errorf("posted %d messages", len(got))
			}
		})
	}
	t.Cleanup(func() {
		visits.Range(func(url, _ any) bool {
			t.Errorf("the foreign server was asked for %s", url)
			return true
		})
	})
}

// TestTrap22_EventsInEveryFormAreRead writes the stream as servers do, and as they might.
func TestTrap22_EventsInEveryFormAreRead(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(string) string{
		"no type": func(m string) string { return "data:" + strings.TrimSpace(m) + "\n\n" },
		"CRLF":    func(m string) string { return strings.ReplaceAll(event(m), "\n", "\r\n") },
		"CR":      func(m string) string { return strings.ReplaceAll(event(m), "\n", "\r") },
		"comments": func(
			m string,
		) string {
			return ": comment\n\n:\n" + event(m) + ": ping - 2026\n\n"
		},
		"priming":     func(m string) string { return "id: 1\ndata:\n\nretry: 5\n\n" + event(m) },
		"other types": func(m string) string { return "event: ping\ndata: {not json\n\n" + event(m) },
		"several lines": func(
			m string,
		) string {
			return event("{\ndata: " + strings.TrimPrefix(strings.TrimSpace(m), "{"))
		},
		"array":   func(m string) string { return event("[" + strings.TrimSpace(m) + "]") },
		"garbage": func(m string) string { return event("{not json") + event("<html>") + event(m) },
		"another endpoint": func(
			m string,
		) string {
			return "event: endpoint\ndata: /nowhere\n\n" + event(m)
		},
		"foreign endpoint": func(
			m string,
		) string {
			return "event: endpoint\ndata: http://192.0.2.1/\n\n" + event(m)
		},
		"answer to nothing": func(
			m string,
		) string {
			return event(`{"jsonrpc":"2.0","id":"x","result":{}}`) + event(m)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveStreamed(t, &streamed{event: write})
			r := start(t, s.config())
			r.untilTool("echo")
			r.must("echo", `{}`)
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, path := range s.paths {
				if path != "/base/messages" {
					t.Errorf("posted to %s", path)
				}
			}
		})
	}
	t.Run("BOM and message before the endpoint", func(t *testing.T) {
		t.Parallel()
		s := &streamed{}
		s.open = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			fmt.Fprint(w, "\ufeff"+event(`{"jsonrpc":"2.0","id":"early","method":"ping"}`))
			s.stream(w, r)
		}
		r := start(t, serveStreamed(t, s).config())
		r.untilTool("echo")
		if got := r.count(upstream.Garbage); got != 1 {
			t.Errorf("messages before the endpoint: got %d, want 1", got)
		}
	})
}

// TestOversizedEventOverSSEEndsItsCallOnly has events come that are larger than a message
// may be. Nothing of them is counted any more afterwards. Before, the session ended with
// all its calls.
func TestOversizedEventOverSSEEndsItsCallOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := shared(patients()["sse"]().config())
		cfg.Memory = share.New(512 << 20)
		r := start(t, cfg)
		r.untilTool("huge")
		ctx, leave := context.WithCancel(t.Context())
		beside := make(chan error, 1)
		go func() {
			_, err := r.call(ctx, "slow", `{}`, nil)
			beside <- err
		}()
		synctest.Wait()
		for n, arguments := range []string{`{}`, `{"arguments":{"more":41943040}}`} {
			if _, err := r.call(t.Context(), "huge", arguments, nil); kindOf(mcp.Object{}, err) != "protocol" {
				t.Errorf("got %v, want a protocol error", cause(err))
			}
			if got := r.count(upstream.Oversized); got != n+1 {
				t.Errorf("oversized messages: got %d, want %d", got, n+1)
			}
		}
		r.must("echo", `{}`)
		leave()
		if err := await(t, beside); !errors.Is(err, context.Canceled) {
			t.Errorf("the call beside: got %v, want that its caller left", cause(err))
		}
		if got := r.last(); !got.Up || got.Restarts != 0 {
			t.Errorf("status: got %+v, want up all the time", got)
		}
		synctest.Wait()
		if got := cfg.Memory.InUse(); got != 0 {
			t.Errorf("%d bytes are held, want none", got)
		}
		r.stop()
		synctest.Wait()
	})
}

// TestStreamsThatAreNone answers GET in ways that open nothing, and shows how the cause
// begins that the operator reads.
func TestStreamsThatAreNone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		open func(w http.ResponseWriter, r *http.Request)
		want string
	}{
		"401": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
			signInWanted,
		},
		"302": {
			func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) },
			"HTTP status 302: it redirects to http://127.0.0.1:",
		},
		"HTML": {
			func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
			"no event stream at the url",
		},
		"ends": {
			func(w http.ResponseWriter, _ *http.Request) { events(w)(": nothing\n\n") },
			"event stream ended",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveStreamed(t, &streamed{open: test.open})
			r := start(t, s.config())
			// On a busy machine an attempt may run out of time before it finds that out,
			// and the next one tells.
			r.until("the cause is told: "+test.want,
				func() bool { return !r.last().Up && strings.HasPrefix(r.last().Problem, test.want) })
		})
	}
	t.Run("endless event", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			cfg := (&streamed{Server: &httptest.Server{URL: "http://server.invalid"}}).config()
			cfg.Client = &http.Client{Transport: endlessEvent{}}
			r := start(t, cfg)
			r.until("the cause is told",
				func() bool { return strings.HasPrefix(r.last().Problem, "message too large") })
			r.stop()
		})
	})
}

// endless answers with one line that never ends, of which a busy machine does not read as
// much as an event may have in the time of a handshake, but for in a bubble.
type endlessEvent struct{}

func (endlessEvent) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(endlessEvent{}), Request: r,
	}, nil
}

var endlessLine = bytes.Repeat([]byte("x"), 64<<10)

func (endlessEvent) Read(p []byte) (int, error) { return copy(p, endlessLine), nil }
