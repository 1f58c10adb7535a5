package upstream

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

// session is one session of the legacy side.
type session struct {
	side *side
	ctx  context.Context //nolint:containedctx // a session ends with it: by DELETE or a crash, not with a request
	end  context.CancelFunc

	questions questions
	calls     sync.Map // the context.CancelFunc of each call by the id of its request
	uris      sync.Map // true for each that it has subscribed to
}

// serveLegacy serves revision 2025-11-25. A connection that closes cancels nothing: what
// was begun goes on as long as ctx, which is that of the server.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
func (s *Server) serveLegacy(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	side, id := s.legacy, r.Header.Get(mcp.HeaderSessionID)
	found, _ := side.sessions.Load(id)
	known, _ := found.(*session)
	if id != "" && known == nil {
		http.Error(w, "there is no such session", http.StatusNotFound)
		return
	}
	switch {
	case known != nil && r.Method == http.MethodGet:
		known.stream(w, r)
		return
	case known != nil && r.Method == http.MethodDelete:
		side.sessions.Delete(id)
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
	s.sessions.Store(id, &session{side: s, ctx: ctx, end: cancel})
	w.Header().Set(mcp.HeaderSessionID, id)
	out.end(
		resultOf(
			m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true}},`+
				`"serverInfo":{"name":"chaos","version":"1"}}`))
}

// hear takes a notification or an answer of the client.
func (s *session) hear(m *mcp.Message) {
	if m.IsResponse() {
		s.questions.answer(m)
	}
	if m.Method == mcp.NotifyCancelled {
		if cancel, found := s.calls.Load(string(m.Params.Value("requestId"))); found {
			cancel.(context.CancelFunc)() //nolint:forcetypeassert // no others are stored
		}
	}
}

// call serves a call, which goes on when its connection breaks.
func (s *session) call(m *mcp.Message, out *output) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	s.calls.Store(string(m.ID), cancel)
	defer s.calls.Delete(string(m.ID))
	c := newCall(s.side, m, out)
	c.ask = func(ctx context.Context, params string) bool {
		limited, cancel := context.WithTimeout(ctx, stayLimit)
		defer cancel()
		return s.questions.ask(limited, out.event, params)
	}
	c.serve(ctx)
}

// answer answers what is no call.
func (s *session) answer(m *mcp.Message, out *output) {
	switch m.Method {
	case mcp.MethodSubscribe:
		s.uris.Store(m.Params.Text("uri"), true)
		out.end(resultOf(m.ID, `{}`))
	case mcp.MethodUnsubscribe:
		s.uris.Delete(m.Params.Text("uri"))
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
		tell: func(method string, params mcp.Object) {
			out.event(mcp.AppendRequest(nil, "", method, params))
		},
		wants: func(uri string) bool {
			_, subscribed := s.uris.Load(uri)
			return uri == "" || subscribed
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
