package server

import (
	"context"
	"errors"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/forward"
	"github.com/drawbridge-mcp/drawbridge/server/lowering"
)

// question is one request from the server to the client, in a round of a request of the
// client. It waits in the session, at the replica that asks: its home.
type question struct {
	key, method string
	id          string
	asked       bool
	room        *share.Claim  // holds its answer, and those to the other questions of the request
	came        chan struct{} // closed when the answer has come
	answer      []byte        // guarded by the mutex of the session until came is closed
}

// askAll asks the client all questions of one round and returns the answers. A question
// that the client answers with an error, or that it cannot be asked, is in the Refusals
// of the next round instead.
func (rt *roundTrips) askAll(ctx context.Context, round int,
	requests mcp.Object,
) (answers mcp.Object, err error) {
	if round > maxRounds || requests.Len() > maxQuestions {
		return mcp.Object{}, lowering.ErrRounds
	}
	ctx, stop := context.WithTimeoutCause(ctx, roundTime, lowering.ErrUnanswered)
	defer stop()
	questions := make([]question, 0, requests.Len())
	defer func() { rt.withdraw(ctx, questions) }()
	home := rt.server.config.Others.Self()
	if rt.heard == nil {
		rt.heard = rt.server.config.Memory.Claim(share.User(rt.session.user))
	}
	leave := rt.server.waiting.enter(rt.caller, rt.line.body)
	if leave != nil {
		defer leave()
	}
	for key, raw := range requests.Members {
		request, _ := mcp.ObjectOf(raw)
		questions = append(questions, question{
			key: key, method: request.Text("method"), id: forward.NewQuestion(home), room: rt.heard,
			came: make(chan struct{}),
		})
		if leave == nil {
			continue
		}
		if err := rt.askOne(ctx, &questions[len(questions)-1], request.Object("params")); err != nil {
			return answers, err
		}
	}
	for i := range questions {
		m, err := rt.await(ctx, &questions[i])
		if err != nil {
			return answers, err
		}
		answers = rt.take(answers, &questions[i], m)
	}
	return answers, nil
}

// askOne sends one question, unless the client cannot be asked it.
func (rt *roundTrips) askOne(ctx context.Context, q *question, params mcp.Object) error {
	if !mcp.CanBeAsked(rt.request.Capabilities, q.method, params) {
		return nil
	}
	if !rt.session.expect(q) {
		return errSessionEnded
	}
	params = lowering.Question(rt.revision, rt.request.Capabilities, q.method, params)
	err := rt.line.send(ctx, mcp.AppendRequest(nil, q.rpcID(), q.method, params))
	q.asked = err == nil
	if !q.asked {
		rt.session.unexpect(q)
	}
	if errors.Is(err, errNoLine) {
		return nil
	}
	rt.line.rest()
	return err
}

func (q *question) rpcID() mcp.ID { return mcp.ID(mcp.String(q.id)) }

// expect has the session take the answer to a question. It is false if the session has
// ended.
func (l *live) expect(q *question) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	if l.asked == nil {
		l.asked = make(map[string]*question)
	}
	l.asked[q.id] = q
	return true
}

// unexpect takes a question out. It is false if it was not in: it has been answered, or
// was never asked.
func (l *live) unexpect(q *question) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, waits := l.asked[q.id]
	delete(l.asked, q.id)
	return waits
}

// take gives an answer to the question of that id, if it waits: the first answer counts.
// The error is one of package share, if the user has no memory for the answer; then the
// question waits on.
func (l *live) take(id string, message []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.asked[id]
	if q == nil {
		return nil
	}
	if err := q.room.Resize(q.room.Size() + int64(len(message))); err != nil {
		return err
	}
	delete(l.asked, id)
	q.answer = message
	close(q.came)
	return nil
}

// await waits for the answer to a question. It returns nil if the question was not asked.
func (rt *roundTrips) await(ctx context.Context, q *question) (*mcp.Message, error) {
	if !q.asked {
		return nil, nil //nolint:nilnil // there is no answer, and nothing is wrong
	}
	select {
	case <-q.came:
		return mcp.Decode(q.answer)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// take adds an answer to the others. The stateless form has no place for errors among
// answers. An error in answer to an elicitation counts as the user's cancel; any other is
// passed on as a refusal.
func (rt *roundTrips) take(answers mcp.Object, q *question, m *mcp.Message) mcp.Object {
	switch {
	case m != nil && m.Err == nil:
		return answers.With(q.key, m.Result.JSON())
	case q.method == mcp.MethodElicit:
		return answers.With(q.key, mcp.RawJSON(`{"action":"cancel"}`))
	}
	refusal := exchange.ErrNotAsked
	if m != nil {
		refusal = m.Err
	}
	if rt.request.Refusals == nil {
		rt.request.Refusals = make(map[string]*mcp.Error)
	}
	rt.request.Refusals[q.key] = refusal
	return answers
}

// withdraw ends the questions of a round that have no answer yet: later answers to them
// are dropped, and the client is told that it need not answer.
func (rt *roundTrips) withdraw(ctx context.Context, questions []question) {
	ctx = context.WithoutCancel(ctx) // the call may have ended, but its session goes on
	for i := range questions {
		q := &questions[i]
		if !q.asked || !rt.session.unexpect(q) {
			continue // nobody asked, or the answer has come
		}
		params := mcp.NewObject(mcp.Member{Name: "requestId", Value: mcp.RawJSON(q.rpcID())})
		// the session may have ended
		_ = rt.line.send(ctx, mcp.AppendRequest(nil, "", mcp.NotifyCancelled, params))
	}
}
