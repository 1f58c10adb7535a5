package wire

import (
	"errors"
	"fmt"
)

// Causes that are told apart.
var (
	ErrGone     = errors.New("connection is closed")
	ErrTooLarge = errors.New("message too large")
	ErrEnded    = errors.New("stream ended without the answer")
)

// UnavailableError says that a server cannot be reached, or went away before it answered.
type UnavailableError struct {
	Sent bool // the server may have received the message
	Err  error
}

func (e *UnavailableError) Error() string { return "server is unavailable: " + e.Err.Error() }

func (e *UnavailableError) Unwrap() error { return e.Err }

func unavailable(sent bool, err error) error { return &UnavailableError{sent, err} }

// ProtocolError says that what a server sent is nothing that the protocol knows.
type ProtocolError struct{ Err error }

func (e *ProtocolError) Error() string { return "server broke the protocol: " + e.Err.Error() }

func (e *ProtocolError) Unwrap() error { return e.Err }

func protocol(format string, args ...any) error { return &ProtocolError{fmt.Errorf(format, args...)} }

// StatusError is the cause for an HTTP status that is no answer.
type StatusError struct{ Status int }

func (e *StatusError) Error() string { return fmt.Sprintf("HTTP status %d", e.Status) }
