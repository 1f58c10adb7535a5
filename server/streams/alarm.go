package streams

import (
	"sync"
	"time"
)

// Alarms are the timers of answers that are under way. Nearly every answer comes before
// its timer fires, so timers are used again. The zero alarms is ready to use; it is safe
// for concurrent use.
type Alarms struct{ idle sync.Pool }

// Alarm is one of them:
//
//	set ──▶ armed ──stop──▶ idle: the next set may take it
//	          │
//	          └──it rings, or delay is called──▶ spent: it is never used again
//
// A ringing alarm runs in a goroutine of its own, and whoever has stopped the timer
// cannot know whether an earlier ringing has begun to look for whom it rings. Were a
// spent alarm used again, it might ring for the wrong one.
type Alarm struct {
	timer *time.Timer
	spent bool    // for who has set it
	whom  ringing // set before the timer is
}

// ringing is what an alarm rings for. Its method is called in a goroutine of its own,
// where it recovers from its panics.
type ringing interface{ Ring() }

// Set returns an alarm that rings after d, unless it is stopped before.
func (s *Alarms) Set(d time.Duration, whom ringing) *Alarm {
	if a, _ := s.idle.Get().(*Alarm); a != nil {
		a.whom = whom
		a.timer.Reset(d)
		return a
	}
	a := &Alarm{whom: whom}
	a.timer = time.AfterFunc(d, func() { a.whom.Ring() })
	return a
}

// Delay makes the alarm ring after d from now, be it for the first time or again.
func (a *Alarm) Delay(d time.Duration) {
	a.spent = true
	a.timer.Reset(d)
}

// Stop stops an alarm, if there is one, and takes it from its owner. It may still be
// ringing.
func (s *Alarms) Stop(owned **Alarm) {
	a := *owned
	*owned = nil
	if a != nil && a.timer.Stop() && !a.spent {
		a.whom = nil
		s.idle.Put(a)
	}
}
