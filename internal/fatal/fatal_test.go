package fatal_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/fatal"
)

// ending is a test that notes at what it ends.
type ending struct {
	testing.TB

	at string
}

func (e *ending) Helper() {}

func (e *ending) Fatal(args ...any) { e.at = fmt.Sprint(args...) }

func TestAnErrorEndsTheTest(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{"": nil, "wrong": errors.New("wrong")} {
		e := &ending{}
		if got := fatal.Have(7, err)(e); got != 7 {
			t.Errorf("with error %v: got %d, want 7", err, got)
		}
		if e.at != want {
			t.Errorf("with error %v the test ended at %q", err, e.at)
		}
	}
}
