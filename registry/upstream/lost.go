package upstream

import (
	"errors"
	"fmt"
)

// Causes that are told apart.
var (
	errGone     = errors.New("connection is closed")
	errTooLarge = errors.New("message too large")
	errEnded    = errors.New("stream ended without the answer")
)

// unavailableError says that a server cannot be reached, or went away before it answered.
type unavailableError struct {
	Sent bool // the server may have received the message
	Err  error
}

func (e *unavailableError) Error() string { return "server is unavailable: " + e.Err.Error() }

func (e *unavailableError) Unwrap() error { return e.Err }

func unavailable(sent bool, err error) error { return &unavailableError{sent, err} }

// protocolError says that what a server sent is nothing that the protocol knows.
type protocolError struct{ Err error }

func (e *protocolError) Error() string { return "server broke the protocol: " + e.Err.Error() }

func (e *protocolError) Unwrap() error { return e.Err }

func protocol(format string, args ...any) error { return &protocolError{fmt.Errorf(format, args...)} }

// statusError is the cause for an HTTP status that is no answer.
type statusError struct{ Status int }

func (e *statusError) Error() string { return fmt.Sprintf("HTTP status %d", e.Status) }

// sessionError is the error for a request that the server did not run, because it does not know the session.
type sessionError struct {
	link  *httpLink
	stale *session
}

func (e *sessionError) Error() string { return "session is unknown to the server" }

// Replaced tells whether another session was opened since then.
func (e *sessionError) Replaced() bool { return e.link.state.Load() != e.stale }
