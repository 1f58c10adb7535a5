package wire

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// Causes that are told apart.
var (
	ErrGone     = errors.New("connection is closed")
	ErrTooLarge = share.ErrTooLarge
	ErrEnded    = errors.New("stream ended without the answer")
)

// UnavailableError says that a server cannot be reached, or was lost before it answered.
type UnavailableError struct {
	Sent bool // the server may have received the message, so a call may have taken effect
	Err  error
}

func (e *UnavailableError) Error() string { return "server is unavailable: " + e.Err.Error() }

func (e *UnavailableError) Unwrap() error { return e.Err }

// unavailable returns err as an UnavailableError, unless it is a MemoryError.
func unavailable(sent bool, err error) error {
	if full, ok := errors.AsType[*MemoryError](err); ok {
		return full
	}
	return &UnavailableError{sent, err}
}

// ProtocolError says that a server sent something that the protocol does not allow.
type ProtocolError struct{ Err error }

func (e *ProtocolError) Error() string { return "server broke the protocol: " + e.Err.Error() }

func (e *ProtocolError) Unwrap() error { return e.Err }

func protocol(format string, args ...any) error { return &ProtocolError{fmt.Errorf(format, args...)} }

// StatusError is the cause within an UnavailableError or ProtocolError when the server
// answered with an HTTP status that carries no JSON-RPC answer.
type StatusError struct {
	Status int
	SignIn bool // the server wants a sign-in
	// where it redirects to, without user and query; "": it does not
	Location string
	// a *credential.Error: the server refused what the request carried; nil: it did not,
	// or that was nothing
	Refused error
}

func (e *StatusError) Error() string { return fmt.Sprintf("HTTP status %d", e.Status) }

// Unwrap returns the cause, if there is more to say than the status.
func (e *StatusError) Unwrap() error { return e.Refused }

// refusedBy returns the error for a response with a status that is no success. Of what it
// says of a sign-in, only that it wants one is read: what it names nobody asks.
func refusedBy(resp *response) *StatusError {
	challenged := resp.StatusCode == http.StatusForbidden && resp.Header.Get("WWW-Authenticate") != ""
	refused := &StatusError{Status: resp.StatusCode, SignIn: challenged ||
		resp.StatusCode == http.StatusUnauthorized}
	if to, err := resp.Location(); err == nil && resp.StatusCode < http.StatusBadRequest {
		refused.Location = (&url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}).String()
	}
	if resp.headers != nil && refused.SignIn {
		refused.Refused = credential.RefusedBy(resp.StatusCode, resp.Header, time.Now())
	}
	return refused
}
