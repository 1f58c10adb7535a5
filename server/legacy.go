package server

import (
	"context"
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// legacy answers one message of a session over Streamable HTTP.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
func (s *Server) legacy(x *exchange, r *http.Request, m *mcp.Message) {
	if m.IsRequest() && m.Method == mcp.MethodInitialize {
		s.initialize(x.context(), x, m)
		return
	}
	l, refused := s.sessions.of(x, r)
	if refused == nil {
		refused = checkRevision(r.Header, l)
	}
	switch {
	case refused != nil:
		x.refuse(m.ID, refused)
	case !m.IsRequest():
		x.acknowledge(s.notified(x.context(), l, m))
	default:
		s.legacyRequest(x, l, m)
	}
}

// checkRevision checks the header that repeats the negotiated revision. Clients may leave it out, and some name another
// revision than was negotiated, so any revision that a session can have is accepted.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#protocol-version-header
func checkRevision(h http.Header, l *live) *refusal {
	values := h[mcp.HeaderProtocolVersion]
	if len(values) == 0 || len(values) == 1 && (values[0] == l.speaks() || mcp.EraOf(values[0]) == mcp.Legacy) {
		return nil
	}
	return refuseAs(http.StatusBadRequest, mcp.CodeInvalidRequest, "Invalid request: Mcp-Protocol-Version names no revision that is served in a session")
}

// acknowledge answers the request of a message that needs no answer.
func (x *exchange) acknowledge(refused *refusal) {
	if refused != nil {
		x.refuse("", refused)
		return
	}
	x.writeStatus(http.StatusAccepted)
}

// notified takes a message that needs no answer. That the roots of a client changed needs no action: they are asked for
// anew each time.
func (s *Server) notified(ctx context.Context, l *live, m *mcp.Message) *refusal {
	switch {
	case m.IsResponse():
		return s.answered(ctx, l, m)
	case m.Method == mcp.NotifyInitialized:
		l.begin()
	case m.Method == mcp.NotifyCancelled:
		id := mcp.ID(m.Params.Value("requestId"))
		if id == "" || len(id) > mcp.MaxID {
			return nil // no request has it, and all replicas would be told of it, however large it is
		}
		if !l.cancel(id) && l.shared {
			s.cancelElsewhere(ctx, l, id)
		}
	}
	return nil
}

// legacyCall is what answers one request, in one piece of memory.
type legacyCall struct {
	job   job
	reply reply
	line  line
}

// legacyRequest answers one request. The call goes on if the connection breaks, because the client can resume.
func (s *Server) legacyRequest(x *exchange, l *live, m *mcp.Message) {
	if m.Method == mcp.MethodPing {
		x.writeJSON(http.StatusOK, mcp.AppendResult(nil, m.ID, mcp.Object{}))
		return
	}
	c := &legacyCall{}
	j, p := &c.job, &c.reply
	ctx, refused := s.beginLegacy(x.outliving(), x, l, j, m.ID)
	if refused != nil {
		x.refuse(m.ID, refused)
		return
	}
	defer s.jobs.finish(j)
	defer l.leave(j)
	p.begin(x, l, m.ID)
	c.line = p.line()
	c.line.room = &j.answer
	a := s.legacyAnswer(ctx, x.caller, x.id, l, m, &c.line)
	l.answered(j)
	if a.silent {
		p.finish(ctx, 0, nil, noMessage)
		x.conclude(a.word())
		return
	}
	status := http.StatusOK
	if a.err != nil {
		status = statusOf(a.err.Code, mcp.Legacy)
	}
	if a.err == errIDInUse.told {
		status = errIDInUse.status
	}
	if status == http.StatusOK && x.prefersStream {
		p.follow()
	}
	if p.decide() == "" && a.err != nil {
		x.answerError(a.id, a.err, status)
		return
	}
	p.finish(ctx, status, s.payload(ctx, &a, x.id), func() []byte { return a.unkept(x.id) })
	x.conclude(a.word())
}

// conclude notes for the log how a request ended, unless the stream of its answer, which has ended, was refused or revoked.
func (x *exchange) conclude(outcome string) {
	if x.outcome == outcomeOK {
		x.outcome = outcome
	}
}

// beginLegacy makes j, which is new, a job of a session. The context that it returns ends when the client cancels the request, its caller
// is not accepted any more, the session ends, or the process stops.
func (s *Server) beginLegacy(ctx context.Context, x *exchange, l *live, j *job, id mcp.ID) (context.Context, *refusal) {
	ctx, refused := s.beginJob(ctx, x, j, id)
	if refused != nil {
		return ctx, refused
	}
	if refused := l.enter(j); refused != nil {
		s.jobs.finish(j)
		return ctx, refused
	}
	return ctx, nil
}

// legacyAnswer runs one request of a session, and brings its result into the form of the session's revision.
func (s *Server) legacyAnswer(ctx context.Context, c gateway.Caller, id string, l *live, m *mcp.Message, way *line) answer {
	a := answer{id: m.ID, shared: sharedBy(m.Method), room: way.room}
	if !hasMethod(l.speaks(), m.Method) {
		a.err = errUnknownMethod
		return a
	}
	switch m.Method {
	case mcp.MethodSetLevel:
		a.err = s.setLevel(ctx, l, m.Params)
	case mcp.MethodSubscribe:
		if a.err = s.subscribe(ctx, c, id, l, m.Params); a.err != nil {
			_, a.err = lowerError(m.Method, a.err)
		}
	case mcp.MethodUnsubscribe:
		a.err = s.unsubscribe(ctx, l, m.Params)
	default:
		a.result, a.err = s.inRounds(ctx, c, l, way, id, m)
		if a.err == nil {
			a.result = lower(l.speaks(), m.Method, a.result)
		}
	}
	if a.err == errReplicas.told { // of a method of the door, so that the desk has not counted it
		s.config.Metrics.Refused(recordedAs(errReplicas.status), c.Tenant.ID, a.err.StableCode())
	}
	if context.Cause(ctx) == errCancelled { //nolint:errorlint // the cause itself, not what may wrap it
		return answer{id: m.ID, silent: true}
	}
	if isRevoked(ctx) {
		return answer{id: m.ID, err: errGone}
	}
	return a
}

// hasMethod tells whether sessions of that revision have the method. It is true for a method that nobody knows: the
// desk refuses that.
func hasMethod(revision, method string) bool {
	known := mcp.MethodOf(method)
	return known.Only != mcp.Modern && (!known.OfTasks() || tasksIn(revision) != 0)
}

// tasksIn returns the form of tasks that clients of the revision know.
func tasksIn(revision string) mcp.Tasks {
	if revision == mcp.Revision2511 {
		return mcp.TasksAsked
	}
	return 0
}

// get opens a stream of a session: either a new one, for messages that no request of the client caused, or the rest of
// one that broke.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#listening-for-messages-from-the-server
func (s *Server) get(x *exchange, r *http.Request) {
	if _, named := r.Header[mcp.HeaderSessionID]; !named {
		x.Header().Set("Allow", "POST")
		x.refuse("", errMethod)
		return
	}
	x.era = mcp.Legacy
	f, refused := s.findFeed(x, r)
	if refused != nil {
		x.refuse("", refused)
		return
	}
	s.leave(x)
	s.serveFeed(x.context(), x, r, f)
}

// findFeed returns what a GET is to be answered with, with the place for its stream.
func (s *Server) findFeed(x *exchange, r *http.Request) (*feed, *refusal) {
	l, refused := s.sessions.of(x, r)
	if refused == nil {
		refused = checkRevision(r.Header, l)
	}
	if refused == nil && !x.acceptsStream {
		refused = errAccept
	}
	f := &feed{session: l, numbered: true}
	if refused == nil {
		refused = s.chooseStream(x, r, f)
	}
	if refused == nil {
		f.place, refused = s.takeLastingPlace(x, r, "get")
	}
	return f, refused
}

// chooseStream decides which stream a GET gets. Notices of changed lists go only to streams that a GET opened, and each
// message goes to one stream only.
func (s *Server) chooseStream(x *exchange, r *http.Request, f *feed) *refusal {
	switch last := r.Header[mcp.HeaderLastEventID]; len(last) {
	case 0:
		f.stream = f.session.nextStream('g', "")
		lasting, refused := s.beginStream(x.context(), f.session, f.stream)
		if refused != nil {
			return refused
		}
		if f.numbered = lasting; lasting {
			f.first = f.session.priming(f.stream)
		}
	case 1:
		stream, err := s.config.Log.Find(x.context(), f.session.inLog(), last[0])
		if err != nil {
			return ofLog(err, errEvent)
		}
		if stream[0] != 'g' && stream[0] != 'p' {
			return errEvent
		}
		f.stream, f.after = stream, last[0]
	default:
		return errEvent
	}
	f.tells = f.stream[0] == 'g'
	return nil
}

// delete ends a session.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
func (s *Server) delete(x *exchange, r *http.Request) {
	x.era = mcp.Legacy
	l, refused := s.sessions.of(x, r)
	if refused == nil {
		refused = checkRevision(r.Header, l)
	}
	if refused != nil {
		x.refuse("", refused)
		return
	}
	if refused := s.sessions.delete(x.context(), l); refused != nil {
		x.refuse("", refused)
		return
	}
	x.writeStatus(http.StatusNoContent)
}
