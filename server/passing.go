package server

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// Bounds of messages that one replica passes to another.
const (
	passingTime = 2 * time.Second // until it is known what became of one that was sent
	// beginTime is how long after it was sent a message may begin at the home of its session. It is so much shorter than
	// passingTime that whoever sent it hears that it was taken before it tells the client to try again.
	beginTime = passingTime - 500*time.Millisecond
	// maxOnWay is how many bytes of messages, and of answers to questions, may be on their way from this replica at once:
	// this, or onWayBodies of the greatest size. Who receives them reads them all into memory before it can judge any.
	maxOnWay    = 32 << 20
	onWayBodies = 8
	// maxTaking is how many messages of other replicas are being taken at once. The answer to one that was taken is not
	// counted here, but among the jobs.
	maxTaking = 256
	// unsureTime is how long nothing that is missing counts as gone after other replicas may have seemed to be. It is
	// longer than a replica that lives takes to show that again.
	unsureTime = 10 * time.Second
)

// passing brings messages of sessions over HTTP+SSE to the replica that has their stream:
//
//	client ──POST──▶ this replica: authenticated, admitted, decoded
//	                    │ message: the session's id, the token, the body
//	                    ▼
//	                 the home of the session: token verified, caller resolved, body decoded, all limits but that of requests
//	                    │ verdict: taken, or why not
//	                    ▼
//	client ◀──202 or refusal── this replica                 client ◀──answer── stream, at the home
//
// The home judges by its own config, as if the message had come there. The client is told 202 only when the home has
// taken the message into its memory. Word alone could be lost with a Redis that fails over, and the client would wait for
// ever.
//
// A client that was refused tries again, and must not find that both messages run. So the home begins none later than
// beginTime after the mailbox took it. If the verdict is lost nevertheless, or comes too late because Redis is slow just
// then, the same message with the same id is known as a copy: see copies. Then only a client that makes another request of
// it, with a new id, has it run twice.
type passing struct {
	server   *Server
	places   *share.Budget // of messages that are being taken from others
	taking   atomic.Int64
	returned atomic.Pointer[time.Time] // when word may have been lost last; nil: never

	mu      sync.Mutex // guards the field below
	waiting map[string]chan [][]byte
}

// newPassing returns a passing that takes what other replicas send.
func newPassing(s *Server) *passing {
	p := &passing{
		server: s, places: share.New(maxTaking), waiting: make(map[string]chan [][]byte),
	}
	s.config.Others.Handle(kindMessage, p.receive)
	s.config.Others.Handle(kindVerdict, p.hear)
	s.config.Others.OnReturn(func() { now := time.Now(); p.returned.Store(&now) })
	return p
}

// home returns the replica that opened a session over HTTP+SSE. It is false if that is this one, if there are no others,
// or if the id is not the caller's: then find says why there is no such session.
func (ss *sessions) home(id string, c gateway.Caller) (replica.ID, bool) {
	if !ss.shared {
		return "", false
	}
	owner := c.Principal.Owner().Digest() // for every id, as in find
	t, ok := ss.openTicket(purposeSSE, id)
	if !ok || t.owner != owner || t.generation == ss.generation {
		return "", false
	}
	return replica.ID(hex.EncodeToString(t.generation[:])), true
}

// missing returns the refusal for a session whose home is not there. Shortly after a fault nobody can tell whether it
// is, and then the client must not throw its session away.
func (p *passing) missing(ctx context.Context) *refusal {
	if p.isUnsure() {
		return errReplicas
	}
	return miss(ctx, lostRestart)
}

// isUnsure tells whether a replica that seems to be gone may be there all the same, since word may have been lost.
func (p *passing) isUnsure() bool {
	at := p.returned.Load()
	return at != nil && time.Since(*at) < unsureTime
}

// pass brings a message to the home of its session, and answers with what became of it.
func (p *passing) pass(x *exchange, r *http.Request, home replica.ID, session string, m *mcp.Message, body mcp.RawJSON) {
	user := share.User(x.principal.User())
	token, _ := bearer(r) // it was accepted
	word := packed([]byte(session), []byte(x.id), []byte(token), []byte(x.remote), body)
	if err := p.server.onWay.Take(user, int64(len(word))); err != nil {
		x.refuse(m.ID, ofMemory(err))
		return
	}
	defer p.server.onWay.Give(user, int64(len(word)))
	heard := p.await(x.id)
	defer p.forget(x.id)
	err := p.server.config.Others.Send(x.context(), home, replica.Word{Kind: kindMessage, Tenant: x.caller.Tenant.ID, Data: word})
	switch {
	case errors.Is(err, replica.ErrGone):
		x.refuse(m.ID, p.missing(x.context()))
		return
	case err != nil:
		x.refuse(m.ID, errReplicas)
		return
	}
	ctx, stop := context.WithTimeout(x.context(), passingTime) // since it was sent, from which the home counts, too
	defer stop()
	select {
	case verdict := <-heard:
		x.deliver(m, verdict)
	case <-ctx.Done():
		x.refuse(m.ID, errReplicas)
	}
}

// await returns a channel on which the verdict about a request comes.
func (p *passing) await(request string) <-chan [][]byte {
	heard := make(chan [][]byte, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting[request] = heard
	return heard
}

func (p *passing) forget(request string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, request)
}

// hear takes the verdict about a message that this replica has passed on.
func (p *passing) hear(_ context.Context, _ replica.ID, w replica.Word) {
	verdict, ok := unpacked(w.Data, 5)
	if !ok {
		return // its request gets no answer in time, and is refused
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if heard := p.waiting[string(verdict[0])]; heard != nil {
		heard <- verdict // there is room: it is the first one
		delete(p.waiting, string(verdict[0]))
	}
}

// verdictOf returns the verdict about a message. A nil refused means that it was taken.
func verdictOf(x *exchange, id mcp.ID, refused *refusal) []byte {
	if refused == nil {
		return packed([]byte(x.id), nil, nil, nil, nil)
	}
	told := refused.told.OfRequest(x.id)
	after := strconv.FormatInt(told.RetryAfter.Milliseconds(), 10)
	return packed([]byte(x.id), []byte(strconv.Itoa(refused.status)), []byte(after), []byte(wordFor(told)), mcp.AppendError(nil, id, told))
}

// deliver answers as the home of the session has decided. The home has put a refusal on record.
func (x *exchange) deliver(m *mcp.Message, verdict [][]byte) {
	if len(verdict[1]) == 0 {
		x.writeStatus(http.StatusAccepted)
		return
	}
	status, err := strconv.Atoi(string(verdict[1]))
	after, err2 := strconv.Atoi(string(verdict[2]))
	if err != nil || err2 != nil || status < http.StatusBadRequest || status > 599 {
		x.refuse(m.ID, errReplicas)
		return
	}
	if after > 0 {
		x.Header().Set("Retry-After", strconv.Itoa((after+999)/1000))
	}
	x.outcome = string(verdict[3])
	x.writeJSON(status, verdict[4])
}

// receive takes a message that came to another replica. Beyond maxTaking it does nothing: who sent it hears nothing, and
// refuses it.
func (p *passing) receive(ctx context.Context, from replica.ID, w replica.Word) {
	parts, ok := unpacked(w.Data, 5)
	if !ok || p.taking.Add(1) > maxTaking {
		if ok {
			p.taking.Add(-1)
		}
		return
	}
	p.server.errands.begin(ctx, func(ctx context.Context) { // at most maxTaking, and none waits for longer than passingTime
		defer p.taking.Add(-1)
		ctx, stop := context.WithTimeout(ctx, passingTime) // for as long as who sent it waits
		defer stop()
		begins, late := context.WithTimeout(ctx, beginTime)
		defer late()
		x := p.exchange(begins, parts)
		id, refused := p.take(x, string(parts[0]), string(parts[2]), parts[4])
		if refused != nil {
			x.recordRefusal(refused)
		}
		verdict := replica.Word{Kind: kindVerdict, Tenant: w.Tenant, Data: verdictOf(x, id, refused)}
		if err := p.server.config.Others.Send(ctx, from, verdict); err != nil {
			p.server.log.WarnContext(x.outliving(), "another replica was not told whether its message was taken", "error", err)
		}
	})
}

// exchange returns the request of a message, with the id and the address that it has at the replica that it came to.
func (p *passing) exchange(ctx context.Context, parts [][]byte) *exchange {
	s := p.server
	x := &exchange{
		ResponseWriter: nowhere{}, server: s, id: string(parts[1]), remote: string(parts[3]), era: mcp.Legacy,
		started: time.Now(), settings: s.config.Settings(), judged: s.judged.Load(), outcome: outcomeOK,
	}
	x.scope, x.lasting = scope{ctx, x}, scope{context.Background(), x}
	return x
}

// take does with a message of another replica what is done with one that comes here. It returns the id of the message,
// "" if it is no request, and why it is refused.
func (p *passing) take(x *exchange, session, token string, body []byte) (id mcp.ID, refused *refusal) {
	s := p.server
	defer func() {
		if problem := recover(); problem != nil {
			s.panicked(x.context(), problem)
			refused = errPanic
		}
		s.leave(x)
	}()
	x.held.place = true
	if s.working.Add(1) > int64(s.config.MaxCalls) {
		return "", errOverload
	}
	user, known := s.sessions.userOf(session)
	if !known {
		return "", errSession
	}
	if p.places.Take(user, 1) != nil {
		return "", errOverload
	}
	defer p.places.Give(user, 1)
	l, refused := p.admit(x, session, token)
	if refused != nil {
		return "", refused
	}
	m, refused := x.readPassed(body)
	if m != nil && m.IsRequest() {
		id = m.ID
	}
	if refused != nil {
		return id, refused
	}
	if x.context().Err() != nil { // the client may have been told already to try again
		return id, errReplicas
	}
	if id == "" {
		return "", s.notified(x.context(), l, m)
	}
	return id, s.takePassed(x, l, m, body)
}

// takePassed takes a request that came by way of another replica, unless it is a copy of one.
func (s *Server) takePassed(x *exchange, l *live, m *mcp.Message, body []byte) *refusal {
	if l.copies.add(m.ID, body) {
		return nil
	}
	refused := s.takeRequest(x, l, m)
	if refused != nil {
		l.copies.remove(m.ID, body)
	}
	if refused == errToken { // revoked just now: as admit would say it
		return errSession
	}
	return refused
}

// userOf returns whose a session over HTTP+SSE is that lives here.
func (ss *sessions) userOf(id string) (share.User, bool) {
	t, ok := ss.openTicket(purposeSSE, id)
	if !ok {
		return share.User{}, false
	}
	l := ss.roster.find(t.key)
	if l == nil {
		return share.User{}, false
	}
	return share.User(l.user), true
}

// admit finds out who the bearer of the token is, and returns the session of that id if it is the bearer's. Who is not
// accepted here gets the answer for sessions that are not there: the other replica may tell more, as far as it knows more.
func (p *passing) admit(x *exchange, session, token string) (*live, *refusal) {
	s := p.server
	var err error
	if x.principal, err = s.config.Verify(x.context(), token); err != nil {
		if refusedLogin(loginError(err)) == errKeysUnavailable {
			return nil, errKeysUnavailable
		}
		return nil, errSession
	}
	x.token = token
	if x.caller, err = s.admission.Resolve(x.principal); err != nil || x.isOutdated() {
		return nil, errSession
	}
	return s.sessions.find(x.context(), purposeSSE, session, x.caller)
}

// readPassed decodes the body of a message that another replica has read. It may be judged by other bounds here.
func (x *exchange) readPassed(body []byte) (*mcp.Message, *refusal) {
	s := x.server
	if int64(len(body)) > s.config.MaxBody {
		return nil, s.tooLarge()
	}
	x.held.body = s.config.Memory.Lease(share.User(x.principal.User()))
	if len(body) > share.Covered {
		if err := x.held.body.Resize(int64(len(body))); err != nil {
			return nil, ofMemory(err)
		}
	}
	raw, refused := s.parse(x, body)
	if refused != nil {
		return nil, refused
	}
	m, err := mcp.DecodeRaw(raw)
	if err != nil {
		return m, badRequest(err)
	}
	x.note(m)
	return m, nil
}

// nowhere is the response of a message that came from another replica: that one answers.
type nowhere struct{}

// Header implements http.ResponseWriter.
func (nowhere) Header() http.Header { return make(http.Header) }

// Write implements http.ResponseWriter.
func (nowhere) Write(data []byte) (int, error) { return len(data), nil }

// WriteHeader implements http.ResponseWriter.
func (nowhere) WriteHeader(int) {}
