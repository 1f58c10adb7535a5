package replica

import (
	"errors"
	"strconv"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// clock is what the clock of the server showed at some time. The clocks of replicas need
// not agree.
type clock struct {
	millis   int64     // since 1970
	asked    time.Time // before it was read
	answered time.Time // after it was read
}

// errClock says that the server did not say what its clock shows.
var errClock = errors.New("the first element is no time")

// set takes what the script beating returns: the time of the server, which it notes, and
// then what it returns.
func (g *Group) set(found []redis.Reply, asked, answered time.Time) ([]redis.Reply, error) {
	if len(found) == 0 {
		return nil, errClock
	}
	text, err := found[0].Text()
	if err != nil {
		return nil, err
	}
	millis, err := strconv.ParseInt(text, 10, 64)
	if err != nil || millis < 0 {
		return nil, errClock
	}
	g.clock.Store(&clock{millis, asked, answered})
	return found[1:], nil
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
