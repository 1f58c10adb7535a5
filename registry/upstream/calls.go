package upstream

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// A stray question is one that a server asks on no call's stream, so that nothing says
// which call it belongs to. Over Streamable HTTP it comes on the GET stream of the
// session, as with FastMCP when a tool asks through its session. Over stdio and HTTP+SSE
// there is one stream for everything, so all questions are stray; there, a session with a
// call that can be asked runs no other call, except where one user stands behind all
// calls (pool.go). The hazard is that somebody else reads the question and answers it. So
// this is what happens to a stray question:
//
//	open calls of the session   what happens
//	one                         it is that call's question
//	several, of one caller      one of these calls takes it
//	several, of two callers     it is refused, since it could reach the wrong one
//	none                        it is refused
//
// When a stray question came during a call, the server is known to ask such questions:
// for strayMemory, each further call whose caller can be asked gets a session that runs
// no other call.
//
// A call that ended without an answer counts as open for abandonedFor: its caller may
// have left, and the server, which need not obey a cancellation, may still run the call
// and ask.
//
// It matters little which of one caller's calls takes a question: the same user answers,
// in the same client, with the same capabilities, and the server matches the answer with
// its question by id. The worst case is that the question shows beside the wrong call.
// When a call ends, it passes its stray questions on to another call of its caller,
// because the call that waits for the answer may still run. What names the task that the
// call is about ends with the call.

const (
	strayMemory  = time.Hour       // how long after a stray question a server's askable calls run alone
	abandonedFor = 5 * time.Minute // how long a server is taken to run a call that it did not answer
)

// abandoned says that a call of this owner ended without an answer, and until when the
// server may still ask about it.
type abandoned struct {
	owner auth.Owner
	until time.Time
}

// strays remembers when one server last asked a stray question. It outlives sessions and
// connections, because after a reconnect the same server asks in the same way. It is safe
// for concurrent use.
type strays struct {
	last atomic.Pointer[time.Time] // when the last stray question came; nil: none came
}

// note records that a stray question came now.
func (s *strays) note() {
	now := time.Now()
	s.last.Store(&now)
}

// expected tells whether the server is likely to ask stray questions. The pool of seats
// asks it under its own lock (seats.Config.Alone).
func (s *strays) expected() bool {
	last := s.last.Load()
	return last != nil && time.Since(*last) < strayMemory
}

// calls are the open calls of one session whose callers can be asked. Calls whose callers
// cannot be asked are not among them. It is safe for concurrent use.
type calls struct {
	strays *strays // of the whole server, shared by all its sessions

	mu        sync.Mutex   // guards the fields below
	open      []*questions // the open calls, the oldest first
	abandoned []abandoned  // of the last two owners at most; older entries may be over
}

// all returns a copy of the list of open calls.
func (s *calls) all() []*questions {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.open)
}

// enter makes a call one that can be asked. It is called before the request is sent;
// remove ends it.
func (s *calls) enter(q *questions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, q)
}

// remove makes a call one that cannot be asked any more. It returns how many other calls
// are open.
func (s *calls) remove(q *questions) (others int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = slices.DeleteFunc(s.open, func(other *questions) bool { return other == q })
	return len(s.open)
}

// note gives a notification that belongs to no request to the one open call. When several
// calls are open, nobody gets it, since it could reach the wrong caller.
func (s *calls) note(m *mcp.Message) {
	open := slices.DeleteFunc(s.all(), func(q *questions) bool { return q.notes == nil })
	if len(open) == 1 {
		open[0].note(m)
	}
}

// withdraw takes a question back that the server cancelled, from whichever call has it.
func (s *calls) withdraw(id mcp.ID) {
	for _, q := range s.all() {
		q.withdraw(id)
	}
}

// stray gives a stray question to an open call. It returns the refusal when there is no
// call, or when not all calls, the abandoned ones included, are of one caller. nil: a
// call has taken the question.
func (s *calls) stray(m *mcp.Message) []byte {
	open := s.all()
	if len(open) == 0 {
		return rejection(m.ID, errNoCall)
	}
	s.strays.note()
	if slices.ContainsFunc(open, otherThan(open[0].owner)) || s.abandonedByOther(open[0].owner) {
		return rejection(m.ID, errNoCall)
	}
	return giveTo(open, m)
}

// taskOf returns which task a question names, "" if none.
func taskOf(m *mcp.Message) string {
	return m.Params.Object("_meta").Object(mcp.MetaRelatedTask).Text("taskId")
}

// ofTask returns those of the open calls that are about the task which a question names,
// or about none if it names none; all if there are none of these.
func ofTask(open []*questions, m *mcp.Message) []*questions {
	task := taskOf(m)
	those := slices.DeleteFunc(slices.Clone(open), func(q *questions) bool { return q.task != task })
	if len(those) == 0 {
		return open
	}
	return those
}

// pass deals with the questions that a call of the owner leaves open when it ends, and
// returns the answers for the server. A stray question passes to another open call of the
// same owner, and to nobody else's: by now the session may serve another caller. Every
// other question is answered with the error that its call has ended.
func (s *calls) pass(of auth.Owner, questions []question) (answers [][]byte) {
	for _, one := range questions {
		answer := rejection(one.id, errCallEnded)
		if one.stray {
			answer = giveTo(slices.DeleteFunc(s.all(), otherThan(of)), one.message())
		}
		if answer != nil {
			answers = append(answers, answer)
		}
	}
	return answers
}

// otherThan returns a condition that holds for calls of anybody but this owner.
func otherThan(who auth.Owner) func(*questions) bool {
	return func(q *questions) bool { return q.owner != who }
}

// abandon notes that a call of this owner ended without an answer. The last two owners
// suffice: whoever is asked something, one of the two is somebody else, as long as both
// notes count.
func (s *calls) abandon(who auth.Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abandoned = slices.DeleteFunc(s.abandoned, func(a abandoned) bool { return a.owner == who })
	s.abandoned = append(s.abandoned, abandoned{who, time.Now().Add(abandonedFor)})
	s.abandoned = s.abandoned[max(0, len(s.abandoned)-2):]
}

// abandonedByOther tells whether the server may still run a call of another owner that it
// did not answer. The pool of seats asks it under its own lock (seats.Config.Lendable).
func (s *calls) abandonedByOther(who auth.Owner) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.abandoned,
		func(a abandoned) bool { return a.owner != who && time.Now().Before(a.until) })
}

// giveTo gives a stray question to one of a caller's calls, and begins with the call that
// has the fewest open questions. It returns the refusal when no call takes it, and nil
// when one does or already has: a resumed stream may bring a question twice.
func giveTo(open []*questions, m *mcp.Message) []byte {
	if slices.ContainsFunc(open, func(q *questions) bool { return q.knows(m.ID) }) {
		return nil
	}
	open = ofTask(open, m)
	slices.SortStableFunc(open,
		func(a, b *questions) int { return cmp.Compare(a.unanswered(), b.unanswered()) })
	var refused *mcp.Error
	for _, q := range open {
		err := q.ask(m, q.task == "" || q.task != taskOf(m))
		if err == nil {
			return nil
		}
		refused = cmp.Or(refused, err)
	}
	return rejection(m.ID, cmp.Or(refused, errCallEnded))
}
