package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server/session"
)

// What one request of a session may ask of its client.
const (
	maxRounds    = 8               // of questions
	maxQuestions = 32              // in one round
	roundTime    = 5 * time.Minute // for the answers of one round

	// A request that is to be tried again later is tried this often in a row, after pauses that double.
	maxPauses  = 16
	firstPause = 100 * time.Millisecond
	maxPause   = 10 * time.Second
)

// Why a request that asks its client something ends without a result.
var (
	errNoLine     = errors.New("there is no stream to the client")
	errUnanswered = errors.New("nobody answered in time")
	errRounds     = errors.New("there are too many questions")
	errPauses     = errors.New("it is not ready in time")
)

// line is the way to the client of a session while a request is in work.
type line struct {
	asks bool  // it can carry questions
	body int64 // bytes of the body that the request came in
	// send sends a message. The error is errNoLine when this client takes no stream.
	send func(ctx context.Context, message []byte) error
	// rest gives back the request's place among those in work: a human may take long, and what follows has a place of
	// the desk. It may be called again.
	rest func()
}

// notify sends a notification. A client that takes no stream is not told.
func (w *line) notify(ctx context.Context, n mcp.Notification) error {
	err := w.send(ctx, mcp.AppendRequest(nil, "", n.Method, n.Params))
	if errors.Is(err, errNoLine) {
		return nil
	}
	return err
}

// dialogue is one request of a session on its way to a result that asks for nothing. What the desk asks in between goes
// to the client as requests of ours; its answers come back through the log, so they may arrive at any replica.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
type dialogue struct {
	server   *Server
	session  *live
	line     *line
	caller   gateway.Caller
	request  gateway.Request
	revision string
}

// converse runs one request of a session until it has a result.
func (s *Server) converse(ctx context.Context, c gateway.Caller, l *live, way *line, id string, m *mcp.Message) (mcp.Object, *mcp.Error) {
	asks, level := l.terms()
	if !way.asks {
		asks = mcp.Object{}
	}
	d := &dialogue{server: s, session: l, line: way, caller: c, revision: l.speaks(), request: gateway.Request{
		ID: id, Method: m.Method, Params: m.Params.Without("inputResponses", "requestState"),
		Capabilities: asks, InSession: true, Client: l.name, LogLevel: level, Notify: way.notify, Tasks: tasksIn(l.speaks()),
	}}
	if m.Method == mcp.MethodTasksResult {
		way.rest() // it waits as long as its task runs
	}
	result, told := d.run(ctx)
	if told != nil {
		return lowerError(m.Method, told)
	}
	return result, nil
}

func (d *dialogue) run(ctx context.Context) (mcp.Object, *mcp.Error) {
	params := d.request.Params
	for rounds, pauses := 0, 0; ; {
		result, told := d.server.ask(ctx, d.caller, &d.request)
		if told != nil && rounds+pauses > 0 && told.StableCode() == unrecordable {
			return mcp.Object{}, errBegun
		}
		if told != nil || result.Text("resultType") != "input_required" {
			return result, told
		}
		questions := result.Object("inputRequests")
		next := params
		if state := result.Value("requestState"); state != nil {
			next = next.With("requestState", state)
		}
		var err error
		d.request.Refusals = nil
		if questions.Len() > 0 {
			rounds, pauses = rounds+1, 0
			var answers mcp.Object
			answers, err = d.put(ctx, rounds, questions)
			next = next.With("inputResponses", answers.JSON())
		} else {
			pauses++
			err = d.pause(ctx, pauses)
		}
		d.request.Params = next
		if err != nil {
			return d.giveUp(ctx, err)
		}
		caller, ok := d.server.resolve(d.caller.Principal)
		if !ok {
			_, _ = d.giveUp(ctx, errGone) // the client learns less
			return mcp.Object{}, errGone
		}
		d.caller = caller
	}
}

// giveUp ends a request that has no result. It goes to the desk once more, with its end, for whoever holds something
// open in wait for the answers.
func (d *dialogue) giveUp(ctx context.Context, err error) (mcp.Object, *mcp.Error) {
	ended, cancel := context.WithCancelCause(ctx)
	cancel(err)
	last := d.request
	last.Params, last.Refusals = last.Params.Without("inputResponses"), nil
	_, _ = d.server.ask(ended, d.caller, &last) // what it says is known
	if ctx.Err() != nil {
		return mcp.Object{}, errGone
	}
	return unanswerable(d.request.Method, err)
}

// pause waits before the nth try in a row.
func (d *dialogue) pause(ctx context.Context, n int) error {
	if n > maxPauses {
		return errPauses
	}
	leave := d.server.asking.enter(d.caller, d.line.body)
	if leave == nil {
		return errPauses
	}
	defer leave()
	d.line.rest()
	timer := time.NewTimer(min(firstPause<<(n-1), maxPause))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// question is one request to the client.
type question struct {
	key, method string
	stream      string // of the log, where the answer arrives; the id is the same text
	after       string // what of it was read
	asked       bool
	answered    bool
}

// put asks the client all questions of one round and returns the answers. Those that it refused, or that it cannot be
// asked, are in the request's refusals.
func (d *dialogue) put(ctx context.Context, round int, requests mcp.Object) (answers mcp.Object, err error) {
	if round > maxRounds || requests.Len() > maxQuestions {
		return mcp.Object{}, errRounds
	}
	ctx, stop := context.WithTimeoutCause(ctx, roundTime, errUnanswered)
	defer stop()
	questions := make([]question, 0, requests.Len())
	defer func() { d.close(ctx, questions) }()
	leave := d.server.asking.enter(d.caller, d.line.body)
	if leave != nil {
		defer leave()
	}
	for key, raw := range requests.Members {
		request, _ := mcp.ObjectOf(raw)
		questions = append(questions, question{key: key, method: request.Text("method"), stream: newQuestion()})
		if leave == nil {
			continue
		}
		if err := d.ask(ctx, &questions[len(questions)-1], request.Object("params")); err != nil {
			return answers, err
		}
	}
	for i := range questions {
		m, err := d.await(ctx, &questions[i])
		if err != nil {
			return answers, err
		}
		answers = d.take(answers, &questions[i], m)
	}
	return answers, nil
}

// newQuestion returns an id that nobody can guess.
func newQuestion() string {
	var random [16]byte
	rand.Read(random[:]) // never fails
	return "q" + hex.EncodeToString(random[:])
}

// isQuestion tells whether id may be one of newQuestion.
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

// ask sends one question, unless the client cannot be asked it.
func (d *dialogue) ask(ctx context.Context, q *question, params mcp.Object) error {
	if !mcp.CanBeAsked(d.request.Capabilities, q.method, params) {
		return nil
	}
	// Reading makes the stream known to the log: answers to any other are dropped.
	if _, _, err := d.server.config.Log.Read(ctx, d.session.name, q.stream, ""); err != nil {
		return err
	}
	params = lowerQuestion(d.revision, d.request.Capabilities, q.method, params)
	err := d.line.send(ctx, mcp.AppendRequest(nil, q.id(), q.method, params))
	if errors.Is(err, errNoLine) {
		return nil
	}
	q.asked = err == nil
	d.line.rest()
	return err
}

func (q *question) id() mcp.ID { return mcp.ID(mcp.String(q.stream)) }

// await returns the answer to a question, nil when it was not asked.
func (d *dialogue) await(ctx context.Context, q *question) (*mcp.Message, error) {
	if !q.asked {
		return nil, nil //nolint:nilnil // there is no answer, and nothing is wrong
	}
	for {
		events, more, err := d.server.config.Log.Read(ctx, d.session.name, q.stream, q.after)
		if err != nil {
			return nil, err
		}
		if len(events) > 0 {
			q.answered = true
			return mcp.Decode(events[0].Data)
		}
		if err := d.server.awaitMore(ctx, more); err != nil {
			return nil, err
		}
	}
}

// awaitMore waits until the log may have more, at most as long as a stream in it needs to be read to be kept.
func (s *Server) awaitMore(ctx context.Context, more <-chan struct{}) error {
	again := time.NewTimer(s.config.Heartbeat)
	defer again.Stop()
	select {
	case <-more:
	case <-again.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// take adds an answer. An error has no place among the answers of the stateless form: of a user's it is a way to say
// nothing, all else is passed on as refused.
func (d *dialogue) take(answers mcp.Object, q *question, m *mcp.Message) mcp.Object {
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
	if d.request.Refusals == nil {
		d.request.Refusals = make(map[string]*mcp.Error)
	}
	d.request.Refusals[q.key] = refusal
	return answers
}

// close ends the questions of a round: answers that come later are dropped, and the client need not bother.
func (d *dialogue) close(ctx context.Context, questions []question) {
	ctx = context.WithoutCancel(ctx) // the call may have ended, the session has not
	for i := range questions {
		q := &questions[i]
		if !q.asked || q.answered {
			continue
		}
		if _, err := d.server.config.Log.Append(ctx, d.session.name, q.stream, nil, true); err != nil {
			continue // answered just now, or the session has ended
		}
		params := mcp.NewObject(mcp.Member{Name: "requestId", Value: mcp.RawJSON(q.id())})
		_ = d.line.send(ctx, mcp.AppendRequest(nil, "", mcp.NotifyCancelled, params)) // the session may have ended
	}
}

// answered takes an answer of the client to a question that was asked in its session, here or at another replica.
// Others, and second ones, are dropped.
func (s *Server) answered(ctx context.Context, l *live, m *mcp.Message) {
	id, ok := mcp.RawJSON(m.ID).Text()
	if !ok || !isQuestion(id) {
		return
	}
	if _, err := s.config.Log.Find(ctx, l.name, session.FirstID(id)); err != nil {
		return
	}
	message := mcp.AppendResult(nil, m.ID, m.Result)
	if m.Err != nil {
		message = mcp.AppendError(nil, m.ID, m.Err)
	}
	if _, err := s.config.Log.Append(ctx, l.name, id, message, true); err != nil {
		s.log.DebugContext(ctx, "answer not wanted", "error", err)
	}
}
