package pace_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

// TestBackoffDoublesUpToALimit asks for more failures than the shift has bits.
func TestBackoffDoublesUpToALimit(t *testing.T) {
	t.Parallel()
	for failures, most := range map[int]time.Duration{
		0: 100 * time.Millisecond, 1: 200 * time.Millisecond, 8: 25600 * time.Millisecond,
		9: 30 * time.Second, 1000: 30 * time.Second,
	} {
		for range 100 {
			if got := pace.Backoff(failures); got < most/2 || got > most {
				t.Fatalf("after %d failures: got %v, want between %v and %v", failures, got, most/2, most)
			}
		}
	}
}

// TestEndlessRowIsSpacedOut serves requests that come as soon as they may: the first ones
// at once, the others once in a gap.
func TestEndlessRowIsSpacedOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const gap = time.Second
		p := pace.Pacer{Gap: gap}
		began, early := time.Now(), 0
		for range 60 {
			if time.Since(began) < gap/2 {
				early++
			}
			time.Sleep(p.Next())
		}
		if took := time.Since(began); early < 9 || early > 12 || took < 49*gap || took > 51*gap {
			t.Errorf("60 requests took %v, %d of them within %v; want about 50 gaps, and ten at once", took,
				early, gap/2)
		}
		time.Sleep(time.Hour)
		if got := p.Next(); got != pace.MinGap {
			t.Errorf("after an hour of rest: got a pause of %v, want %v", got, pace.MinGap)
		}
	})
}

// TestWaitEndsWithItsContext shows both ends of a wait.
func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		if !pace.Wait(t.Context(), time.Minute) {
			t.Error("a wait that nobody ended: got false, want true")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if began := time.Now(); pace.Wait(ctx, time.Minute) || time.Since(began) != time.Second {
			t.Errorf("a wait whose context ended: got true, or false after %v", time.Since(began))
		}
	})
}

// TestSlowLookPutsOffNoOther does something each second that takes nearly as long, until
// the context ends.
func TestSlowLookPutsOffNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+time.Millisecond)
		defer cancel()
		began, looks := time.Now(), 0
		pace.Every(ctx, time.Second, func(context.Context) {
			looks++
			time.Sleep(900 * time.Millisecond)
		})
		if took := time.Since(began); looks != 10 || took > 11*time.Second {
			t.Errorf("got %d looks in %v, want 10 in less than 11 s", looks, took)
		}
	})
}
