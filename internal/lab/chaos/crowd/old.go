package crowd

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// oldSession is a session of 2024-11-05. All that comes, comes on one stream, and the
// session ends with it.
type oldSession struct {
	*person

	endpoint string // path to send messages to
	cancel   context.CancelFunc
	left     atomic.Bool // the client ended the stream itself
	spent    bool        // another one is to be opened
	// the call that was being sent while the gateway ended the stream, which it has
	// refused
	crossed *deed
	ended   context.Context //nolint:containedctx // it ends with the stream
	end     context.CancelFunc

	mu   sync.Mutex // guards the field below
	open map[mcp.ID]*waiting
}

// waiting is a request that waits for its answer.
type waiting struct {
	*deed // nil: it is no call

	answer chan *mcp.Message // the answer; it has room for one
}

// old opens sessions over HTTP+SSE and makes calls in them. Now and then it leaves in the
// middle of a call.
// https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse
func (p *person) old() {
	var s *oldSession
	// whose message crossed the end of its session, so that it is sent again in the next
	// one
	var crossed *deed
	opened := func() bool {
		if s != nil && (s.spent || s.over()) {
			s.close()
			s = nil
		}
		if s == nil {
			s = p.openOld()
		}
		return s != nil
	}
	p.eachRound(func() {
		if !opened() {
			p.comeLater(soon)
			return
		}
		d := crossed
		if d == nil {
			d = p.draw("progress", "slow", "touch", "touch")
		}
		if p.dice.IntN(callsOpen) == 0 {
			leaver := s
			time.AfterFunc(50*time.Millisecond, func() {
				leaver.left.Store(true)
				leaver.cancel()
			})
		}
		s.call(d)
		crossed = s.crossed
	})
	if crossed != nil && opened() {
		s.call(crossed)
	}
	if s != nil {
		s.close()
	}
}

// openOld opens a session, nil if there is none now.
func (p *person) openOld() *oldSession {
	ctx, begun, cancel := p.lasting()
	response := p.opened(p.request(ctx, http.MethodGet, "/sse", nil, nil))
	if response == nil {
		cancel()
		return nil
	}
	begun()
	s := &oldSession{person: p, cancel: cancel, open: map[mcp.ID]*waiting{}}
	s.ended, s.end = context.WithCancel(context.Background())
	endpoint := make(chan string, 1)
	go s.listens(response, endpoint) // close waits
	patient, stop := p.patient()
	defer stop()
	select {
	case s.endpoint = <-endpoint:
	case <-s.ended.Done():
		p.trouble("a session that ended before it began")
	case <-patient.Done():
		p.ledger.Untold(p.kind + " of " + p.tenant + ": no endpoint")
	}
	if s.endpoint == "" || !s.handshake() {
		s.close()
		return nil
	}
	p.crowd.sessions.Add(1)
	return s
}

// handshake initializes the session. It counts why it could not.
func (s *oldSession) handshake() bool {
	const params = `"params":{"protocolVersion":"2024-11-05","capabilities":{},` +
		`"clientInfo":{"name":"crowd","version":"1"}}`
	ctx, cancel := s.patient()
	defer cancel()
	id := s.nextID()
	w := s.expect(id, nil)
	initialize := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"initialize",%s}`, id, params)
	if !s.posts(ctx, initialize, nil) {
		return false
	}
	switch answer := s.await(ctx, w); {
	case answer == nil && s.over():
		s.trouble("a session that ended before initialize was answered")
	case answer == nil:
		s.trouble("initialize was not answered")
	case answer.Err != nil:
		s.failed(answer.Err)
	default:
		return s.posts(ctx, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), nil)
	}
	return false
}

// over tells whether the stream has ended, and the session with it.
func (s *oldSession) over() bool { return s.ended.Err() != nil }

// crossTime is how long a client waits for the end of its stream when it was refused,
// before it takes the refusal for one that has nothing to do with that.
const crossTime = 5 * time.Second

// endsSoon tells whether the gateway ends the stream at about this time.
func (s *oldSession) endsSoon(ctx context.Context) bool {
	return world.Within(ctx, crossTime, "the stream ends", s.over) == nil
}

// close ends the session and waits for its stream.
func (s *oldSession) close() {
	s.cancel()
	<-s.ended.Done()
}

// expect enters a request that is about to be sent.
func (s *oldSession) expect(id mcp.ID, d *deed) *waiting {
	w := &waiting{deed: d, answer: make(chan *mcp.Message, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[id] = w
	return w
}

// listens reads the stream to its end. An answer that comes after its client gave up
// still counts.
func (s *oldSession) listens(response *reply, endpoint chan<- string) {
	defer s.end()
	for e, err := range events(response) {
		if err != nil {
			s.garbled(err)
			return
		}
		if e.Type == "endpoint" {
			select {
			case endpoint <- string(e.Data):
			default: // a second one is none
			}
			continue
		}
		if e.message != nil {
			s.hears(e.message)
		}
	}
	s.crowd.goodbyes.Add(1)
}

// hears enters what a message says of a call.
func (s *oldSession) hears(m *mcp.Message) {
	s.mu.Lock()
	w := s.open[m.ID]
	if m.Method == mcp.NotifyProgress {
		token, _ := m.Params.Value(mcp.MetaProgressToken).Text()
		for _, one := range s.open {
			if one.deed != nil && one.nonce.String() == token {
				w = one
			}
		}
	}
	s.mu.Unlock()
	if w == nil || w.deed == nil && m.Method != "" || w.deed != nil && !w.told(m) {
		return
	}
	select {
	case w.answer <- m:
	default: // a second answer, which the ledger has counted if it is of a call
		if w.deed == nil {
			s.trouble("initialize was answered twice")
		}
	}
}

// posts sends a message and tells whether it was accepted. Otherwise it enters why the
// call was not, if there is one.
func (s *oldSession) posts(ctx context.Context, body []byte, d *deed) bool {
	response, err := s.send(ctx, s.endpoint, body, nil)
	if err == nil && response.status == http.StatusAccepted {
		_ = response.body.Close() // it is empty
		return true
	}
	s.spent = true
	if err == nil {
		s.refuses(ctx, s.refusalOf(response), d)
	} else if d != nil {
		d.broke(ctx, err)
	}
	return false
}

// refuses enters a refusal of a message. What crossed the end of its session is refused
// unless it is answered in the next one; a handshake is made anew there anyway.
func (s *oldSession) refuses(ctx context.Context, w word, d *deed) {
	if s.left.Load() && d != nil {
		s.lost(ctx, d) // so there is no such session any more
		return
	}
	if s.endsSoon(ctx) && !w.broken && !w.made {
		s.crossed = d
	} else {
		s.crowd.meets(s.kind + ": " + w.code)
	}
	if d != nil {
		d.enter(w)
	}
}

// lost enters that the stream of a call ended before its answer.
func (s *oldSession) lost(ctx context.Context, d *deed) {
	if s.left.Load() {
		s.ledger.Left(d.nonce, "session left by its client")
		return
	}
	d.broke(ctx, nil)
}

// call makes a call and waits for its answer on the stream.
func (s *oldSession) call(d *deed) {
	ctx, cancel := s.patient()
	defer cancel()
	id := s.nextID()
	w := s.expect(id, d)
	if !s.posts(ctx, d.older(id), d) {
		s.comeLater(soon)
		return
	}
	if s.await(ctx, w) == nil {
		s.spent = true
		s.lost(ctx, d)
	}
}

// await waits for the answer to a request, or for the end of the stream or of the
// client's patience, and returns nil without one. The answer may be the last word on the
// stream.
func (s *oldSession) await(ctx context.Context, w *waiting) *mcp.Message {
	select {
	case answer := <-w.answer:
		return answer
	case <-ctx.Done():
	case <-s.ended.Done():
	}
	if len(w.answer) > 0 { // nobody else takes it
		return <-w.answer
	}
	return nil
}
