package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
)

// State says in a word how the server is, for metrics and for the operator.
type State string

// The states.
const (
	StateStarting    State = "starting"    // never reached since the start
	StateUp          State = "up"          // it takes writes
	StateUnreachable State = "unreachable" // no connection, or it ended
	StateSlow        State = "slow"        // no answer in time
	StateReadOnly    State = "readonly"    // a replica, or a master that has too few
	StateFull        State = "full"        // out of memory or disk
	StateLoading     State = "loading"     // it reads its data, or waits for its master
	StateDenied      State = "denied"      // user, password, ACL or certificate do not fit
)

// States lists all of them.
func States() []State {
	return []State{
		StateStarting, StateUp, StateUnreachable, StateSlow, StateReadOnly, StateFull,
		StateLoading, StateDenied,
	}
}

// fatal maps the first word of an error of the server that says that it can do no write
// at all to what that means. So does NOPERM, though it is about one right that the user
// lacks: somebody must act, and learns of it only if the state says so. Any other error,
// such as WRONGTYPE for a value that somebody else has put there, is about one command
// only.
//
//nolint:gochecknoglobals // a table
var fatal = map[string]State{
	"READONLY":    StateReadOnly,
	"NOREPLICAS":  StateReadOnly,
	"OOM":         StateFull,
	"MISCONF":     StateFull,
	"LOADING":     StateLoading,
	"MASTERDOWN":  StateLoading,
	"BUSY":        StateSlow,
	"CLUSTERDOWN": StateUnreachable,
	"MOVED":       StateUnreachable,
	"NOAUTH":      StateDenied,
	"WRONGPASS":   StateDenied,
	"NOPERM":      StateDenied,
	"DENIED":      StateDenied,
}

// cures adds to some errors what helps.
//
//nolint:gochecknoglobals // a table
var cures = map[string]string{
	"MOVED":     "it is a node of a cluster; write redis+cluster://host:port in redis.url",
	"NOAUTH":    "set redis.password_file, and redis.user if it is not the default one",
	"WRONGPASS": "check redis.user and the file that redis.password_file names",
	"NOPERM":    "give the user the ACL rule of docs/replicas.md",
	"READONLY":  "redis.url names a replica; name the master, or the sentinels",
	"OOM":       "raise maxmemory; the policy must stay noeviction",
}

// errorCode returns the first word of an error that the server has answered with; "": it
// answered with none.
func errorCode(err error) string {
	said, ok := errors.AsType[*rueidis.RedisError](err)
	if !ok {
		return ""
	}
	first, _, _ := strings.Cut(said.Error(), " ")
	return first
}

// stateOf returns what an error means for all calls. ok is false if it is about one call
// only.
func stateOf(err error) (state State, ok bool) {
	said := errorCode(err)
	switch state, known := fatal[said]; {
	case errors.Is(err, errNotYet):
		return StateStarting, true
	case errors.Is(err, errLarge):
		return StateSlow, false
	case errors.Is(err, errLate), errors.Is(err, context.DeadlineExceeded):
		return StateSlow, true
	case known:
		return state, true
	case said == "":
		return StateUnreachable, true
	default:
		return StateDenied, false
	}
}

// explain wraps an error in ErrDown, and says what helps where that is known.
func explain(err error) error {
	if cure := cures[errorCode(err)]; cure != "" {
		return fmt.Errorf("%w: %w: %s", ErrDown, err, cure)
	}
	return fmt.Errorf("%w: %w", ErrDown, err)
}
