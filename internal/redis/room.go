package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// Room is how much memory the server has. Of a cluster it is the sum of its masters.
type Room struct {
	Used int64 // bytes that all its users take
	Most int64 // bytes, from which on it refuses writes; zero: it is not bounded
	// Evicts tells that the server forgets keys when it is full, in place of refusing
	// writes.
	Evicts bool
}

// Room asks the server how much memory it has. It is for the operator, not for the path
// of a request: it may take several round trips. Errors are those of Do; one that wraps
// ErrDenied says that the user may not ask.
func (s *Store) Room(ctx context.Context) (room Room, err error) {
	err = s.Up()
	if err != nil {
		return Room{}, err
	}
	over, err := s.ask(ctx, "room", s.config.Patience, func(ctx context.Context, client rueidis.Client) error {
		for _, node := range client.Nodes() {
			text, err := node.Do(ctx, node.B().Info().Section("memory", "replication").Build()).ToString()
			if err != nil {
				return err
			}
			if one, ok := roomOf(text); ok {
				room = Room{room.Used + one.Used, room.Most + one.Most, room.Evicts || one.Evicts}
			}
		}
		return nil
	})
	switch {
	case word(err) == "NOPERM":
		return Room{}, fmt.Errorf("%w: %w", ErrDenied, err)
	case !over || err != nil:
		return Room{}, s.failed(ctx, err)
	}
	return room, nil
}

// roomOf reads what a node says of itself. It is false of one that is no master.
func roomOf(info string) (room Room, ok bool) {
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "used_memory":
			room.Used, _ = strconv.ParseInt(value, 10, 64) // what is no number counts as none
		case "maxmemory":
			room.Most, _ = strconv.ParseInt(value, 10, 64)
		case "maxmemory_policy":
			room.Evicts = value != "noeviction"
		case "role":
			ok = value == "master"
		}
	}
	return room, ok
}
