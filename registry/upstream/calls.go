package upstream

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// A stray question is one that a server asks on no call's stream, so that nothing says which call it belongs to: over
// Streamable HTTP it comes on the GET stream of the session, as with FastMCP when a tool asks through its session. Over
// stdio and HTTP+SSE all questions are stray, and a session runs one call at a time.
//
//	one open call         it is that call's question
//	several, one caller   one of these calls takes it; from then on, new calls of askable callers have sessions alone
//	several callers       it is refused, as it could reach somebody else; from then on the same
//
// A call that ended without an answer counts as open for abandonedFor: its caller may have left, and the server, which
// need not obey a cancellation, may still run it and ask.
//
// Whichever of a caller's calls takes a question, the same user answers in the same client, with the same capabilities,
// and the server matches the answer with its question by id. So the worst is that a question shows beside the wrong call.
// A call that ends passes its stray questions on to another one of its caller, because the call that waits for the
// answer may still run.

const (
	strayMemory  = time.Hour       // for which a server that asked a stray question has its calls run alone
	abandonedFor = 5 * time.Minute // for which a server is taken to run a call that it did not answer
)

// abandoned is a caller whose call ended without an answer, and until when the server may ask about it.
type abandoned struct {
	owner auth.Owner
	until time.Time
}

// strays remembers of one server that it asked stray questions, beyond the session and the connection. It is safe for
// concurrent use.
type strays struct {
	mu   sync.Mutex // guards the field below
	last time.Time  // zero: there was none
}

func (s *strays) note() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
}

// expected tells whether there may be more.
func (s *strays) expected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.last.IsZero() && time.Since(s.last) < strayMemory
}

// calls are the open calls of one session whose callers can be asked. It is safe for concurrent use.
type calls struct {
	strays *strays // of the server

	mu        sync.Mutex   // guards the fields below
	open      []*questions // of these calls, in the order in which they began
	abandoned []abandoned  // who had such calls that the server did not answer: the last two callers, at most
}

// all returns the open calls.
func (s *calls) all() []*questions {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.open)
}

// enter and leave bound the time in which a call may be asked.
func (s *calls) enter(q *questions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, q)
}

// leave returns how many other calls are open.
func (s *calls) leave(q *questions) (others int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = slices.DeleteFunc(s.open, func(other *questions) bool { return other == q })
	return len(s.open)
}

// note gives a notification that says of no call to the one open call. Beside others, nobody gets it.
func (s *calls) note(m *mcp.Message) {
	if open := s.all(); len(open) == 1 {
		open[0].note(m)
	}
}

// withdraw takes a question back.
func (s *calls) withdraw(id mcp.ID) {
	for _, q := range s.all() {
		q.withdraw(id)
	}
}

// stray gives a stray question to an open call. It returns the refusal when there is no call, or when the calls are not
// all of one caller.
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

// pass passes questions on that a call of that caller leaves behind when it ends, the stray ones to another call of the same
// caller: by now the session may serve somebody else, whom they must not reach. The others end with their call. It returns
// the answers for the server.
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

func otherThan(who auth.Owner) func(*questions) bool {
	return func(q *questions) bool { return q.owner != who }
}

// abandon notes that a call of that caller ended without an answer. Two callers are enough to know: whoever is asked, one
// of them is somebody else, for as long as either counts.
func (s *calls) abandon(who auth.Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abandoned = slices.DeleteFunc(s.abandoned, func(a abandoned) bool { return a.owner == who })
	s.abandoned = append(s.abandoned, abandoned{who, time.Now().Add(abandonedFor)})
	s.abandoned = s.abandoned[max(0, len(s.abandoned)-2):]
}

// abandonedByOther tells whether the server may still run a call of another caller that it did not answer.
func (s *calls) abandonedByOther(who auth.Owner) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.abandoned, func(a abandoned) bool { return a.owner != who && time.Now().Before(a.until) })
}

// giveTo gives a stray question to one of a caller's calls, first to the one that has the fewest to ask already. It
// returns the refusal when none takes it.
func giveTo(open []*questions, m *mcp.Message) []byte {
	if slices.ContainsFunc(open, func(q *questions) bool { return q.knows(m.ID) }) {
		return nil
	}
	slices.SortStableFunc(open, func(a, b *questions) int { return cmp.Compare(a.unanswered(), b.unanswered()) })
	var refused *mcp.Error
	for _, q := range open {
		err := q.ask(m, true)
		if err == nil {
			return nil
		}
		refused = cmp.Or(refused, err)
	}
	return rejection(m.ID, cmp.Or(refused, errCallEnded))
}
