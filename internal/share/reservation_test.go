package share_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

func TestReservations(t *testing.T) {
	t.Parallel()
	b := share.New(64 << 20)
	c := b.Reserve(user(1, 1))
	step := func(what string, err, want error, held int64) {
		t.Helper()
		if !errors.Is(err, want) || b.InUse() != held {
			t.Errorf("%s: got %v and %d held, want %v and %d", what, err, b.InUse(), want, held)
		}
	}
	step("what is covered", c.Resize(share.Covered), nil, 0)
	step("one byte more", c.Resize(share.Covered+1), nil, share.Step)
	step("more than there is", c.Resize(1<<40), share.ErrTotal, share.Step)
	step("much more", c.Resize(3*share.Step), nil, 3*share.Step)
	c.Shrink(4 * share.Step)
	step("no growth by Shrink", nil, nil, 3*share.Step)
	c.Shrink(share.Step)
	step("smaller", nil, nil, share.Step)

	late := c.Another()
	step("another", late.Resize(2*share.Step), nil, 3*share.Step)
	c.Adopt(late)
	step("adopted", late.Resize(1), share.ErrOver, 2*share.Step)
	late.Release()
	step("the old name of what was adopted", nil, nil, 2*share.Step)
	c.Release()
	step("after the end", c.Resize(1), share.ErrOver, 0)
	after := c.Another()
	step("another after the end", after.Resize(share.Step), nil, share.Step)
	after.Release()
	if c.User() != user(1, 1) {
		t.Errorf("after the end: got a reservation of %v, want of %v", c.User(), user(1, 1))
	}
	last := b.Reserve(user(1, 1))
	step("for one who has left", last.Resize(share.Step), nil, share.Step)
	c.Adopt(last)
	c.Release()
	step("that nobody takes", last.Resize(1), share.ErrOver, 0)
}

func TestNilReservationsCountNothing(t *testing.T) {
	t.Parallel()
	var none *share.Budget
	c := none.Reserve(user(1, 1))
	if err := c.Resize(1 << 40); err != nil || c.Size() != 0 || c.Another() != nil {
		t.Errorf("got %v, %d held", err, c.Size())
	}
	c.Shrink(0)
	c.Adopt(nil)
	c.Release()
	var zero share.Reservation
	if err := zero.Resize(share.Covered + 1); !errors.Is(err, share.ErrTotal) {
		t.Errorf("the zero claim: got %v", err)
	}
}

// TestLateGrowthTakesNothing lets a reservation grow while it is released, as when a
// caller leaves while its answer comes.
func TestLateGrowthTakesNothing(t *testing.T) {
	t.Parallel()
	b := share.New(64 << 20)
	for range 200 {
		c, to := b.Reserve(user(1, 1)), b.Reserve(user(1, 1))
		var all sync.WaitGroup
		all.Go(func() {
			for size := int64(share.Step); c.Resize(size) == nil; size += share.Step {
			}
		})
		all.Go(func() { c.Another().Release() })
		all.Go(func() { to.Adopt(c) })
		all.Go(to.Release)
		all.Wait()
	}
	if b.InUse() != 0 {
		t.Errorf("%d are held", b.InUse())
	}
}
