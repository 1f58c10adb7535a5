package eventlog

import (
	"fmt"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// What this replica has put into the server counts in a budget of its own, which tenants
// and users share: the server is smaller than the memory of all replicas together, and
// when it is full, nobody's sessions open or end. Who has used up its part goes on with
// events in memory only, until some of what it has is dropped. Nobody else notices.

// What a stream and an event take in the server beside the data, in bytes. The server
// sets aside 4 KB for the events of a stream, and rounds sizes up by a quarter at most.
const (
	streamQuota = 5 << 10
	eventQuota  = 256
)

// quotaOf returns how many bytes an event takes in the server.
func quotaOf(data []byte) int64 { return int64(eventQuota + len(data) + len(data)/4) }

// defaultQuota is the budget where none is given: a quarter of the default of the
// setting, for four replicas.
const defaultQuota = 64 << 20

// errFull says that the server holds as much for the user as it may. It is like a fault
// of the server: what could not be appended can be later.
var errFull = fmt.Errorf("%w: its room is used up", redis.ErrDown)

// errQuota is errFull with the error of the budget.
func errQuota(err error) error { return fmt.Errorf("%w: %w", errFull, err) }

// giveQuotaLocked counts n bytes of a stream as gone from the server, or as much as was
// counted.
func (l *Redis) giveQuotaLocked(s *memoryStream, n int64) {
	n = min(n, s.shared.quota)
	l.config.Quota.Give(s.session.owner, n)
	s.shared.quota -= n
}
