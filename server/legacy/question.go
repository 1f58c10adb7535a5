package legacy

import (
	"context"
	"errors"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/forward"
	"github.com/drawbridge-mcp/drawbridge/server/lowering"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
)

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
	questions := make([]sessions.Question, 0, requests.Len())
	defer func() { rt.withdraw(ctx, questions) }()
	home := rt.server.config.Others.Self()
	if rt.heard == nil {
		rt.heard = rt.server.config.Memory.Reserve(share.User(rt.session.User))
	}
	release := rt.server.waiting.enter(rt.caller, rt.responder.body)
	if release != nil {
		defer release()
	}
	for key, raw := range requests.Members {
		request, _ := mcp.ObjectOf(raw)
		questions = append(questions, sessions.Question{
			Key: key, Method: request.Text("method"), ID: forward.NewQuestion(home), Memory: rt.heard,
			Done: make(chan struct{}),
		})
		if release == nil {
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
func (rt *roundTrips) askOne(ctx context.Context, q *sessions.Question, params mcp.Object) error {
	if !mcp.CanBeAsked(rt.request.Capabilities, q.Method, params) {
		return nil
	}
	if !rt.session.Expect(q) {
		return sessions.ErrSessionEnded
	}
	params = lowering.Question(rt.revision, rt.request.Capabilities, q.Method, params)
	err := rt.responder.send(ctx, mcp.AppendRequest(nil, q.RPCID(), q.Method, params))
	q.Asked = err == nil
	if !q.Asked {
		rt.session.Unexpect(q)
	}
	if errors.Is(err, errNoStream) {
		return nil
	}
	rt.responder.releaseSlot()
	return err
}

// await waits for the answer to a question. It returns nil if the question was not asked.
func (rt *roundTrips) await(ctx context.Context, q *sessions.Question) (*mcp.Message, error) {
	if !q.Asked {
		return nil, nil //nolint:nilnil // there is no answer, and nothing is wrong
	}
	if err := pace.Await(ctx, q.Done); err != nil {
		return nil, err
	}
	return mcp.Decode(q.Answer)
}

// take adds an answer to the others. The stateless form has no place for errors among
// answers. An error in answer to an elicitation counts as the user's cancel; any other is
// passed on as a refusal.
func (rt *roundTrips) take(answers mcp.Object, q *sessions.Question, m *mcp.Message) mcp.Object {
	switch {
	case m != nil && m.Err == nil:
		return answers.With(q.Key, m.Result.JSON())
	case q.Method == mcp.MethodElicit:
		return answers.With(q.Key, mcp.RawJSON(`{"action":"cancel"}`))
	}
	refusal := exchange.ErrNotAsked
	if m != nil {
		refusal = m.Err
	}
	if rt.request.Refusals == nil {
		rt.request.Refusals = make(map[string]*mcp.Error)
	}
	rt.request.Refusals[q.Key] = refusal
	return answers
}

// withdraw ends the questions of a round that have no answer yet: later answers to them
// are dropped, and the client is told that it need not answer.
func (rt *roundTrips) withdraw(ctx context.Context, questions []sessions.Question) {
	ctx = context.WithoutCancel(ctx) // the call may have ended, but its session goes on
	for i := range questions {
		q := &questions[i]
		if !q.Asked || !rt.session.Unexpect(q) {
			continue // nobody asked, or the answer has come
		}
		params := mcp.NewObject(mcp.Member{Name: "requestId", Value: mcp.RawJSON(q.RPCID())})
		// the session may have ended
		_ = rt.responder.send(ctx, mcp.AppendRequest(nil, "", mcp.NotifyCancelled, params))
	}
}
