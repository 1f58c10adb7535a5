package upstream

import (
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// TestNotesComeBeforeTheQuestionAfterThem takes a note and a question in while whoever waits for the answer is late: the
// dialogue has the note first. From outside, how late anyone is cannot be chosen.
func TestNotesComeBeforeTheQuestionAfterThem(t *testing.T) {
	t.Parallel()
	c := newConnection("s", func(Anomaly, int) {})
	capabilities := mcp.NewObject(mcp.Member{Name: "elicitation", Value: mcp.RawJSON(`{"form":{}}`)})
	l := &legacy{conn: c, capabilities: capabilities}
	c.session.Store(l)
	d := &dialogue{
		news: make(chan struct{}, 1), notes: make(chan *mcp.Message, notesMax), done: make(chan struct{}),
		seen: map[mcp.ID]bool{}, attached: true, capabilities: capabilities,
	}
	l.enter(d)
	link := newDuplex(c)
	link.waiting.add(&outgoing{id: "7", asks: d})
	link.take(t.Context(), []byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1,"message":"note"}}`))
	link.take(t.Context(), []byte(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}`))
	if !d.waits() {
		t.Fatal("the question did not come")
	}
	select {
	case m := <-d.notes:
		if got := m.Params.Text("message"); !strings.Contains(got, "note") {
			t.Errorf("got %q, want the note", got)
		}
	default:
		t.Error("the question came before the note")
	}
}
