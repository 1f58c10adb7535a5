package legacy

import (
	"context"
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
	"github.com/drawbridge-mcp/drawbridge/server/streams"
	"github.com/drawbridge-mcp/drawbridge/server/ticket"
)

// sseStream is the one stream of a session over HTTP+SSE.
const sseStream = "s"

// OpenSSE opens a session together with its one stream, and tells the client where to
// post its messages. When the stream ends, the session ends too.
// https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse
func (s *Service) OpenSSE(w http.ResponseWriter, r *http.Request) {
	x := exchange.Of(w)
	x.Era = mcp.Legacy
	x.ReadAccept(r.Header)
	if r.Method != http.MethodGet {
		x.RefuseMethod("GET")
		return
	}
	if !x.AcceptsStream {
		x.Refuse("", exchange.ErrAccept)
		return
	}
	slot, refused := s.streams.TakeLastingSlot(x, streams.KindSession)
	if x.Refuses("", refused) {
		return
	}
	l, id, refused := s.sessions.Open(x.Context(), ticket.SSE, x.Caller,
		ticket.Terms{Revision: mcp.Revision2024})
	if x.Refuses("", refused) {
		slot.Release()
		return
	}
	s.config.Metrics.DeprecatedUsed(x.Caller.Tenant.ID, "sse")
	if _, refused := s.beginStream(x.Context(), l, sseStream); x.Refuses("", refused) {
		s.sessions.End(x.Context(), l, sessions.EndClosed)
		slot.Release()
		return
	}
	l.Assign(s.desk.Lists(x.Caller), "") // the client has yet to list: what it sees now is no change
	x.Release()
	// The address is a path from the root that clients see, because some of them append
	// it to the origin.
	address := x.Settings.PublicPath() + exchange.MessagesPath + "?sessionId=" + id
	s.serveFeed(x.Context(), x, &feed{
		session: l, stream: sseStream, event: "message", tells: true, owns: true, slot: slot,
		first: &sse.Event{Type: "endpoint", Data: []byte(address)},
	})
}

// PostMessage takes a message of a session over HTTP+SSE. The answer does not come in the
// response, but on the stream of the session.
func (s *Service) PostMessage(w http.ResponseWriter, r *http.Request) {
	x := exchange.Of(w)
	x.Era = mcp.Legacy
	if r.Method != http.MethodPost {
		x.RefuseMethod("POST")
		return
	}
	l, home, refused := s.sessions.Find(x)
	if x.Refuses("", refused) {
		return
	}
	raw, refused := s.exchanges.ReadBody(x, r)
	if x.Refuses("", refused) {
		return
	}
	if raw.IsArray() {
		x.Refuse("", exchange.ErrBatch)
		return
	}
	m := x.Decode(raw)
	switch {
	case m == nil:
	case home != "":
		if !s.forwarder.Deliver(x, home, m, raw) { // the session has ended with its stream
			x.Refuse(m.ID, sessions.Miss(x.Context(), sessions.LostRestart))
		}
	case !m.IsRequest():
		x.Acknowledge(s.notified(x.Context(), x, l, m))
	default:
		if !x.Refuses(m.ID, s.takeRequest(x, l, m)) {
			x.WriteStatus(http.StatusAccepted)
		}
	}
}

// takeRequest has a goroutine answer a request on the stream of the session.
func (s *Service) takeRequest(x *exchange.Exchange, l *sessions.Session, m *mcp.Message) *exchange.Refusal {
	j, agreed := &exchange.Job{}, ticket.Terms{}
	if m.Method == mcp.MethodInitialize { // here, because the goroutine may not change the exchange
		agreed = s.termsOf(x.Context(), x, negotiate(m.Params.Text("protocolVersion")), m)
	}
	ctx, refused := s.beginLegacy(x.Outliving(), x, l, j, m.ID, false)
	if refused != nil {
		return refused
	}
	// belongs to the goroutine from here on
	sender := &sseSender{server: s, session: l, taken: x.Reservation, agreed: agreed}
	x.Reservation = exchange.Reservation{}
	go s.exchanges.Safely(ctx, func() { // Wait waits for it
		defer s.exchanges.Jobs.Finish(j)
		defer l.EndJob(j)
		defer func() { sender.taken.Release() }()
		if !s.exchanges.Safely(ctx, func() { s.answerSSE(ctx, x, l, m, j, sender) }) {
			s.sessions.End(ctx, l, sessions.EndClosed) // its client would wait for the answer for ever
		}
	})
	return nil
}

// sseSender leads to the client of one request: everything goes on the stream of the
// session.
type sseSender struct {
	server  *Service
	session *sessions.Session
	taken   exchange.Reservation // by the request
	agreed  ticket.Terms         // by the handshake, if the request is that
}

var _ sender = (*sseSender)(nil)

func (p *sseSender) send(ctx context.Context, message []byte) error {
	_, err := p.server.config.Log.Append(ctx, p.session.InLog(), sseStream, message, false)
	return err
}

func (p *sseSender) releaseSlot() { p.taken.ReleaseSlot() }

// answerSSE runs one request, and appends all that comes of it to the stream of the
// session. A panic in the request is answered with an error.
func (s *Service) answerSSE(ctx context.Context, x *exchange.Exchange, l *sessions.Session, m *mcp.Message,
	j *exchange.Job, sender *sseSender,
) {
	a := exchange.Answer{ID: m.ID, Err: exchange.ErrPanic.Err}
	s.exchanges.Safely(ctx, func() {
		if m.Method == mcp.MethodInitialize {
			a = s.agreeSSE(x, l, m, sender.agreed)
			return
		}
		a = s.legacyAnswer(ctx, x, l, m, &responder{
			sender: sender, carriesQuestions: true,
			body: sender.taken.Body.Size(), memory: &j.Answer,
		})
	})
	l.Answered(j)
	if a.Silent {
		return
	}
	ctx = context.WithoutCancel(ctx)
	err := sender.send(ctx, s.exchanges.Message(ctx, &a, x.ID))
	if exchange.RefusalOfMemory(err) != nil {
		s.exchanges.Log.WarnContext(ctx, "answer not kept", "error", err)
		err = sender.send(ctx, a.Unkept(x.ID))
	}
	if err != nil {
		// the session has ended, and its stream with it
		s.exchanges.Log.DebugContext(ctx, "answer not kept", "error", err)
	}
}

// agreeSSE answers the handshake of a session over HTTP+SSE, in which newer clients may
// ask for newer revisions.
func (s *Service) agreeSSE(x *exchange.Exchange, l *sessions.Session, m *mcp.Message,
	agreed ticket.Terms,
) exchange.Answer {
	if refused := checkInitialize(m); refused != nil {
		x.RecordRefusal(refused)
		return exchange.Answer{ID: m.ID, Err: refused.Err}
	}
	l.Agree(agreed)
	return exchange.Answer{ID: m.ID, Result: s.welcome(x, agreed.Revision)}
}
