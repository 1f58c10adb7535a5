package server

import (
	"context"
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
)

// sseStream is the one stream of a session over HTTP+SSE.
const sseStream = "s"

// openSSE opens a session together with its one stream, and tells the client where to
// post its messages. When the stream ends, the session ends too.
// https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse
func (s *Server) openSSE(w http.ResponseWriter, r *http.Request) {
	x := of(w)
	x.era = mcp.Legacy
	x.readAccept(r.Header)
	if r.Method != http.MethodGet {
		x.Header().Set("Allow", "GET")
		x.refuse("", errMethod)
		return
	}
	if !x.acceptsStream {
		x.refuse("", errAccept)
		return
	}
	place, refused := s.takeLastingPlace(x, r, streamOfSession)
	if refused != nil {
		x.refuse("", refused)
		return
	}
	l, id, refused := s.openSession(x.context(), x, purposeSSE, terms{revision: mcp.Revision2024})
	if refused != nil {
		place.leave()
		x.refuse("", refused)
		return
	}
	s.config.Metrics.DeprecatedUsed(x.caller.Tenant.ID, "sse")
	if _, refused := s.beginStream(x.context(), l, sseStream); refused != nil {
		s.sessions.end(x.context(), l, endClosed)
		place.leave()
		x.refuse("", refused)
		return
	}
	l.claim(s.desk.Lists(x.caller), "") // the client has yet to list: what it sees now is no change
	x.release()
	// The address is a path from the root that clients see, because some of them append
	// it to the origin.
	address := x.settings.publicPath() + messagesPath + "?sessionId=" + id
	s.serveFeed(x.context(), x, r, &feed{
		session: l, stream: sseStream, event: "message", tells: true, owns: true, place: place,
		first: &sse.Event{Type: "endpoint", Data: []byte(address)},
	})
}

// postMessage takes a message of a session over HTTP+SSE. The answer does not come in the
// response, but on the stream of the session.
func (s *Server) postMessage(w http.ResponseWriter, r *http.Request) {
	x := of(w)
	x.era = mcp.Legacy
	if r.Method != http.MethodPost {
		x.Header().Set("Allow", "POST")
		x.refuse("", errMethod)
		return
	}
	id, refused := sessionOfQuery(r)
	if refused != nil {
		x.refuse("", refused)
		return
	}
	home, elsewhere := s.sessions.home(id, x.caller)
	elsewhere = elsewhere && !x.forwarded
	var l *live
	if !elsewhere {
		l, refused = s.sessions.find(x.context(), purposeSSE, id, x.caller)
	}
	if refused != nil {
		x.refuse("", refused)
		return
	}
	raw, refused := s.exchanges.readBody(x, r)
	if refused != nil {
		x.refuse("", refused)
		return
	}
	if raw.IsArray() {
		x.refuse("", errBatch)
		return
	}
	m := x.decode(raw)
	switch {
	case m == nil:
	case elsewhere && s.config.Others.IsThere(home):
		if s.forward(x, r, home, m, raw) != forwardDone {
			x.refuse(m.ID, errReplicas)
		}
	case elsewhere:
		x.refuse(m.ID, s.missing(x.context()))
	case !m.IsRequest():
		x.acknowledge(s.notified(x.context(), l, m))
	default:
		if refused := s.takeRequest(x, l, m); refused != nil {
			x.refuse(m.ID, refused)
			return
		}
		x.writeStatus(http.StatusAccepted)
	}
}

// sessionOfQuery returns the id of the session that the query names.
func sessionOfQuery(r *http.Request) (string, *refusal) {
	ids := r.URL.Query()["sessionId"]
	if len(ids) == 0 {
		return "", errNoSession
	}
	if len(ids) == 1 && len(ids[0]) <= seal.MaxLength {
		return ids[0], nil
	}
	return "", errSession
}

// takeRequest has a goroutine answer a request on the stream of the session.
func (s *Server) takeRequest(x *exchange, l *live, m *mcp.Message) *refusal {
	j := &job{}
	ctx, refused := s.beginLegacy(x.outliving(), x, l, j, m.ID)
	if refused != nil {
		return refused
	}
	way := &sseWay{server: s, session: l, taken: x.held} // belongs to the goroutine from here on
	x.held = held{}
	go s.exchanges.safely(ctx, func() { // Wait waits for it
		defer s.exchanges.jobs.finish(j)
		defer l.leave(j)
		defer func() { way.taken.release() }()
		if !s.exchanges.safely(ctx, func() { s.answerSSE(ctx, x, l, m, j, way) }) {
			s.sessions.end(ctx, l, endClosed) // its client would wait for the answer for ever
		}
	})
	return nil
}

// sseWay leads to the client of one request: everything goes on the stream of the
// session.
type sseWay struct {
	server  *Server
	session *live
	taken   held // by the request
}

var _ passage = (*sseWay)(nil)

func (p *sseWay) send(ctx context.Context, message []byte) error {
	_, err := p.server.config.Log.Append(ctx, p.session.inLog(), sseStream, message, false)
	return err
}

func (p *sseWay) rest() { p.taken.releaseSlot() }

// answerSSE runs one request, and appends all that comes of it to the stream of the
// session. A panic in the request is answered with an error.
func (s *Server) answerSSE(ctx context.Context, x *exchange, l *live, m *mcp.Message, j *job, way *sseWay) {
	a := answer{id: m.ID, err: errPanic.told}
	s.exchanges.safely(ctx, func() {
		switch m.Method {
		case mcp.MethodInitialize:
			a = s.agreeSSE(x, l, m)
		case mcp.MethodPing:
			a = answer{id: m.ID}
		default:
			a = s.legacyAnswer(ctx, x.caller, x.id, l, m, &line{
				passage: way, carriesQuestions: true,
				body: way.taken.body.Held(), room: &j.answer,
			})
		}
	})
	l.answered(j)
	if a.silent {
		return
	}
	ctx = context.WithoutCancel(ctx)
	err := way.send(ctx, s.exchanges.message(ctx, &a, x.id))
	if ofMemory(err) != nil {
		s.exchanges.log.WarnContext(ctx, "answer not kept", "error", err)
		err = way.send(ctx, a.unkept(x.id))
	}
	if err != nil {
		// the session has ended, and its stream with it
		s.exchanges.log.DebugContext(ctx, "answer not kept", "error", err)
	}
}

// agreeSSE answers the handshake of a session over HTTP+SSE, in which newer clients may
// ask for newer revisions.
func (s *Server) agreeSSE(x *exchange, l *live, m *mcp.Message) answer {
	if refused := checkInitialize(m); refused != nil {
		x.recordRefusal(refused)
		return answer{id: m.ID, err: refused.told}
	}
	revision := negotiate(m.Params.Text("protocolVersion"))
	l.agree(s.termsOf(x.context(), x, revision, m))
	return answer{id: m.ID, result: s.welcome(x, revision)}
}
