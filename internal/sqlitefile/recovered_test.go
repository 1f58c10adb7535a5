package sqlitefile

import (
	"errors"
	"testing"
)

// TestFaultsOfTheProgramAreNotTakenForMemory shows which panics of the driver mean that a
// connection has no more memory.
func TestFaultsOfTheProgramAreNotTakenForMemory(t *testing.T) {
	panics := func(do func()) (err error) {
		defer Recovered(&err)
		do()
		return nil
	}
	var none []int
	if err := panics(func() { none[0]++ }); err == nil || errors.Is(err, ErrMemory) {
		t.Errorf("a fault of the program: got %v", err)
	}
	if err := panics(func() { panic("sqlite3: out of memory") }); !errors.Is(err, ErrMemory) {
		t.Errorf("no more memory: got %v", err)
	}
	if err := panics(func() {}); err != nil {
		t.Errorf("no panic: got %v", err)
	}
}
