package upstream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// failingServer is a server without a network that falls ill, of either era over
// Streamable HTTP, or over HTTP+SSE. It has a tool that stays well and one that does not.
type failingServer struct {
	wired
	sse bool
	// callers of the ill tool can be asked something, so that their calls have sessions
	// of their own
	askable   bool
	ill, well string

	fault  atomic.Pointer[fault] // what it has; nil: nothing
	wholly atomic.Bool           // it is in every request, not only in calls of the tool ill
	asked  atomic.Int32          // requests that came while ill

	mu       sync.Mutex // guards the field below
	sessions []*fake    // over HTTP+SSE
}

// fault is how an ill server answers a request, on whichever transport.
type fault func(p *failingServer, r *http.Request, m wire) (*http.Response, error)

// patients are the servers over HTTP of all kinds.
func patients() map[string]func() *failingServer {
	over := func(w *failingServer) *failingServer {
		w.ill, w.well = "ill", "tool"
		w.list = func(to http.ResponseWriter, m wire) {
			sendJSON(
				to, m.ID, `{"tools":[{"name":"tool","inputSchema":{"type":"object"}},{"name":"ill","inputSchema":{"type":"object"}}]}`)
		}
		return w
	}
	return map[string]func() *failingServer{
		"modern": func() *failingServer { return over(&failingServer{wired: wired{web: web{modern: true}}}) },
		"legacy": func() *failingServer { return over(&failingServer{wired: wired{web: web{session: "s"}}}) },
		"legacy, askable": func() *failingServer {
			return over(&failingServer{wired: wired{web: web{session: "s"}}, askable: true})
		},

		"sse": func() *failingServer { return &failingServer{sse: true, ill: "old", well: "echo"} },
		"sse, askable": func() *failingServer {
			return &failingServer{sse: true, ill: "old", well: "echo", askable: true}
		},
	}
}

func (p *failingServer) config() upstream.Config {
	cfg := p.wired.config()
	cfg.Client = &http.Client{Transport: p}
	if p.sse {
		cfg.Type = "sse"
	}
	return cfg
}

func (p *failingServer) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	var m wire
	_ = json.Unmarshal(body, &m)
	has := p.fault.Load()
	if has != nil && (p.wholly.Load() || m.Method == "tools/call" && m.Params.Name == p.ill) {
		p.asked.Add(1)
		return (*has)(p, r, m)
	}
	if !p.sse {
		return p.wired.RoundTrip(r)
	}
	return p.stream(r, m, body), nil
}

// stream serves HTTP+SSE: a GET opens a session, and what is posted is answered there.
func (p *failingServer) stream(r *http.Request, m wire, body []byte) *http.Response {
	if r.Method == http.MethodPost {
		p.session(r).handle(m, body)
		return response(http.StatusAccepted, "", "")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	out, in := io.Pipe()
	context.AfterFunc(r.Context(), func() { in.CloseWithError(io.EOF) })
	p.sessions = append(p.sessions,
		newFake("old", lineWriter(func(line string) { _, _ = io.WriteString(in, event(line)) })))
	go fmt.Fprintf(in, "event: endpoint\ndata: /messages?session=%d\n\n", len(p.sessions)-1)
	opened := response(http.StatusOK, "text/event-stream", "")
	opened.Body = out
	return opened
}

func (p *failingServer) session(r *http.Request) *fake {
	p.mu.Lock()
	defer p.mu.Unlock()
	var n int
	_, _ = fmt.Sscan(r.URL.Query().Get("session"), &n)
	return p.sessions[n]
}

// says answers a request with a message.
func (p *failingServer) says(r *http.Request, message string) *http.Response {
	if !p.sse {
		return response(http.StatusOK, "application/json", message)
	}
	p.session(r).line("%s", message)
	return response(http.StatusAccepted, "", "")
}

func response(status int, media, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(strings.NewReader(body)),
		ContentLength: -1,
	}
}

// hangs leaves a request without an answer.
func hangs(_ *failingServer, r *http.Request, _ wire) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// refuses answers every request with a status.
func refuses(status int) fault {
	return func(*failingServer, *http.Request, wire) (*http.Response, error) {
		return response(status, "text/plain", "no"), nil
	}
}

// replies answers with a JSON-RPC message, in which %s is the id.
func replies(format string) fault {
	return func(p *failingServer, r *http.Request, m wire) (*http.Response, error) {
		if m.ID == nil {
			return response(http.StatusAccepted, "", ""), nil
		}
		return p.says(r, fmt.Sprintf(format, m.ID)), nil
	}
}

// diseases are what a server can have, and whether it is down when it answers everything
// so.
func diseases() map[string]struct {
	fault fault
	down  bool
} {
	return map[string]struct {
		fault fault
		down  bool
	}{
		"hangs": {hangs, true},
		"is slow": {func(p *failingServer, r *http.Request, m wire) (*http.Response, error) {
			time.Sleep(900 * time.Millisecond)
			return replies(
				`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"content":[],"tools":[]}}`)(p, r, m)
		}, false},
		"resets": {func(*failingServer, *http.Request, wire) (*http.Response, error) {
			return nil, errors.New("connection reset by peer")
		}, true},
		"500":        {refuses(500), true},
		"503":        {refuses(503), true},
		"405":        {refuses(405), true}, // it may be of another transport by now
		"429":        {refuses(429), false},
		"says trash": {replies(`<html>%s</html>`), true},
		"tool fails": {replies(
			`{"jsonrpc":"2.0","id":%s,"result":{"isError":true,"content":[],"tools":[],"resultType":"complete","supportedVersions":["2026-07-28"]}}`), false},
	}
}

// callTime is the time of each call that a test makes.
const callTime = time.Second

// tries calls a tool a few times, each for callTime at most.
func (p *failingServer) tries(t *testing.T, r *rig, tool string) {
	for range 5 {
		if !r.last().Up {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), callTime)
		call := request(t, `{}`, nil)
		if p.askable {
			call.Capabilities, _ = mcp.ObjectOf(mcp.RawJSON(`{"elicitation":{"form":{}}}`))
		}
		_, _ = r.tool(tool).Call(ctx, call) // however it ends
		cancel()
		synctest.Wait()
	}
}

// falls runs a story with a server of each kind that has each disease.
func falls(t *testing.T, story func(t *testing.T, p *failingServer, r *rig, down bool)) {
	t.Parallel()
	for kind, fresh := range patients() {
		for name, disease := range diseases() {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					p := fresh()
					cfg := p.config()
					cfg.Grace = grace
					r := start(t, cfg)
					synctest.Wait()
					if !r.last().Up {
						t.Fatalf("status: got %+v, want up", r.last())
					}
					if p.askable {
						p.tries(t, r, p.ill) // then the session is open when it falls ill
					}
					p.fault.Store(&disease.fault)
					story(t, p, r, disease.down)
					r.stop()
					synctest.Wait()
				})
			})
		}
	}
}

// TestOneIllToolTakesNoServerAway has calls of one tool fail in every way, while the
// server is well.
func TestOneIllToolTakesNoServerAway(t *testing.T) {
	falls(t, func(t *testing.T, p *failingServer, r *rig, _ bool) {
		for range 4 {
			p.tries(t, r, p.ill)
			time.Sleep(12 * time.Second) // more than the proof of life may take
			synctest.Wait()
			if got := r.last(); !got.Up || got.Restarts > 0 {
				t.Fatalf("status: got %+v, want up all the time", got)
			}
			if _, err := r.call(t.Context(), p.well, `{}`, nil); err != nil {
				t.Errorf("call of the tool that is well: %v (%v)", err, cause(err))
			}
		}
	})
}

// TestCallsOfAnIllServerAreRefusedWithoutAWait has all of a server fail, and recover.
// Without calls, a check would notice it after 15 s at the earliest.
func TestCallsOfAnIllServerAreRefusedWithoutAWait(t *testing.T) {
	falls(t, func(t *testing.T, p *failingServer, r *rig, down bool) {
		p.wholly.Store(true)
		noticed := time.After(14 * time.Second) // three calls, and the proof of life
		p.tries(t, r, p.ill)
		<-noticed
		synctest.Wait()
		switch got := r.last(); {
		case down:
			p.refusesAtOnce(t, r)
		case !got.Up || got.Restarts > 0:
			t.Fatalf("status: got %+v, want up all the time", got)
		}
		p.fault.Store(nil)
		time.Sleep(backoffLimit + 10*time.Second) // a handshake may hang
		synctest.Wait()
		if got := r.last(); !got.Up {
			t.Errorf("status after it recovered: got %+v, want up", got)
		}
		for _, tool := range []string{p.ill, p.well} {
			if _, err := r.call(t.Context(), tool, `{}`, nil); err != nil {
				t.Errorf("call of %s after it recovered: %v (%v)", tool, err, cause(err))
			}
		}
	})
}

// refusesAtOnce checks that calls reach a server no more, and take no time.
func (p *failingServer) refusesAtOnce(t *testing.T, r *rig) {
	t.Helper()
	began, asked := time.Now(), p.asked.Load()
	for range 100 {
		_, err := r.call(t.Context(), p.ill, `{}`, nil)
		if _, ok := errors.AsType[*registry.DownError](err); !ok {
			t.Fatalf("call: got %v, want that the server is down", err)
		}
	}
	if took := time.Since(began); took > 0 || p.asked.Load() != asked {
		t.Errorf("100 calls took %v and sent %d requests, want none", took, p.asked.Load()-asked)
	}
}

// TestAChildThatHangsIsStartedAnew has a child stop to read: the one that serves
// everybody of a modern server, and the one that runs calls of an older server.
func TestAChildThatHangsIsStartedAnew(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"modern", "legacy"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := start(t, command(kind))
			r.untilTool("deaf")
			r.must("deaf", `{}`)
			// more than a pipe takes, so that it cannot even be written
			long := `{"arguments":{"text":"` + strings.Repeat("x", 200<<10) + `"}}`
			for deadline := time.Now().Add(limit); ; {
				ctx, cancel := context.WithTimeout(t.Context(), callTime)
				_, err := r.call(ctx, "echo", long, nil)
				cancel()
				if err == nil {
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("the last call ended in %v; status %+v", err, r.last())
				}
			}
		})
	}
}

// TestAChildWithOneToolThatHangsIsLeftAlone has calls of one tool time out, more of them
// than a child may leave without an answer while it answers nothing else.
func TestAChildWithOneToolThatHangsIsLeftAlone(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"modern", "legacy"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := start(t, command(kind))
			r.untilTool("slow")
			before := pidOf(t, r)
			for range 8 {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				if _, err := r.call(ctx, "slow", `{}`, nil); err == nil {
					t.Error("the call ended, want that its time is over")
				}
				cancel()
			}
			if after := pidOf(t, r); after != before || r.last().Restarts > 0 {
				t.Errorf("process %d became %d, status %+v; want the same process", before, after, r.last())
			}
		})
	}
}

// pidOf returns the number of the process that runs calls.
func pidOf(t *testing.T, r *rig) (pid int) {
	t.Helper()
	result, err := r.call(t.Context(), "env", `{}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	var surroundings struct{ PID int }
	if err := json.Unmarshal([]byte(text(result)), &surroundings); err != nil {
		t.Fatal(err)
	}
	return surroundings.PID
}

// TestAThrottlingServerStaysUp lets a server answer everything with 429 for longer than
// its lists are fresh.
func TestAThrottlingServerStaysUp(t *testing.T) {
	t.Parallel()
	for kind, fresh := range patients() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, busy := fresh(), refuses(http.StatusTooManyRequests)
				r := start(t, p.config())
				synctest.Wait()
				p.fault.Store(&busy)
				p.wholly.Store(true)
				time.Sleep(30 * time.Minute)
				synctest.Wait()
				if got := r.last(); !got.Up || got.Restarts > 0 || len(r.tools()) < 2 {
					t.Errorf("got %+v with tools %q, want up", got, r.tools())
				}
				if got := p.asked.Load(); got > 30*60 {
					t.Errorf("it got %d requests in half an hour, want fewer than one a second", got)
				}
				r.stop()
			})
		})
	}
}
