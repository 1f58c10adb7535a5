package modern

import (
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// TestAnAlarmThatRingsLateOpensNoStream lets the alarm of an answer ring when the
// connection was just left to the answer of another replica.
func TestAnAlarmThatRingsLateOpensNoStream(t *testing.T) {
	t.Parallel()
	guard := exchange.Guard{Log: slog.New(slog.DiscardHandler)}
	e := &Endpoint{config: Config{Exchanges: &exchange.Service{Guard: guard}}}
	x := &exchange.Exchange{ResponseWriter: httptest.NewRecorder(), AcceptsStream: true}
	var p response
	p.begin(e, x)
	if !p.withdraw() {
		t.Fatal("something was sent")
	}
	p.Ring()
	if p.out != nil || p.broken {
		t.Errorf("got a stream %v, broken %v, want that the other replica answers", p.out, p.broken)
	}
}

// TestAnAnswerThatIsBegunAgainMeetsALateAlarm lets the alarm ring while the answer is
// begun again, because the other replica gave none. The race detector sees what is not
// guarded.
func TestAnAnswerThatIsBegunAgainMeetsALateAlarm(t *testing.T) {
	t.Parallel()
	guard := exchange.Guard{Log: slog.New(slog.DiscardHandler)}
	e := &Endpoint{config: Config{Exchanges: &exchange.Service{Guard: guard}}}
	x := &exchange.Exchange{ResponseWriter: httptest.NewRecorder()}
	var p response
	p.begin(e, x)
	if !p.withdraw() {
		t.Fatal("something was sent")
	}
	rung := make(chan struct{})
	go func() {
		defer close(rung)
		p.Ring()
	}()
	p.begin(e, x)
	<-rung
	if p.out != nil || p.broken {
		t.Errorf("got a stream %v, broken %v, want neither", p.out, p.broken)
	}
}
