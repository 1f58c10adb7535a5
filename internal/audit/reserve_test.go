//go:build linux

package audit

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// TestFreeSpaceCounts shows what is taken for room where a file cannot be extended ahead.
func TestFreeSpaceCounts(t *testing.T) {
	t.Parallel()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := hasFree(int(f.Fd()), 1); err != nil {
		t.Errorf("a byte: %v", err)
	}
	if err := hasFree(int(f.Fd()), 1<<62); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("more than any disk has: got error %v, want %v", err, syscall.ENOSPC)
	}
	if err := hasFree(-1, 1); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("no file: got error %v, want %v", err, errors.ErrUnsupported)
	}
}
