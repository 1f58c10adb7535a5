package server

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
	"github.com/drawbridge-mcp/drawbridge/server/session"
)

// patience is how long an answer may take before it becomes an event stream, which can be resumed.
const patience = time.Second

// reply is the answer to one POST of a session. It is plain JSON when the result is there before the first notification
// and within patience. Otherwise it is an event stream: everything is appended to the log of the session, and the
// connection follows that, so that a client that lost the connection can resume.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
type reply struct {
	server  *Server
	x       *exchange
	session *live
	timer   *time.Timer

	mu       sync.Mutex         // guards the fields below
	stream   string             // of the log; "" while the answer is to be plain
	plain    bool               // it is decided: no stream
	abandon  context.CancelFunc // ends the sending
	followed chan struct{}      // closed when nothing is sent any more
}

// newReply begins an answer. connection is what the client's leaving ends.
func (s *Server) newReply(connection context.Context, x *exchange, l *live) *reply {
	p := &reply{server: s, x: x, session: l}
	if !x.acceptsStream {
		p.plain = true
		return p
	}
	p.timer = time.AfterFunc(patience, func() {
		if follow := p.upgrade(connection); follow != nil {
			follow()
		}
	})
	return p
}

// line returns the way to the client for the reply's calls: the first message makes a stream of the answer.
func (p *reply) line(connection context.Context) *line {
	send := func(ctx context.Context, message []byte) error {
		p.follow(connection)
		stream := p.streamed()
		if stream == "" {
			return errNoLine
		}
		_, err := p.server.config.Log.Append(ctx, p.session.name, stream, message, false)
		return err
	}
	rest := sync.OnceFunc(func() { p.server.rest(&p.x.held) })
	return &line{carriesQuestions: p.x.acceptsStream, body: p.x.held.body, send: send, rest: rest}
}

// follow makes a stream of the answer, unless that was decided before, and lets the connection follow it.
func (p *reply) follow(connection context.Context) {
	if follow := p.upgrade(connection); follow != nil {
		go follow() // finish waits for it
	}
}

func (p *reply) streamed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stream
}

// upgrade makes a stream of the answer, unless that was decided before. What it returns sends the stream to the client;
// the caller runs it.
func (p *reply) upgrade(connection context.Context) (follow func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.plain || p.stream != "" {
		return nil
	}
	place, refused := p.server.takeStreamPlace(p.x, "post")
	if refused != nil {
		p.plain = true
		return nil
	}
	stream := p.session.nextStream('p')
	p.stream = stream
	p.followed = make(chan struct{})
	following, abandon := context.WithCancel(connection)
	p.abandon = abandon
	return func() {
		defer close(p.followed)
		defer place.leave()
		defer abandon()
		p.server.serveFeed(following, p.x, &feed{
			session: p.session, stream: stream, numbered: true, first: p.session.priming(stream),
		})
	}
}

// decide makes the answer plain, unless it is a stream already. It returns the stream.
func (p *reply) decide() string {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plain = p.stream == ""
	return p.stream
}

// finish gives the answer: message, or nothing when it is nil. It returns when the client has it, or left.
func (p *reply) finish(ctx context.Context, status int, message []byte) {
	stream := p.decide()
	switch {
	case stream != "":
		if _, err := p.server.config.Log.Append(context.WithoutCancel(ctx), p.session.name, stream, message, true); err != nil {
			p.abandon() // the session has ended
		}
		<-p.followed
	case message != nil:
		p.x.writeJSON(status, message)
	case p.x.acceptsStream:
		if out, err := openStream(p.x); err == nil {
			out.close()
		}
	default:
		p.x.writeStatus(http.StatusAccepted)
	}
}

// priming returns the event that begins a stream since 2025-11-25, nil before. It holds no message but an id, so that
// the client can resume from the start.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server
func (l *live) priming(stream string) *sse.Event {
	if l.speaks() < mcp.Revision2511 {
		return nil
	}
	return &sse.Event{ID: session.FirstID(stream), HasID: true, Data: []byte{}, Retry: retry}
}
