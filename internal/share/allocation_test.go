package share_test

import (
	"errors"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

func TestLeaseGrowsInSteps(t *testing.T) {
	t.Parallel()
	b := share.New(1 << 30)
	l := b.Allocate(user(1, 1))
	for _, test := range []struct{ size, want int64 }{
		{0, 0},
		{share.Covered, 0},
		{share.Covered + 1, share.Step},
		{share.Step, share.Step},
		{share.Step + 1, 2 * share.Step},
		{10 * share.Step, 10 * share.Step},
		{share.Step, share.Step},
		{share.Covered, 0},
		{5 * share.Step, 5 * share.Step},
	} {
		if err := l.Resize(test.size); err != nil || l.Size() != test.want || b.InUse() != test.want {
			t.Errorf("size %d: got %v, lease %d, budget %d, want %d", test.size, err, l.Size(), b.InUse(),
				test.want)
		}
	}
	l.Release()
	l.Release()
	if l.Size() != 0 || b.InUse() != 0 {
		t.Errorf("after the release the lease holds %d and the budget %d", l.Size(), b.InUse())
	}
}

func TestRefusedLeaseKeepsWhatItHolds(t *testing.T) {
	t.Parallel()
	b := share.New(1 << 20)
	l := b.Allocate(user(1, 1))
	if err := l.Resize(share.Step); err != nil {
		t.Fatal(err)
	}
	if err := l.Resize(1 << 20); !errors.Is(err, share.ErrTotal) || l.Size() != share.Step ||
		b.InUse() != share.Step {
		t.Errorf("got %v, lease %d, budget %d", err, l.Size(), b.InUse())
	}
}

// TestALeaseIsNotToBlameForItself: a lease that grows is told what a lease of its whole
// size would be told.
func TestALeaseIsNotToBlameForItself(t *testing.T) {
	t.Parallel()
	b := share.New(16 << 20)
	l := b.Allocate(user(1, 1))
	if err := l.Resize(4 << 20); err != nil {
		t.Fatal(err)
	}
	if err := l.Resize(8 << 20); !errors.Is(err, share.ErrTotal) {
		t.Errorf("8 MiB, which no user ever gets: got %v, want %v", err, share.ErrTotal)
	}
	other := b.Allocate(user(1, 1))
	if err := other.Resize(2 << 20); !errors.Is(err, share.ErrUser) {
		t.Errorf("a second lease: got %v, want %v", err, share.ErrUser)
	}
}

func TestZeroLeaseHoldsOnlyWhatIsCovered(t *testing.T) {
	t.Parallel()
	var l share.Allocation
	if err := errors.Join(l.Resize(share.Covered), l.Resize(0)); err != nil {
		t.Error(err)
	}
	if err := l.Resize(share.Covered + 1); !errors.Is(err, share.ErrTotal) {
		t.Errorf("got %v, want %v", err, share.ErrTotal)
	}
	l.Release()
}
