package must_test

import (
	"errors"
	"io"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
)

func TestWhoTriesGetsTheError(t *testing.T) {
	if err := must.Try(func() { must.OK(nil) }); err != nil {
		t.Errorf("nothing went wrong: got %v", err)
	}
	if err := must.Try(func() { must.OK(io.EOF) }); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want EOF", err)
	}
	if err := must.Try(func() { must.Be(true, "nothing") }); err != nil {
		t.Errorf("it is so: got %v", err)
	}
	err := must.Try(func() { must.Be(false, "read %d: %w", 7, io.EOF) })
	if !errors.Is(err, io.EOF) || err.Error() != "read 7: EOF" {
		t.Errorf("got %v, want what is not so", err)
	}
	if v, err := must.Got(func() int { return must.Have(7, nil) }); v != 7 || err != nil {
		t.Errorf("got %d and %v, want 7", v, err)
	}
	if v, err := must.Got(func() int { return must.Have(7, io.EOF) }); v != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("got %d and %v, want EOF", v, err)
	}
}

func TestElseIsDoneOnlyAfterAPanic(t *testing.T) {
	for _, wrong := range []error{nil, io.EOF} {
		undone := false
		err := must.Try(func() {
			defer must.Else(func() { undone = true })
			must.OK(wrong)
		})
		if undone != (wrong != nil) || !errors.Is(err, wrong) {
			t.Errorf("with %v: undone %t, error %v", wrong, undone, err)
		}
	}
}

func TestAMistakeOfTheProgramGoesOn(t *testing.T) {
	for name, do := range map[string]func(){
		"of the program":      func() { clear(([]int)(nil)[:1]) },
		"without an error":    func() { panic("no error") },
		"beside what is done": func() { defer must.Else(func() {}); panic("no error") },
	} {
		if panicked := func() (is bool) {
			defer func() { is = recover() != nil }()
			_ = must.Try(do)
			return false
		}(); !panicked {
			t.Errorf("a mistake %s was taken for an error", name)
		}
	}
}
