package upstream

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/seats"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// opener opens one more session with a server: on conn, with the capabilities declared.
// open are the calls of the session that the server may ask something.
type opener func(ctx context.Context, conn *connection, capabilities mcp.Object, open *calls) (*legacy, error)

// pooled is one session of a pool, in a seat. The pool of seats calls its exported
// methods; it is the seats.Session of this package.
type pooled struct {
	key     seats.Key
	conn    *connection
	calls   *calls
	dial    opener
	seats   *seats.Pool[*pooled]
	lagging *atomic.Bool // shared by all sessions of the pool: a stream was once not open in time
	lost    func()       // tells the pool that the session is dead
	closed  func(*pooled)
	heard   func(*pooled, mcp.Object) // takes what the server says of tasks

	// Set by Open.
	session *legacy
	stop    func() // ends what follows the session
}

// seat is the slot of one session of a pool, with the session in it.
type seat = seats.Seat[*pooled]

// Open opens a session. It waits for the server's own stream, since questions come on it,
// and announcements which the server may send nowhere else. Where calls of this session
// cannot be asked anything, a server whose stream once opened late is not waited for
// again: only an announcement could be lost, and each session would cost a second.
func (s *pooled) Open(ctx context.Context, opened func()) error {
	capabilities, _ := mcp.ObjectOf(mcp.RawJSON(s.key.Traits))
	var session *legacy
	if err := s.conn.Saved(ctx, func() (err error) {
		session, err = s.dial(ctx, s.conn, capabilities, s.calls)
		return err
	}); err != nil {
		return s.conn.server.unavailable(false, cause(err))
	}
	s.session = session
	heard := func(state mcp.Object) { s.heard(s, state) }
	session.tasks.Store(&heard)
	opened()
	session.alone = s.key.Alone
	s.follow()
	if !s.key.Patient && s.lagging.Load() {
		return nil
	}
	if !session.awaitStream(ctx) {
		s.lagging.Store(true)
	}
	return nil
}

// follow starts to follow what the server sends on its own in this session, until the
// session or the pool ends. When the session turns out to be lost, the pool is told.
func (s *pooled) follow() {
	s.stop, _ = s.seats.Go(func(ctx context.Context) {
		err := s.conn.Saved(ctx, func() error { return s.session.watch(ctx) })
		if err != nil && ctx.Err() == nil {
			s.lost()
		}
	})
}

// discardLost tells the pool that the session is dead, if its connection is known to be
// lost, or if the server refused a call by 400, as err says, and gives no proof of life
// in it: some that have forgotten a session answer so, and not 404. It returns whether
// that is so. What is lent from the control connection is left to whoever supervises
// that.
func (s *pooled) discardLost(ctx context.Context, err error) bool {
	limited, cancel := context.WithTimeout(ctx, aliveLimit)
	defer cancel()
	if link, ok := s.session.link.(interface{ Loss() error }); ok {
		if link.Loss() == nil || s.lost == nil {
			return false
		}
	} else if status, is := errors.AsType[*wire.StatusError](err); !is ||
		status.Status != http.StatusBadRequest || s.Alive(limited) == nil || limited.Err() != nil {
		return false
	}
	s.lost()
	return true
}

// Suspected returns the channel with a signal when a call on the session failed in such a
// way that the session may be dead.
func (s *pooled) Suspected() <-chan struct{} { return s.conn.suspected }

// Alive asks the server for a proof of life.
func (s *pooled) Alive(ctx context.Context) error {
	err := s.conn.Saved(ctx, func() error { return s.session.alive(ctx) })
	if err != nil && !throttled(err) {
		return err
	}
	return nil
}

// Close ends the session. Its tasks are forgotten first, so that no request about one
// comes to it any more.
func (s *pooled) Close(ctx context.Context, polite bool) {
	s.closed(s)
	s.stop()
	s.session.close(ctx, polite)
}
