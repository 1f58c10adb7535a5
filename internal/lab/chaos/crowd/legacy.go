package crowd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

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
	p.eachRound(func() {
		if s == nil || s.gone.Load() {
			s = p.open()
			return
		}
		s.operate()
		if p.rounds%callsOpen == callsOpen-1 {
			s.close()
			s = nil
		}
	})
	if s != nil {
		s.close()
	}
}

// operate makes one call.
func (s *session) operate() {
	ctx, cancel := s.patient()
	defer cancel()
	tools := []string{"stay", "progress", "progress", "slower", "big", "touch", "touch", "touch"}
	if s.revision >= mcp.Revision2506 {
		tools[len(tools)-1] = "ask"
	}
	if d := s.draw(tools...); d.stays() {
		s.cancel(ctx, d)
	} else {
		s.call(ctx, d)
	}
}

// stream is the stream of a call, over all connections that it takes to read it.
type stream struct {
	*deed

	session *session      // in which it answers questions; nil: it answers none
	last    string        // id of the last event; "" while it cannot be resumed
	retry   time.Duration // that the server wants between two connections
	// after how many more events the client breaks the connection itself; 0: it does not
	cut    int
	broken bool      // it was, and nothing has come since
	ended  time.Time // when its last connection did

	replies sync.WaitGroup  // answers to questions that are on their way; call waits
	lasts   context.Context //nolint:containedctx // it ends with the call, when nobody wants these any more
	end     context.CancelFunc
}

// Why a connection is no more: the client broke it itself; or there is none yet, since
// the client is to come later.
var (
	errCut   = errors.New("the client broke the connection")
	errLater = errors.New("the client is to come later")
)

// call makes a call and reads its answer. A stream that breaks is resumed where it has
// event ids.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
func (s *session) call(ctx context.Context, d *deed) {
	lasts, end := context.WithCancel(ctx)
	t := &stream{deed: d, session: s, retry: time.Second, lasts: lasts, end: end}
	defer t.replies.Wait()
	defer end()
	if s.dice.IntN(4) == 0 {
		t.cut = 1 + s.dice.IntN(4)
	}
	over, err := t.read(s.post(lasts, d.older(s.nextID())))
	for !over {
		if err == nil {
			s.crowd.goodbyes.Add(1)
		}
		if t.last == "" || s.gone.Load() || !world.Pause(ctx, t.retry) {
			d.broke(ctx, err)
			return
		}
		t.broken = true
		over, err = t.read(s.within(lasts, http.MethodGet, nil, t.last))
	}
}

// read reads one connection to its end. over tells whether the call has its end.
func (t *stream) read(r *reply, err error) (over bool, wrong error) {
	if err != nil || r.status != http.StatusOK {
		t.retry = max(t.retry, soon)
		return t.refuses(r, err)
	}
	if t.broken {
		longest(&t.by.crowd.longestGap, time.Since(t.ended))
	}
	if !r.streams() {
		t.by.ledger.Plain(t.nonce)
	}
	defer func() { t.ended = time.Now() }()
	for e, err := range events(r) {
		if err != nil {
			return false, err
		}
		if e.HasID {
			t.last = e.ID
		}
		if e.Retry > 0 {
			t.retry = e.Retry
		}
		if e.message != nil && t.hears(e.message) {
			return true, nil
		}
		if t.cut > 0 && e.HasID {
			if t.cut--; t.cut == 0 {
				return false, errCut
			}
		}
	}
	return false, nil
}

// refuses takes in that there is no stream. A refusal to resume one speaks of the stream,
// not of the call, which may have been made.
func (t *stream) refuses(r *reply, err error) (over bool, wrong error) {
	if err != nil {
		return false, err
	}
	w := t.by.heard(r)
	if t.broken && (w.later > 0 || w.broken) {
		return false, errLater
	}
	w.made = w.made || t.broken
	t.refused(w)
	return true, nil
}

// hears takes a message, and answers a question. It reads on meanwhile, as SDKs do: where
// the replica that asked has died, the answer is not taken, and the stream alone says
// that the call has ended. A client that is told that there is no such session waits no
// longer.
func (t *stream) hears(m *mcp.Message) (over bool) {
	if t.broken {
		t.broken = false
		t.by.crowd.resumed.Add(1)
	}
	if m.Method != mcp.MethodElicit || t.session == nil {
		return t.told(m)
	}
	t.by.ledger.Event(t.nonce, ofQuestion(m.Params.Text("message")), 1)
	reply := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, yes)
	t.replies.Go(func() {
		if t.session.insist(t.lasts, http.MethodPost, reply, http.StatusAccepted) {
			t.by.crowd.questions.Add(1)
		} else if t.session.gone.Load() {
			t.end()
		}
	})
	return false
}

// cancel makes a call that takes long, and cancels it.
func (s *session) cancel(ctx context.Context, d *deed) {
	id := s.nextID()
	d.cancelled(ctx, func() (bool, error) {
		return (&stream{deed: d}).read(s.post(ctx, d.older(id)))
	}, func() {
		s.tell(fmt.Appendf(nil,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"enough"}}`, id))
	})
}
