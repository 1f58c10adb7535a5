package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// MemoryUse is how much memory the server has. Of a cluster it is the sum of its masters.
type MemoryUse struct {
	Used int64 // bytes that all its users take
	Most int64 // bytes, from which on it refuses writes; zero: it is not bounded
	// Evicts tells that the server forgets keys when it is full, in place of refusing
	// writes.
	Evicts bool
}

// MemoryUse asks the server how much memory it has. It is for the operator, not for the
// path of a request: it may take several round trips. Errors are those of Do; one that
// wraps ErrDenied says that the user may not ask.
func (s *Store) MemoryUse(ctx context.Context) (use MemoryUse, err error) {
	err = s.Up()
	if err != nil {
		return MemoryUse{}, err
	}
	over, err := s.askSized(ctx, CommonKey("room"), 0,
		func(ctx context.Context, client rueidis.Client, _ bool) error {
			for _, node := range client.Nodes() {
				text, err := node.Do(ctx, node.B().Info().Section("memory", "replication").Build()).ToString()
				if err != nil {
					return err
				}
				if one, ok := memoryUseOf(text); ok {
					use = MemoryUse{use.Used + one.Used, use.Most + one.Most, use.Evicts || one.Evicts}
				}
			}
			return nil
		})
	switch {
	case errorCode(err) == "NOPERM":
		return MemoryUse{}, fmt.Errorf("%w: %w", ErrDenied, err)
	case !over || err != nil:
		return MemoryUse{}, s.failed(ctx, err)
	}
	return use, nil
}

// memoryUseOf reads what a node says of itself. It is false of one that is no master.
func memoryUseOf(info string) (use MemoryUse, ok bool) {
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "used_memory":
			use.Used, _ = strconv.ParseInt(value, 10, 64) // what is no number counts as none
		case "maxmemory":
			use.Most, _ = strconv.ParseInt(value, 10, 64)
		case "maxmemory_policy":
			use.Evicts = value != "noeviction"
		case "role":
			ok = value == "master"
		}
	}
	return use, ok
}
