package streams

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type alarmCounter struct{ rung atomic.Int64 }

func (b *alarmCounter) Ring() { b.rung.Add(1) }

// TestAlarmRingsForItsOwnerOnly sets alarms that others have stopped, delayed, or let
// ring before.
func TestAlarmRingsForItsOwnerOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Alarms
		var early, delayed, rung, last alarmCounter
		stopped := s.Set(time.Second, &early)
		s.Stop(&stopped)
		again := s.Set(time.Minute, &delayed)
		again.Delay(time.Second)
		ringing := s.Set(time.Second, &rung)
		time.Sleep(time.Second)
		synctest.Wait()
		again.Delay(time.Second)
		s.Stop(&again)
		s.Stop(&ringing)
		s.Stop(&ringing) // there is none any more
		owned := s.Set(time.Second, &last)
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
		var s Alarms
		var first alarmCounter
		spent := s.Set(time.Second, &first)
		kept := spent
		spent.Delay(2 * time.Second)
		s.Stop(&spent)
		for range 100 {
			other := s.Set(time.Minute, &first)
			if other == kept {
				t.Fatal("an alarm that may still be ringing is used again")
			}
			other.timer.Stop()
		}
	})
}
