package upstream

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// Limits of what the caller of one call is asked.
const (
	questionsMax    = 64       // of one call
	roundMax        = 32       // of one round
	askedMax        = 4 << 20  // bytes of the open questions of one call
	waitingNotesMax = 64 << 10 // bytes of notifications that wait while a call is parked
)

// question is a request of the server that waits for an answer.
type question struct {
	id mcp.ID
	// by which the caller's answer names it; of our own making, never used twice in a
	// call
	key     string
	request mcp.RawJSON // in the form that the caller gets
	// it came on no call's stream and names no task of its call, so that another call of
	// the owner may take it over
	stray bool
	// the server's id of the address to open; "": there is none
	elicitation string
}

const questionPrefix = "q"

// questionKey returns the key of the nth question of a call, counted from one.
func questionKey(prefix string, n int) string { return prefix + string(mcp.NumberID(int64(n))) }

// inputRequest returns a question in the form that callers get. It has the member params
// even when that is empty, because the Go SDK cannot do without.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
func inputRequest(method string, params mcp.Object) mcp.RawJSON {
	return mcp.NewObject(
		mcp.Member{Name: "method", Value: mcp.String(method)}, mcp.Member{
			Name:  "params",
			Value: params.JSON(),
		},
	).JSON()
}

// asked returns the params of a question in modern form, but for the id of an
// elicitation, which elicitations renames. What has a meaning only between this server
// and its client in the legacy session (a task, a progress token) is left out.
// https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
func asked(params mcp.Object) mcp.Object {
	params = params.Without("task")
	meta := params.Object("_meta")
	if !meta.Has(mcp.MetaProgressToken) && !meta.Has(mcp.MetaRelatedTask) {
		return params
	}
	return params.WithMeta(meta.Without(mcp.MetaProgressToken, mcp.MetaRelatedTask))
}

// message returns the question as a request of the server again, for another call to take
// over.
func (q question) message() *mcp.Message {
	request, _ := mcp.ObjectOf(q.request) // cannot fail: we wrote it
	params := request.Object("params")
	if q.elicitation != "" {
		params = params.With("elicitationId", mcp.String(q.elicitation))
	}
	return &mcp.Message{ID: q.id, Method: request.Text("method"), Params: params}
}

// questions are what the caller of one call is asked, and the notifications for that
// caller, over all rounds of the call. The transport puts them in, the rounds of parking
// take them out. It is safe for concurrent use, and none of its methods blocks, because
// the reader of a connection calls them.
type questions struct {
	owner auth.Owner
	asked chan struct{} // holds a signal: there is a question to ask
	// notifications for the present round, or for the next one while the call is parked;
	// nil: the caller has no place for them
	notes  *wire.Notes
	count  func(Anomaly, int)
	strict *atomic.Bool // set when the server asks something that the caller cannot be asked
	task   string       // that the call is about, as the server knows it; "": none
	prefix string       // of the keys of the questions
	// holds the open questions, and what the exchange keeps once the call was parked
	reserved     *share.Reservation
	elicitations *elicitations // of the session on which the call runs

	mu           sync.Mutex      // guards the fields below
	capabilities mcp.Object      // what the caller of the present or latest round can be asked
	opened       func(id string) // of that caller, as registry.Call.OnOpened
	attached     bool            // a round is going on; otherwise the call is parked
	cost         int             // bytes that reserved has besides the open questions
	waitingNotes int             // bytes of the notifications that came while the call was parked
	ended        bool
	seen         map[mcp.ID]bool // all questions so far, answered ones too
	open         []question      // the questions without an answer, the oldest first
	release      func()          // gives the call's slot back, see registry.Call.Hold; nil: none is retained
}

// newQuestions returns the questions of a call whose first round begins. strict is set,
// and count called, as the fields say; so is opened the field elicitations.
func newQuestions(who auth.Owner, c *registry.Call, strict *atomic.Bool,
	count func(Anomaly, int), opened *elicitations,
) *questions {
	q := &questions{
		owner: who, strict: strict, asked: make(chan struct{}, 1), notes: wire.NewNotes(c.Memory.Another()),
		count: count, prefix: questionPrefix, elicitations: opened,
		reserved: c.Memory.Another(), seen: map[mcp.ID]bool{},
	}
	q.attach(c)
	return q
}

// attach begins a round, with the caller of c.
func (q *questions) attach(c *registry.Call) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.attached, q.waitingNotes, q.capabilities, q.opened = true, 0, c.Capabilities, c.OnOpened
	if len(q.open) > 0 { // questions that are left from the round before
		pace.Signal(q.asked)
	}
}

// keep makes the call hold cost bytes besides its open questions, until its exchange has
// ended. The error is one of package share: share.ErrOver if it has ended already.
func (q *questions) keep(cost int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return share.ErrOver
	}
	if err := q.reserved.Resize(int64(cost + q.weightLocked())); err != nil {
		return err
	}
	q.cost = cost
	return nil
}

// weightLocked returns about how many bytes the open questions have.
func (q *questions) weightLocked() (n int) {
	for _, one := range q.open {
		n += len(one.request)
	}
	return n
}

// closeLocked removes the open questions for which over is true, and gives back what they
// held.
func (q *questions) closeLocked(over func(question) bool) {
	q.open = slices.DeleteFunc(q.open, over)
	q.reserved.Shrink(int64(q.cost + q.weightLocked()))
}

// note gives a notification to the present round, or keeps it for the next one. What
// finds no room is dropped and counted.
func (q *questions) note(m *mcp.Message) {
	if q.notes == nil {
		return
	}
	if !q.keeps(m) || !q.notes.Keep(m) {
		q.count(Flooded, 1)
	}
}

// keeps tells whether there is room for the bytes of a notification. While a round is
// going on there always is, because the round passes notifications on as they come.
func (q *questions) keeps(m *mcp.Message) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.attached {
		return true
	}
	q.waitingNotes += m.Params.Size()
	return q.waitingNotes <= waitingNotesMax
}

// ask takes a question of the server; stray tells that it came on no call's stream. It
// returns nil when the question is taken, and otherwise the error with which the server
// is answered.
func (q *questions) ask(m *mcp.Message, stray bool) *mcp.Error {
	params := asked(m.Params)
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.seen[m.ID]:
		return nil // a resumed stream may bring a question again, which must not be asked twice
	case q.ended:
		return errCallEnded
	case !mcp.CanBeAsked(q.capabilities, m.Method, params):
		q.strict.Store(true)
		return errUnasked
	case len(q.seen) == questionsMax:
		return mcp.Errorf(mcp.CodeInternal, "Too many questions in one call")
	}
	params = q.elicitations.rename(params, q.opened)
	size := params.Size() + q.weightLocked()
	if size > askedMax || q.reserved.Resize(int64(q.cost+size)) != nil {
		return mcp.Errorf(mcp.CodeInternal, "The open questions of this call are too large")
	}
	q.seen[m.ID] = true
	q.open = append(q.open, question{
		id: m.ID, key: questionKey(q.prefix, len(q.seen)), request: inputRequest(m.Method, params),
		stray: stray, elicitation: elicitationOf(m.Params),
	})
	pace.Signal(q.asked)
	return nil
}

// withdraw removes a question that the server has cancelled.
func (q *questions) withdraw(id mcp.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closeLocked(func(one question) bool { return one.id == id })
}

// knows tells whether a question was put to this call before.
func (q *questions) knows(id mcp.ID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.seen[id]
}

// unanswered returns how many questions are open.
func (q *questions) unanswered() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.open)
}

// detach ends a round and returns the open questions, up to roundMax; the others come in
// the next round. release gives the call's slot in the tenant's concurrency back when
// the call ends; nil: no slot is retained, or one is already. When there is nothing to
// ask any more, ok is false: the round goes on, and release is not taken over.
func (q *questions) detach(release func()) (requests mcp.Object, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended || len(q.open) == 0 {
		return mcp.Object{}, false
	}
	if release != nil {
		q.release = release
	}
	q.attached = false
	return q.requestsLocked(), true
}

// requestsLocked returns the open questions by their keys, up to roundMax.
func (q *questions) requestsLocked() mcp.Object {
	asked := q.open[:min(len(q.open), roundMax)]
	members := make([]mcp.Member, len(asked))
	for i, one := range asked {
		members[i] = mcp.Member{Name: one.key, Value: one.request}
	}
	return mcp.NewObject(members...)
}

// requests returns the open questions while a round goes on.
func (q *questions) requests() mcp.Object {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.requestsLocked()
}

// holds makes the call keep its slot in the tenant's concurrency, which release gives
// back. It returns false if the call has ended.
func (q *questions) holds(release func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.release = release
	}
	return !q.ended
}

// answered removes the questions that the caller has answered or refused, and returns the
// messages that answer them to the server. Questions without an answer stay open, and an
// answer to no open question is ignored.
func (q *questions) answered(answers mcp.Object, refusals map[string]*mcp.Error) (bodies [][]byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closeLocked(func(one question) bool {
		refused := refusals[one.key]
		answer, ok := mcp.ObjectOf(answers.Value(one.key))
		switch {
		case ok:
			bodies = append(bodies, mcp.AppendResult(nil, one.id, answer))
		case refused != nil:
			bodies = append(bodies, rejection(one.id, refused))
		}
		return ok || refused != nil
	})
	return bodies
}

// finish records that the call has ended at its server, so that nothing more is asked. It
// returns the questions that nobody will be asked, and release as it was given to detach.
// beside tells that other calls are open on the session. Then a stray question that was
// already returned to the caller stays: another call may wait for its answer, and nobody
// should be asked twice.
func (q *questions) finish(beside bool) (left []question, release func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended, q.cost = true, 0
	q.closeLocked(func(one question) bool {
		if beside && one.stray && !q.attached {
			return false
		}
		left = append(left, one)
		return true
	})
	return left, q.release
}

// drop removes all open questions of a call that has ended, and returns them.
func (q *questions) drop() []question {
	q.mu.Lock()
	defer q.mu.Unlock()
	open := q.open
	q.open = nil
	q.reserved.Release()
	return open
}
