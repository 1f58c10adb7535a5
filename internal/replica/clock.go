package replica

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// clock is what the clock of the server showed at some time. The clocks of replicas need not agree: how old word is, is told
// by the server's, which dates word when a mailbox takes it, and by the time that has passed here since the clock was read.
type clock struct {
	millis int64     // since 1970
	read   time.Time // when it was asked for: the time that the answer took makes word seem older, never younger
}

// errClock says that the server did not say what its clock shows.
var errClock = errors.New("the first element is no time")

// set takes what the script beating returns: the time of the server, which it notes, and then the ids, which it returns.
func (m *Mail) set(found []redis.Reply, asked time.Time) ([]redis.Reply, error) {
	if len(found) == 0 {
		return nil, errClock
	}
	text, err := found[0].Text()
	if err != nil {
		return nil, err
	}
	millis, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, errClock
	}
	m.clock.Store(&clock{millis, asked})
	return found[1:], nil
}

// since returns how long ago the entry of that id was made, zero if that is not known. It is safe for a nil clock.
func (c *clock) since(entry string) time.Duration {
	text, _, _ := strings.Cut(entry, "-")
	made, err := strconv.ParseInt(text, 10, 64)
	if c == nil || err != nil {
		return 0
	}
	return max(0, time.Duration(c.millis-made)*time.Millisecond+time.Since(c.read))
}
