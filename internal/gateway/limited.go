package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/allot"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// limited takes one of the slots for calls at once, of the tenant and of the user, and
// one token from the bucket of each and from those of the tool, where the user may have
// used up its share of the tenant's and of the tool's. The repeat of a call that was
// asked for input may still have its slot, and pays nothing.
func (g *Gateway) limited(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		tenant := c.caller.Tenant
		if !c.slotRetained {
			user := c.user()
			began := time.Now()
			if err := g.takeSlot(ctx, allot.Calls, user, tenant.concurrency); err != nil {
				return mcp.Object{}, errors.Join(errBusy, err)
			}
			since(began, &c.request.Waited.Limit)
			c.slot.take(g.inflight, user)
			defer c.slot.release()
		}
		if c.prepaid {
			return next(ctx, c)
		}
		all, own := tenant.calls,
			ratelimit.Bucket{Key: c.caller.key(), Limit: tenant.userCalls, Group: tenant.ID}
		all.Sharer = own.Key
		c.charged = g.foreseen(c)
		if err := g.charge(ctx, c, c.charged, all, own); err != nil {
			return mcp.Object{}, limitError{
				err,
				[]rate{{CodeTenantLimit, "calls"}, {CodeUserLimit, "user_calls"}, {codeToolLimit, "tools"}},
			}
		}
		return next(ctx, c)
	}
}

// buffers are those of charge: a limiter keeps nothing of what it is given.
var buffers = sync.Pool{New: func() any { return new([4]ratelimit.Bucket) }}

// charge takes what a call costs from those buckets and from those of the tool, nil for
// none.
func (g *Gateway) charge(ctx context.Context, c *call, tool *registry.Tool,
	buckets ...ratelimit.Bucket,
) error {
	buffer := buffers.Get().(*[4]ratelimit.Bucket)
	defer func() {
		*buffer = [4]ratelimit.Bucket{} // whose names are those of a caller
		buffers.Put(buffer)
	}()
	defer since(time.Now(), &c.request.Waited.Limit)
	return g.config.Limiter.Take(ctx, g.toolBuckets(append(buffer[:0], buckets...), tool, &c.caller)...)
}

// takeSlot takes one of the limit slots of a kind that the user's tenant has at all
// replicas together. So that one user cannot take them all, a user has at most half of
// those that this replica may give out. The errors are those of take.
func (g *Gateway) takeSlot(ctx context.Context, kind allot.Kind, user share.User, limit int) error {
	return g.tryWithMore(ctx, kind, user.TenantID, limit, func(here int) error {
		return take(g.slotsOf(kind), user, limit, here)
	})
}

// tryWithMore calls try with how many of the limit slots of a tenant this replica may
// give out. If those are too few, it has the replica ask for more, until try finds enough
// or there are no more: one step may not be enough for a user, at a server, or for all
// who wait for it. Where all tenants together have too many, more would not help. The
// error is that of try.
func (g *Gateway) tryWithMore(ctx context.Context, kind allot.Kind, tenant string, limit int,
	try func(here int) error,
) error {
	here := g.config.Allot.Here(kind, tenant, limit)
	err := try(here)
	for err != nil && !errors.Is(err, errServerCrowded) && here < limit {
		before := here
		g.config.Allot.More(ctx, kind, tenant, limit)
		if here = g.config.Allot.Here(kind, tenant, limit); here <= before {
			break
		}
		err = try(here)
	}
	return err
}

// slotsOf returns who holds slots of a kind here.
func (g *Gateway) slotsOf(kind allot.Kind) *share.Budget {
	if kind == allot.Calls {
		return g.inflight
	}
	return g.streams
}

// Taken returns how many slots of a kind a tenant has taken at this replica.
func (g *Gateway) Taken(kind allot.Kind, tenant string) int {
	return int(g.slotsOf(kind).InUseBy(tenant))
}

// take takes one of the limit slots of the user's tenant, of which here may be given
// out. The error is one of package share if there was none, and errNoSlots if there never
// is one. Where other replicas have all of them, that is no user's doing.
func take(slots *share.Budget, user share.User, limit, here int) error {
	if limit == 0 {
		return errNoSlots
	}
	if here == 0 {
		return share.ErrTenant
	}
	return slots.TakeWithin(user, 1, share.Bounds{Tenant: int64(here), User: int64(ofUser(here))})
}

// OpenStream takes one of the tenant's slots for event streams, of which one user has at
// most half. kind is the label of the stream in metrics: get, post, listen or sse. closed
// gives the slot back and is called once. The error is an *mcp.Error.
func (g *Gateway) OpenStream(ctx context.Context, c Caller, kind string) (closed func(), err error) {
	user := share.User(c.Principal.User())
	if err := g.takeSlot(ctx, allot.Streams, user, c.Tenant.streams); err != nil {
		return nil, noSlot(err, "DB-LIMIT-STREAMS", "event streams", "limits.streams", streamsRetry)
	}
	gone := g.config.Metrics.StreamOpened(c.Tenant.ID, kind)
	return func() { gone(); g.streams.Give(user, 1) }, nil
}

// bulkheaded takes one of the slots that the server of the item may hold, of those that
// this replica may give out: all replicas together leave some to calls at other servers
// only if each of them does. A call keeps it for as long as its slot among the calls at
// once; a repeat that still has that has this one too.
func (g *Gateway) bulkheaded(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		if c.slotRetained {
			return next(ctx, c)
		}
		var taken [levels]counter
		tenant := c.caller.Tenant
		err := g.tryWithMore(ctx, allot.Calls, tenant.ID, tenant.concurrency, func(here int) (err error) {
			taken, err = g.bulkhead.enter(&c.caller, c.item.Server, here)
			return err
		})
		if err != nil {
			if down := c.item.Down(); down != nil {
				return mcp.Object{}, down
			}
			return mcp.Object{}, err
		}
		// before anybody but the call holds the slot
		c.slot.bulkhead, c.slot.counters = g.bulkhead, taken
		c.slot.counted = g.config.Metrics.ServerCall(c.item.Server)
		return next(ctx, c)
	}
}
