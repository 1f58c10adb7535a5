package gateway

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// ErrRevoked is the cause of a call's end when its caller may not go on with it: the token is not accepted any more, or
// the rules deny the item now. The door ends calls with this cause too.
var ErrRevoked = errors.New("the caller may not go on with this")

// ongoing are the uses of items that go on: calls under way, and calls that a source keeps open in wait for answers. A
// reload or a change of keys may take from a caller what it has begun, so each of them can be ended. It is safe for
// concurrent use.
type ongoing struct {
	mu   sync.Mutex // guards the field below
	uses map[*begun]struct{}
}

// begun is one use that goes on.
type begun struct {
	principal auth.Principal
	item      *registry.Item
	end       func() // may be called from any goroutine, more than once, and does not wait
}

// add notes that a use goes on, until over is called.
func (o *ongoing) add(u *begun) (over func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.uses == nil {
		o.uses = make(map[*begun]struct{})
	}
	o.uses[u] = struct{}{}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.uses, u)
	}
}

// all returns the uses that go on now.
func (o *ongoing) all() []*begun {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Keys(o.uses))
}

// Judge ends every call whose caller could not begin it any more, those included that wait for answers. It returns how
// many it ended. It is called after the tenants, the issuers or their keys have changed. now says what the principal of a
// call may do by now; it is false if the token is not accepted any more or its tenant not served.
func (g *Gateway) Judge(now func(auth.Principal) (Caller, bool)) (ended int) {
	for _, u := range g.ongoing.all() {
		if c, ok := now(u.principal); !ok || !c.mayUse(u.item) {
			u.end()
			ended++
		}
	}
	return ended
}

// mayUse tells whether the caller may use an item that it has found before. It does not ask whether the catalogue still
// has the item: a server that is lost, or takes back an item, takes nothing from a call that it runs already.
func (c *Caller) mayUse(item *registry.Item) bool {
	return slices.Contains(c.Tenant.servers, item.Server) && c.Tenant.allows(c.rules, item)
}

// revocable ends the call as soon as Judge finds that its caller may not go on. Whatever the item answers then is not
// told.
func (g *Gateway) revocable(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer g.ongoing.add(&begun{c.caller.Principal, c.item, func() { cancel(ErrRevoked) }})()
		if !g.stillAllows(c) {
			return mcp.Object{}, ErrRevoked
		}
		c.hold = func(end func()) (release func()) { return g.hold(ctx, c, end) }
		result, err := next(ctx, c)
		if errors.Is(context.Cause(ctx), ErrRevoked) {
			return mcp.Object{}, ErrRevoked
		}
		return result, err
	}
}

// stillAllows tells whether the tenants that are in force now allow the call. They may have been replaced between the
// admission of the caller and the moment from which Judge knows the call.
func (g *Gateway) stillAllows(c *call) bool {
	t := g.tenants.Load().byID[c.caller.Tenant.ID]
	if t == c.caller.Tenant {
		return true
	}
	now, err := g.Resolve(c.caller.Principal)
	return err == nil && now.mayUse(c.item)
}

// hold keeps the place of the call and lets Judge end what the source keeps open, until release is called. If the call
// was ended while its source began to wait, Judge may have looked too early, so that this is looked at here.
func (g *Gateway) hold(ctx context.Context, c *call, end func()) (release func()) {
	leave, held := c.place.hold()
	if !held {
		return leave
	}
	over := g.ongoing.add(&begun{c.caller.Principal, c.item, end})
	if errors.Is(context.Cause(ctx), ErrRevoked) {
		end()
	}
	return sync.OnceFunc(func() { over(); leave() })
}
