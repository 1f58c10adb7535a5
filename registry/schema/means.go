package schema

import (
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Means are what a check asks for before it takes much of it. What was granted is needed until the check has ended. An
// error of one of the methods ends the check, which returns it as a *MeansError. Nil Means grant everything. A check
// asks from the goroutine that it runs on.
type Means interface {
	// Memory is asked before a value is decoded, with about how many bytes it takes then. Many values need not be
	// decoded.
	Memory(bytes int64) error
	// Turn is asked before the parts of a check that may keep a processor busy, with about how long that takes in the
	// worst case; once or several times in a check.
	Turn(estimate time.Duration) error
}

// MeansError says that something which a check needs was not granted. It says nothing about the value.
type MeansError struct{ Err error }

func (e *MeansError) Error() string { return "the value could not be checked: " + e.Err.Error() }

// Unwrap returns the error of the method of Means.
func (e *MeansError) Unwrap() error { return e.Err }

// askTurn asks for a turn.
func askTurn(m Means, estimate time.Duration) error {
	if m == nil {
		return nil
	}
	if err := m.Turn(estimate); err != nil {
		return &MeansError{err}
	}
	return nil
}

// decodeWithin decodes value if there is memory for it.
func decodeWithin(m Means, value mcp.RawJSON) (any, error) {
	if m != nil {
		if err := m.Memory(DecodedSize(value)); err != nil {
			return nil, &MeansError{err}
		}
	}
	return decode(value), nil
}
