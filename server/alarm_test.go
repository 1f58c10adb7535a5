package server

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type bell struct{ rung atomic.Int64 }

func (b *bell) ring() { b.rung.Add(1) }

// TestAlarmRingsForItsOwnerOnly sets alarms that others have stopped, delayed, or let
// ring before.
func TestAlarmRingsForItsOwnerOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s alarms
		var early, delayed, rung, last bell
		stopped := s.set(time.Second, &early)
		s.stop(&stopped)
		again := s.set(time.Minute, &delayed)
		again.delay(time.Second)
		ringing := s.set(time.Second, &rung)
		time.Sleep(time.Second)
		synctest.Wait()
		again.delay(time.Second)
		s.stop(&again)
		s.stop(&ringing)
		s.stop(&ringing) // there is none any more
		owned := s.set(time.Second, &last)
		time.Sleep(time.Hour)
		synctest.Wait()
		for name, got := range map[string]struct{ rung, want int64 }{
			"stopped in time":     {early.rung.Load(), 0},
			"delayed, rung once":  {delayed.rung.Load(), 1},
			"let ring":            {rung.rung.Load(), 1},
			"of those that ended": {last.rung.Load(), 1},
		} {
			if got.rung != got.want {
				t.Errorf("%s: rang %d times, want %d", name, got.rung, got.want)
			}
		}
		if again != nil || ringing != nil || owned == nil {
			t.Error("an alarm that was stopped is still owned, or one that was not is lost")
		}
	})
}

// TestSpentAlarmIsNotUsedAgain holds a ringing up until another has been set, which is
// what a busy machine does.
func TestSpentAlarmIsNotUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s alarms
		var first bell
		spent := s.set(time.Second, &first)
		kept := spent
		spent.delay(2 * time.Second)
		s.stop(&spent)
		for range 100 {
			other := s.set(time.Minute, &first)
			if other == kept {
				t.Fatal("an alarm that may still be ringing is used again")
			}
			other.timer.Stop()
		}
	})
}
