package redis

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// turn is one call, on a goroutine of its own. A turn that is over is used again: what it
// is made of would otherwise be most of what a call allocates.
type turn struct {
	call  func(context.Context, rueidis.Client) error
	came  chan error // has room for the outcome, so that the goroutine ends though nobody waits any more
	timer *time.Timer
}

// run makes the call.
func (t *turn) run(l *link, wait time.Duration) { t.came <- t.call(l.patient(wait), l.client) }

// newTurn returns a turn for the pool.
func newTurn() any { return &turn{came: make(chan error, 1), timer: time.NewTimer(time.Hour)} }

// ask makes a call of a kind, see kindOf, over a link, on a goroutine of its own, and
// waits for it at most that long. If over is false, the goroutine may still run, and what
// it writes must not be read. It ends soon after, since it has little more time, and with
// the link at the latest. The library never sees the caller's context: a caller that
// gives up would otherwise end a connection that others use, or are waiting for.
func (s *Store) ask(ctx context.Context, l *link, kind string, wait time.Duration,
	call func(context.Context, rueidis.Client) error,
) (over bool, err error) {
	began := time.Now()
	t := s.turns.Get().(*turn)
	t.call = call
	t.timer.Reset(wait)
	go t.run(l, wait)
	select {
	case err = <-t.came:
		over = true
	case <-t.timer.C:
		select {
		case err = <-t.came: // both came while this process did not run
			over = true
		default:
			err = errLate
		}
	case <-ctx.Done():
		t.timer.Stop()
		s.config.Called(kind, OutcomeAbandoned, -1)
		return false, context.Cause(ctx)
	}
	took := time.Since(began)
	if over {
		t.call = nil
		s.turns.Put(t)
	}
	if wait > s.config.Patience || err != nil {
		took = -1 // it may have waited for something to come, or was not answered
	}
	s.config.Called(kind, outcomeOf(err), took)
	return over, err
}

// patient returns a context that ends when that time is over, or up to half as much
// later: calls that begin at about the same time share it. It ends with the link at the
// latest.
func (l *link) patient(wait time.Duration) context.Context {
	least := time.Now().Add(wait)
	if shared := l.shared.Load(); shared != nil {
		if end, _ := (*shared).Deadline(); !end.Before(least) && end.Before(least.Add(wait)) {
			return *shared
		}
	}
	ctx, end := context.WithDeadline(l.life, least.Add(wait/2))
	context.AfterFunc(ctx, end) // not before its time: nobody knows which call is the last
	l.shared.Store(&ctx)
	return ctx
}
