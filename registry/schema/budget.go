package schema

import (
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Budget is what a check asks for before it takes much of it. What was granted is needed
// until the check has ended. An error of one of the methods ends the check, which returns
// it as a *BudgetError. A nil Budget grants everything. A check asks from the goroutine
// that it runs on.
type Budget interface {
	// Memory is asked before a value is decoded, with about how many bytes it takes then,
	// and what is found out about it if all of it is wrong. Many values need not be
	// decoded.
	Memory(bytes int64) error
	// Turn is asked before the parts of a check that may keep a processor busy, with
	// about how long that takes in the worst case; once or several times in a check.
	Turn(estimate time.Duration) error
}

// BudgetError says that something which a check needs was not granted. It says nothing
// about the value.
type BudgetError struct{ Err error }

func (e *BudgetError) Error() string { return "the value could not be checked: " + e.Err.Error() }

// Unwrap returns the error of the method of Budget.
func (e *BudgetError) Unwrap() error { return e.Err }

// askTurn asks for a turn.
func askTurn(b Budget, estimate time.Duration) error {
	if b == nil {
		return nil
	}
	if err := b.Turn(estimate); err != nil {
		return &BudgetError{err}
	}
	return nil
}

// decodeWithin decodes value if there is memory for it and for so many bytes more.
func decodeWithin(b Budget, value mcp.RawJSON, more int64) (any, error) {
	if b != nil {
		if err := b.Memory(DecodedSize(value) + more); err != nil {
			return nil, &BudgetError{err}
		}
	}
	return decode(value), nil
}
