package upstream_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// web is a small server over Streamable HTTP. What a test leaves nil behaves well.
type web struct {
	*httptest.Server
	address  string // "" is any
	modern   bool
	session  string // "" is none
	declares string // the capabilities; "" is {"tools":{"listChanged":true}}
	speaks   string // older revision; "" is 2025-11-25, and none when modern
	discover func(w http.ResponseWriter, m wire)
	list     func(w http.ResponseWriter, m wire)
	call     func(w http.ResponseWriter, r *http.Request, m wire)
	stream   func(w http.ResponseWriter, r *http.Request)         // GET
	listen   func(w http.ResponseWriter, r *http.Request, m wire) // subscriptions/listen
	other    map[string]func(w http.ResponseWriter, r *http.Request, m wire)
	conns    atomic.Int64

	mu   sync.Mutex // guards the fields below
	seen []seenRequest
	open map[string]bool // sessions
	born int
}

// seenRequest is one request as the server saw it.
type seenRequest struct {
	http   string
	header http.Header
	body   string
	wire   wire
}

func serve(t testing.TB, w *web) *web {
	t.Helper()
	w.open = map[string]bool{}
	w.Server = httptest.NewUnstartedServer(w)
	if w.address != "" {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", w.address)
		if err != nil {
			t.Fatal(err)
		}
		_ = w.Listener.Close()
		w.Listener = listener
	}
	w.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			w.conns.Add(1)
		}
	}
	w.Start()
	t.Cleanup(func() {
		w.CloseClientConnections()
		w.Close()
	})
	return w
}

func (s *web) config() upstream.Config { return upstream.Config{URL: s.URL} }

func (s *web) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var m wire
	_ = json.Unmarshal(body, &m)
	known := s.note(seenRequest{r.Method, r.Header.Clone(), string(body), m})
	switch {
	case r.Method == http.MethodGet && s.stream != nil:
		s.stream(w, r)
	case r.Method == http.MethodGet, r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case m.Method == "server/discover":
		s.answerDiscover(w, m)
	case m.Method == "initialize":
		s.initialize(w, m)
	case s.session != "" && !known:
		http.Error(w, "session not found", http.StatusNotFound)
	case m.ID == nil && s.other[m.Method] == nil, m.Method == "":
		w.WriteHeader(http.StatusAccepted)
	default:
		s.answer(w, r, m)
	}
}

func (s *web) answer(w http.ResponseWriter, r *http.Request, m wire) {
	switch other := s.other[m.Method]; {
	case other != nil:
		other(w, r, m)
	case m.Method == "tools/list" && s.list != nil:
		s.list(w, m)
	case m.Method == "tools/list":
		sendJSON(w, m.ID, `{"tools":[{"name":"tool","inputSchema":{"type":"object"}}]}`)
	case m.Method == "tools/call" && s.call != nil:
		s.call(w, r, m)
	case m.Method == "tools/call":
		sendJSON(w, m.ID, `{"content":[{"type":"text","text":"ok"}]}`)
	case m.Method == "ping":
		sendJSON(w, m.ID, `{}`)
	case m.Method == "subscriptions/listen" && s.listen != nil:
		s.listen(w, r, m)
	default:
		sendError(w, http.StatusNotFound, m.ID, -32601, "Method not found")
	}
}

// note records a request and tells whether its session is open.
func (s *web) note(one seenRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, one)
	return s.open[one.header.Get("Mcp-Session-Id")]
}

// sights returns the requests with that JSON-RPC method (or HTTP method) so far.
func (s *web) sights(method string) []seenRequest {
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

// forget ends all sessions.
func (s *web) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = map[string]bool{}
}

func (s *web) answerDiscover(w http.ResponseWriter, m wire) {
	switch {
	case s.discover != nil:
		s.discover(w, m)
	case s.modern:
		sendJSON(w, m.ID, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":`+
			s.capabilities()+`,"ttlMs":0,"cacheScope":"private"}`)
	default:
		sendError(w, http.StatusBadRequest, nil, -32000, "Bad Request: Server not initialized")
	}
}

// initialize opens a session, unless the server is modern alone: then it knows no
// handshake, and a gateway that was too busy to hear in time what it says to discovery
// asks again later, instead of taking it for an older one.
func (s *web) initialize(w http.ResponseWriter, m wire) {
	if s.modern && s.speaks == "" {
		sendError(w, http.StatusNotFound, m.ID, -32601, "Method not found")
		return
	}
	if s.session != "" {
		s.mu.Lock()
		s.born++
		id := fmt.Sprintf("%s-%d", s.session, s.born)
		s.open[id] = true
		s.mu.Unlock()
		w.Header().Set("Mcp-Session-Id", id)
	}
	sendJSON(
		w, m.ID, fmt.Sprintf(
			`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"web","version":"1"}}`,
			cmp.Or(s.speaks, "2025-11-25"), s.capabilities()))
}

func (s *web) capabilities() string { return cmp.Or(s.declares, `{"tools":{"listChanged":true}}`) }

func sendJSON(w http.ResponseWriter, id json.RawMessage, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func sendError(w http.ResponseWriter, status int, id json.RawMessage, code int, message string) {
	if id == nil {
		id = json.RawMessage("null")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, id, code, message)
}

// events starts an event stream and returns what writes to it.
func events(w http.ResponseWriter) func(format string, args ...any) {
	w.Header().Set("Content-Type", "text/event-stream")
	flusher := http.NewResponseController(w)
	_ = flusher.Flush()
	return func(format string, args ...any) {
		fmt.Fprintf(w, format, args...)
		_ = flusher.Flush()
	}
}

const okResult = `{"content":[{"type":"text","text":"ok"}]}`

// data is an event of one message.
func data(message string, args ...any) string {
	return "data: " + strings.ReplaceAll(fmt.Sprintf(message, args...), "\n", "\ndata: ") + "\n\n"
}
