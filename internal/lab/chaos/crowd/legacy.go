package crowd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// callsOpen is how many calls a client makes in a session before it opens another.
const callsOpen = 40

// sessions opens sessions and makes calls in them: some answer as plain JSON, some tell
// of their progress, ask, take long or are cancelled. Of each four streams it breaks one,
// and resumes it.
func (p *person) sessions() {
	var s *session
	p.eachRound(func() (later time.Duration) {
		if s == nil || s.gone {
			s, later = p.open()
			return later
		}
		later = s.operate()
		if p.rounds%callsOpen == callsOpen-1 {
			s.close()
			s = nil
		}
		return later
	})
	if s != nil {
		s.close()
	}
}

// operate makes one call.
func (s *session) operate() time.Duration {
	ctx, cancel := s.patient()
	defer cancel()
	switch s.dice.IntN(8) {
	case 0:
		return s.cancelled(ctx)
	case 1, 2:
		return s.call(ctx, s.progressing())
	case 3:
		if s.revision >= mcp.Revision2506 {
			return s.call(ctx, s.intend(s.server(), "ask", "", ledger.Question{Events: 1}))
		}
	case 4:
		return s.call(ctx, s.intend(s.server(), "slow", fmt.Sprintf(`,"ms":%d`, 800+s.dice.IntN(800)),
			ledger.Question{}))
	case 5:
		return s.call(ctx, s.intend(s.server(), "big", fmt.Sprintf(`,"size":%d`, 1000+s.dice.IntN(60_000)),
			ledger.Question{}))
	}
	return s.call(ctx, s.intend(s.server(), "touch", "", ledger.Question{}))
}

// post sends a call.
func (s *session) post(ctx context.Context, id mcp.ID, d *deed) (*reply, error) {
	return s.send(ctx, "/mcp", d.body(id), s.header())
}

// stream is the stream of a call, over all connections that it takes to read it.
type stream struct {
	*deed

	last   string        // id of the last event; "" while it cannot be resumed
	retry  time.Duration // that the server wants between two connections
	cut    int           // after how many more events the client breaks the connection itself; 0: it does not
	broken bool          // it was
}

// errCut is why a connection ended that the client broke itself.
var errCut = errors.New("the client broke the connection")

// call makes a call and reads its answer. A stream that breaks is resumed where it has
// event ids.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
func (s *session) call(ctx context.Context, d *deed) (later time.Duration) {
	response, err := s.post(ctx, s.nextID(), d)
	if err != nil {
		s.broke(ctx, d.nonce, err)
		return 0
	}
	if response.status != http.StatusOK {
		return s.refused(d.nonce, s.refusal(response))
	}
	if !response.streams() {
		s.ledger.Plain(d.nonce)
	}
	t := &stream{deed: d, retry: time.Second}
	if s.dice.IntN(4) == 0 {
		t.cut = 1 + s.dice.IntN(4)
	}
	for {
		over, later, err := s.follows(ctx, t, response)
		if over {
			return later
		}
		if err == nil {
			s.crowd.tally.goodbyes.Add(1)
		}
		if t.last == "" || s.gone {
			s.broke(ctx, d.nonce, err)
			return 0
		}
		if response = s.resume(ctx, t); response == nil {
			return 0
		}
	}
}

// follows reads one connection of a stream to its end. over tells whether the call has
// its end.
func (s *session) follows(ctx context.Context, t *stream, response *reply) (over bool, later time.Duration,
	err error,
) {
	for e, err := range events(response) {
		if err != nil {
			return false, 0, err
		}
		if e.HasID {
			t.last = e.ID
		}
		if e.Retry > 0 {
			t.retry = e.Retry
		}
		if m := e.message; m != nil {
			if t.broken {
				t.broken = false
				s.crowd.deeds.resumed.Add(1)
			}
			if m.Method == mcp.MethodElicit {
				text := m.Params.Text("message")
				s.ledger.Event(t.nonce, ofQuestion(text), 1)
				s.answer(ctx, m.ID)
			} else if over, later = s.told(t.deed, m); over {
				return true, later, nil
			}
		}
		if t.cut > 0 && e.HasID {
			if t.cut--; t.cut == 0 {
				return false, 0, errCut
			}
		}
	}
	return false, 0, nil
}

// answer answers a question that came on a stream.
func (s *session) answer(ctx context.Context, question mcp.ID) {
	if s.tell(ctx, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, question, yes)) {
		s.crowd.deeds.questions.Add(1)
	}
}

// resume opens the stream of a call again, as often as it takes. It returns nil when that
// has no end, which it enters.
func (s *session) resume(ctx context.Context, t *stream) *reply {
	began := time.Now()
	for wait := t.retry; world.Pause(ctx, wait); wait = max(t.retry, 100*time.Millisecond) {
		t.broken = true
		header := s.header()
		header[mcp.HeaderLastEventID] = t.last
		response, err := s.get(ctx, http.MethodGet, "/mcp", header)
		switch {
		case err != nil:
			continue
		case response.status == http.StatusOK:
			longest(&s.crowd.tally.longestGap, time.Since(began))
			return response
		}
		w := s.refusal(response)
		if w.later == 0 && !w.broken {
			w.made = true // it speaks of the stream, not of the call
			s.refused(t.nonce, w)
			return nil
		}
	}
	s.broke(ctx, t.nonce, nil)
	return nil
}

// cancelled makes a call that takes long, and cancels it.
func (s *session) cancelled(ctx context.Context) time.Duration {
	d, id := s.intend(s.server(), "stay", "", ledger.Question{}), s.nextID()
	told := make(chan struct{})
	timer := time.AfterFunc(100*time.Millisecond+time.Duration(s.dice.IntN(200))*time.Millisecond, func() {
		defer close(told)
		s.ledger.Cancelled(d.nonce)
		s.crowd.deeds.cancelled.Add(1)
		s.tell(ctx, fmt.Appendf(nil,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"enough"}}`, id))
	})
	response, err := s.post(ctx, id, d)
	var over bool
	var later time.Duration
	switch {
	case err != nil:
	case response.status != http.StatusOK:
		over, later = true, s.refused(d.nonce, s.heard(response))
	default:
		over, later, err = s.follows(ctx, &stream{deed: d}, response)
	}
	if timer.Stop() {
		if !over {
			s.broke(ctx, d.nonce, err) // before the client cancelled it
		}
		return later
	}
	if !over && ctx.Err() != nil {
		s.broke(ctx, d.nonce, err) // a cancelled call whose stream nobody ends
	}
	<-told
	return later
}
