package eventlog_test

import (
	"errors"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
)

// TestKeysOfAnotherTypeGiveNothing puts values of other types under each key of a
// session. Nothing is read from them, nothing panics, nothing stays.
func TestKeysOfAnotherTypeGiveNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a, b := h.join(t), h.join(t)
	for _, key := range []string{"db2:{acme}:session:s", streamKey, "db2:{acme}:readers:p1:s"} {
		for _, spoil := range [][]string{
			{"SET", key, "junk"},
			{"LPUSH", key, "junk"},
			{"SADD", key, "junk"},
			{"HSET", key, "d", "junk"},
			{"XADD", key, "*", "d", "junk"},
			{"ZADD", key, "1", "junk"},
		} {
			h.server.Exec(t, "FLUSHALL")
			h.server.Exec(t, spoil...)
			events, _, err := b.Read(t.Context(), of("s"), "p1", eventlog.FirstID("p1"))
			if len(events) > 0 || err == nil {
				t.Errorf("%v: got events %v, %v", spoil, events, err)
			}
			if _, err := a.Begin(t.Context(), of("s"), "p1"); err != nil &&
				!errors.Is(err, eventlog.ErrUnknown) {
				t.Errorf("%v: begin: got %v", spoil, err)
			}
			a.End(of("s"))
		}
	}
}
