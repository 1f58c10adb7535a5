package crowd

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// oldSession is a session of 2024-11-05. All that comes, comes on one stream, and the
// session ends with it.
type oldSession struct {
	*person

	endpoint string // path to send messages to
	cancel   context.CancelFunc
	left     atomic.Bool   // the client ended the stream itself
	crossed  bool          // the gateway ended the stream while a call was being sent, which it has refused
	ended    chan struct{} // closed when the stream has ended

	mu   sync.Mutex // guards the field below
	open map[mcp.ID]*waiting
}

// waiting is a request that waits for its answer.
type waiting struct {
	*deed // nil: it is no call

	over  chan struct{} // closed with the answer
	wrong bool          // it is an error; read it when over is closed
}

// old opens sessions over HTTP+SSE and makes calls in them. Now and then it leaves in the
// middle of a call.
// https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse
func (p *person) old() {
	var s *oldSession
	// whose message crossed the end of its session, so that it is sent again in the next
	// one
	var crossed *deed
	p.eachRound(func() time.Duration {
		if s != nil && s.over() {
			s.close()
			s = nil
		}
		if s == nil {
			if s = p.openOld(); s == nil {
				return 100 * time.Millisecond
			}
		}
		d := crossed
		switch kind := p.dice.IntN(4); {
		case d != nil:
		case kind == 0:
			d = p.progressing()
		case kind == 1:
			d = p.intend(p.server(), "slow", fmt.Sprintf(`,"ms":%d`, p.dice.IntN(300)), ledger.Question{})
		default:
			d = p.intend(p.server(), "touch", "", ledger.Question{})
		}
		if p.dice.IntN(callsOpen) == 0 {
			leaver := s
			time.AfterFunc(50*time.Millisecond, func() {
				leaver.left.Store(true)
				leaver.cancel()
			})
		}
		alive, later := s.call(d)
		if crossed = nil; s.crossed {
			crossed = d
		}
		if !alive {
			s.close()
			s = nil
		}
		return later
	})
	if s == nil && crossed != nil {
		s = p.openOld()
	}
	if s != nil {
		if crossed != nil {
			s.call(crossed)
		}
		s.close()
	}
}

// openOld opens a session, nil if there is none now.
func (p *person) openOld() *oldSession {
	ctx, begun, cancel := p.lasting()
	response, err := p.get(ctx, http.MethodGet, "/sse", nil)
	if err != nil {
		cancel()
		return nil
	}
	if response.status != http.StatusOK {
		later := p.heard(response).later
		cancel()
		world.Pause(p.crowd.life, later)
		return nil
	}
	begun()
	s := &oldSession{person: p, cancel: cancel, ended: make(chan struct{}), open: map[mcp.ID]*waiting{}}
	endpoint := make(chan string, 1)
	go s.listens(response, endpoint) // close waits
	timer := time.NewTimer(p.crowd.config.Patience)
	defer timer.Stop()
	select {
	case s.endpoint = <-endpoint:
	case <-s.ended:
		p.trouble("a session that ended before it began")
	case <-timer.C:
		p.ledger.Untold(p.kind + " of " + p.tenant + ": no endpoint")
	}
	const params = `"params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"crowd","version":"1"}}`
	id := p.nextID()
	if s.endpoint == "" || !s.handshake(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"initialize",%s}`,
		id, params), id) {
		s.close()
		return nil
	}
	p.crowd.deeds.sessions.Add(1)
	return s
}

// handshake initializes the session. It counts why it could not.
func (s *oldSession) handshake(initialize []byte, id mcp.ID) bool {
	ctx, cancel := s.patient()
	defer cancel()
	w := s.expect(id, nil)
	if !s.posts(ctx, initialize, nil) {
		return false
	}
	alive, over := s.await(ctx, w)
	switch {
	case !over && alive:
		s.trouble("initialize was not answered")
	case !over:
		s.trouble("a session that ended before initialize was answered")
	}
	if !over || !alive {
		return false
	}
	if w.wrong {
		return false
	}
	return s.posts(ctx, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), nil)
}

// over tells whether the stream has ended, and the session with it.
func (s *oldSession) over() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

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
	<-s.ended
}

// expect enters a request that is about to be sent.
func (s *oldSession) expect(id mcp.ID, d *deed) *waiting {
	w := &waiting{deed: d, over: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[id] = w
	return w
}

// listens reads the stream to its end. An answer that comes after its client gave up
// still counts.
func (s *oldSession) listens(response *reply, endpoint chan<- string) {
	defer close(s.ended)
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
	s.crowd.tally.goodbyes.Add(1)
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
	switch {
	case w == nil || m.Method != "" && w.deed == nil:
	case w.deed == nil:
		s.initialized(w, m)
	default:
		if over, _ := s.told(w.deed, m); over {
			select {
			case <-w.over: // the second answer, which the ledger has counted
			default:
				close(w.over)
			}
		}
	}
}

// initialized takes the answer to initialize.
func (s *oldSession) initialized(w *waiting, m *mcp.Message) {
	select {
	case <-w.over:
		s.trouble("initialize was answered twice")
		return
	default:
	}
	if m.Err != nil {
		w.wrong = true
		s.failed(m.Err)
	}
	close(w.over)
}

// posts sends a message. It returns true if it was accepted; otherwise it enters why the
// call was not, if there is one.
func (s *oldSession) posts(ctx context.Context, body []byte, d *deed) bool {
	response, err := s.send(ctx, s.endpoint, body, nil)
	if err != nil {
		if d != nil {
			s.broke(ctx, d.nonce, err)
		}
		return false
	}
	if response.status != http.StatusAccepted {
		w := s.refusalOf(response)
		switch {
		case s.left.Load() && d != nil:
			s.lost(ctx, d) // so there is no such session any more
		case s.endsSoon(ctx) && !w.broken && !w.made:
			s.crowd.tally.crossed.Add(1)
			// which is refused unless it is answered in the next session; a handshake is
			// made anew there anyway
			if d != nil {
				s.crossed = true
				s.refused(d.nonce, w)
			}
		default:
			s.crowd.tally.trouble(s.kind + ": " + w.code)
			if d != nil {
				s.refused(d.nonce, w)
			}
		}
		return false
	}
	_ = response.body.Close() // it is empty
	return true
}

// lost enters that the stream of a call ended before its answer.
func (s *oldSession) lost(ctx context.Context, d *deed) {
	if s.left.Load() {
		s.ledger.Left(d.nonce, "session left by its client")
		return
	}
	s.broke(ctx, d.nonce, nil)
}

// call makes a call and waits for its answer on the stream. alive is false when another
// session is to be opened.
func (s *oldSession) call(d *deed) (alive bool, later time.Duration) {
	ctx, cancel := s.patient()
	defer cancel()
	id := s.nextID()
	w := s.expect(id, d)
	if !s.posts(ctx, d.body(id), d) {
		return false, 100 * time.Millisecond
	}
	alive, over := s.await(ctx, w)
	switch {
	case over:
	case alive:
		s.broke(ctx, d.nonce, nil)
	default:
		s.lost(ctx, d)
	}
	return alive && over, 0
}

// await waits for the answer to a request, or for the end of the stream or of the client's
// patience. The answer may be the last word on the stream.
func (s *oldSession) await(ctx context.Context, w *waiting) (alive, over bool) {
	select {
	case <-w.over:
		return true, true
	case <-ctx.Done():
		return true, false
	case <-s.ended:
	}
	select {
	case <-w.over:
		return false, true
	default:
		return false, false
	}
}
