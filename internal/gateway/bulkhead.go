package gateway

import (
	"context"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// levels is on how many levels a call is counted at a server: those of the user, the tenant, and all.
const levels = 3

// defaultPlaces is how many calls there may be at once of all tenants, if the config does not say.
const defaultPlaces = 1024

// bulkhead keeps a server that hangs from taking all places for calls: each of them would hold its place until its time
// is over, and calls to servers that are well would be refused meanwhile. So at each server a user, a tenant, and all
// tenants together may hold at most twice as many of their places as are free at the moment. The rule is that of package
// share, with servers in the role of tenants. It needs no list of who is ill and no clock: of 64 places, one server that
// hangs leaves 22 free, two leave 8, three leave 3. Somewhere it has no call, a holder gets its first one as long as it
// has any place.
//
//	places that calls at other servers have, of 64     0    12    42    63
//	places that one server may have, at most          42    34    14     1
//
// A tenant with a single server has no other server to keep places for, and may use all of them there. The bulkhead does
// not end calls, and it does not judge servers: that one is down is for package upstream to find out.
//
// It is safe for concurrent use.
type bulkhead struct {
	places int // for calls of all tenants together

	mu   sync.Mutex    // guards the field below
	held map[berth]int // calls under way; a berth that has none is absent
}

// berth is where calls are counted: those of a holder (a user, a tenant, or "" for all) at a server, or at all servers
// when server is "".
type berth struct{ holder, server string }

// level is a holder, how many places it has, and the error when a server has too many of them.
type level struct {
	holder string
	places int
	full   error
}

func newBulkhead(places int) *bulkhead {
	return &bulkhead{places: places, held: make(map[berth]int)}
}

// enter counts a call at the server. leave is called once with taken, when the call has ended. If the server holds too
// many places already, the error says whose: errServerFull for those of the user or the tenant, errServerCrowded for
// those of all.
func (b *bulkhead) enter(c *Caller, server string) (taken [levels]berth, err error) {
	wanted := b.levels(c)
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, l := range wanted {
		taken[i] = berth{l.holder, server}
		held, all := b.held[taken[i]]+1, b.held[berth{l.holder, ""}]+1
		if l.full != nil && held > max(1, 2*(l.places-all)) {
			return taken, l.full
		}
	}
	for _, at := range taken {
		b.held[at]++
		b.held[berth{at.holder, ""}]++
	}
	return taken, nil
}

// leave ends the count of a call, of which enter returned what it took.
func (b *bulkhead) leave(taken [levels]berth) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, at := range taken {
		b.dropLocked(at)
		b.dropLocked(berth{at.holder, ""})
	}
}

func (b *bulkhead) dropLocked(at berth) {
	if n := b.held[at]; n > 1 {
		b.held[at] = n - 1
	} else {
		delete(b.held, at)
	}
}

// levels returns whose places a call of the caller takes. Those without an error are only counted.
func (b *bulkhead) levels(c *Caller) [levels]level {
	full := errServerFull
	if len(c.Tenant.servers) == 1 {
		full = nil
	}
	return [levels]level{
		{c.key(), ofUser(c.Tenant.concurrency), full},
		{c.Tenant.ID, c.Tenant.concurrency, full},
		{"", b.places, errServerCrowded},
	}
}

// portioned takes one of the places that the server of the item may hold. A call keeps it for as long as its place among
// the calls at once; a repeat that still has that has this one too.
func (g *Gateway) portioned(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		if c.kept {
			return next(ctx, c)
		}
		taken, err := g.bulkhead.enter(&c.caller, c.item.Server)
		if err != nil {
			if down := c.item.Down(); down != nil {
				return mcp.Object{}, down
			}
			return mcp.Object{}, err
		}
		c.place.moor(g.bulkhead, taken)
		c.place.add(g.config.Metrics.ServerCall(c.item.Server))
		return next(ctx, c)
	}
}
