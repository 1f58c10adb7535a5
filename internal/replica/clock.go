package replica

import "time"

// clock is what the clock of the server showed at some time. The clocks of replicas need
// not agree.
type clock struct {
	millis   int64     // since 1970
	asked    time.Time // before it was read
	answered time.Time // after it was read
}

// Ahead returns how far the clock here was ahead of that of the server when that was
// asked last, a second ago or so; below zero: behind. The time that the answer took,
// which is short, counts as ahead or behind by that much at most. It is false until the
// server has answered once.
func (g *Group) Ahead() (ahead time.Duration, known bool) {
	c := g.clock.Load()
	if c == nil {
		return 0, false
	}
	return c.asked.Sub(time.UnixMilli(c.millis)), true
}
