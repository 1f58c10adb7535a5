package legacy

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
	"github.com/drawbridge-mcp/drawbridge/server/streams"
)

// patience is how long an answer may take before it becomes an event stream, which a
// client can resume.
const patience = time.Second

// reply is the answer to one POST of a session:
//
//	undecided ──the result comes first──────────────────────────────▶ plain JSON
//	    │                                                                ▲
//	    ├──no stream is possible: not accepted, no slot, no memory──────┘
//	    │
//	    └──a notification or question comes, or patience is over──▶ event stream
//
// An event stream is sent through the log: everything is appended to the log of the
// session, and the connection follows the log. So a client that lost its connection can
// resume. Plain JSON cannot be resumed, but does without the log.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
type reply struct {
	server  *Service
	x       *exchange.Exchange
	session *sessions.Session
	answers mcp.ID         // the request that it answers; "": several
	alarm   *streams.Alarm // rings when patience is over; nil: no stream is possible
	rested  sync.Once      // the slot of the request is given back

	mu       sync.Mutex         // guards the fields below
	stream   string             // of the log; "" while the answer is to be plain
	plain    bool               // it is decided that the answer is no stream
	abandon  context.CancelFunc // ends the sending of the stream
	followed chan struct{}      // closed when nothing is sent any more
	broken   bool               // the sending panicked; read after followed is closed
}

var _ sender = (*reply)(nil)

// begin begins the answer to a request of a session, or to several if answers is "". p is
// new.
func (p *reply) begin(s *Service, x *exchange.Exchange, l *sessions.Session, answers mcp.ID) {
	p.server, p.x, p.session, p.answers = s, x, l, answers
	if !x.AcceptsStream {
		p.plain = true
		return
	}
	p.alarm = s.alarms.Set(patience, p)
}

// responder returns the way to the client for what happens during the request. The first
// message on it makes the answer an event stream.
func (p *reply) responder() responder {
	return responder{sender: p, carriesQuestions: p.x.AcceptsStream, body: p.x.Reservation.Body.Size()}
}

func (p *reply) send(ctx context.Context, message []byte) error {
	p.follow()
	stream := p.streamed()
	if stream == "" {
		return errNoStream
	}
	_, err := p.server.config.Log.Append(ctx, p.session.InLog(), stream, message, false)
	return err
}

func (p *reply) releaseSlot() { p.rested.Do(func() { p.x.Reservation.ReleaseSlot() }) }

// Ring makes the answer an event stream when patience is over, and sends it.
func (p *reply) Ring() {
	p.server.exchanges.Safely(p.x.Outliving(), p.follow)
}

// follow makes the answer an event stream, unless that is decided already, and lets the
// connection follow it.
func (p *reply) follow() {
	if follow := p.upgrade(); follow != nil {
		go p.server.exchanges.Safely(p.x.Outliving(), follow) // finish waits for it
	}
}

func (p *reply) streamed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stream
}

// upgrade makes the answer an event stream, unless that is decided already. It returns a
// function that sends the stream to the client, for the caller to run, or nil.
func (p *reply) upgrade() (follow func()) {
	connection := p.x.Context()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.plain || p.stream != "" {
		return nil
	}
	slot, refused := p.server.streams.TakeSlot(p.x, streams.KindPost)
	if refused != nil {
		p.plain = true
		return nil
	}
	defer func() { // also after a panic, after which the answer is still undecided
		if follow == nil {
			slot.Release()
		}
	}()
	stream := p.session.NextStream('p', p.answers)
	lasting, refused := p.server.beginStream(connection, p.session, stream)
	if refused != nil {
		p.plain = true
		return nil
	}
	p.stream = stream
	p.followed = make(chan struct{})
	following, abandon := context.WithCancel(connection)
	p.abandon = abandon
	return func() {
		defer close(p.followed)
		defer slot.Release()
		defer abandon()
		f := &feed{session: p.session, stream: stream, numbered: lasting}
		if lasting {
			f.first = p.session.Priming(eventlog.FirstID(stream))
		}
		p.broken = true
		p.server.serveFeed(following, p.x, f)
		p.broken = false
	}
}

// decide makes the answer plain, unless it is an event stream already. It returns the
// name of the stream, "" if there is none.
func (p *reply) decide() string {
	p.server.alarms.Stop(&p.alarm)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plain = p.stream == ""
	return p.stream
}

// finish gives the answer, or ends it without one if message is nil. It returns when the
// client has it, or has left. If there is no memory to keep the message, the client gets
// what unkept returns instead.
func (p *reply) finish(ctx context.Context, status int, message exchange.Payload, unkept func() []byte) {
	stream := p.decide()
	switch {
	case stream != "":
		ctx = context.WithoutCancel(ctx)
		_, err := p.server.config.Log.Append(ctx, p.session.InLog(), stream, message.Joined(), true)
		if message != nil && exchange.RefusalOfMemory(err) != nil {
			p.server.exchanges.Log.WarnContext(ctx, "answer not kept", "error", err, "bytes", message.Size())
			_, err = p.server.config.Log.Append(ctx, p.session.InLog(), stream, unkept(), true)
		}
		if err != nil {
			p.abandon() // the session has ended
		}
		if <-p.followed; p.broken {
			p.x.CutShort(p.answers)
		}
	case message != nil:
		p.x.WriteJSON(status, message...)
	case p.x.AcceptsStream:
		if _, err := streams.Open(p.x); err == nil {
			p.x.AllowWrite() // of the end, which net/http writes
		}
	default:
		p.x.WriteStatus(http.StatusAccepted)
	}
}
