package must

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// TB lets a lab use what is there for tests. What fails there panics with an error.
type TB struct {
	testing.TB

	Life context.Context //nolint:containedctx // of what needs one, as that of a test
}

// Context implements testing.TB.
func (t TB) Context() context.Context { return t.Life }

// Helper implements testing.TB.
func (TB) Helper() {}

// Logf implements testing.TB.
func (TB) Logf(string, ...any) {}

// Fatal implements testing.TB.
func (TB) Fatal(args ...any) { panic(errors.New(fmt.Sprint(args...))) }

// Fatalf implements testing.TB.
func (TB) Fatalf(format string, args ...any) { panic(fmt.Errorf(format, args...)) }
