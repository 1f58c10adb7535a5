package upstream

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/pace"
)

// session is one session of the legacy side.
type session struct {
	side *side
	ctx  context.Context //nolint:containedctx // a session ends with it: by DELETE or a crash, not with a request
	end  context.CancelFunc

	mu        sync.Mutex // guards the fields below
	asked     int        // questions so far
	questions map[string]chan bool
	calls     map[string]context.CancelFunc // by the id of the request
	uris      map[string]bool               // that it has subscribed to
}

// serveLegacy serves revision 2025-11-25. A connection that closes cancels nothing: what
// was begun goes on as long as ctx, which is that of the server.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
func (s *Server) serveLegacy(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	side, id := s.legacy, r.Header.Get(mcp.HeaderSessionID)
	side.mu.Lock()
	known := side.sessions[id]
	side.mu.Unlock()
	if id != "" && known == nil {
		http.Error(w, "there is no such session", http.StatusNotFound)
		return
	}
	switch {
	case known != nil && r.Method == http.MethodGet:
		known.stream(w, r)
		return
	case known != nil && r.Method == http.MethodDelete:
		side.mu.Lock()
		delete(side.sessions, id)
		side.mu.Unlock()
		known.end()
		return
	}
	m, ok := receive(w, r)
	if !ok {
		return
	}
	out := &output{w: w}
	defer out.close()
	switch {
	case m.Method == mcp.MethodInitialize:
		side.initialize(ctx, w, m, out)
	case known == nil:
		refuse(w, http.StatusBadRequest, m.ID, mcp.CodeInvalidRequest, "initialize first")
	case m.ID == "" || m.IsResponse():
		known.hear(m)
		w.WriteHeader(http.StatusAccepted)
	case m.Method == mcp.MethodToolsCall:
		known.call(m, out)
	default:
		known.answer(m, out)
	}
}

// initialize opens a session, which ends with ctx at the latest.
func (s *side) initialize(ctx context.Context, w http.ResponseWriter, m *mcp.Message, out *output) {
	ctx, cancel := context.WithCancel(ctx)
	id := rand.Text()
	one := &session{
		side: s, ctx: ctx, end: cancel,
		questions: map[string]chan bool{}, calls: map[string]context.CancelFunc{}, uris: map[string]bool{},
	}
	s.mu.Lock()
	s.sessions[id] = one
	s.mu.Unlock()
	w.Header().Set(mcp.HeaderSessionID, id)
	out.end(
		resultOf(
			m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true}},`+
				`"serverInfo":{"name":"chaos","version":"1"}}`))
}

// hear takes a notification or an answer of the client.
func (s *session) hear(m *mcp.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Method == mcp.NotifyCancelled {
		if cancel := s.calls[string(m.Params.Value("requestId"))]; cancel != nil {
			cancel()
		}
	}
	if waiting := s.questions[string(m.ID)]; m.IsResponse() && waiting != nil {
		delete(s.questions, string(m.ID))
		waiting <- m.Err == nil && m.Result.Text("action") == "accept" // it has room
	}
}

// call serves a call, which goes on when its connection breaks.
func (s *session) call(m *mcp.Message, out *output) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	s.mu.Lock()
	s.calls[string(m.ID)] = cancel
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.calls, string(m.ID))
	}()
	c := newCall(s.side, m, out)
	c.ask = func(ctx context.Context, params string) bool { return s.ask(ctx, out, params) }
	c.serve(ctx)
}

// ask asks the client on the stream of a call and waits for the answer.
func (s *session) ask(ctx context.Context, out *output, params string) bool {
	waiting := make(chan bool, 1)
	s.mu.Lock()
	s.asked++
	id := fmt.Sprintf(`"q%d"`, s.asked)
	s.questions[id] = waiting
	s.mu.Unlock()
	out.event([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"elicitation/create","params":` + params +
		`}`))
	limited, cancel := context.WithTimeout(ctx, stayLimit)
	defer cancel()
	select {
	case sure := <-waiting:
		return sure
	case <-limited.Done():
		return false
	}
}

// answer answers what is no call.
func (s *session) answer(m *mcp.Message, out *output) {
	switch m.Method {
	case mcp.MethodSubscribe, mcp.MethodUnsubscribe:
		s.mu.Lock()
		s.uris[m.Params.Text("uri")] = m.Method == mcp.MethodSubscribe
		s.mu.Unlock()
		out.end(resultOf(m.ID, `{}`))
	default:
		if !s.side.answer(out, m) {
			out.end(errorOf(m.ID, mcp.CodeMethodNotFound, "there is no such method"))
		}
	}
}

// stream is the stream of a session on which changes are told.
func (s *session) stream(w http.ResponseWriter, r *http.Request) {
	out := &output{w: w}
	defer out.close()
	leave := s.side.listen(&listener{
		tell: func(method string,
			params mcp.Object,
		) {
			out.event(mcp.AppendRequest(nil, "", method, params))
		},
		wants: func(uri string) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return uri == "" || s.uris[uri]
		},
	})
	defer leave()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	for out.comment(); pace.Wait(ctx, heartbeat); {
		out.comment()
	}
}
