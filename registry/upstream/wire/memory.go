package wire

import (
	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// Memory is the budget that holds what servers send. Zero: nothing is counted.
type Memory struct {
	Budget *share.Budget
	// Server is who holds what cannot be told to be of one caller: lists, and what a
	// server says on a connection that many callers share, until it is known whom it
	// answers.
	Server share.User
}

// reserve returns a reservation of the server.
func (m Memory) reserve() *share.Reservation { return m.Budget.Reserve(m.Server) }

// MemoryError says that a server has answered, and that there is no room for its answer
// in the share of whoever made the request. It wraps an error of package share.
type MemoryError struct{ Err error }

func (e *MemoryError) Error() string { return "no room for the answer: " + e.Err.Error() }

// Unwrap returns the error of package share.
func (e *MemoryError) Unwrap() error { return e.Err }

// holder is a reservation, as whoever reads asks it for memory.
type holder share.Reservation

var _ dial.Memory = (*holder)(nil)

// Hold makes the reservation hold a text of that many bytes. The error is a *MemoryError.
func (r *holder) Hold(bytes int) error {
	if err := (*share.Reservation)(r).Resize(int64(bytes)); err != nil {
		return &MemoryError{err}
	}
	return nil
}
