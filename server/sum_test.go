package server_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// farServer is a legacy server without a network. It keeps nothing of what it is sent.
type farServer struct {
	text string // what it says wherever it says much
}

// RoundTrip answers as a server over Streamable HTTP. Streams stay open until their
// request ends.
func (f *farServer) RoundTrip(r *http.Request) (*http.Response, error) {
	response := func(status int, media string, body io.Reader) *http.Response {
		return &http.Response{
			StatusCode: status, Header: http.Header{"Content-Type": {media}},
			Body: io.NopCloser(body), ContentLength: -1, Request: r,
		}
	}
	if r.Method != http.MethodPost {
		return response(http.StatusMethodNotAllowed, "text/plain", http.NoBody), nil
	}
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	m, err := mcp.Decode(sent)
	if err != nil {
		return nil, err
	}
	id, tool, token := string(m.ID), m.Params.Text("name"),
		string(m.Params.Object("_meta").Value("progressToken"))
	answer := func(parts ...string) (*http.Response, error) {
		all := []io.Reader{strings.NewReader(`{"jsonrpc":"2.0","id":` + id + `,"result":`)}
		for _, part := range append(parts, "}") {
			all = append(all, strings.NewReader(part))
		}
		return response(http.StatusOK, "application/json", io.MultiReader(all...)), nil
	}
	switch {
	case m.IsNotification(), m.IsResponse():
		return response(http.StatusAccepted, "text/plain", http.NoBody), nil
	case m.Method == mcp.MethodInitialize:
		return answer(
			`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"far","version":"1"}}`)
	case m.Method == mcp.MethodToolsList:
		list := make([]string, 0, 4)
		for _, name := range []string{"keep", "big", "asks", "tells"} {
			list = append(list, `{"name":"`+name+`","inputSchema":{"type":"object"}}`)
		}
		return answer(`{"tools":[` + strings.Join(list, ",") + `]}`)
	case m.Method != mcp.MethodToolsCall:
		return answer(`{}`)
	case tool == "big":
		return answer(`{"content":[{"type":"text","text":"`, f.text, `"}]}`)
	}
	from, to := io.Pipe()
	stop := context.AfterFunc(r.Context(), func() { to.CloseWithError(r.Context().Err()) })
	go func() {
		defer stop()
		switch tool {
		case "asks":
			fmt.Fprintf(
				to, "data: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"elicitation/create\",\"params\":{\"requestedSchema\":{\"type\":\"object\",\"properties\":{}},\"message\":\"%s\"}}\n\n", f.text)
		case "tells":
			for n := range 40 {
				fmt.Fprintf(
					to, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,\"progress\":%d,\"message\":\"%s\"}}\n\n", token, n, f.text[:60_000])
			}
		}
		<-r.Context().Done()
	}()
	return response(http.StatusOK, "text/event-stream", from), nil
}

// far adds a server that is spoken to by the code that speaks to real ones, and files
// that clients subscribe to.
func (l *holdersLab) far(w *world) {
	for i := range w.tenants {
		w.tenants[i].Servers = []string{"box", "far", "files"}
		w.tenants[i].Rules = []gateway.Rule{{Allow: []string{"*", "resource:*"}}}
	}
	w.registry.Replace(registry.Source{
		Name: "files", Templates: []mcp.Object{object(`{"uriTemplate":"file:///{+path}","name":"file"}`)},
		Reads: true,
		Use: func(context.Context, *registry.Call) (mcp.Object,
			error,
		) {
			return object(`{"contents":[]}`), nil
		},
		Subscribe: func(_ context.Context, _ share.User, _ string, updated func(string), _ func()) error {
			l.updated = updated
			return nil
		},
	})
}

// holdersLab is a world with clients that keep all kinds of holders busy.
type holdersLab struct {
	*world
	h       http.Handler
	awake   chan struct{}
	leaving chan struct{} // closed when the clients leave
	text    string
	updated func(string) // tells of a part to whom subscribed last
}

const mega = 1_000_000

// send sends a message. What its client reads is nowhere in memory; a deaf one takes only
// the beginning of an answer.
func (l *holdersLab) send(m message, deaf bool) {
	awake := make(chan struct{})
	if close(awake); deaf {
		awake = l.awake
	}
	ctx, leave := context.WithCancel(context.Background())
	r := m.request(ctx, "")
	r.RequestURI, r.RemoteAddr = r.URL.RequestURI(), "192.0.2.1:1234"
	go func() {
		<-l.leaving
		leave()
	}()
	go l.h.ServeHTTP(&unreading{ResponseRecorder: httptest.NewRecorder(), awake: awake, waits: func() {}}, r)
	synctest.Wait()
}

// kinds are what holds memory, each as a function that prepares it and returns the one
// that makes it hold some MB.
func (l *holdersLab) kinds() map[string]func(t *testing.T) (begin func()) {
	times := func(n int, m message, deaf bool) func(*testing.T) func() {
		return func(*testing.T) func() {
			return func() {
				for range n {
					l.send(m, deaf)
				}
			}
		}
	}
	able := func(m message) message {
		m.body = strings.Replace(m.body, `"io.modelcontextprotocol/clientCapabilities":{}`,
			`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}`, 1)
		return m.with("Accept", "application/json, text/event-stream")
	}
	return map[string]func(t *testing.T) func(){
		"bodies and the texts of requests": times(8, large("keep", "alice", mega), false),
		"answers":                          times(8, modernCall("big"), true),
		"events": func(t *testing.T) func() {
			id := l.open(t, "alice", mcp.Revision2511)
			return func() {
				for n := range 8 {
					l.send(legacyCall(id, "big").id(fmt.Sprint(n)), true)
				}
			}
		},
		"parked calls and their questions": times(4, able(large("asks", "alice", mega)), false),
		"notes":                            times(4, able(modernCall("tells")), true),
		"sessions": func(t *testing.T) func() {
			return func() {
				for range 900 {
					l.open(t, "alice", mcp.Revision2511)
					l.open(t, "bob", mcp.Revision2511)
				}
			}
		},
		"subscriptions": func(t *testing.T) func() {
			return func() {
				for range 4 {
					id := l.open(t, "alice", mcp.Revision2511)
					for n := range 200 {
						l.subscribe(t, id, fmt.Sprintf("mcp.files+file:///%d/%s", n,
							strings.Repeat("x", 1900)))
					}
				}
			}
		},
		"changed parts": func(t *testing.T) func() {
			id := l.open(t, "alice", mcp.Revision2511)
			l.subscribe(t, id, "mcp.files+file:///a/")
			return func() {
				for n := range 500 {
					l.updated(fmt.Sprintf("file:///a/%d%s", n, strings.Repeat("x", 7000)))
				}
			}
		},
	}
}

func (l *holdersLab) subscribe(t *testing.T, id, uri string) {
	t.Helper()
	got := l.do(t, inSession("POST", id,
		`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"`+uri+`"}}`))
	if !strings.Contains(got.Body.String(), `"result":{}`) {
		t.Fatalf("subscribe: got %d %s", got.Code, got.Body)
	}
}

// connect runs the connection to the far server until stop is called.
func (l *holdersLab) connect() (stop func()) {
	up := upstream.New(upstream.Config{
		Name: "far", URL: "http://far.invalid/mcp", Client: &http.Client{Transport: &farServer{text: l.text}},
		Timeout: time.Hour,
		Memory:  l.config.Memory, Logger: slog.New(slog.DiscardHandler), Version: "test",
	}, l.registry)
	ctx, end := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = up.Run(ctx) })
	return func() { end(); all.Wait() }
}
