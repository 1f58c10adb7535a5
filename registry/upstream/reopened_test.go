package upstream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// strict is a server that runs nothing in a session before it was told that the handshake
// is done, as those of the Python SDK. seen takes each such word and each subscription to
// a resource; hold is what they wait for.
type strict struct {
	*web
	seen chan string
	hold func(r *http.Request, method, session string)

	mu    sync.Mutex      // guards the field below
	ready map[string]bool // what was seen to its end, by method and session
}

const opened, subscribe = "notifications/initialized", "resources/subscribe"

func serveStrict(t *testing.T, hold func(r *http.Request, method, session string)) (*strict,
	upstream.Config,
) {
	t.Helper()
	s := &strict{seen: make(chan string, 100), hold: hold, ready: map[string]bool{}}
	s.web = serve(t, &web{
		session: "s", declares: `{"tools":{},"resources":{"subscribe":true}}`,
		call: func(w http.ResponseWriter, r *http.Request, m wire) {
			if !s.did(opened, r.Header.Get("Mcp-Session-Id")) {
				sendError(w, http.StatusOK, m.ID, -32602, "Received request before initialization was complete")
				return
			}
			sendJSON(w, m.ID, okResult)
		},
		other: map[string]func(http.ResponseWriter, *http.Request, wire){
			"resources/list": says(`{"resources":[{"uri":"file:///a","name":"a"}]}`), subscribe: says(`{}`),
		},
	})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var m wire
		_ = json.Unmarshal(body, &m)
		session := r.Header.Get("Mcp-Session-Id")
		if m.Method == opened || m.Method == subscribe {
			s.seen <- m.Method
			s.hold(r, m.Method, session)
		}
		if r.Context().Err() != nil {
			return
		}
		s.mu.Lock()
		s.ready[m.Method+session] = true
		s.mu.Unlock()
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return s, shared(upstream.Config{URL: front.URL})
}

// did tells whether a message of that method was seen to its end in a session.
func (s *strict) did(method, session string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready[method+session]
}

// follows starts the gateway and has somebody follow the resource of the server.
func (s *strict) follows(t *testing.T, cfg upstream.Config) *rig {
	t.Helper()
	r := start(t, cfg)
	r.untilTool("tool")
	r.until("there is a resource", func() bool { return r.last().Resources == 1 })
	if ok, err := r.resource("file:///a").Subscribe(t.Context(), share.User{TenantID: "a"},
		func(string) {}); !ok || err != nil {
		t.Fatalf("subscribe: got %v, %v", ok, err)
	}
	return r
}

// followed waits until the session that served the last call has the subscription.
func (s *strict) followed(t *testing.T) {
	t.Helper()
	calls := s.sights("tools/call")
	last := calls[len(calls)-1].header.Get("Mcp-Session-Id")
	eventually(t, "session "+last+" has the subscription", func() bool { return s.did(subscribe, last) })
}

// TestSessionThatWasNotOpenedToItsEndServesNobody has the caller leave for whom a session
// is opened in place of the one that the server forgot, in the middle of the handshake.
func TestSessionThatWasNotOpenedToItsEndServesNobody(t *testing.T) {
	t.Parallel()
	s, cfg := serveStrict(t, func(r *http.Request, method, session string) {
		if session == "s-2" && method == opened {
			<-r.Context().Done()
		}
	})
	r := s.follows(t, cfg)
	s.forget()
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := r.call(ctx, "tool", `{}`, nil)
		left <- err
	}()
	for range 3 { // two in the first session
		await(t, s.seen)
	}
	leave()
	if err := await(t, left); err == nil {
		t.Fatal("the call of who left was served")
	}
	if got := text(parse(t, r.must("tool", `{}`))); got != "ok" {
		t.Errorf("the next call: got %q", got)
	}
	var ended []seenRequest
	eventually(t, "s-2 is ended at the server", func() bool {
		ended = s.sights(http.MethodDelete)
		return len(ended) > 0
	})
	if len(ended) != 1 || ended[0].header.Get("Mcp-Session-Id") != "s-2" {
		t.Errorf("sessions %v are ended at the server, want s-2", ended)
	}
	s.followed(t)
}

// TestCallsDoNotWaitForSubscriptionsThatComeBack has a server forget a session, and take
// its time with the subscription that comes back in the next one, or fail at it at first.
func TestCallsDoNotWaitForSubscriptionsThatComeBack(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		release := make(chan struct{})
		s, cfg := serveStrict(t, func(_ *http.Request, method, session string) {
			if method != subscribe || session == "s-1" {
				return
			}
			select {
			case <-release:
			default:
				if fails {
					panic(http.ErrAbortHandler)
				}
				<-release
			}
		})
		r := s.follows(t, cfg)
		s.forget()
		for range 2 {
			if got := text(parse(t, r.must("tool", `{}`))); got != "ok" {
				t.Errorf("fails %v: a call: got %q", fails, got)
			}
		}
		close(release)
		s.followed(t)
	}
}

// TestCallsWaitUntilASessionIsOpenedAgain has a call come while a session is opened in
// place of the one that the server forgot.
func TestCallsWaitUntilASessionIsOpenedAgain(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s, cfg := serveStrict(t, func(_ *http.Request, method, session string) {
		if method == opened && session == "s-2" {
			<-release
		}
	})
	r := start(t, cfg)
	r.untilTool("tool")
	await(t, s.seen)
	s.forget()
	results := make(chan error, 2)
	call := func() {
		_, err := r.call(t.Context(), "tool", `{}`, nil)
		results <- err
	}
	go call()
	await(t, s.seen)
	before := len(s.sights("tools/call"))
	go call()
	for len(s.sights("tools/call")) == before && len(results) == 0 {
		time.Sleep(time.Millisecond)
	}
	close(release)
	for range 2 {
		if err := await(t, results); err != nil {
			t.Errorf("a call: %v", err)
		}
	}
}

// TestSessionThatServesNobodyIsEndedAtTheServer has a server refuse what follows each
// handshake. A server without a time limit would keep one session more for each attempt.
func TestSessionThatServesNobodyIsEndedAtTheServer(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(w http.ResponseWriter, m wire) bool{
		"the end of the handshake": func(w http.ResponseWriter, m wire) bool {
			if m.Method == opened {
				w.WriteHeader(http.StatusInternalServerError)
			}
			return m.Method == opened
		},
		"the tools": func(w http.ResponseWriter, m wire) bool {
			if m.Method == "tools/list" {
				sendError(w, http.StatusOK, m.ID, -32603, "no")
			}
			return m.Method == "tools/list"
		},
		"tools that are none": func(w http.ResponseWriter, m wire) bool {
			if m.Method == "tools/list" {
				sendJSON(w, m.ID, `{}`)
			}
			return m.Method == "tools/list"
		},
	} {
		s := legacyWeb()
		visit(t, upstream.Config{}, func(t *testing.T, _ *origin, _ *rig) {
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			began, ended := len(s.sights("initialize")), len(s.sights(http.MethodDelete))
			if began < 10 || ended < began-1 {
				t.Errorf("%s: %d sessions were opened and %d ended, want all but the last", name, began, ended)
			}
		}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			var m wire
			_ = json.Unmarshal(body, &m)
			if !refuse(w, m) {
				s.ServeHTTP(w, r)
			}
		}))
	}
}

// TestServerThatRefusesAnotherHandshakeIsLost has a server forget its sessions and open
// no more, as one does that was replaced by another. What it says of the handshake is
// neither its answer to the call nor a proof of life.
func TestServerThatRefusesAnotherHandshakeIsLost(t *testing.T) {
	t.Parallel()
	for _, code := range []int{-32601, -32602, -32000} {
		s := legacyWeb()
		var refuses atomic.Bool
		visit(t, shared(upstream.Config{}), func(t *testing.T, _ *origin, r *rig) {
			refuses.Store(true)
			s.forget()
			_, err := r.call(t.Context(), "tool", `{}`, nil)
			var answered *mcp.Error
			if kindOf(mcp.Object{}, err) != "not sent" || errors.As(err, &answered) {
				t.Errorf("%d: the call ended in %v, want unavailable, not sent, and no answer", code, cause(err))
			}
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if got := r.last(); got.Up {
				t.Errorf("%d: got %+v, want down", code, got)
			}
		}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			var m wire
			_ = json.Unmarshal(body, &m)
			if refuses.Load() && m.Method == "initialize" {
				sendError(w, http.StatusOK, m.ID, code, "no")
				return
			}
			s.ServeHTTP(w, r)
		}))
	}
}

// restarting is a server with a stream for what it likes, in each session that it opened
// since it was started last. opens is called before a stream opens.
func restarting(opens func(r *http.Request, session string)) *web {
	s := legacyWeb()
	s.stream = func(w http.ResponseWriter, r *http.Request) {
		session := r.Header.Get("Mcp-Session-Id")
		s.mu.Lock()
		known := s.open[session]
		s.mu.Unlock()
		if !known {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		opens(r, session)
		events(w)(": open\n\n")
		<-r.Context().Done()
	}
	return s
}

// restart ends what the server has open, and its sessions.
func (s *web) restart(at *origin) {
	s.forget()
	at.become(s)
}

// TestWhatChangedBetweenTwoSessionsIsListed has a server start anew, and add a tool after
// its tools were listed and before the stream is open on which it could say so.
func TestWhatChangedBetweenTwoSessionsIsListed(t *testing.T) {
	t.Parallel()
	var (
		s    *web
		late atomic.Bool
	)
	s = restarting(func(r *http.Request, session string) {
		listed := func(one seenRequest) bool { return one.header.Get("Mcp-Session-Id") == session }
		for session != "s-1" && !slices.ContainsFunc(s.sights("tools/list"), listed) {
			if !wait(r.Context(), 10*time.Millisecond) {
				return
			}
		}
		late.Store(session != "s-1")
	})
	s.list = func(w http.ResponseWriter, m wire) {
		name := "early"
		if late.Load() {
			name = "late"
		}
		sendJSON(w, m.ID, `{"tools":[{"name":"`+name+`","inputSchema":{"type":"object"}}]}`)
	}
	visit(t, upstream.Config{}, func(t *testing.T, o *origin, r *rig) {
		s.restart(o)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := r.tools(); !slices.Equal(got, []string{"late"}) {
			t.Errorf("a minute after the restart: got tools %v, want those that there are", got)
		}
	}, s)
}

// TestStreamsAreOpenSoonAfterEachRestart starts a server anew over and over. A session of
// calls hears of that alone, and has its stream again as soon as after the first time.
func TestStreamsAreOpenSoonAfterEachRestart(t *testing.T) {
	t.Parallel()
	var opened atomic.Int32
	s := restarting(func(*http.Request, string) { opened.Add(1) })
	visit(t, upstream.Config{}, func(t *testing.T, o *origin, r *rig) {
		for n := range 15 {
			r.must("tool", `{}`) // so that the session of calls is not idle
			time.Sleep(30 * time.Second)
			opened.Store(0)
			s.restart(o)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if got := opened.Load(); got != 2 {
				t.Fatalf("restart %d: %d streams are open after 2 s, want those of both sessions", n, got)
			}
		}
	}, s)
}

// TestSubscriptionThatWasNotRestoredIsAskedForAgain has a server that does not know a
// resource for a moment after it has started anew.
func TestSubscriptionThatWasNotRestoredIsAskedForAgain(t *testing.T) {
	t.Parallel()
	s := legacyWeb()
	s.declares = `{"tools":{},"resources":{"subscribe":true}}`
	var asked atomic.Int32
	s.other = map[string]handler{
		"resources/list": says(`{"resources":[{"uri":"file:///a","name":"a"}]}`),
		subscribe: func(w http.ResponseWriter, _ *http.Request, m wire) {
			if asked.Add(1) == 2 {
				sendError(w, http.StatusOK, m.ID, -32002, "no such resource")
				return
			}
			sendJSON(w, m.ID, `{}`)
		},
	}
	visit(t, shared(upstream.Config{}), func(t *testing.T, _ *origin, r *rig) {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		if ok, err := r.resource("file:///a").Subscribe(ctx, share.User{TenantID: "a"}, func(string) {}); !ok ||
			err != nil {
			t.Fatalf("subscribe: got %v, %v", ok, err)
		}
		s.forget()
		r.must("tool", `{}`)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := asked.Load(); got != 3 {
			t.Errorf("it was asked for %d times, want until the server accepts", got)
		}
	}, s)
}
