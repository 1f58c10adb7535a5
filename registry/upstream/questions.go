package upstream

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// Limits of what the caller of one call is asked.
const (
	questionsMax = 64       // of one call
	roundMax     = 32       // of one round
	askedMax     = 4 << 20  // bytes of the open questions of one call
	keptMax      = 64 << 10 // bytes of notifications that wait while a call is parked
)

// question is a request of the server that waits for an answer.
type question struct {
	id      mcp.ID
	key     string      // ours, and of this question only
	request mcp.RawJSON // as the caller gets it
	stray   bool        // another call may take it over
}

// questionKey returns the key of the nth question of a call.
func questionKey(n int) string { return "q" + string(mcp.NumberID(int64(n))) }

// inputRequest returns a question as callers get it. It has params also when they are empty: the Go SDK cannot do without.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
func inputRequest(method string, params mcp.Object) mcp.RawJSON {
	return mcp.NewObject(
		mcp.Member{Name: "method", Value: mcp.String(method)}, mcp.Member{Name: "params", Value: params.JSON()},
	).JSON()
}

// asked returns the params of a question in modern form: without what only means something between the server and this
// client.
// https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
func asked(params mcp.Object) mcp.Object {
	params = params.Without("task", "elicitationId")
	meta := params.Object("_meta")
	if !meta.Has(mcp.MetaProgressToken) && !meta.Has(mcp.MetaRelatedTask) {
		return params
	}
	if meta = meta.Without(mcp.MetaProgressToken, mcp.MetaRelatedTask); meta.Len() == 0 {
		return params.Without("_meta")
	}
	return params.With("_meta", meta.JSON())
}

// message returns a question as the server asked it.
func (q question) message() *mcp.Message {
	request, _ := mcp.ObjectOf(q.request) // our own
	return &mcp.Message{ID: q.id, Method: request.Text("method"), Params: request.Object("params")}
}

// questions are what the caller of one call is asked, and the notifications that come for it meanwhile, over all rounds of
// the call. It is safe for concurrent use, and none of its methods waits.
type questions struct {
	owner  auth.Owner
	news   chan struct{} // a question came
	notes  wire.Notes    // for the present round, or the next one
	count  func(Anomaly, int)
	strict *atomic.Bool // is set when the caller was to be asked what it cannot be

	mu           sync.Mutex // guards the fields below
	capabilities mcp.Object // of the present round's caller, or the last one's
	attached     bool       // a round is going on
	kept         int        // bytes of notifications that came since the last round
	ended        bool
	seen         map[mcp.ID]bool // questions so far
	open         []question      // without an answer, in the order in which they came
	release      func()          // gives the place of the call back; nil: none is kept
}

func newQuestions(who auth.Owner, c *registry.Call, strict *atomic.Bool, count func(Anomaly, int)) *questions {
	q := &questions{
		owner: who, strict: strict, news: make(chan struct{}, 1), notes: wire.NewNotes(), count: count, seen: map[mcp.ID]bool{},
	}
	q.attach(c)
	return q
}

// attach begins a round.
func (q *questions) attach(c *registry.Call) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.attached, q.kept, q.capabilities = true, 0, c.Capabilities
	if len(q.open) > 0 { // of the round before
		signal(q.news)
	}
}

// note gives a notification to the present round. Without one it waits for the next.
func (q *questions) note(m *mcp.Message) {
	if !q.keeps(m) || !q.notes.Keep(m) {
		q.count(Flooded, 1)
	}
}

// keeps tells whether there is room for the bytes of a notification. A round that goes on passes them all on.
func (q *questions) keeps(m *mcp.Message) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.attached {
		return true
	}
	q.kept += wire.Weight(m.Params)
	return q.kept <= keptMax
}

// ask takes a question; stray tells that it came on no call's stream. The error is the answer when it is not asked.
func (q *questions) ask(m *mcp.Message, stray bool) *mcp.Error {
	params := asked(m.Params)
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.seen[m.ID]:
		return nil // a stream that was resumed may bring it again
	case q.ended:
		return errCallEnded
	case !mcp.CanBeAsked(q.capabilities, m.Method, params):
		q.strict.Store(true)
		return errUnasked
	case len(q.seen) == questionsMax:
		return mcp.Errorf(mcp.CodeInternal, "Too many questions in one call")
	}
	size := wire.Weight(params)
	for _, other := range q.open {
		size += len(other.request)
	}
	if size > askedMax {
		return mcp.Errorf(mcp.CodeInternal, "The open questions of this call are too large")
	}
	q.seen[m.ID] = true
	q.open = append(q.open, question{
		id: m.ID, key: questionKey(len(q.seen)), request: inputRequest(m.Method, params), stray: stray,
	})
	signal(q.news)
	return nil
}

// withdraw takes a question back that the server no longer asks.
func (q *questions) withdraw(id mcp.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open = slices.DeleteFunc(q.open, func(one question) bool { return one.id == id })
}

// knows tells whether a question was put to this call before.
func (q *questions) knows(id mcp.ID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.seen[id]
}

// unanswered returns how many questions the call has to ask.
func (q *questions) unanswered() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.open)
}

// detach ends a round with the questions for its caller, as many as fit: the others come in the next round. release gives
// the place of the call back when it ends; nil: none is kept, or one is kept already. ok is false, and the round goes on,
// when there is nothing to ask any more.
func (q *questions) detach(release func()) (requests mcp.Object, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended || len(q.open) == 0 {
		return mcp.Object{}, false
	}
	if release != nil {
		q.release = release
	}
	asked := q.open[:min(len(q.open), roundMax)]
	members := make([]mcp.Member, len(asked))
	for i, one := range asked {
		members[i] = mcp.Member{Name: one.key, Value: one.request}
	}
	q.attached = false
	return mcp.NewObject(members...), true
}

// check tells what is wrong with the form of the answers. Those to nothing that was asked do not matter.
func (q *questions) check(answers mcp.Object) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, one := range q.open {
		if answer := answers.Value(one.key); answer != nil && !answer.IsObject() {
			return mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: the answer to %s must be an object", one.key)
		}
	}
	return nil
}

// answered returns the messages that answer questions, each once. Questions without an answer stay open.
func (q *questions) answered(answers mcp.Object, refusals map[string]*mcp.Error) (bodies [][]byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open = slices.DeleteFunc(q.open, func(one question) bool {
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

// finish records that the call has ended at its server. It returns the questions that nobody is asked any more, and what
// gives the place of the call back. Beside other calls, a stray question that was returned to the caller stays: one of them
// may wait for its answer, and nobody should be asked twice.
func (q *questions) finish(beside bool) (left []question, release func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.open = slices.DeleteFunc(q.open, func(one question) bool {
		if beside && one.stray && !q.attached {
			return false
		}
		left = append(left, one)
		return true
	})
	return left, q.release
}

// drop returns the questions that are open, and forgets them.
func (q *questions) drop() []question {
	q.mu.Lock()
	defer q.mu.Unlock()
	open := q.open
	q.open = nil
	return open
}
