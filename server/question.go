package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server/session"
)

// question is one request from the server to the client, in a round of a request of the client.
type question struct {
	key, method string
	stream      string // of the log, on which the answer arrives; the id of the question is the same text
	after       string // id of the last event that was read from it
	asked       bool
	answered    bool
}

// askAll asks the client all questions of one round and returns the answers. A question that the client answers with an
// error, or that it cannot be asked, is in the Refusals of the next round instead.
func (rt *roundTrips) askAll(ctx context.Context, round int, requests mcp.Object) (answers mcp.Object, err error) {
	if round > maxRounds || requests.Len() > maxQuestions {
		return mcp.Object{}, errRounds
	}
	ctx, stop := context.WithTimeoutCause(ctx, roundTime, errUnanswered)
	defer stop()
	questions := make([]question, 0, requests.Len())
	defer func() { rt.withdraw(ctx, questions) }()
	leave := rt.server.waiting.enter(rt.caller, rt.line.body)
	if leave != nil {
		defer leave()
	}
	for key, raw := range requests.Members {
		request, _ := mcp.ObjectOf(raw)
		questions = append(questions, question{key: key, method: request.Text("method"), stream: newQuestion()})
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

// newQuestion returns the id of a question, which nobody can guess: whoever knows it could answer.
func newQuestion() string {
	var random [16]byte
	rand.Read(random[:]) // never fails
	return "q" + hex.EncodeToString(random[:])
}

// isQuestion tells whether id has the form of an id of newQuestion.
func isQuestion(id string) bool {
	if len(id) != 33 || id[0] != 'q' {
		return false
	}
	for _, c := range []byte(id[1:]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// askOne sends one question, unless the client cannot be asked it.
func (rt *roundTrips) askOne(ctx context.Context, q *question, params mcp.Object) error {
	if !mcp.CanBeAsked(rt.request.Capabilities, q.method, params) {
		return nil
	}
	// Reading makes the stream known to the log: answers to any other are dropped.
	if _, _, err := rt.server.config.Log.Read(ctx, rt.session.inLog(), q.stream, ""); err != nil {
		return err
	}
	params = lowerQuestion(rt.revision, rt.request.Capabilities, q.method, params)
	err := rt.line.send(ctx, mcp.AppendRequest(nil, q.id(), q.method, params))
	if errors.Is(err, errNoLine) {
		return nil
	}
	q.asked = err == nil
	rt.line.rest()
	return err
}

func (q *question) id() mcp.ID { return mcp.ID(mcp.String(q.stream)) }

// await waits for the answer to a question. It returns nil if the question was not asked.
func (rt *roundTrips) await(ctx context.Context, q *question) (*mcp.Message, error) {
	if !q.asked {
		return nil, nil //nolint:nilnil // there is no answer, and nothing is wrong
	}
	for {
		events, more, err := rt.server.config.Log.Read(ctx, rt.session.inLog(), q.stream, q.after)
		if err != nil {
			return nil, err
		}
		if len(events) > 0 {
			q.answered = true
			return mcp.Decode(events[0].Data)
		}
		if err := rt.server.awaitMore(ctx, more); err != nil {
			return nil, err
		}
	}
}

// take adds an answer to the others. The stateless form has no place for errors among answers. An error in answer to an
// elicitation counts as the user's cancel; any other is passed on as a refusal.
func (rt *roundTrips) take(answers mcp.Object, q *question, m *mcp.Message) mcp.Object {
	switch {
	case m != nil && m.Err == nil:
		return answers.With(q.key, m.Result.JSON())
	case q.method == mcp.MethodElicit:
		return answers.With(q.key, mcp.RawJSON(`{"action":"cancel"}`))
	}
	refusal := errNotAsked
	if m != nil {
		refusal = m.Err
	}
	if rt.request.Refusals == nil {
		rt.request.Refusals = make(map[string]*mcp.Error)
	}
	rt.request.Refusals[q.key] = refusal
	return answers
}

// withdraw ends the questions of a round that have no answer yet: later answers to them are dropped, and the client is
// told that it need not answer.
func (rt *roundTrips) withdraw(ctx context.Context, questions []question) {
	ctx = context.WithoutCancel(ctx) // the call may have ended, but its session goes on
	for i := range questions {
		q := &questions[i]
		if !q.asked || q.answered {
			continue
		}
		if _, err := rt.server.config.Log.Append(ctx, rt.session.inLog(), q.stream, nil, true); err != nil {
			continue // the answer came just now, or the session has ended
		}
		params := mcp.NewObject(mcp.Member{Name: "requestId", Value: mcp.RawJSON(q.id())})
		_ = rt.line.send(ctx, mcp.AppendRequest(nil, "", mcp.NotifyCancelled, params)) // the session may have ended
	}
}

// answered takes an answer of the client to a question that was asked in its session, on this replica or another. An
// answer to anything else is dropped, and so is a second answer. It is refused if the caller has no memory for it; then
// the client may send it again.
func (s *Server) answered(ctx context.Context, l *live, m *mcp.Message) *refusal {
	id, ok := mcp.RawJSON(m.ID).Text()
	if !ok || !isQuestion(id) {
		return nil
	}
	if _, err := s.config.Log.Find(ctx, l.inLog(), session.FirstID(id)); err != nil {
		return nil
	}
	message := mcp.AppendResult(nil, m.ID, m.Result)
	if m.Err != nil {
		message = mcp.AppendError(nil, m.ID, m.Err)
	}
	if _, err := s.config.Log.Append(ctx, l.inLog(), id, message, true); err != nil {
		if refused := ofMemory(err); refused != nil {
			return refused
		}
		s.log.DebugContext(ctx, "answer not wanted", "error", err)
	}
	return nil
}
