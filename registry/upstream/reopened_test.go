package upstream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
	s := &strict{seen: make(chan string, 10), hold: hold, ready: map[string]bool{}}
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

// TestSessionThatWasNotOpenedToItsEndServesNobody has the caller leave for whom a session
// is opened in place of the one that the server forgot, in the middle of the handshake or
// of what brings the subscriptions back.
func TestSessionThatWasNotOpenedToItsEndServesNobody(t *testing.T) {
	t.Parallel()
	for _, during := range []string{opened, subscribe} {
		t.Run(during, func(t *testing.T) {
			t.Parallel()
			s, cfg := serveStrict(t, func(r *http.Request, method, session string) {
				if session == "s-2" && method == during {
					<-r.Context().Done()
				}
			})
			r := start(t, cfg)
			r.untilTool("tool")
			r.until("there is a resource", func() bool { return r.last().Resources == 1 })
			if ok, err := r.resource("file:///a").Subscribe(t.Context(), share.User{TenantID: "a"},
				func(string) {}); !ok || err != nil {
				t.Fatalf("subscribe: got %v, %v", ok, err)
			}
			s.forget()
			ctx, leave := context.WithCancel(t.Context())
			left := make(chan error, 1)
			go func() {
				_, err := r.call(ctx, "tool", `{}`, nil)
				left <- err
			}()
			seen := 0
			for want := 3; seen < want; seen++ { // two in the first session
				if await(t, s.seen) == opened && seen == 2 && during == subscribe {
					want++
				}
			}
			leave()
			if err := await(t, left); err == nil {
				t.Fatal("the call of who left was served")
			}
			if got := text(parse(t, r.must("tool", `{}`))); got != "ok" {
				t.Errorf("the next call: got %q", got)
			}
			var ended []seenRequest
			for late := time.Now().Add(limit); len(ended) == 0 && time.Now().Before(late); {
				if ended = s.sights(http.MethodDelete); during != opened {
					break // others may have used the session
				}
				time.Sleep(time.Millisecond)
			}
			if during == opened && (len(ended) != 1 || ended[0].header.Get("Mcp-Session-Id") != "s-2") {
				t.Errorf("sessions %v are ended at the server, want s-2", ended)
			}
			calls := s.sights("tools/call")
			if last := calls[len(calls)-1].header.Get("Mcp-Session-Id"); !s.did(subscribe, last) {
				t.Errorf("session %s, which served the call, has no subscription", last)
			}
		})
	}
}

// TestServerThatCannotRestoreSubscriptionsServes has a server that fails at each attempt to
// bring back a subscription in a new session.
func TestServerThatCannotRestoreSubscriptionsServes(t *testing.T) {
	t.Parallel()
	s, cfg := serveStrict(t, func(_ *http.Request, method, session string) {
		if method == subscribe && session != "s-1" {
			panic(http.ErrAbortHandler)
		}
	})
	r := start(t, cfg)
	r.untilTool("tool")
	r.until("there is a resource", func() bool { return r.last().Resources == 1 })
	if ok, err := r.resource("file:///a").Subscribe(t.Context(), share.User{TenantID: "a"},
		func(string) {}); !ok || err != nil {
		t.Fatalf("subscribe: got %v, %v", ok, err)
	}
	s.forget()
	_, _ = r.call(t.Context(), "tool", `{}`, nil) // the subscription is not restored for it
	if got := text(parse(t, r.must("tool", `{}`))); got != "ok" {
		t.Errorf("the next call: got %q", got)
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
