package upstream

import (
	"cmp"
	"context"
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

// stray gives a stray question to an open call. It returns the refusal when there is no call, or when the calls are not
// all of one caller.
func (l *legacy) stray(m *mcp.Message) []byte {
	calls := l.openCalls()
	if len(calls) == 0 {
		if m.Method == mcp.MethodRoots {
			l.conn.rooted.Store(true)
		}
		return rejection(m.ID, errNoCall)
	}
	l.conn.strays.note()
	if slices.ContainsFunc(calls, func(d *dialogue) bool { return d.owner != calls[0].owner }) || l.abandonedByOther(calls[0].owner) {
		return rejection(m.ID, errNoCall)
	}
	return giveTo(calls, m)
}

// abandon notes that a call of that caller ended without an answer. Two callers are enough to know: whoever is asked, one
// of them is somebody else, for as long as either counts.
func (l *legacy) abandon(who auth.Owner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.abandoned = slices.DeleteFunc(l.abandoned, func(a abandoned) bool { return a.owner == who })
	l.abandoned = append(l.abandoned, abandoned{who, time.Now().Add(abandonedFor)})
	l.abandoned = l.abandoned[max(0, len(l.abandoned)-2):]
}

// abandonedByOther tells whether the server may still run a call of another caller that it did not answer.
func (l *legacy) abandonedByOther(who auth.Owner) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.abandoned, func(a abandoned) bool { return a.owner != who && time.Now().Before(a.until) })
}

// giveTo gives a stray question to one of a caller's calls, first to the one that has the fewest to ask already. It
// returns the refusal when none takes it.
func giveTo(calls []*dialogue, m *mcp.Message) []byte {
	if slices.ContainsFunc(calls, func(d *dialogue) bool { return d.knows(m.ID) }) {
		return nil
	}
	slices.SortStableFunc(calls, func(a, b *dialogue) int { return cmp.Compare(a.unanswered(), b.unanswered()) })
	var refused *mcp.Error
	for _, d := range calls {
		err := d.ask(m, true)
		if err == nil {
			return nil
		}
		refused = cmp.Or(refused, err)
	}
	return rejection(m.ID, cmp.Or(refused, errCallEnded))
}

// knows tells whether a question was put to this call before.
func (d *dialogue) knows(id mcp.ID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen[id]
}

// unanswered returns how many questions the call has to ask.
func (d *dialogue) unanswered() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.open)
}

// giveBack passes on what nobody answers any more in a call that has ended.
func (d *dialogue) giveBack(ctx context.Context) {
	d.mu.Lock()
	open := d.open
	d.open = nil
	d.mu.Unlock()
	d.pass(ctx, open)
}

// pass passes stray questions on to another call of the same caller: by now the session may serve somebody else, whom
// they must not reach. The others end with their call.
func (d *dialogue) pass(ctx context.Context, questions []question) {
	for _, q := range questions {
		answer := rejection(q.id, errCallEnded)
		if q.stray {
			calls := slices.DeleteFunc(d.session.openCalls(), func(other *dialogue) bool { return other.owner != d.owner })
			answer = giveTo(calls, q.message())
		}
		if answer != nil {
			d.session.link.Tell(ctx, answer)
		}
	}
}

// message returns a question as the server asked it.
func (q question) message() *mcp.Message {
	request, _ := mcp.ObjectOf(q.request) // our own
	return &mcp.Message{ID: q.id, Method: request.Text("method"), Params: request.Object("params")}
}
