package redis

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
)

// A call that carries much goes on a connection of its own, one at a time: on the
// connection of all the others, theirs would wait behind it until they are late, and so
// whoever sends large requests could have a replica do without the server. Such a call
// has more time, by its size, and if it is late that says nothing of the server.
const (
	large      = 128 << 10 // bytes from which on a call is large
	largePace  = 8 << 20   // bytes a second that it may need
	largeQueue = time.Second
)

// errLarge says that a large call was too slow, or that others did not let it begin.
var errLarge = errors.New("it did not take a large value in time")

func isLarge(size int) bool { return size >= large }

func bytesOf(args []string) (size int) {
	for _, a := range args {
		size += len(a)
	}
	return size
}

// askSized is ask for a call that carries so many bytes.
func (s *Store) askSized(ctx context.Context, kind string, size int,
	call func(context.Context, rueidis.Client) error,
) (over bool, err error) {
	if !isLarge(size) {
		return s.ask(ctx, kind, s.config.Patience, call)
	}
	turn := time.NewTimer(s.config.Patience + largeQueue)
	defer turn.Stop()
	select {
	case s.large <- struct{}{}:
	case <-turn.C:
		return false, errLarge
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	defer func() { <-s.large }()
	if err := s.Up(); err != nil {
		return false, err
	}
	over, err = s.ask(ctx, kind, s.config.Patience+time.Duration(size)*time.Second/largePace, call)
	if err == nil || ctx.Err() != nil {
		return over, err
	}
	if state, _ := stateOf(err); state == StateSlow && word(err) == "" {
		return over, errLarge
	}
	return over, err
}
