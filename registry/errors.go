package registry

import (
	"fmt"

	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// UnavailableError says that a server could not be reached, or went away before it
// answered. Sources return it; unlike a *DownError it is found out by trying.
type UnavailableError struct {
	Server string
	Sent   bool // the server may have received the call; only a call that was not sent is safe to repeat
	SignIn bool // the server wants a sign-in, as in DownError
	// Status is the HTTP status with which the server refused it, as it would again.
	// Zero: there was none.
	Status int
	// Credential is why the server was not told, or did not believe, who calls. "": that
	// is not why.
	Credential credential.Fault
	Err        error // the cause, for the log alone
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("server %s is not available: %v", e.Server, e.Err)
}

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// MemoryError says that the call was made, and that its answer cannot be held in memory.
// Sources return it.
type MemoryError struct {
	Server string
	Err    error // of package share: in whose share there is no room
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("no room for an answer of server %s: %v", e.Server, e.Err)
}

// Unwrap returns the error of package share.
func (e *MemoryError) Unwrap() error { return e.Err }

// SubscribedError says that the server follows as many resources as it may, for this
// user, its tenant or all together. Sources return it; nothing was sent.
type SubscribedError struct {
	Server string
	Err    error // of package share: in whose share there is no place
}

func (e *SubscribedError) Error() string {
	return fmt.Sprintf("no place to follow another resource of server %s: %v", e.Server, e.Err)
}

// Unwrap returns the error of package share.
func (e *SubscribedError) Unwrap() error { return e.Err }

// ProtocolError says that a server answered with something that the protocol does not
// allow. Sources return it.
type ProtocolError struct {
	Server string
	Err    error // what was wrong, for the log alone
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("server %s broke the protocol: %v", e.Server, e.Err)
}

// Unwrap returns the cause.
func (e *ProtocolError) Unwrap() error { return e.Err }

// UsageError is a mistake of the model that called a tool. Its text tells the model what
// to do better, and repeats no value. Sources return it, and whoever called the tool gets
// it as a result with isError.
type UsageError struct{ Text string }

func (e *UsageError) Error() string { return e.Text }

// Usagef returns a *UsageError.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }
