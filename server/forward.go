package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/link"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/ticket"
)

// A session is led by one replica, and some things are where they began: a call that
// waits for answers, a task, a session over HTTP+SSE. What a client sends of them may
// come to any replica. The request is then forwarded:
//
//	client ──▶ first replica: authenticated, admitted, body read whole and decoded
//	              │ elsewhere: the primary of a session, the opener of one over HTTP+SSE, the replica that is named by the
//	              │            id of a question, a requestState or the id of a task
//	              ▼ link: the request as it came, with its token
//	           second replica: authenticated, judged by its own config, limited, run and put on record
//	              │
//	client ◀── first replica: the answer, as it comes
//
// A request that was forwarded is not forwarded again: a replica that does not lead its
// session says so, and the first looks the session up. The first replica takes what every
// request costs, and puts on record only what never reached the second. Requests that
// were forwarded have places of their own at both, or replicas that are full would wait
// for each other.

// unsureTime is how long nothing that is missing counts as gone after others may have
// taken this replica for gone. It is longer than a replica that lives takes to show that
// again.
const unsureTime = 10 * time.Second

// isUnsure tells whether a replica that seems to be gone may be there all the same.
func (s *Server) isUnsure() bool {
	at := s.returned.Load()
	return at != nil && time.Since(*at) < unsureTime
}

// elsewhere returns the other replica that a message is for, "" if it is for this one. It
// is refused while nobody knows whether that replica is there. What is for one that is
// gone is answered here: that it is.
func (s *Server) elsewhere(x *exchange.Exchange, m *mcp.Message) (to replica.ID, refused *exchange.Refusal) {
	if x.Forwarded {
		return "", nil
	}
	if m.IsResponse() {
		id, _ := mcp.RawJSON(m.ID).Text()
		to, _ = homeOf(id)
	} else if m.IsRequest() {
		to = s.desk.Home(x.Caller, m.Method, m.Params)
	}
	switch {
	case to == "" || to == s.config.Others.Self():
		return "", nil
	case s.config.Others.IsThere(to):
		return to, nil
	case s.isUnsure():
		return "", exchange.ErrReplicas
	}
	return "", nil
}

// home returns the replica that opened a session over HTTP+SSE. It is false if that is
// this one, if there are no others, or if the id is not the caller's: then find says why
// there is no such session.
func (ss *sessions) home(id string, c gateway.Caller) (replica.ID, bool) {
	if !ss.shared {
		return "", false
	}
	owner := c.Principal.Owner().Digest() // for every id, as in find
	t, ok := ss.openTicket(ticket.SSE, id)
	if !ok || t.Owner != owner || t.Opener == ss.opener {
		return "", false
	}
	return t.OpenedBy(), true
}

// missing returns the refusal for a session whose home is not there. Shortly after a
// fault nobody can tell whether it is, and then the client must not throw its session
// away.
func (s *Server) missing(ctx context.Context) *exchange.Refusal {
	if s.isUnsure() {
		return exchange.ErrReplicas
	}
	return miss(ctx, lostRestart)
}

// outcome is what became of a request that was to be forwarded.
type outcome int

const (
	forwardDone   outcome = iota // it was answered
	forwardGone                  // the other replica was not reached: nothing was sent
	forwardDenied                // the other replica does not lead the session: nothing was done
	forwardTaken                 // the other replica leads the session, and the rest is done here
)

// forward has another replica answer a request. The body has been read, and m is what it
// says.
func (s *Server) forward(x *exchange.Exchange, r *http.Request, to replica.ID, m *mcp.Message, body []byte) outcome {
	user := share.User(x.Principal.User())
	if s.forwarding.Take(user, 1) != nil {
		x.Refuse(m.ID, exchange.ErrOverload)
		return forwardDone
	}
	defer s.forwarding.Give(user, 1)
	j := &exchange.Job{}
	ctx, refused := s.exchanges.BeginJob(x.Context(), x, j, m.ID)
	if refused != nil {
		x.Refuse(m.ID, refused)
		return forwardDone
	}
	defer s.exchanges.Jobs.Finish(j)
	x.Held.ReleaseSlot()
	answer, err := s.config.Others.Forward(ctx, to, forwardOf(x, r, body))
	switch {
	case errors.Is(err, replica.ErrGone):
		return forwardGone
	case err != nil:
		refuseForward(ctx, x, m)
		return forwardDone
	}
	defer answer.Body.Close() //nolint:errcheck // it was read, or its rest is not wanted
	if answer.StatusCode == errElsewhere.Status {
		return forwardDenied
	}
	x.Outcome = "forwarded"
	s.passOn(ctx, x, answer, m.ID, to)
	return forwardDone
}

const (
	// that a request waits for the end of a replica that is not reached: longer than that
	// takes
	holdTime = 8 * time.Second
	holdStep = time.Second // until that one is tried again
)

// route finds the replica that leads the session of a ticket. It returns the session if
// that is this one. Otherwise ask has the other do what is to be done, and the request is
// answered. A primary that is not reached is most likely about to be known as gone, and
// is waited for: clients do not send again what was refused.
func (s *Server) route(x *exchange.Exchange, t *ticket.Ticket, id mcp.ID, ask func(to replica.ID) outcome) *live {
	denied, until := replica.ID(""), time.Now().Add(holdTime)
	for {
		l, to, refused := s.sessions.whose(x.Context(), t, x.Caller, denied)
		if refused != nil {
			x.Refuse(id, refused)
			return nil
		}
		if l != nil {
			if x.Held.Slot == nil {
				x.Held.Slot = &s.working // it was given back while others were asked
				s.working.Add(1)
			}
			return l
		}
		switch ask(to) {
		case forwardDone, forwardTaken:
			return nil
		case forwardDenied:
			s.sessions.hints.set(t.Key, "")
			if to == denied {
				x.Refuse(id, exchange.ErrReplicas)
				return nil
			}
			denied = to
		case forwardGone:
			denied = ""
			if !s.awaitChange(x.Context(), until) {
				x.Refuse(id, exchange.ErrReplicas)
				return nil
			}
		}
	}
}

// awaitChange waits until replicas have come or ended, for holdStep at most. It is false
// if it is late, or the client is gone.
func (s *Server) awaitChange(ctx context.Context, until time.Time) bool {
	if !time.Now().Before(until) {
		return false
	}
	select {
	case <-*s.changed.Load():
		return true
	case <-time.After(holdStep):
		return true
	case <-ctx.Done():
		return false
	}
}

// noteChange has whoever waits look again: replicas have come, ended, or begun to drain.
func (s *Server) noteChange() {
	next := make(chan struct{})
	close(*s.changed.Swap(&next))
	select {
	case s.turnout <- struct{}{}:
	default: // it is asked for already
	}
	s.streams.WakeAll() // those that wait for a replica that is gone
}

// forwardOf returns a request as it is forwarded.
func forwardOf(x *exchange.Exchange, r *http.Request, body []byte) link.Request {
	return link.Request{
		Method: r.Method, Target: r.URL.RequestURI(), Header: r.Header, Body: body, Remote: x.Remote,
		ID: x.ID,
	}
}

// refuseForward answers a request that got no answer from another replica. An answer to a
// question may come again in any case: the first one counts. A status that says that all
// is well is for answers to requests alone.
func refuseForward(ctx context.Context, x *exchange.Exchange, m *mcp.Message) {
	if m.IsResponse() {
		x.Refuse(m.ID, exchange.ErrReplicas)
		return
	}
	told := lostForward(ctx)
	status := exchange.StatusOf(told.Code, x.Era)
	if !m.IsRequest() || x.Request.URL.Path == exchange.MessagesPath {
		status = http.StatusInternalServerError
	}
	x.Refuse(m.ID, &exchange.Refusal{Status: status, Told: told})
}

// lostForward returns what is told of a request that was forwarded, and of which no more
// is heard.
func lostForward(ctx context.Context) *mcp.Error {
	switch {
	case exchange.IsRevoked(ctx):
		return exchange.ErrGone
	case errors.Is(context.Cause(ctx), gateway.ErrStopped):
		return exchange.ErrStopped
	}
	return exchange.ErrForwardLost
}

// passedHeaders are those of an answer of another replica that the client gets. All
// others are about the connection.
var passedHeaders = []string{
	"Allow", "Cache-Control", "Content-Length", "Content-Type", "Mcp-Session-Id", "Retry-After",
	"Www-Authenticate", "X-Accel-Buffering",
}

// passOn gives the client the answer of another replica, as it comes. If it breaks off, a
// stream ends with an error, and any other answer is cut short, because half of it must
// not look like a whole one.
func (s *Server) passOn(ctx context.Context, x *exchange.Exchange, answer *http.Response, id mcp.ID, from replica.ID) {
	for _, name := range passedHeaders {
		if values := answer.Header[name]; values != nil {
			x.Header()[name] = values
		}
	}
	x.AllowWrite()
	x.WriteHeader(answer.StatusCode)
	streams := strings.HasPrefix(answer.Header.Get("Content-Type"), exchange.StreamType)
	buffer, whole := make([]byte, 32<<10), true
	for {
		n, err := answer.Body.Read(buffer)
		if n > 0 {
			x.AllowWrite()
			if _, failed := x.Write(buffer[:n]); failed != nil {
				return // the client is gone, and the other replica sees that
			}
			if streams {
				_ = x.Flush() // the next write would fail, too
			}
			whole = bytes.HasSuffix(buffer[:n], []byte("\n\n"))
		}
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil && x.Context().Err() != nil:
			return // the client is gone
		case err != nil && streams && whole && id != "" && !s.resumes(x, from):
			x.AllowWrite()
			lost := mcp.AppendError(nil, id, lostForward(ctx).OfRequest(x.ID))
			_, _ = x.Write(sse.Append(nil, sse.Event{Data: lost})) // or the client is gone
			return
		case err != nil:
			panic(http.ErrAbortHandler)
		}
	}
}

// resumes tells whether the client can have the rest of a stream by resuming it: in a
// session, while the replica that runs the call is there.
func (s *Server) resumes(x *exchange.Exchange, from replica.ID) bool {
	return x.Era == mcp.Legacy && s.config.Others.IsThere(from)
}

// forwardAnswer gives an answer of a client, which came among others, to the replica that
// has the question.
func (s *Server) forwardAnswer(ctx context.Context, to replica.ID, message []byte) *exchange.Refusal {
	x := exchange.FromContext(ctx)
	if x == nil {
		return nil // nobody asked
	}
	if !s.config.Others.IsThere(to) {
		if s.isUnsure() {
			return exchange.ErrReplicas
		}
		return nil // the request that asked is gone with it
	}
	answer, err := s.config.Others.Forward(ctx, to, forwardOf(x, x.Request, message))
	if err != nil {
		return exchange.ErrReplicas // the first answer counts, so the client may send it again
	}
	defer answer.Body.Close() //nolint:errcheck // it says no more than the status
	if answer.StatusCode != http.StatusAccepted {
		return exchange.ErrReplicas
	}
	return nil
}

// forwarded returns the handler of requests that other replicas forward. What their
// clients may do is judged here as if they had come here, but for what belongs to a
// connection, and for what a request costs: the first replica has seen to that.
func (s *Server) forwarded() http.Handler {
	r := chi.NewRouter()
	r.Use(s.identified, s.exchanges.Logged, s.recovered, checked(s.bounded, s.authenticated, s.admitted))
	r.NotFound(s.notFound)
	r.MethodNotAllowed(s.notFound)
	r.HandleFunc(exchange.EndpointPath, s.endpoint)
	r.HandleFunc(exchange.TenantPath+"{tenant}"+exchange.EndpointPath, s.endpoint)
	if s.config.LegacySSE {
		r.HandleFunc(exchange.MessagesPath, s.postMessage)
	}
	return r
}
