package upstream

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/seats"
)

// opener opens one more session with a server: on conn, with the capabilities declared and for the calls of which it may
// ask something.
type opener func(ctx context.Context, conn *connection, capabilities mcp.Object, open *calls) (*legacy, error)

// pooled is one session of a pool, in a seat.
type pooled struct {
	key     seats.Key
	conn    *connection
	calls   *calls
	dial    opener
	room    *seats.Room[*pooled]
	lagging *atomic.Bool // a stream of a session of the server was not open in time
	lost    func()       // says that the session is dead
	closed  func(*pooled)

	// Set by Open.
	session *legacy
	stop    func() // ends what follows the session
}

// seat is the place of one session of a pool.
type seat = seats.Seat[*pooled]

// Open opens a session. It waits for its stream: on it come questions, and news of lists, which the server may send nowhere
// else. Without questions, a server whose streams open late is waited for once and no more.
func (s *pooled) Open(ctx context.Context, opened func()) error {
	capabilities, _ := mcp.ObjectOf(mcp.RawJSON(s.key.Traits))
	session, err := s.dial(ctx, s.conn, capabilities, s.calls)
	if err != nil {
		return s.conn.server.unavailable(false, cause(err))
	}
	s.session = session
	opened()
	session.alone = s.key.Alone
	session.attend = sync.OnceFunc(s.follow)
	session.attend()
	if !s.key.Patient && s.lagging.Load() {
		return nil
	}
	if !session.awaitStream(ctx) {
		s.lagging.Store(true)
	}
	return nil
}

// cause returns what an error of a handshake hides, so that nobody takes it for the answer to a call.
func cause(err error) error {
	if unavailable, ok := errors.AsType[*registry.UnavailableError](err); ok {
		return unavailable.Err
	}
	return errors.New(err.Error())
}

// follow follows what the server sends on its own in a session, until either ends.
func (s *pooled) follow() {
	s.stop, _ = s.room.Go(func(ctx context.Context) {
		if err := s.session.watch(ctx); err != nil && ctx.Err() == nil {
			s.lost()
		}
	})
}

// Doubts returns where it shows that a call on the session failed so that it may be dead.
func (s *pooled) Doubts() <-chan struct{} { return s.conn.doubts }

// Alive asks the server for a proof of life.
func (s *pooled) Alive(ctx context.Context) error { return s.session.alive(ctx) }

// Close ends the session.
func (s *pooled) Close(ctx context.Context, polite bool) {
	s.closed(s)
	s.stop()
	s.session.close(ctx, polite)
}
