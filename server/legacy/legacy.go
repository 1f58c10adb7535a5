// Package legacy answers clients of the revisions with sessions: from 2024-11-05, also
// over HTTP+SSE, to 2025-11-25. It turns their requests into the stateless form and its
// results into what their revision knows, asks them what a server asks, and holds their
// streams. The state of sessions stands in server/sessions; server/sessions/directory
// finds them.
//
// To read the package, begin at the top of this table. A file uses only what stands below
// it or on its line:
//
//	how messages come       legacy: POST, GET and DELETE of a session; sse: HTTP+SSE; batch
//	  what needs no answer  answered: answers to questions; level
//	how it is answered      reply: JSON or a stream; feed: a stream of the log
//	one request             roundtrips, question: what its client is asked
//	with other replicas     route: who leads, changed lists; listeners: streams that are elsewhere;
//	                        subscriptions: what is followed, also after another replica has taken over
//	the handshake           handshake
//	what all share          service; background: what runs beside requests; waiting: for answers
package legacy

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/forward"
	"github.com/drawbridge-mcp/drawbridge/server/lowering"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
	"github.com/drawbridge-mcp/drawbridge/server/sessions/directory"
)

// New returns a service, which works together with the other replicas.
func New(cfg Config) *Service {
	s := &Service{
		config: cfg, exchanges: cfg.Exchanges, desk: cfg.Exchanges.Desk, streams: cfg.Streams,
		forwarder: cfg.Forwarder, waiting: newWaiting(cfg.Memory), changed: make(chan struct{}, 1),
		background: newBackground(cfg.Exchanges.Guard),
	}
	s.outbox.Do, s.outbox.Most, s.outbox.Go = s.tellListeners, maxNotices, s.inBackground
	s.sessions = directory.New(directory.Config{
		Seal: cfg.Seal, Log: cfg.Log, Entries: cfg.Entries, Others: cfg.Others, Memory: cfg.Memory,
		Guard: cfg.Exchanges.Guard, SessionIdle: cfg.SessionIdle, SessionMaxAge: cfg.SessionMaxAge,
		OnNotices: s.tellLater, TellTaken: s.tellTaken, OnTaken: s.taken, LetGo: s.letGoAll,
	})
	if s.sessions.Shared {
		s.desk.OnChange(s.tellAll)
	}
	cfg.Others.OnReturn(s.sessions.RewriteAll)
	cfg.Others.OnChange(s.noteChange)
	cfg.Others.Handle(kindListener, s.heardListener)
	cfg.Others.Handle(kindTaken, s.heardTaken)
	return s
}

// Begin begins to keep what other replicas must know of sessions. The function that it
// returns ends that and all else that runs beside requests, and waits for it.
func (s *Service) Begin(ctx context.Context) (end func()) {
	if s.sessions.Shared {
		s.background.begin(ctx, func(ctx context.Context) {
			s.untilOver(ctx, func() { s.sessions.Tend(ctx, s.changed, s.failOver) })
		})
		s.background.begin(ctx, func(ctx context.Context) { s.untilOver(ctx, func() { s.tryAgain(ctx) }) })
	}
	return s.background.end
}

// Sweep ends the sessions that nobody has used for too long.
func (s *Service) Sweep(ctx context.Context) { s.sessions.Sweep(ctx) }

// Reauthorize ends the sessions and subscriptions whose callers may not have them any
// more, and returns how many sessions that were.
func (s *Service) Reauthorize(ctx context.Context, resolve func(auth.Principal) (gateway.Caller, bool),
	judge func(auth.Principal) error,
) (ended int) {
	ended, given := s.sessions.Reauthorize(ctx, resolve, judge)
	s.forgetWatches(ctx, given)
	return ended
}

// HoldRoster holds what guards the order of sessions, until release is called, for tests.
func (s *Service) HoldRoster() (release func()) { return s.sessions.Roster.Hold() }

// Answer answers one message of a session over Streamable HTTP.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
func (s *Service) Answer(x *exchange.Exchange, m *mcp.Message, body []byte) {
	var l *sessions.Session
	atHome := s.isHome(m)
	switch {
	case m.IsRequest() && m.Method == mcp.MethodInitialize:
		s.initialize(x.Context(), x, m)
	case x.LinkNote == noteFormer:
		s.asFormer(x, m)
	default:
		l = s.find(x, m, body, atHome)
	}
	switch {
	case l == nil: // it is answered
	case !m.IsRequest():
		x.Acknowledge(s.notified(x.Context(), x, l, m))
	case s.legacyRequest(x, l, m, atHome):
		s.Answer(x, m, body) // another replica has just taken the session over
	}
}

// isHome tells whether this replica has what a message is about, a question or a task,
// whoever leads the session. What is about a task that all replicas reach goes to the one
// that leads, because it alone tells the client of the task.
func (s *Service) isHome(m *mcp.Message) bool {
	if m.IsResponse() {
		id, _ := mcp.RawJSON(m.ID).Text()
		at, _ := forward.HomeOf(id)
		return at == s.config.Others.Self()
	}
	return m.IsRequest() && mcp.MethodOf(m.Method).OfTasks() && // what lives elsewhere was forwarded there
		!s.desk.IsEverywhere(m.Params)
}

// asFormer does what a client asks for with the calls that this replica began when it led
// the session.
func (s *Service) asFormer(x *exchange.Exchange, m *mcp.Message) {
	t, refused := s.sessions.Of(x)
	if x.Refuses(m.ID, refused) {
		return
	}
	l := s.sessions.Roster.Find(t.Key)
	switch {
	case l == nil:
		x.Refuse(m.ID, forward.ErrElsewhere)
		return
	case x.Request.Method == http.MethodDelete:
		s.sessions.End(x.Context(), l, sessions.EndClosed)
		l.AwaitJobs(x.Context())
	case m.Method == mcp.NotifyCancelled:
		l.Cancel(mcp.ID(m.Params.Value("requestId")))
	case m.Method == mcp.MethodSetLevel:
		if level, ok := mcp.LevelOf(m.Params.Text("level")); ok {
			l.WantLogs(level)
		}
	}
	x.WriteStatus(http.StatusAccepted)
}

// notified takes a message that needs no answer. That the roots of a client changed needs
// no action: they are asked for anew each time.
func (s *Service) notified(ctx context.Context, x *exchange.Exchange, l *sessions.Session,
	m *mcp.Message,
) *exchange.Refusal {
	switch {
	case m.IsResponse():
		return s.answered(ctx, x, l, m)
	case m.Method == mcp.NotifyInitialized:
		l.Reach(sessions.Ready)
	case m.Method == mcp.NotifyCancelled:
		id := mcp.ID(m.Params.Value("requestId"))
		if id == "" || len(id) > mcp.MaxID {
			return nil // no request has it
		}
		if !l.Cancel(id) && l.Leader().Running[id] {
			s.tellFormer(ctx, x, l, mcp.AppendRequest(nil, "", m.Method, m.Params), x.Reservation.ReleaseSlot)
			x.Reservation.TakeSlot() // what comes behind it in a batch is in work again
		}
	}
	return nil
}

// legacyCall is what answers one request, in one piece of memory.
type legacyCall struct {
	job       exchange.Job
	reply     reply
	responder responder
}

// legacyRequest answers one request. The call goes on if the connection breaks, because
// the client can resume. It has done nothing, and moved is true, if another replica has
// taken the session over since it was found; atHome as in Enter.
func (s *Service) legacyRequest(x *exchange.Exchange, l *sessions.Session, m *mcp.Message,
	atHome bool,
) (moved bool) {
	if m.Method == mcp.MethodPing {
		x.WriteJSON(http.StatusOK, mcp.AppendResult(nil, m.ID, mcp.Object{}))
		return false
	}
	c := &legacyCall{}
	j, p := &c.job, &c.reply
	ctx, refused := s.beginLegacy(x.Outliving(), x, l, j, m.ID, atHome)
	switch {
	case refused == exchange.ErrReplicas:
		return true
	case refused != nil:
		x.Refuse(m.ID, refused)
		return false
	}
	defer s.exchanges.Jobs.Finish(j)
	defer l.EndJob(j)
	p.begin(s, x, l, m.ID)
	c.responder = p.responder()
	c.responder.memory = &j.Answer
	a := s.legacyAnswer(ctx, x, l, m, &c.responder)
	outcome := a.Outcome()
	x.Ended = a.Ended
	l.Answered(j)
	status := http.StatusOK
	if a.Err != nil {
		status = exchange.StatusOf(a.Err.Code, mcp.Legacy)
	}
	if status == http.StatusOK && x.PrefersStream && !a.Silent {
		p.follow()
	}
	if p.decide() == "" && a.Err != nil {
		s.exchanges.DelayLimited(x, a.Err)
		x.AnswerError(a.ID, a.Err, status)
		return false
	}
	p.finish(ctx, status, s.exchanges.Payload(ctx, &a, x.ID), func() []byte { return a.Unkept(x.ID) })
	x.Conclude(outcome)
	return false
}

// beginLegacy makes j, which is new, a job of a session. The context that it returns ends
// when the client cancels the request, its caller is not accepted any more, the session
// ends, or the process stops.
func (s *Service) beginLegacy(ctx context.Context, x *exchange.Exchange, l *sessions.Session, j *exchange.Job,
	id mcp.ID, atHome bool,
) (context.Context, *exchange.Refusal) {
	ctx, refused := s.exchanges.BeginJob(ctx, x, j, id)
	if refused != nil {
		return ctx, refused
	}
	if refused := l.Enter(j, atHome, s.config.Others.IsThere); refused != nil {
		s.exchanges.Jobs.Finish(j)
		return ctx, refused
	}
	return ctx, nil
}

// legacyAnswer runs one request of a session, and brings its result into the form of the
// session's revision.
func (s *Service) legacyAnswer(ctx context.Context, x *exchange.Exchange, l *sessions.Session,
	m *mcp.Message, responder *responder,
) exchange.Answer {
	a := exchange.Answer{ID: m.ID, Shared: exchange.SharedBy(m.Method), Memory: responder.memory}
	if !lowering.HasMethod(l.Client().Revision, m.Method) {
		a.Err = exchange.ErrUnknownMethod
		return a
	}
	switch m.Method {
	case mcp.MethodPing: // its result is empty
	case mcp.MethodSetLevel:
		if a.Err = s.setLevel(ctx, l, m.Params); a.Err == nil {
			s.tellFormer(ctx, x, l, mcp.AppendRequest(nil, m.ID, m.Method, m.Params), responder.releaseSlot)
		}
	case mcp.MethodSubscribe:
		if a.Ended, a.Err = s.subscribe(ctx, x.Caller, x.ID, l, m.Params); a.Err != nil {
			_, a.Err = lowering.Error(m.Method, a.Err)
		}
	case mcp.MethodUnsubscribe:
		a.Err = s.unsubscribe(ctx, l, m.Params)
	default:
		a.Result, a.Err = s.inRounds(ctx, x, l, responder, m)
		a.Ended = responder.rounds.request.Ended
		if a.Err == nil {
			a.Result = lowering.Result(l.Client().Revision, m.Method, a.Result)
		}
	}
	if context.Cause(ctx) == exchange.ErrCancelled { //nolint:errorlint // the cause itself, not what may wrap it
		return exchange.Answer{ID: m.ID, Silent: true}
	}
	if exchange.IsRevoked(ctx) {
		return exchange.Answer{ID: m.ID, Err: exchange.ErrCancelledCall}
	}
	return a
}

// Get opens a stream of a session: either a new one, for messages that no request of the
// client caused, or the rest of one that broke.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#listening-for-messages-from-the-server
func (s *Service) Get(x *exchange.Exchange) {
	if _, named := x.Request.Header[mcp.HeaderSessionID]; !named {
		x.RefuseMethod("POST")
		return
	}
	x.Era = mcp.Legacy
	if x.Forwarded {
		s.listenElsewhere(x, x.LinkNote)
		return
	}
	if f := s.findFeed(x); f != nil {
		x.Release()
		s.serveFeed(x.Context(), x, f)
	}
}

// findFeed returns what a GET is to be answered with, with the slot for its stream. It
// is nil if the GET was refused. Where another replica leads the session, that one has
// agreed and knows of the stream.
func (s *Service) findFeed(x *exchange.Exchange) *feed {
	t, refused := s.sessions.Of(x)
	if x.Refuses("", refused) {
		return nil
	}
	f, known := &feed{numbered: true}, false
	l := s.route(x, t, "", func(to replica.ID) forward.Outcome {
		if f.session == nil {
			follower, refused := s.sessions.Enter(x.Context(), t, x.Caller)
			if refused == nil {
				refused = s.nameStream(x, f, follower)
			}
			if x.Refuses("", refused) {
				return forward.Done
			}
			follower.ExpectStream(f.stream)
		}
		said := s.announce(x, f.session, f.stream, to)
		known = said == forward.Taken
		return said
	})
	if l == nil && !known {
		s.giveUpFeed(x.Context(), f)
		return nil
	}
	if f.session == nil {
		refused = s.nameStream(x, f, l)
	}
	if refused == nil {
		refused = s.beginFeed(x, f)
	}
	if x.Refuses("", refused) {
		s.giveUpFeed(x.Context(), f)
		if at := f.session.Leader().At; known && at != "" && f.stream != "" {
			s.leave(x.Context(), f.session, f.stream, at)
		}
		return nil
	}
	if l != nil {
		s.takeFor(x, l, f.stream)
	}
	return f
}

// nameStream decides which stream a GET gets. Notices of changed lists go only to streams
// that a GET opened, and each message goes to one stream only. Where such a stream does
// not have the event after which the client wants to go on, the client gets a new one: a
// refusal would have it give up its session, or listen no more. Where another does not,
// the name is "".
func (s *Service) nameStream(x *exchange.Exchange, f *feed, l *sessions.Session) *exchange.Refusal {
	f.session = l
	refused := checkRevision(x, l)
	if refused == nil && !x.AcceptsStream {
		refused = exchange.ErrAccept
	}
	switch last := x.Request.Header[mcp.HeaderLastEventID]; {
	case refused != nil:
	case strings.Join(last, "") == "": // some clients send the header before they have an id
		f.stream = l.NextStream('g', "")
	case len(last) == 1:
		name, err := s.config.Log.Find(x.Context(), l.InLog(), last[0])
		switch {
		case err == nil && (name[0] == 'g' || name[0] == 'p'):
			f.stream, f.after = name, last[0]
		case ofLog(err, exchange.ErrEvent) == exchange.ErrReplicas:
			return exchange.ErrReplicas // the stream stays where it is
		case strings.HasPrefix(last[0], "g"):
			f.stream = l.NextStream('g', "")
		}
	}
	f.tells = f.stream != "" && f.stream[0] == 'g'
	return refused
}

// beginFeed begins the stream of a GET, or finds the rest of one, and takes the
// slot for it.
func (s *Service) beginFeed(x *exchange.Exchange, f *feed) (refused *exchange.Refusal) {
	switch {
	case f.stream == "":
		return exchange.ErrEvent
	case !f.tells: // the replica that runs the call appends to it
		f.first = f.session.Priming(f.after)
	default:
		f.numbered, refused = s.beginStream(x.Context(), f.session, f.stream)
		switch {
		case refused != nil:
			return refused
		case f.after != "" && !f.numbered:
			return exchange.ErrReplicas // what was on it is not there just now
		case f.after == "" && f.numbered:
			// One that goes on has none, since it may say nothing for long. The Go SDK
			// gives up the session if a stream is cut and resumed six times with the same
			// id; without an id it begins a new one.
			f.first = f.session.Priming(eventlog.FirstID(f.stream))
		}
	}
	f.session.Use(time.Now(), s.config.SessionMaxAge, x.Principal)
	f.slot, refused = s.streams.TakeLastingSlot(x, "get")
	return refused
}

// giveUpFeed lets go of what a GET has taken that is not answered with a stream.
func (s *Service) giveUpFeed(ctx context.Context, f *feed) {
	if f.session == nil {
		return
	}
	f.session.StreamOpened(f.stream)
	if !f.session.Leader().Here && !f.session.IsBusy() {
		s.sessions.End(ctx, f.session, sessions.EndIdle)
	}
}

// Delete ends a session.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
func (s *Service) Delete(x *exchange.Exchange) {
	x.Era = mcp.Legacy
	m := &mcp.Message{Method: http.MethodDelete}
	if x.LinkNote == noteFormer {
		s.asFormer(x, m)
		return
	}
	l := s.find(x, m, nil, false)
	if l == nil {
		return
	}
	switch refused := s.endByClient(x, l); {
	case refused == forward.ErrElsewhere && !x.Forwarded:
		x.Refuse("", exchange.ErrReplicas) // the next try finds the other
	case refused != nil:
		x.Refuse("", refused)
	default:
		x.WriteStatus(http.StatusNoContent)
	}
}

// endByClient ends a session wherever something of it is. When it returns nil, nobody
// serves the session any more. Whoever waits for the answer of a call gets that first: it
// was cancelled.
func (s *Service) endByClient(x *exchange.Exchange, l *sessions.Session) (refused *exchange.Refusal) {
	// a client that leaves must not leave half of it undone
	ctx := context.WithoutCancel(x.Context())
	if refused = s.sessions.Delete(ctx, l); refused != nil {
		return refused
	}
	if !s.tellFormer(ctx, x, l, nil, x.Reservation.ReleaseSlot) {
		refused = exchange.ErrReplicas
	}
	s.sessions.ShutDeleted(ctx, l)
	l.AwaitJobs(ctx)
	for stream, one := range l.StreamsAt() { // also of a GET that came meanwhile
		s.letGo(ctx, l, stream, one, directory.EndedEpoch)
	}
	l.AwaitEnd(ctx)
	s.sessions.ForgetEvents(l)
	return refused
}
