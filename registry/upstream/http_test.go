package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// TestHTTPErasAreFoundByProbing answers the first question in every way that was seen.
func TestHTTPErasAreFoundByProbing(t *testing.T) {
	t.Parallel()
	status := func(code int, body string) func(http.ResponseWriter, wire) {
		return func(w http.ResponseWriter, _ wire) {
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		}
	}
	for name, test := range map[string]struct {
		discover func(http.ResponseWriter, wire)
		modern   bool
	}{
		"modern": {func(w http.ResponseWriter, m wire) {
			sendJSON(w, m.ID, `{"supportedVersions":["2026-07-28"],"resultType":"complete"}`)
		}, true},
		"result without the revision": {func(w http.ResponseWriter, m wire) {
			sendJSON(w, m.ID, `{"supportedVersions":["2025-11-25","2025-06-18"]}`)
		}, false},
		"result without anything": {func(w http.ResponseWriter, m wire) { sendJSON(w, m.ID, `{}`) }, false},
		"-32022, legacy revisions": {func(w http.ResponseWriter, m wire) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(
				w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"m","data":{"supported":["2025-11-25"]}}}`, m.ID)
		}, false},
		"-32020": {func(w http.ResponseWriter,
			m wire,
		) {
			sendError(w, 400, m.ID, -32020, "header")
		}, true},
		"-32601 in 200": {func(w http.ResponseWriter,
			m wire,
		) {
			sendError(w, 200, m.ID, -32601, "no")
		}, false},
		"-32601 in 404": {func(w http.ResponseWriter,
			m wire,
		) {
			sendError(w, 404, m.ID, -32601, "no")
		}, false},
		"-32000, id null": {
			func(w http.ResponseWriter, _ wire) { sendError(w, 400, nil, -32000, "no") },
			false,
		},
		"400 without body":     {status(400, ""), false},
		"404 text":             {status(404, "not found"), false},
		"405":                  {status(405, ""), false},
		"422":                  {status(422, "{}"), false},
		"500":                  {status(500, "oops"), false},
		"200 HTML":             {status(200, "<html>"), false},
		"202":                  {status(202, ""), false},
		"401 for unknown ways": {status(401, ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, &web{discover: test.discover, session: "s"})
			if test.modern {
				s.session = ""
			}
			r := start(t, s.config())
			r.untilTool("tool")
			if got := r.last().Revision == mcp.Revision2607; got != test.modern {
				t.Errorf("revision: got %s, want modern: %v", r.last().Revision, test.modern)
			}
			if got := text(parse(t, r.must("tool", `{}`))); got != "ok" {
				t.Errorf("call: got %q", got)
			}
		})
	}
}

// TestForgottenSessionIsReopened ends the session under a call. The call ran nowhere, so
// it runs once under the new one.
func TestForgottenSessionIsReopened(t *testing.T) {
	t.Parallel()
	var ran atomic.Int64
	s := serve(t, &web{session: "s", call: func(w http.ResponseWriter, _ *http.Request, m wire) {
		ran.Add(1)
		sendJSON(w, m.ID, okResult)
	}})
	r := start(t, shared(s.config()))
	r.untilTool("tool")
	s.forget()
	for i := range 3 {
		if got := text(parse(t, r.must("tool", `{}`))); got != "ok" {
			t.Errorf("call %d: got %q", i, got)
		}
	}
	if got := ran.Load(); got != 3 {
		t.Errorf("calls that ran: got %d, want 3", got)
	}
	if got := len(s.sights("initialize")); got != 2 {
		t.Errorf("sessions: got %d, want 2", got)
	}
	calls := s.sights("tools/call")
	if first, second := calls[0].header.Get("Mcp-Session-Id"),
		calls[1].header.Get("Mcp-Session-Id"); first != "s-1" || second != "s-2" {
		t.Errorf("sessions of the call and its repetition: got %q and %q", first, second)
	}
}

// TestBadSessionIDIsRefused shows that an id which may not be sent back opens no session.
func TestBadSessionIDIsRefused(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"a b", "\u00fc", strings.Repeat("x", 1025)} {
		r := start(t, serve(t, &web{session: id}).config())
		r.until("an attempt ended", func() bool { return r.last().Tried })
		if s := r.last(); s.Up || !strings.Contains(s.Problem, "session id") {
			t.Errorf("%.10q: got %+v, want down because of the session id", id, s)
		}
	}
}

// TestSessionOfAnUnknownRevisionIsEndedAtItsServer has a server open a session in a
// revision that nobody knows. Else it would have one more session after each attempt.
func TestSessionOfAnUnknownRevisionIsEndedAtItsServer(t *testing.T) {
	t.Parallel()
	s := serve(t, &web{session: "s", speaks: "2031-01-01"})
	r := start(t, s.config())
	r.until("an attempt ended", func() bool { return r.last().Tried })
	if got := r.last(); got.Up || !strings.Contains(got.Problem, "unknown revision") {
		t.Errorf("got %+v, want down because of the revision", got)
	}
	ended := s.sights(http.MethodDelete)
	if len(ended) == 0 || ended[0].header.Get("Mcp-Session-Id") != "s-1" {
		t.Errorf("sessions %v are ended at the server, want s-1", ended)
	}
}

// TestSessionWhoseHandshakeFailsIsEndedInItsRevision has a server refuse the end of the
// handshake.
func TestSessionWhoseHandshakeFailsIsEndedInItsRevision(t *testing.T) {
	t.Parallel()
	s := serve(t, &web{session: "s", other: map[string]handler{
		"notifications/initialized": func(w http.ResponseWriter, _ *http.Request, _ wire) {
			w.WriteHeader(http.StatusInternalServerError)
		},
	}})
	r := start(t, s.config())
	r.until("an attempt ended", func() bool { return r.last().Tried })
	ended := s.sights(http.MethodDelete)
	if len(ended) == 0 || ended[0].header.Get("Mcp-Session-Id") != "s-1" ||
		ended[0].header.Get("Mcp-Protocol-Version") != mcp.Revision2511 {
		t.Errorf("sessions %v are ended at the server, want s-1 in its revision", ended)
	}
}

// TestSessionThatIsAlwaysUnknownIsGivenUp shows that one repetition is all there is.
func TestSessionThatIsAlwaysUnknownIsGivenUp(t *testing.T) {
	t.Parallel()
	s := serve(t, &web{session: "s", call: func(w http.ResponseWriter, _ *http.Request,
		_ wire,
	) {
		w.WriteHeader(http.StatusNotFound)
	}})
	r := start(t, s.config())
	r.untilTool("tool")
	_, err := r.call(t.Context(), "tool", `{}`, nil)
	if got := kindOf(mcp.Object{}, err); got != "not sent" {
		t.Errorf("got %s (%v), want unavailable, not sent", got, cause(err))
	}
	if got := len(s.sights("tools/call")); got != 2 {
		t.Errorf("attempts: got %d, want 2", got)
	}
}

// TestBusySessionIsExamined has servers forget the session of the calls in their own
// ways, while one of them goes on: the others get another session.
func TestBusySessionIsExamined(t *testing.T) {
	t.Parallel()
	const text = "Bad Request: No valid session ID provided"
	for name, refuse := range map[string]func(w http.ResponseWriter, m wire){
		"an error": func(w http.ResponseWriter, m wire) {
			sendError(w, http.StatusBadRequest, m.ID, -32000, text)
		},
		"an error with the status of a session that is unknown": func(w http.ResponseWriter, m wire) {
			sendError(w, http.StatusNotFound, m.ID, -32001, "Session not found")
		},
		"an error without an id, as examples of the npm SDK": func(w http.ResponseWriter, _ wire) {
			sendError(w, http.StatusBadRequest, nil, -32000, text)
		},
		"a text, as the Python SDK once did": func(w http.ResponseWriter, _ wire) {
			http.Error(w, text, http.StatusBadRequest)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testBusySessionIsExamined(t, refuse)
		})
	}
}

func testBusySessionIsExamined(t *testing.T, refuse func(w http.ResponseWriter, m wire)) {
	t.Helper()
	var broken atomic.Value // the session
	broken.Store("")
	busy := make(chan string, 1)
	s := &web{session: "s"}
	unless := func(sound http.HandlerFunc) func(http.ResponseWriter, *http.Request, wire) {
		return func(w http.ResponseWriter, r *http.Request, m wire) {
			if r.Header.Get("Mcp-Session-Id") == broken.Load() {
				refuse(w, m)
				return
			}
			sound(w, r)
		}
	}
	s.other = map[string]func(http.ResponseWriter, *http.Request, wire){
		"ping": func(w http.ResponseWriter, r *http.Request, m wire) {
			unless(func(w http.ResponseWriter, _ *http.Request) { sendJSON(w, m.ID, `{}`) })(w, r, m)
		},
	}
	s.call = func(w http.ResponseWriter, r *http.Request, m wire) {
		unless(func(w http.ResponseWriter, r *http.Request) {
			if m.Params.Arguments["wait"] == true {
				busy <- r.Header.Get("Mcp-Session-Id")
				<-r.Context().Done()
				return
			}
			sendJSON(w, m.ID, okResult)
		})(w, r, m)
	}
	r := start(t, serve(t, s).config())
	r.untilTool("tool")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := r.call(ctx, "tool", `{"arguments":{"wait":true}}`, nil)
		ended <- err
	}()
	broken.Store(await(t, busy))
	eventually(t, "another session serves", func() bool {
		_, err := r.call(t.Context(), "tool", `{}`, nil)
		return err == nil
	})
	cancel()
	if err := await(t, ended); !errors.Is(err, context.Canceled) {
		t.Errorf("the call that went on: got %v, want that its caller left", err)
	}
}

// TestCallInAForgottenSessionIsMadeInAnother has servers forget the session of the calls,
// and say so in ways that leave open whether it is the session which they refuse. Only a
// session in which nothing else is answered either is given up.
func TestCallInAForgottenSessionIsMadeInAnother(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(w http.ResponseWriter){
		"an error without an id": func(w http.ResponseWriter) {
			sendError(w, http.StatusBadRequest, nil, -32000, "Bad Request: No valid session ID provided")
		},
		"a text": func(w http.ResponseWriter) { http.Error(w, "Bad Request", http.StatusBadRequest) },
	} {
		for _, known := range []bool{false, true} {
			var forgotten atomic.Value // the session
			forgotten.Store("")
			s := &web{session: "s", call: func(w http.ResponseWriter, r *http.Request, m wire) {
				if r.Header.Get("Mcp-Session-Id") == forgotten.Load() {
					refuse(w)
					return
				}
				sendJSON(w, m.ID, okResult)
			}}
			s.other = map[string]func(http.ResponseWriter, *http.Request, wire){
				"ping": func(w http.ResponseWriter, r *http.Request, m wire) {
					if r.Header.Get("Mcp-Session-Id") == forgotten.Load() && !known {
						refuse(w)
						return
					}
					sendJSON(w, m.ID, `{}`)
				},
			}
			r := start(t, serve(t, s).config())
			r.untilTool("tool")
			if _, err := r.call(t.Context(), "tool", `{}`, nil); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			forgotten.Store(s.sights("tools/call")[0].header.Get("Mcp-Session-Id"))
			_, err := r.call(t.Context(), "tool", `{}`, nil)
			if got := len(s.sights("tools/call")); (err != nil) != known || known && got != 2 || !known && got != 3 {
				t.Errorf("%s, session known %t: got %v after %d calls", name, known, err, got)
			}
		}
	}
}

// TestASessionThatIsUnknownByItsCodeIsReplaced has a server say with the id of a call
// that it does not know its session, as the C# SDK does. The caller does not learn of it.
func TestASessionThatIsUnknownByItsCodeIsReplaced(t *testing.T) {
	t.Parallel()
	s := &web{session: "s"}
	s.call = func(w http.ResponseWriter, _ *http.Request, m wire) {
		if len(s.sights("tools/call")) == 2 {
			sendError(w, http.StatusNotFound, m.ID, -32001, "Session not found")
			return
		}
		sendJSON(w, m.ID, okResult)
	}
	r := start(t, serve(t, s).config())
	r.untilTool("tool")
	r.must("tool", `{}`)
	r.must("tool", `{}`)
	calls := s.sights("tools/call")
	const header = "Mcp-Session-Id"
	if len(calls) != 3 || calls[1].header.Get(header) == calls[2].header.Get(header) {
		t.Errorf("got %d calls, want three, the last in another session", len(calls))
	}
}

// TestAnswersInEveryFormAreTaken has servers answer as some do, and as the Python SDK
// takes it.
func TestAnswersInEveryFormAreTaken(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]func(w http.ResponseWriter, id json.RawMessage, result string){
		"with the status 201": func(w http.ResponseWriter, id json.RawMessage, result string) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
		},
		"with an error that is null": func(w http.ResponseWriter, id json.RawMessage, result string) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s,"error":null}`, id, result)
		},
	} {
		s := &web{
			list: func(w http.ResponseWriter, m wire) {
				send(w, m.ID, `{"tools":[{"name":"tool","inputSchema":{"type":"object"}}]}`)
			},
			call: func(w http.ResponseWriter, _ *http.Request, m wire) { send(w, m.ID, okResult) },
		}
		r := start(t, serve(t, s).config())
		r.untilTool("tool")
		result, err := r.call(t.Context(), "tool", `{}`, nil)
		if err != nil || text(result) != "ok" {
			t.Errorf("%s: got %s, %v", name, result.JSON(), err)
		}
	}
}

// TestServerThatForgetsTheSessionOfItsListsStaysUp has a server say by an error with the
// id of the ping that it does not know the session of the lists. It is well, and gets
// another session; calls in other sessions go on.
func TestServerThatForgetsTheSessionOfItsListsStaysUp(t *testing.T) {
	t.Parallel()
	s := &web{session: "s", call: func(w http.ResponseWriter, _ *http.Request, m wire) {
		sendJSON(w, m.ID, `{"content":"no array"}`)
	}}
	s.other = map[string]handler{"ping": func(w http.ResponseWriter, r *http.Request, m wire) {
		if r.Header.Get("Mcp-Session-Id") == "s-1" {
			sendError(w, http.StatusNotFound, m.ID, -32001, "Session not found")
			return
		}
		sendJSON(w, m.ID, `{}`)
	}}
	r := start(t, serve(t, s).config())
	r.untilTool("tool")
	_, _ = r.call(t.Context(), "tool", `{}`, nil) // its answer is broken, so the server is asked for a proof of life
	eventually(t, "another session lists", func() bool {
		asked := s.sights("tools/list")
		return len(asked) > 1 && asked[len(asked)-1].header.Get("Mcp-Session-Id") != "s-1"
	})
	if got := r.last(); !got.Up || got.Restarts > 0 {
		t.Errorf("got %+v, want up all the time", got)
	}
}

// TestAnErrorWithTheStatus500IsTheAnswer as with any other status, for callers to read.
func TestAnErrorWithTheStatus500IsTheAnswer(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		s := &web{modern: modern, call: func(w http.ResponseWriter, _ *http.Request, m wire) {
			sendError(w, http.StatusInternalServerError, m.ID, -32603, "no such customer")
		}}
		r := start(t, serve(t, s).config())
		r.untilTool("tool")
		_, err := r.call(t.Context(), "tool", `{}`, nil)
		if answered, ok := errors.AsType[*mcp.Error](err); !ok || answered.Message != "no such customer" {
			t.Errorf("modern %t: got %v, want the error of the server", modern, err)
		}
	}
}

// TestAnErrorWithTheStatus500WithoutAnIDIsNone has the server go wrong before it has read
// what is asked for, as its HTTP layer says then.
func TestAnErrorWithTheStatus500WithoutAnIDIsNone(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		s := &web{modern: modern, call: func(w http.ResponseWriter, _ *http.Request, _ wire) {
			sendError(w, http.StatusInternalServerError, nil, -32603, "Internal server error")
		}}
		r := start(t, serve(t, s).config())
		r.untilTool("tool")
		_, err := r.call(t.Context(), "tool", `{}`, nil)
		if lost, ok := errors.AsType[*registry.UnavailableError](err); !ok || !lost.Sent {
			t.Errorf("modern %t: got %v, want that the server was lost", modern, err)
		}
	}
}

// TestStatusOfARefusal tells which are told to the caller: those that a repeat would meet
// too.
func TestStatusOfARefusal(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]int{
		http.StatusBadRequest: 400, http.StatusForbidden: 403, http.StatusRequestEntityTooLarge: 413,
		http.StatusTooManyRequests: 0, http.StatusRequestTimeout: 0, http.StatusServiceUnavailable: 0,
	} {
		s := &web{modern: true, call: func(w http.ResponseWriter, _ *http.Request, _ wire) {
			w.WriteHeader(status)
		}}
		r := start(t, serve(t, s).config())
		r.untilTool("tool")
		_, err := r.call(t.Context(), "tool", `{}`, nil)
		if got, ok := errors.AsType[*registry.UnavailableError](err); !ok || got.Status != want {
			t.Errorf("%d: got %+v, want the status %d", status, err, want)
		}
	}
}

// TestContentEncoding has servers say how their answers are compressed, which nobody has
// asked them for. Some say that they are not.
func TestContentEncoding(t *testing.T) {
	t.Parallel()
	for coding, problem := range map[string]string{
		"identity": "", "none": "", "gzip": `answer with Content-Encoding "gzip", which nobody asked for`,
	} {
		s := &web{session: "s", call: func(w http.ResponseWriter, _ *http.Request, m wire) {
			w.Header().Set("Content-Encoding", coding)
			events(w)("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", m.ID, okResult)
		}}
		r := start(t, serve(t, s).config())
		r.untilTool("tool")
		_, err := r.call(t.Context(), "tool", `{}`, nil)
		if (err != nil) != (problem != "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: got %v, want %q", coding, err, problem)
		}
	}
}

// TestAServerThatDoesNotKnowPingLives has a server refuse calls in a way that makes a
// session suspect. Its answer to ping proves that it lives, whatever it says.
func TestAServerThatDoesNotKnowPingLives(t *testing.T) {
	t.Parallel()
	for _, code := range []int{-32601, -32602, -32600, -32603} {
		s := &web{session: "s", call: func(w http.ResponseWriter, _ *http.Request, m wire) {
			sendError(w, http.StatusBadRequest, m.ID, -32000, "Bad Request: no valid session ID provided")
		}}
		s.other = map[string]func(http.ResponseWriter, *http.Request, wire){
			"ping": func(w http.ResponseWriter, _ *http.Request, m wire) {
				sendError(w, http.StatusOK, m.ID, code, "what is ping?")
			},
		}
		r := start(t, serve(t, s).config())
		r.untilTool("tool")
		for n := range 3 {
			eventually(t, "a ping is sent", func() bool {
				_, _ = r.call(t.Context(), "tool", `{}`, nil) // fails, perhaps while the last ping is under way
				return len(s.sights("ping")) > n
			})
		}
		if got := len(s.sights("initialize")); got != 2 {
			t.Errorf("code %d: %d sessions were opened, want the gateway's and one for calls", code, got)
		}
	}
}

// TestAPingThatIsRefusedAsksForNoOther has a server refuse one call in the only session,
// and every ping by the status that HTTP has for what is unknown.
func TestAPingThatIsRefusedAsksForNoOther(t *testing.T) {
	t.Parallel()
	s := &web{session: "s", call: func(w http.ResponseWriter, _ *http.Request, m wire) {
		sendError(w, http.StatusBadRequest, m.ID, -32000, "Bad Request: no valid session ID provided")
	}}
	s.other = map[string]func(http.ResponseWriter, *http.Request, wire){
		"ping": func(w http.ResponseWriter, _ *http.Request, m wire) {
			sendError(w, http.StatusNotFound, m.ID, -32601, "what is ping?")
		},
	}
	r := start(t, shared(serve(t, s).config()))
	r.untilTool("tool")
	if _, err := r.call(t.Context(), "tool", `{}`, nil); err == nil {
		t.Fatal("a refused call succeeds")
	}
	eventually(t, "a ping is sent", func() bool { return len(s.sights("ping")) > 0 })
	wait(t.Context(), 1600*time.Millisecond) // four times the gap between two
	if got := len(s.sights("ping")); got != 1 {
		t.Errorf("%d pings were sent for one call that failed, want one", got)
	}
}

// TestBrokenStreamIsResumed ends the stream before the answer, twice, and gives the
// answer on the third.
func TestBrokenStreamIsResumed(t *testing.T) {
	t.Parallel()
	var id atomic.Value
	s := serve(t, &web{session: "s"})
	s.call = func(w http.ResponseWriter, _ *http.Request, m wire) {
		id.Store(string(m.ID))
		events(w)("id: e1\nretry: 150\ndata:\n\n")
	}
	var resumed []time.Time
	s.stream = func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Last-Event-Id") {
		case "":
			w.WriteHeader(http.StatusMethodNotAllowed)
		case "e1":
			resumed = append(resumed, time.Now())
			events(w)(
				"id: e2\n%s", data(
					`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, id.Load()))
		case "e2":
			resumed = append(resumed, time.Now())
			events(w)("id: e3\n%s", data(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id.Load(), okResult))
		}
	}
	r := start(t, s.config())
	r.untilTool("tool")
	began, heard := time.Now(), 0
	result, err := r.call(t.Context(), "tool", `{"_meta":{"progressToken":"p"}}`,
		func(mcp.Notification) { heard++ })
	if err != nil || text(result) != "ok" || heard != 1 {
		t.Fatalf("got %s, %v, %d notifications", result.JSON(), cause(err), heard)
	}
	if len(resumed) != 2 || resumed[0].Sub(began) < 150*time.Millisecond {
		t.Errorf("resumed after %v: want twice, and 150 ms later as the server wished", resumed[0].Sub(began))
	}
	if got := len(s.sights("tools/call")); got != 1 {
		t.Errorf("the call was sent %d times, want once", got)
	}
}

// TestStreamIsResumedOnceTheServerIsBack has a balancer, or the server, say that it
// cannot be asked at the moment, or that the stream is still taken, when it is to be
// resumed.
func TestStreamIsResumedOnceTheServerIsBack(t *testing.T) {
	t.Parallel()
	for _, status := range []int{
		http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusConflict,
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			var id atomic.Value
			var away atomic.Int32
			s := serve(t, &web{session: "s", call: func(w http.ResponseWriter, _ *http.Request, m wire) {
				id.Store(string(m.ID))
				away.Store(2)
				events(w)("id: e1\ndata:\n\n")
			}, stream: func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Header.Get("Last-Event-Id") == "":
					w.WriteHeader(http.StatusMethodNotAllowed)
				case away.Add(-1) >= 0:
					w.WriteHeader(status)
				default:
					events(w)("id: e2\n%s", data(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id.Load(), okResult))
				}
			}})
			r := start(t, s.config())
			r.untilTool("tool")
			if got := text(parse(t, r.must("tool", `{}`))); got != "ok" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestStreamThatCannotBeResumedEndsTheCall bounds the attempts. What the server says is
// the cause.
func TestStreamThatCannotBeResumedEndsTheCall(t *testing.T) {
	t.Parallel()
	for status, why := range map[int]string{
		http.StatusOK: "ended", http.StatusServiceUnavailable: "503", http.StatusNotFound: "404",
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			cannotResume(t, status, why)
		})
	}
}

func cannotResume(t *testing.T, status int, why string) {
	t.Helper()
	s := serve(t, &web{session: "s", call: func(w http.ResponseWriter, _ *http.Request,
		_ wire,
	) {
		events(w)("id: e1\ndata:\n\n")
	}})
	s.stream = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Last-Event-Id") == "" {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if status != http.StatusOK {
			w.WriteHeader(status)
			return
		}
		events(w)(": nothing new\n\n")
	}
	r := start(t, s.config())
	r.untilTool("tool")
	_, err := r.call(t.Context(), "tool", `{}`, nil)
	if got := kindOf(mcp.Object{}, err); got != "sent" || !strings.Contains(cause(err), why) {
		t.Errorf("got %s (%v), want unavailable, sent, by %s", got, cause(err), why)
	}
	if got := len(s.sights("tools/call")); got != 1 {
		t.Errorf("the call was sent %d times, want once", got)
	}
}

// TestT45NoHeaderOfAClientReachesAnUpstream shows all headers that an upstream sees.
func TestT45NoHeaderOfAClientReachesAnUpstream(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		s := serve(t, &web{modern: modern})
		cfg := s.config()
		cfg.Headers = map[string]string{
			"X-Own": "configured", "user-agent": "configured", "mcp-session-id": "forged",
			"Mcp-Method": "forged",
		}
		r := start(t, cfg)
		r.untilTool("tool")
		canary := "canary-token"
		ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, canary)
		if _, err := r.call(ctx, "tool", `{"_meta":{"Authorization":"x"}}`, nil); err != nil {
			t.Fatal(err)
		}
		allowed := []string{
			"Accept", "Content-Type", "Content-Length", "User-Agent", "X-Own",
			"Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name",
		}
		s.mu.Lock()
		for _, one := range s.seen {
			for name, values := range one.header {
				if !slices.Contains(allowed, name) || slices.Contains(values, "forged") ||
					slices.Contains(values, canary) {
					t.Errorf("modern %v, %s: header %s: %q", modern, one.wire.Method, name, values)
				}
			}
			for _, name := range []string{"X-Own", "User-Agent"} {
				if got := one.header.Get(name); got != "configured" {
					t.Errorf("modern %v, %s: got %s %q, want it as configured", modern, one.wire.Method,
						name, got)
				}
			}
		}
		s.mu.Unlock()
	}
}

// TestModernHeadersAreRecomputed shows the headers of a call under the server's own name
// and schema.
func TestModernHeadersAreRecomputed(t *testing.T) {
	t.Parallel()
	s := serve(t, &web{modern: true, list: func(w http.ResponseWriter, m wire) {
		sendJSON(w, m.ID, `{"tools":[{"name":"tool","inputSchema":{"type":"object","properties":{
			"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"},
			"on":{"type":"boolean","x-mcp-header":"On"},"none":{"type":"string","x-mcp-header":"None"},
			"whole":{"type":"integer","x-mcp-header":"Whole"}}}}]}`)
	}})
	cfg := s.config()
	cfg.Prefix = "p"
	r := start(t, cfg)
	r.untilTool("tool")
	r.must(
		"tool", `{"name":"p__tool","arguments":{"region":" Köln ","n":42,"on":false,"none":null,"whole":1.0e2}}`)
	seen := s.sights("tools/call")[0].header
	for name, want := range map[string]string{
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "tool",
		"Mcp-Param-Region": mcp.EncodeHeader(" Köln "), "Mcp-Param-N": "42", "Mcp-Param-On": "false",
		"Mcp-Param-None": "", "Mcp-Param-Whole": "100",
	} {
		if got := seen.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// TestHeaderMismatchListsAgain shows what happens when a definition changed unnoticed:
// the call did not run.
func TestHeaderMismatchListsAgain(t *testing.T) {
	t.Parallel()
	s := serve(t, &web{modern: true, call: func(w http.ResponseWriter, _ *http.Request,
		m wire,
	) {
		sendError(w, 400, m.ID, -32020, "header")
	}})
	r := start(t, s.config())
	r.untilTool("tool")
	_, err := r.call(t.Context(), "tool", `{}`, nil)
	if got := kindOf(mcp.Object{}, err); got != "not sent" {
		t.Errorf("got %s (%v), want unavailable, not sent", got, cause(err))
	}
	eventually(t, "the list is asked for again", func() bool { return len(s.sights("tools/list")) > 1 })
}

func eventually(t *testing.T, what string, claim func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !claim(); wait(t.Context(), 5*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// TestCancelReachesAnHTTPServer leaves a call: a legacy server gets a notification, a
// modern one sees the end of the connection.
func TestCancelReachesAnHTTPServer(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		began, left := make(chan bool, 1), make(chan bool, 1)
		s := serve(t, &web{modern: modern, call: func(_ http.ResponseWriter, r *http.Request, _ wire) {
			began <- true
			<-r.Context().Done()
			left <- true
		}})
		r := start(t, s.config())
		r.untilTool("tool")
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-began
			cancel()
		}()
		if _, err := r.call(ctx, "tool", `{}`, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("modern %v: got %v, want the context's error", modern, err)
		}
		await(t, left)
		if modern {
			continue
		}
		eventually(t, "the server is told",
			func() bool { return len(s.sights("notifications/cancelled")) == 1 })
		told, call := s.sights("notifications/cancelled")[0], s.sights("tools/call")[0]
		if got, want := string(told.wire.Params.RequestID), string(call.wire.ID); got != want {
			t.Errorf("cancelled request: got %s, want %s", got, want)
		}
	}
}

// TestLostHTTPServerComesBack stops a server in a call and starts another at the same
// address, of the other era.
func TestLostHTTPServerComesBack(t *testing.T) {
	t.Parallel()
	address, err := freeport.Address() // nobody else takes it in between
	if err != nil {
		t.Fatal(err)
	}
	began := make(chan bool, 1)
	old := serve(t, &web{
		address: address, modern: true, call: func(_ http.ResponseWriter, r *http.Request, _ wire) {
			began <- true
			<-r.Context().Done()
		},
	})
	r := start(t, old.config())
	r.untilTool("tool")
	tool, failed := r.tool("tool"), make(chan error, 1)
	call := request(t, `{}`, nil)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		_, err := tool.Call(ctx, call)
		failed <- err
	}()
	await(t, began)
	_ = old.Listener.Close()
	old.CloseClientConnections()
	if got := kindOf(mcp.Object{}, await(t, failed)); got != "sent" {
		t.Errorf("a call in flight: got %s, want unavailable, sent", got)
	}
	r.until("the tools leave", func() bool { return len(r.tools()) == 0 })
	if _, err := tool.Call(t.Context(), call); kindOf(mcp.Object{}, err) != "not sent" {
		t.Errorf("a call of a lost upstream: got %v, want unavailable, not sent", err)
	}
	next := serve(t, &web{address: address, session: "s"})
	r.untilTool("tool")
	if s := r.last(); s.Restarts != 1 || s.Revision != mcp.Revision2511 {
		t.Errorf("status: got %+v, want one restart and the new era", s)
	}
	r.must("tool", `{}`)
	r.stop()
	if got := len(next.sights(http.MethodDelete)); got != 2 {
		t.Errorf("good-byes: got %d, want one of each session", got)
	}
}

// TestConnectionsAreReused counts connections under calls one after the other.
func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(http.ResponseWriter, *http.Request, wire){
		"JSON": nil,
		"stream": func(w http.ResponseWriter, _ *http.Request, m wire) {
			events(w)("%s", data(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, okResult))
		},
		"refusal": func(w http.ResponseWriter, _ *http.Request,
			m wire,
		) {
			sendError(w, 400, m.ID, -32602, "no")
		},
	} {
		s := serve(t, &web{modern: true, call: call})
		r := start(t, s.config())
		r.untilTool("tool")
		tool := r.tool("tool")
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			_, _ = tool.Call(ctx, request(t, `{}`, nil)) // some are refusals
			cancel()
		}
		if got := s.conns.Load(); got > 10 {
			t.Errorf("%s: got %d connections for 100 calls, want few", name, got)
		}
	}
}

// TestGetStreamIsOptional shows servers that do not know the stream, in the ways they say
// so.
func TestGetStreamIsOptional(t *testing.T) {
	t.Parallel()
	for _, status := range []int{404, 405, 400, 406, 200} {
		s := serve(t, &web{
			session: "s",
			stream:  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) },
		})
		r := start(t, shared(s.config()))
		r.untilTool("tool")
		eventually(t, "the stream is asked for", func() bool { return len(s.sights(http.MethodGet)) > 0 })
		r.must("tool", `{}`)
		if got := len(s.sights("initialize")); got != 1 {
			t.Errorf("%d: got %d sessions, want one", status, got)
		}
	}
}

// TestStreamThatIsStillTakenIsAskedForAgain has a server that did not notice yet that its
// stream is gone, as those of the SDKs for npm and Python do: it refuses another one with
// 409. Or it does not take the credential for a moment. Later it gives the stream again.
func TestStreamThatIsStillTakenIsAskedForAgain(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	s := legacyWeb()
	s.stream = func(w http.ResponseWriter, r *http.Request) {
		switch asked.Add(1) {
		case 1:
			events(w)("%s", data(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`))
		case 2, 3:
			w.WriteHeader(http.StatusConflict)
		case 4:
			w.WriteHeader(http.StatusUnauthorized)
		default:
			events(w)(": open\n\n")
			<-r.Context().Done()
		}
	}
	visit(t, upstream.Config{}, func(t *testing.T, _ *origin, _ *rig) {
		if got := asked.Load(); got != 5 {
			t.Errorf("the stream was asked for %d times, want until it was open", got)
		}
	}, s)
}

// TestSilentStreamIsResumedForAsLongAsACallMayTake has a balancer cut off each stream
// after a minute in which the server had nothing to say.
func TestSilentStreamIsResumedForAsLongAsACallMayTake(t *testing.T) {
	t.Parallel()
	var (
		id      atomic.Value
		resumed atomic.Int32
	)
	s := legacyWeb()
	s.call = func(w http.ResponseWriter, _ *http.Request, m wire) {
		id.Store(string(m.ID))
		events(w)("id: e1\ndata:\n\n")
	}
	s.stream = func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Last-Event-Id") == "":
			w.WriteHeader(http.StatusMethodNotAllowed)
		case resumed.Add(1) <= 12:
			events(w)(": nothing new\n\n")
			wait(r.Context(), time.Minute)
		default:
			events(w)("id: e2\n%s", data(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id.Load(), okResult))
		}
	}
	visit(t, upstream.Config{}, func(t *testing.T, _ *origin, r *rig) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		result, err := r.tool("tool").Call(ctx, request(t, `{}`, nil))
		if got := kindOf(result, err); got != "ok" {
			t.Errorf("got %s (%v) after the stream was resumed %d times, want the answer", got, cause(err),
				resumed.Load())
		}
	}, s)
}

// TestSubscriptionThatIsStillTakenIsAskedForAgain has a server that did not notice yet
// that its subscription is gone, and refuses another.
func TestSubscriptionThatIsStillTakenIsAskedForAgain(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	s := modernWeb()
	s.listen = func(w http.ResponseWriter, r *http.Request, m wire) {
		n := asked.Add(1)
		if n == 2 || n == 3 {
			sendError(w, http.StatusOK, m.ID, -32603, "there is a subscription")
			return
		}
		events(w)("%s", data(
			`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":%s,`+
				`"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, listened(m), m.ID))
		if n > 1 {
			<-r.Context().Done()
		}
	}
	visit(t, upstream.Config{}, func(t *testing.T, _ *origin, r *rig) {
		if got := asked.Load(); got != 4 || !r.last().Up {
			t.Errorf("it was asked %d times, up %v, want until it accepts", got, r.last().Up)
		}
	}, s)
}

// TestServersThatAskBackOverHTTP answers ping and refuses the rest.
func TestServersThatAskBackOverHTTP(t *testing.T) {
	t.Parallel()
	s := serve(t, &web{session: "s"})
	s.call = func(w http.ResponseWriter, _ *http.Request, m wire) {
		send := events(w)
		send("%s", data(`{"jsonrpc":"2.0","id":"p","method":"ping"}`))
		send("%s", data(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`))
		for len(answersOf(s)) < 2 {
			wait(t.Context(), time.Millisecond)
		}
		send("%s", data(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, okResult))
	}
	r := start(t, s.config())
	r.untilTool("tool")
	r.must("tool", `{}`)
	got := answersOf(s)
	slices.Sort(got)
	want := []string{
		`{"jsonrpc":"2.0","id":"p","result":{}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("answers: got %q, want %q", got, want)
	}
}

// answersOf returns the messages without a method that were posted.
func answersOf(s *web) []string {
	var bodies []string
	for _, one := range s.sights("") {
		if one.http == http.MethodPost {
			bodies = append(bodies, one.body)
		}
	}
	return bodies
}
