package server

import (
	"context"
	"net/http"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
)

// legacy answers one message of a session over Streamable HTTP.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
func (s *Server) legacy(x *exchange, r *http.Request, m *mcp.Message, body []byte) {
	if m.IsRequest() && m.Method == mcp.MethodInitialize {
		s.initialize(x.context(), x, m)
		return
	}
	t, refused := s.sessions.of(x, r)
	var l *live
	switch {
	case refused != nil:
	case x.linkNote == noteFormer:
		s.asFormer(x, t, m)
		return
	case s.isHome(m):
		l, refused = s.sessions.guest(x.context(), t, x.caller)
	default:
		if l = s.route(x, t, m.ID,
			func(to replica.ID) outcome { return s.forward(x, r, to, m, body) }); l == nil {
			return
		}
	}
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

// isHome tells whether this replica has what a message is about, a question or a task,
// whoever leads the session.
func (s *Server) isHome(m *mcp.Message) bool {
	if m.IsResponse() {
		id, _ := mcp.RawJSON(m.ID).Text()
		at, _ := homeOf(id)
		return at == s.config.Others.Self()
	}
	return m.IsRequest() && mcp.MethodOf(m.Method).OfTasks() // what lives elsewhere was forwarded there
}

// asFormer does what a client asks for with the calls that this replica began when it led
// the session.
func (s *Server) asFormer(x *exchange, t *ticket, m *mcp.Message) {
	l := s.sessions.roster.find(t.key)
	switch {
	case l == nil:
		x.refuse(m.ID, errElsewhere)
		return
	case m.Method == mcp.NotifyCancelled:
		l.cancel(mcp.ID(m.Params.Value("requestId")))
	case m.Method == mcp.MethodSetLevel:
		if level, ok := mcp.LevelOf(m.Params.Text("level")); ok {
			l.wantLogs(level)
		}
	}
	x.writeStatus(http.StatusAccepted)
}

// checkRevision checks the header that repeats the negotiated revision. Clients may leave
// it out, and some name another revision than was negotiated, so any revision that a
// session can have is accepted.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#protocol-version-header
func checkRevision(h http.Header, l *live) *refusal {
	values := h[mcp.HeaderProtocolVersion]
	if len(values) == 0 || len(values) == 1 &&
		(values[0] == l.speaks() || mcp.EraOf(values[0]) == mcp.Legacy) {
		return nil
	}
	return refuseAs(http.StatusBadRequest, mcp.CodeInvalidRequest,
		"Invalid request: Mcp-Protocol-Version names no revision that is served in a session")
}

// notified takes a message that needs no answer. That the roots of a client changed needs
// no action: they are asked for anew each time.
func (s *Server) notified(ctx context.Context, l *live, m *mcp.Message) *refusal {
	switch {
	case m.IsResponse():
		return s.answered(ctx, l, m)
	case m.Method == mcp.NotifyInitialized:
		l.begin()
	case m.Method == mcp.NotifyCancelled:
		id := mcp.ID(m.Params.Value("requestId"))
		if id == "" || len(id) > mcp.MaxID {
			return nil // no request has it
		}
		if !l.cancel(id) && l.runsFormerly(id) {
			s.tellFormer(ctx, exchangeIn(ctx), l, mcp.AppendRequest(nil, "", m.Method, m.Params))
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

// legacyRequest answers one request. The call goes on if the connection breaks, because
// the client can resume.
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
	defer s.exchanges.jobs.finish(j)
	defer l.leave(j)
	p.begin(s, x, l, m.ID)
	c.line = p.line()
	c.line.room = &j.answer
	a := s.legacyAnswer(ctx, x.caller, x.id, l, m, &c.line)
	x.ended = a.ended
	l.answered(j)
	if a.silent {
		p.finish(ctx, 0, nil, noMessage)
		x.conclude(a.outcome())
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
		s.exchanges.delayLimited(x, a.err)
		x.answerError(a.id, a.err, status)
		return
	}
	p.finish(ctx, status, s.exchanges.payload(ctx, &a, x.id), func() []byte { return a.unkept(x.id) })
	x.conclude(a.outcome())
}

// beginLegacy makes j, which is new, a job of a session. The context that it returns ends
// when the client cancels the request, its caller is not accepted any more, the session
// ends, or the process stops.
func (s *Server) beginLegacy(ctx context.Context, x *exchange, l *live, j *job,
	id mcp.ID,
) (context.Context, *refusal) {
	ctx, refused := s.exchanges.beginJob(ctx, x, j, id)
	if refused != nil {
		return ctx, refused
	}
	if refused := l.enter(j); refused != nil {
		s.exchanges.jobs.finish(j)
		return ctx, refused
	}
	return ctx, nil
}

// legacyAnswer runs one request of a session, and brings its result into the form of the
// session's revision.
func (s *Server) legacyAnswer(ctx context.Context, c gateway.Caller, id string, l *live, m *mcp.Message,
	way *line,
) answer {
	a := answer{id: m.ID, shared: sharedBy(m.Method), room: way.room}
	if !hasMethod(l.speaks(), m.Method) {
		a.err = errUnknownMethod
		return a
	}
	switch m.Method {
	case mcp.MethodSetLevel:
		if a.err = s.setLevel(ctx, l, m.Params); a.err == nil {
			s.tellFormer(ctx, exchangeIn(ctx), l, mcp.AppendRequest(nil, m.ID, m.Method, m.Params))
		}
	case mcp.MethodSubscribe:
		if a.err = s.subscribe(ctx, c, id, l, m.Params); a.err != nil {
			_, a.err = lowerError(m.Method, a.err)
		}
	case mcp.MethodUnsubscribe:
		a.err = s.unsubscribe(ctx, l, m.Params)
	default:
		a.result, a.err = s.inRounds(ctx, c, l, way, id, m)
		a.ended = way.rounds.request.Ended.Outcome
		if a.err == nil {
			a.result = lower(l.speaks(), m.Method, a.result)
		}
	}
	if context.Cause(ctx) == errCancelled { //nolint:errorlint // the cause itself, not what may wrap it
		return answer{id: m.ID, silent: true}
	}
	if isRevoked(ctx) {
		return answer{id: m.ID, err: errGone}
	}
	return a
}

// hasMethod tells whether sessions of that revision have the method. It is true for a
// method that nobody knows: the desk refuses that.
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

// get opens a stream of a session: either a new one, for messages that no request of the
// client caused, or the rest of one that broke.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#listening-for-messages-from-the-server
func (s *Server) get(x *exchange, r *http.Request) {
	if _, named := r.Header[mcp.HeaderSessionID]; !named {
		x.Header().Set("Allow", "POST")
		x.refuse("", errMethod)
		return
	}
	x.era = mcp.Legacy
	if x.forwarded {
		s.listenElsewhere(x, r, x.linkNote)
		return
	}
	if f := s.findFeed(x, r); f != nil {
		x.release()
		s.serveFeed(x.context(), x, r, f)
	}
}

// findFeed returns what a GET is to be answered with, with the place for its stream. It
// is nil if the GET was refused. Where another replica leads the session, that one has
// agreed and knows of the stream.
func (s *Server) findFeed(x *exchange, r *http.Request) *feed {
	t, refused := s.sessions.of(x, r)
	if refused != nil {
		x.refuse("", refused)
		return nil
	}
	f, known := &feed{numbered: true}, false
	l := s.route(x, t, "", func(to replica.ID) outcome {
		if f.session == nil {
			follower, refused := s.sessions.enter(x.context(), t, x.caller)
			if refused == nil {
				refused = s.nameStream(x, r, f, follower)
			}
			if refused != nil {
				x.refuse("", refused)
				return forwardDone
			}
			follower.expectStream(f.stream)
		}
		said := s.announce(x, r, f, to)
		known = said == forwardTaken
		return said
	})
	if l == nil && !known {
		s.giveUpFeed(f)
		return nil
	}
	if f.session == nil {
		refused = s.nameStream(x, r, f, l)
	}
	if refused == nil {
		refused = s.beginFeed(x, r, f)
	}
	if refused != nil {
		x.refuse("", refused)
		s.giveUpFeed(f)
		if at := f.session.primaryOf(); known && at != "" && f.stream != "" {
			s.letGo(x.context(), f.session, f.stream, at, f.session.epoch())
		}
		return nil
	}
	if l != nil {
		s.takeStream(x.context(), l, f.stream)
	}
	return f
}

// nameStream decides which stream a GET gets. Notices of changed lists go only to streams
// that a GET opened, and each message goes to one stream only. The name is "" where no
// stream has the event after which the client wants to go on.
func (s *Server) nameStream(x *exchange, r *http.Request, f *feed, l *live) *refusal {
	f.session = l
	refused := checkRevision(r.Header, l)
	if refused == nil && !x.acceptsStream {
		refused = errAccept
	}
	switch last := r.Header[mcp.HeaderLastEventID]; {
	case refused != nil:
	case len(last) == 0:
		f.stream = l.nextStream('g', "")
	case len(last) == 1:
		name, err := s.config.Log.Find(x.context(), l.inLog(), last[0])
		switch {
		case err == nil && (name[0] == 'g' || name[0] == 'p'):
			f.stream, f.after = name, last[0]
		case ofLog(err, errEvent) == errReplicas:
			return errReplicas // the stream stays where it is
		}
	}
	f.tells = f.stream != "" && f.stream[0] == 'g'
	return refused
}

// beginFeed begins the stream of a GET, or finds the rest of one, and takes the place for
// it.
func (s *Server) beginFeed(x *exchange, r *http.Request, f *feed) (refused *refusal) {
	switch {
	case f.stream == "":
		return errEvent
	case f.after == "":
		if f.numbered, refused = s.beginStream(x.context(), f.session, f.stream); refused != nil {
			return refused
		}
		if f.numbered {
			f.first = f.session.priming(f.stream)
		}
	}
	f.session.use(time.Now(), s.sessions.maxAge, x.principal)
	f.place, refused = s.takeLastingPlace(x, r, "get")
	return refused
}

// giveUpFeed lets go of what a GET has taken that is not answered with a stream.
func (s *Server) giveUpFeed(f *feed) {
	if f.place != nil {
		f.place.leave()
	}
	if f.session != nil {
		f.session.streamOpened(f.stream)
	}
	if f.session != nil && !f.session.isLeading() && !f.session.isBusy() {
		s.sessions.drop(f.session, endIdle)
	}
}

// delete ends a session.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
func (s *Server) delete(x *exchange, r *http.Request) {
	x.era = mcp.Legacy
	t, refused := s.sessions.of(x, r)
	if refused != nil {
		x.refuse("", refused)
		return
	}
	if x.linkNote == noteFormer {
		if l := s.sessions.roster.find(t.key); l != nil {
			s.sessions.drop(l, endClosed)
		}
		x.writeStatus(http.StatusNoContent)
		return
	}
	l := s.route(
		x, t, "", func(
			to replica.ID,
		) outcome {
			return s.forward(x, r, to, &mcp.Message{Method: http.MethodDelete}, nil)
		})
	if l == nil {
		return
	}
	if refused := checkRevision(r.Header, l); refused != nil {
		x.refuse("", refused)
		return
	}
	switch refused := s.endByClient(x, l); {
	case refused == errElsewhere && !x.forwarded:
		x.refuse("", errReplicas) // the next try finds the other
	case refused != nil:
		x.refuse("", refused)
	default:
		x.writeStatus(http.StatusNoContent)
	}
}

// endByClient ends a session wherever something of it is. When it returns nil, nobody
// serves the session any more.
func (s *Server) endByClient(x *exchange, l *live) *refusal {
	former := l.formerOf()
	at := l.streamsAt()
	if refused := s.sessions.delete(x.context(), l); refused != nil {
		return refused
	}
	for stream, one := range at {
		s.letGo(x.context(), l, stream, one, l.epoch())
	}
	if former != "" && !s.tellFormer(x.context(), x, l, nil) {
		return errReplicas
	}
	return nil
}
