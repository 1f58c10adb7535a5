package legacy

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/forward"
	"github.com/drawbridge-mcp/drawbridge/server/notices"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
	"github.com/drawbridge-mcp/drawbridge/server/sessions/directory"
	"github.com/drawbridge-mcp/drawbridge/server/ticket"
)

// A client opens a stream at one replica, and another one leads the session. The stream
// stays where its connection is, and the primary knows of it. What the client is to be
// told goes there over the link:
//
//	replica with the connection                        primary of the session
//	  │ ── the GET, forwarded, with the stream's name ──▶ │ judged; whoever had the stream lets it go
//	  │ ◀─────────────────────────────────────── epoch ── │
//	  │ ◀────────────────────────────── kindListener ──── │ a list or a resource has changed
//	  │ appends it to the log, and sends it               │
//	  │ ── kindListener, without a notice: it is closed ▶ │
//
// Notices for one replica wait in one queue, and go in one message: the newest state of
// each session when its turn comes.

// Kinds of messages that the front doors of replicas send each other. Each names the form
// of its text, too: any other form is another kind, and comes in two rollouts, as that of
// a ticket does (see ticketVersion).
const (
	// notices for streams at the receiver; without one, the stream is no more with the
	// sender or receiver
	kindListener = "listener 2"
	// the sender leads a session that the receiver led; it answers with the requests in
	// flight
	kindTaken = "taken 2"
)

const (
	maxNotices    = 256     // sessions of which notices go in one message
	maxNoticeText = 1 << 20 // bytes of notices in one message, beside those of the last session
	noticesAtOnce = 16      // notices of one message that are taken at once
)

// headerEpoch says in the answer to a GET that was forwarded which epoch the session has.
const headerEpoch = "Drawbridge-Epoch"

// tellLater has the replicas that hold streams for notices of a session told what is new.
func (s *Service) tellLater(l *sessions.Session) {
	for at := range l.Listeners() {
		s.outbox.Add(at, l)
	}
}

// inBackground runs what tells one replica.
func (s *Service) inBackground(run func(context.Context)) {
	s.background.begin(context.Background(), run)
}

// tellListeners tells a replica what the streams there are to be told of some sessions. A
// panic ends only that.
func (s *Service) tellListeners(ctx context.Context, at replica.ID, some []*sessions.Session) {
	s.exchanges.Safely(ctx, func() { s.tellSessions(ctx, at, some) })
}

func (s *Service) tellSessions(ctx context.Context, at replica.ID, some []*sessions.Session) {
	var all []sessions.Notice
	size, rest := 0, make(map[*sessions.Session]bool) // those that have more than goes in one message
	defer func() {
		for l := range rest {
			s.tellLater(l)
		}
	}()
	for _, l := range some {
		if size >= maxNoticeText {
			rest[l] = true
			continue
		}
		of, more := s.noticesAt(l, at)
		if all = append(all, of...); more {
			rest[l] = true
		}
		for _, one := range of {
			size += len(one.Text)
		}
	}
	if len(all) == 0 {
		return
	}
	parts := make([]string, 0, 4*len(all))
	for _, one := range all {
		l := one.Session
		parts = append(parts, string(l.Key[:]), one.Listener.Stream, epochText(l.Leader().Epoch),
			string(one.Text))
	}
	var taken []byte
	err := replica.ErrForm
	s.exchanges.Safely(ctx, func() { // or what was assigned would be told by nobody
		taken, err = s.config.Others.Send(ctx, at, replica.Message{Kind: kindListener, Parts: parts})
	})
	for i, one := range all {
		l := one.Session
		switch {
		case err == nil && i < len(taken) && taken[i] == noticeTaken:
			l.SentBy(one)
			continue
		case err == nil && i < len(taken) && taken[i] == noticeFenced:
			s.sessions.Superseded(l)
		case err == nil && i < len(taken) && taken[i] == noticeLater: // it comes again at a heartbeat
		case err == nil:
			l.DropListener(one.Listener.Stream, at)
		}
		l.Unassign(one.Listener.Stream, one.Method, one.URI)
		delete(rest, l) // it would be tried again without a pause; a heartbeat tells all
	}
	for _, l := range some {
		l.Settle(at)
		s.keepLists(ctx, l)
	}
}

// What a replica answers to each notice.
const (
	noticeRefused = '0' // the stream is not there
	noticeTaken   = '1'
	noticeFenced  = '2' // another replica leads the session
	noticeLater   = '3' // the stream is about to be there, or the log cannot be reached
)

// noticesAt returns what the newest stream of a session at a replica is to be told, as
// noticesFor does.
func (s *Service) noticesAt(l *sessions.Session, at replica.ID) (all []sessions.Notice, more bool) {
	to := l.Listeners()[at]
	if to == nil {
		return nil, false
	}
	all, more, accepted := s.noticesFor(l, to.Stream, to.Principal)
	if !accepted {
		l.DropListener(to.Stream, at)
		s.letGoAll(l, map[string]replica.ID{to.Stream: at}, l.Leader().Epoch)
	}
	for i := range all {
		all[i].Listener = to
	}
	return all, more
}

// noticesFor returns what a stream of a session that this replica leads is to be told.
// What is assigned to it is told by no other. more tells whether there are others. It is
// not accepted, and gets no more, if the caller whose stream it is is not accepted any
// more.
//
// What the caller may do is looked up again after changes of resources were taken:
// otherwise the client would be told of a change that came after the right to read it had
// ended.
func (s *Service) noticesFor(l *sessions.Session, stream string, p auth.Principal) (all []sessions.Notice,
	more, accepted bool,
) {
	caller, ok := s.exchanges.Resolve(p)
	_, leads := s.config.Others.Leads()
	if !ok || l.Stage() != sessions.Ready || !l.Leader().Here || l.Shared && !leads {
		return nil, false, ok
	}
	for _, method := range l.Assign(s.desk.Lists(caller), stream) {
		all = append(all, sessions.Notice{Session: l, Method: method, Text: notices.OfList(method)})
	}
	uris, more := l.AssignUpdates(stream)
	if caller, ok = s.exchanges.Resolve(p); !ok {
		return all, false, false
	}
	for _, uri := range uris {
		if s.desk.Reads(caller, uri) {
			params := mcp.NewObject(mcp.Member{Name: "uri", Value: mcp.String(uri)})
			all = append(all, sessions.Notice{
				Session: l, Method: mcp.NotifyResourceUpdated, URI: uri,
				Text: mcp.AppendRequest(nil, "", mcp.NotifyResourceUpdated, params),
			})
		}
	}
	for _, one := range l.TakeOnce() {
		// of a task its client is told if it may follow that now
		if one.Method != mcp.NotifyTasksStatus || s.desk.FollowsTask(caller, one.ID) {
			all = append(all, sessions.Notice{Session: l, Method: one.Method, Text: one.Text})
		}
	}
	return all, more, true
}

// heardListener takes notices for streams here, and that a stream is not where it
// was. It answers with a byte for each.
func (s *Service) heardListener(ctx context.Context, from replica.ID, w replica.Message) ([]byte, error) {
	parts := w.Parts
	if len(parts) == 0 || len(parts)%4 != 0 { // how many there are the link bounds, by their bytes
		return nil, replica.ErrForm
	}
	answer := make([]byte, len(parts)/4)
	pace.AtOnce(len(answer), noticesAtOnce, func(i int) {
		answer[i] = noticeRefused
		s.exchanges.Safely(ctx, func() { answer[i] = s.heardNotice(ctx, from, parts[4*i:4*i+4]) })
	})
	return answer, nil
}

// heardNotice takes one notice.
func (s *Service) heardNotice(ctx context.Context, from replica.ID, parts []string) byte {
	l, epoch := s.namedBy(parts[0], parts[2])
	stream := parts[1]
	if l == nil || stream == "" {
		return noticeRefused
	}
	if len(parts[3]) == 0 {
		l.DropListener(stream, from)
		switch leader := l.Leader(); {
		case leader.Here || leader.Epoch > epoch: // it came here from the sender, or another replica leads
		case epoch == directory.EndedEpoch:
			s.sessions.End(ctx, l, sessions.EndClosed)
			l.AwaitEnd(ctx)
			s.sessions.ForgetEvents(l)
		default:
			l.LoseStream(ctx, stream)
		}
		return noticeTaken
	}
	opened := l.AwaitStream(ctx, stream)
	switch had := l.Leader().Epoch; {
	case had > epoch:
		return noticeFenced
	case !opened:
		return noticeLater
	case !l.Holds(stream):
		return noticeRefused
	}
	l.LedBy(from, epoch)
	_, err := s.config.Log.Notify(ctx, l.InLog(), stream, epoch, []byte(parts[3]))
	switch {
	case err == nil:
		return noticeTaken
	case errors.Is(err, eventlog.ErrFenced):
		return noticeFenced
	case ofLog(err, exchange.ErrSession) == exchange.ErrReplicas:
		return noticeLater
	}
	l.LoseStream(ctx, stream) // or its client would wait on a stream that the primary forgets
	return noticeRefused
}

// tell tells another replica something of a session, also when ctx has ended, and returns
// what that says. It is nil if that one was not told.
func (s *Service) tell(ctx context.Context, at replica.ID, w replica.Message) []byte {
	answer, err := s.config.Others.Send(context.WithoutCancel(ctx), at, w)
	if err != nil {
		s.exchanges.Log.DebugContext(ctx, "another replica was not told of a session", "kind", w.Kind,
			"error", err)
		return nil
	}
	return answer
}

// letGo tells a replica that a stream of a session is not there any more, or not here. It
// is false if that one was not told.
func (s *Service) letGo(ctx context.Context, l *sessions.Session, stream string, at replica.ID,
	epoch uint64,
) bool {
	parts := []string{string(l.Key[:]), stream, epochText(epoch), ""}
	return s.tell(ctx, at, replica.Message{Kind: kindListener, Parts: parts}) != nil
}

// leave has the primary of a session know that a stream is not here, or not any more. As
// long as that one believes otherwise, the session counts as in use.
func (s *Service) leave(ctx context.Context, l *sessions.Session, stream string, primary replica.ID) {
	// one for each stream
	s.background.begin(ctx, func(ctx context.Context) {
		for wait := leaveFirst; !s.left(ctx, l, stream, primary) && s.config.Others.IsThere(primary) &&
			pace.Wait(ctx, wait); wait = min(2*wait, leaveMost) {
		}
	})
}

// left tells the primary once. It is false if that is to be done again: that one was not
// told, or the stream is about to be here again, of which it may know already. The client
// may have come back to a session that was entered here anew.
func (s *Service) left(ctx context.Context, l *sessions.Session, stream string, primary replica.ID) bool {
	if now := s.sessions.Roster.Find(l.Key); now != nil {
		switch {
		case now.Holds(stream):
			return true
		case now.Expects(stream):
			return false
		}
	}
	return s.letGo(ctx, l, stream, primary, l.Leader().Epoch)
}

// A primary that was not told is told again after leaveFirst, and then after twice as
// long each time, up to leaveMost: the link may be cut while thousands leave.
const (
	leaveFirst = time.Second
	leaveMost  = time.Minute
)

// letGoAll has replicas end the streams that they hold of a session which this one leads,
// or led with that epoch: clients that may come back, and the streams become known to who
// leads.
func (s *Service) letGoAll(l *sessions.Session, at map[string]replica.ID, epoch uint64) {
	// one for each stream that was elsewhere
	for stream, one := range at {
		s.background.begin(context.Background(),
			func(ctx context.Context) { s.letGo(ctx, l, stream, one, epoch) })
	}
}

// listenElsewhere answers a GET that another replica has forwarded: the stream of that
// name is there from now on.
func (s *Service) listenElsewhere(x *exchange.Exchange, stream string) {
	l := s.find(x, &mcp.Message{}, nil, false) // which forwards nothing once more
	if l == nil {
		return
	}
	if stream != "" {
		s.takeFor(x, l, stream)
		if x.Context().Err() != nil { // the sender has given up, and may have said so before
			x.Refuse("", forward.ErrElsewhere)
			return
		}
		l.AddListener(&sessions.Listener{Stream: stream, At: replica.ID(x.From), Principal: x.Principal})
	}
	x.Header().Set(headerEpoch, epochText(l.Leader().Epoch))
	x.WriteStatus(http.StatusOK)
	x.Conclude(exchange.OutcomeForwarded) // the stream has its line where it ends
	s.tellLater(l)
}

// takeStream takes a stream of a session that this replica leads from whoever sends it,
// and returns when that sends nothing more of it.
func (s *Service) takeStream(ctx context.Context, l *sessions.Session, stream string) {
	if at := l.StreamsAt()[stream]; at != "" {
		l.DropListener(stream, at)
		s.letGo(ctx, l, stream, at, l.Leader().Epoch)
		return
	}
	l.LoseStream(ctx, stream)
}

// takeFor takes the stream that a client got from whoever sends it, and has the client
// told again of all that it follows if it wanted to go on with another: what that one
// carried is lost, and nobody knows how much of it came.
func (s *Service) takeFor(x *exchange.Exchange, l *sessions.Session, got string) {
	s.takeStream(x.Context(), l, got)
	wanted, _, named := strings.Cut(x.Request.Header.Get(mcp.HeaderLastEventID), "-")
	if named && wanted != got {
		s.takeStream(x.Context(), l, wanted)
		l.Retell()
	}
}

// announce has the primary of a session know that a stream of it is here, and returns
// what became of that.
func (s *Service) announce(x *exchange.Exchange, l *sessions.Session, stream string,
	to replica.ID,
) forward.Outcome {
	request := forward.RequestOf(x, nil)
	request.Note = stream
	// the client may leave, and the primary has the stream all the same
	ctx, stop := context.WithTimeout(x.Outliving(), forward.HoldTime)
	defer stop()
	answer, err := s.config.Others.Forward(ctx, to, request)
	switch {
	case errors.Is(err, replica.ErrUnreached):
		return forward.Unreached
	case err != nil:
		s.leave(ctx, l, stream, to)
		x.Refuse("", exchange.ErrReplicas)
		return forward.Done
	}
	defer answer.Body.Close() //nolint:errcheck // it was read, or its rest is not wanted
	switch {
	case answer.StatusCode == forward.ErrElsewhere.Status:
		return forward.Denied
	case answer.StatusCode != http.StatusOK:
		s.forwarder.PassOn(x.Context(), x, answer, "", to)
		x.Conclude(exchange.OutcomeForwarded)
		return forward.Done
	}
	epoch, _ := strconv.ParseUint(answer.Header.Get(headerEpoch), 10, 64)
	l.LedBy(to, epoch)
	return forward.Taken
}

// failOver takes over the sessions with streams here whose primary is gone or drains,
// or lets the streams know of the next one, and forgets the streams of sessions that this
// replica leads at others that are gone. A replica that others may have taken for gone
// ends its streams, which their primaries have forgotten so.
func (s *Service) failOver(ctx context.Context) {
	if s.streams.IsDraining() {
		return
	}
	s.sessions.Each(ctx, (*sessions.Session).HasStreams, func(l *sessions.Session) {
		leader := l.Leader()
		switch since, _ := s.config.Others.Leads(); {
		case leader.Here:
			l.DropGone(s.config.Others.IsThere)
		case !l.HasLasting():
		case !s.config.Others.IsThere(leader.At) || s.config.Others.Drains(leader.At):
			s.takeOne(ctx, l)
		case !l.IsSureSince(since):
			l.EndStreams() // their clients come back, and their streams become known there
		}
	})
}

// takeOne takes a session over, or has its streams known to whoever was faster.
func (s *Service) takeOne(ctx context.Context, l *sessions.Session) {
	principal := l.Client().Principal
	caller, ok := s.exchanges.Resolve(principal)
	if !ok {
		return
	}
	to, refused := s.sessions.TakeOver(ctx, l, caller)
	switch {
	case refused == exchange.ErrReplicas:
	case refused != nil:
		s.sessions.End(ctx, l, sessions.EndClosed)
	case to != "":
		l.EndStreams() // their clients come back, and their streams become known there
	}
}

// tellTaken tells the replica that led a session before that this one does, and returns
// the requests that it answers. They go on there.
func (s *Service) tellTaken(ctx context.Context, l *sessions.Session, former replica.ID,
	epoch uint64,
) map[mcp.ID]bool {
	if former == "" {
		return nil
	}
	answer := s.tell(ctx, former, replica.Message{
		Kind: kindTaken, Tenant: l.User.TenantID, Parts: []string{string(l.Key[:]), epochText(epoch)},
	})
	running := make(map[mcp.ID]bool)
	for id := range strings.Lines(string(answer)) { // which is JSON in one line
		running[mcp.ID(strings.TrimSuffix(id, "\n"))] = true
	}
	return running
}

// heardTaken notes that another replica leads a session.
func (s *Service) heardTaken(_ context.Context, from replica.ID, w replica.Message) ([]byte, error) {
	if len(w.Parts) < 2 {
		return nil, replica.ErrForm
	}
	l, epoch := s.namedBy(w.Parts[0], w.Parts[1])
	if l == nil || l.User.TenantID != w.Tenant || l.Leader().Epoch >= epoch {
		return nil, nil
	}
	s.sessions.Follow(l, from, epoch)
	var ids []byte
	for _, id := range l.InFlight() {
		ids = append(append(ids, id...), '\n')
	}
	return ids, nil
}

// taken does what else is to be done of a session that this replica leads from now on.
func (s *Service) taken(l *sessions.Session) {
	if l.IsLost() {
		s.resubscribeLater(l)
	}
	l.WakeStreams()
}

// resubscribeLater makes subscriptions of a session again, beside whatever finds that
// they are lost.
func (s *Service) resubscribeLater(l *sessions.Session) {
	if caller, ok := s.exchanges.Resolve(l.Client().Principal); ok {
		// one for each session
		s.background.begin(context.Background(), func(ctx context.Context) { s.resubscribe(ctx, l, caller) })
	}
}

// tellFormer has the replica that led a session before, and has calls of it, do what a
// request asks for, too. One that is not reached is most likely about to be known as
// gone, and is waited for, for which rest gives back the slot of the request. It is false
// if that one was not reached, or has not answered, and lives.
func (s *Service) tellFormer(ctx context.Context, x *exchange.Exchange, l *sessions.Session,
	body []byte, rest func(),
) bool {
	former := l.Leader().Former
	if former == "" {
		return true
	}
	rest()
	request := forward.RequestOf(x, body)
	request.Note = noteFormer
	status := s.forwarder.Ask(ctx, former, request)
	if status == 0 {
		return !s.config.Others.IsThere(former)
	}
	return status < http.StatusBadRequest || status == forward.ErrElsewhere.Status
}

// noteFormer says of a request that was forwarded that it is for the calls which the
// receiver began when it led the session.
const noteFormer = "former"

// namedBy returns the session that a message names, with the epoch that it says; nil:
// there is none here, or the message has another form.
func (s *Service) namedBy(key, epoch string) (*sessions.Session, uint64) {
	n, err := strconv.ParseUint(epoch, 10, 64)
	if err != nil || len(key) != ticket.KeySize {
		return nil, 0
	}
	l := s.sessions.Roster.Find(ticket.Key([]byte(key)))
	if l == nil || !l.Shared {
		return nil, 0
	}
	return l, n
}

func epochText(epoch uint64) string { return strconv.FormatUint(epoch, 10) }
