package registry

import "fmt"

// UnavailableError says that a server is not there, or went away before it answered. Sent tells whether it may have
// received the call: only a call that was not sent is safe to repeat.
type UnavailableError struct {
	Server string
	Sent   bool
	Err    error // for the log
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("server %s is not available: %v", e.Server, e.Err)
}

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// ProtocolError says that a server's answer is none that the protocol knows.
type ProtocolError struct {
	Server string
	Err    error // for the log
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("server %s broke the protocol: %v", e.Server, e.Err)
}

// Unwrap returns the cause.
func (e *ProtocolError) Unwrap() error { return e.Err }
