package redis

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// All tenants share one connection, on which each answer waits for those before it: many
// bytes of one tenant would make everybody's calls late, and have the replica do without
// the server. So the bytes that are under way there are bounded, of requests and of
// answers, and tenants share them out. A call that does not fit, or carries much by
// itself, goes on a connection of its own when it is its tenant's turn:
//
//	          fits     the shared connection: sharedBytes at once, by tenant
//	a call ──┤
//	          large    a connection of its own: largeSlots at once, in turn by tenant
//
// A large call has more time, by its size, and if it is late that says nothing of the
// server.
const (
	large       = 128 << 10 // bytes from which on a call is large
	largePace   = 8 << 20   // bytes a second that it may need
	largeQueue  = time.Second
	largeSlots  = 2
	sharedBytes = 2 << 20
	callBytes   = 512 // that any call and its answer take, roughly
)

// errLarge says that a large call was too slow, or that others did not let it begin.
var errLarge = errors.New("it did not take a large value in time")

func bytesOf(args []string) (size int) {
	for _, a := range args {
		size += len(a)
	}
	return size
}

// traffic bounds what is under way. It is safe for concurrent use.
type traffic struct {
	shared *share.Budget
	turns  *fairqueue.Queue
}

func newTraffic() traffic {
	return traffic{share.New(sharedBytes), fairqueue.New(largeSlots)}
}

// askSized is ask for a call of a key that carries so many bytes, together with its
// answer. dedicated tells the call that it is to go on a connection of its own. What a
// call takes is held until its answer came, also if its caller has left before: it is
// under way all the same, and otherwise whoever asks and leaves would fill the
// connection.
func (s *Store) askSized(ctx context.Context, key string, size int,
	call func(ctx context.Context, client rueidis.Client, dedicated bool) error,
) (over bool, err error) {
	l := s.link.Load()
	if l == nil {
		return false, errNotYet
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	tenant := tenantOf(key)
	user, size := share.User{TenantID: tenant}, size+callBytes
	if size < large && (tenant == "" || s.traffic.shared.Take(user, int64(size)) == nil) {
		return s.ask(ctx, l, kindOf(key), s.config.Patience,
			func(ctx context.Context, client rueidis.Client) error {
				if tenant != "" {
					defer s.traffic.shared.Give(user, int64(size))
				}
				return call(ctx, client, false)
			})
	}
	needs := max(time.Duration(size)*time.Second/largePace, fairqueue.Small)
	release, err := s.turn(ctx, user, needs)
	if err != nil {
		return false, err
	}
	if err := s.Up(); err != nil {
		release()
		return false, err
	}
	over, err = s.ask(ctx, l, kindOf(key), s.config.Patience+needs,
		func(ctx context.Context, client rueidis.Client) error {
			defer release()
			return call(ctx, client, true)
		})
	if state, _ := stateOf(err); state == StateSlow && errorCode(err) == "" && ctx.Err() == nil {
		err = errLarge
	}
	return over, err
}

// turn waits until a tenant may make a large call. A slot is held while the server
// answers: nobody who holds one waits for another.
func (s *Store) turn(ctx context.Context, user share.User, needs time.Duration) (release func(), err error) {
	waiting, stop := context.WithTimeout(ctx, s.config.Patience+largeQueue)
	defer stop()
	release, err = s.traffic.turns.Enter(waiting, user, needs)
	switch {
	case err == nil:
		return release, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, errLarge
}
