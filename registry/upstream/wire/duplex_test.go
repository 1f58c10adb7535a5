package wire

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// eventRecorder writes down what a transport tells, in its order.
type eventRecorder struct{ lines []string }

func (n *eventRecorder) Question(m *mcp.Message, _ *Request) []byte {
	n.lines = append(n.lines, "question "+m.Method)
	return nil
}

func (n *eventRecorder) Notification(m *mcp.Message) {
	n.lines = append(n.lines, "notification "+m.Method)
}

func (n *eventRecorder) Following(open, again bool) {
	n.lines = append(n.lines, map[bool]string{true: "following", false: "deaf"}[open && !again])
}

func (n *eventRecorder) CheckAlive()        { n.lines = append(n.lines, "doubt") }
func (n *eventRecorder) Count(Anomaly, int) {}

func (n *eventRecorder) Saved(_ context.Context, do func() error) error { return do() }

// sends is this side of a pipe.
type sends func(ctx context.Context, body []byte) error

func (s sends) Send(ctx context.Context, body []byte) error { return s(ctx, body) }
func (s sends) Tell(ctx context.Context, body []byte)       { _ = s(ctx, body) }

// TestNotesComeBeforeTheQuestionAfterThem takes a note and a question in while whoever
// waits for the answer is late: the request that hears at once has the note first. From
// outside, how late anyone is cannot be chosen.
func TestNotesComeBeforeTheQuestionAfterThem(t *testing.T) {
	t.Parallel()
	up := &eventRecorder{}
	link := newDuplex(up, reader{count: up.Count}, Memory{})
	link.waiting.add(&Request{
		ID:   "7",
		Hear: func(m *mcp.Message) { up.lines = append(up.lines, "note "+m.Params.Text("message")) },
	},
		Memory{})
	link.take(
		t.Context(), []byte(
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1,"message":"hello"}}`))
	link.take(
		t.Context(), []byte(
			`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}`))
	if want := []string{"note hello", "question elicitation/create"}; !slices.Equal(up.lines, want) {
		t.Errorf("got %q, want %q", up.lines, want)
	}
}

// TestLogMessagesBelongToTheRequestThatWantsThem sends log messages, which say nothing of
// their request over a pipe, before there is one that wants them, while there is, and
// afterwards.
func TestLogMessagesBelongToTheRequestThatWantsThem(t *testing.T) {
	t.Parallel()
	up := &eventRecorder{}
	link := newDuplex(up, reader{count: up.Count}, Memory{})
	link.out = sends(func(context.Context, []byte) error { return nil })
	if err := link.Begin(t.Context(), "", mcp.LatestLegacy, nil); err != nil {
		t.Fatal(err)
	}
	say := func() {
		link.take(
			t.Context(), []byte(
				`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`))
	}
	say()
	heard := link.waiting.add(&Request{
		ID: "7", Logs: true,
		Hear: func(*mcp.Message) { up.lines = append(up.lines, "heard") },
	}, Memory{})
	say()
	link.waiting.remove(heard, "7")
	say()
	const unclaimed = "notification notifications/message"
	if want := []string{"following", unclaimed, "heard", unclaimed}; !slices.Equal(up.lines, want) {
		t.Errorf("got %q, want %q", up.lines, want)
	}
}

// TestOnlyModernServersEndRequests cancels a request of the gateway: a modern server ends
// its subscription so, and one of the legacy era takes back a question of its own that
// happens to have the same id.
func TestOnlyModernServersEndRequests(t *testing.T) {
	t.Parallel()
	up := &eventRecorder{}
	link := newDuplex(up, reader{count: up.Count}, Memory{})
	subscription, call := link.waiting.add(&Request{ID: "7", Header: map[string][]string{}}, Memory{}),
		link.waiting.add(&Request{ID: "8"}, Memory{})
	for _, id := range []string{"7", "8"} {
		link.take(
			t.Context(), []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+
				id+`}}`))
	}
	if len(subscription.answer) != 1 || len(call.answer) != 0 {
		t.Errorf("ended: subscription %d, call %d; want the subscription alone", len(subscription.answer),
			len(call.answer))
	}
	if want := []string{"notification notifications/cancelled"}; !slices.Equal(up.lines, want) {
		t.Errorf("got %q, want %q", up.lines, want)
	}
}

// TestAnAnswerThatCameCountsThoughItsPostFailed has both there when whoever waits looks,
// as after a slow caller took a notification. It looks often, since either may be found.
func TestAnAnswerThatCameCountsThoughItsPostFailed(t *testing.T) {
	t.Parallel()
	up := &eventRecorder{}
	for range 50 {
		link, out := newDuplex(up, reader{count: up.Count}, Memory{}), &Request{ID: "7"}
		w := link.waiting.add(out, Memory{})
		link.take(t.Context(), []byte(`{"jsonrpc":"2.0","id":7,"result":{"done":true}}`))
		failed := make(chan error, 1)
		failed <- errors.New("connection reset")
		if result, err := link.await(t.Context(), out, w, failed); err != nil || !result.Has("done") {
			t.Fatalf("got %s, %v", result.JSON(), err)
		}
	}
}

// TestABatchWithABadMessageLeavesNobodyWaiting answers two requests in one text, one of
// them in a way that is none: both callers learn it at once.
func TestABatchWithABadMessageLeavesNobodyWaiting(t *testing.T) {
	t.Parallel()
	up := &eventRecorder{}
	link := newDuplex(up, reader{count: up.Count}, Memory{})
	first, second := link.waiting.add(&Request{ID: "7"}, Memory{}), link.waiting.add(&Request{ID: "8"}, Memory{})
	link.take(t.Context(), []byte(`[{"jsonrpc":"2.0","id":7,"result":{}},5,{"jsonrpc":"2.0","id":8}]`))
	for _, w := range []*waiter{first, second} {
		select {
		case a := <-w.answer:
			if a.err == nil {
				t.Errorf("got %s, want an error", a.result.JSON())
			}
		default:
			t.Error("got no answer, want an error at once")
		}
	}
}
