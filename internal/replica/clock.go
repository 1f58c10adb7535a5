package replica

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// clock is what the clock of the server showed at some time. The clocks of replicas need not agree: word says when it was
// sent by the server's clock, and how old it is is told by that. The time stands within what is sealed, since whoever can
// write to the server could otherwise keep word back and have it pass for new.
type clock struct {
	millis   int64     // since 1970
	asked    time.Time // before it was read
	answered time.Time // after it was read
}

// errClock says that the server did not say what its clock shows.
var errClock = errors.New("the first element is no time")

// set takes what the script beating returns: the time of the server, which it notes, and then the ids, which it returns.
func (m *Mail) set(found []redis.Reply, asked, answered time.Time) ([]redis.Reply, error) {
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
	m.clock.Store(&clock{millis, asked, answered})
	return found[1:], nil
}

// Ahead returns how far the clock here was ahead of that of the server when that was asked last, a second ago or so; below zero:
// behind. The time that the answer took, which is short, counts as ahead or behind by that much at most. It is false until the
// server has answered once.
func (m *Mail) Ahead() (ahead time.Duration, known bool) {
	c := m.clock.Load()
	if c == nil {
		return 0, false
	}
	return c.asked.Sub(time.UnixMilli(c.millis)), true
}

// Now implements Others: it is the clock of the server, and until that is known the one here.
func (m *Mail) Now() time.Time {
	c := m.clock.Load()
	if c == nil {
		return time.Now()
	}
	return time.UnixMilli(c.millis).Add(time.Since(c.answered))
}

// earliest returns what the clock of the server shows now, or a little less, by as much as the server took to say so.
// Before Run has asked for the time, earliest does.
func (m *Mail) earliest(ctx context.Context) (millis uint64, err error) {
	c := m.clock.Load()
	if c == nil {
		if err := m.look(ctx); err != nil {
			return 0, err
		}
		c = m.clock.Load()
	}
	return uint64(c.millis + time.Since(c.answered).Milliseconds()), nil //nolint:gosec // set wants no negative one
}

// since returns how long ago a time was that earliest returned to somebody, a day at most. It is rather too much than too
// little: by as much as the server took to say its time, there and here. It is below zero for what lies in the future.
func (c *clock) since(millis uint64) time.Duration {
	const most = int64(24 * time.Hour / time.Millisecond)
	passed := min(max(c.millis-int64(millis), -most), most) //nolint:gosec // earliest returns what fits
	return time.Duration(passed)*time.Millisecond + time.Since(c.asked)
}
