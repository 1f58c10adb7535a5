package gateway

import (
	"context"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// firsts remembers which states were used. Implementations are safe for concurrent use.
type firsts interface {
	// isFirst tells whether this is the first use of a tenant's state with that nonce,
	// and remembers it.
	isFirst(ctx context.Context, tenant string, n nonce, now time.Time) bool
}

var (
	_ firsts = (*used)(nil)
	_ firsts = (*usedAnywhere)(nil)
)

// isFirst implements firsts for one replica.
func (u *used) isFirst(_ context.Context, _ string, n nonce, now time.Time) bool {
	return u.first(n, now)
}

// usedTTL is how long Redis remembers a state: longer than one is valid.
const usedTTL = stateLife + time.Minute

// usedAnywhere is firsts over Redis, in one round trip. When Redis does not answer, what
// this replica knows decides, so that a state is free at most once at each.
type usedAnywhere struct {
	store *redis.Store
	here  *used
}

func (u *usedAnywhere) isFirst(ctx context.Context, tenant string, n nonce, now time.Time) bool {
	if !u.here.first(n, now) {
		return false
	}
	reply, err := u.store.Do(ctx, redis.Command{
		Name: "SET", Key: redis.Key(tenant, "used", hex.EncodeToString(n[:])),
		Args: []string{"1", "NX", "PX", strconv.FormatInt(usedTTL.Milliseconds(), 10)},
	})
	return err != nil || !reply.Nil()
}
