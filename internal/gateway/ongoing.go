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

// ErrStopped is the cause of a call's end when the process stops and has waited for it for as long as it may. The door
// ends calls with this cause too.
var ErrStopped = errors.New("the gateway has stopped")

// ongoing are the uses of items that go on: calls under way, and calls that a source keeps open in wait for answers. A
// reload or a change of keys may take from a caller what it has begun, so each of them can be ended. It is safe for
// concurrent use.
type ongoing struct {
	mu   sync.Mutex // guards the field below
	uses map[*begun]struct{}
}

// begun is one use that goes on. It is safe for concurrent use.
type begun struct {
	principal *auth.Principal
	item      *registry.Item
	parked    bool // nobody runs it: its source keeps it open in wait for answers

	mu      sync.Mutex // guards the fields below
	revoked bool
	end     ender // ends what the use waits for now; nil: nothing
}

// ender ends something. Close does not wait, and may be called more than once.
type ender interface{ Close() }

// endFunc is a function as an ender.
type endFunc func()

func (f endFunc) Close() { f() }

// endBy lets revoke call end from now on, and calls it if the use was revoked already. What end was before is over.
func (u *begun) endBy(end ender) {
	u.mu.Lock()
	u.end = end
	revoked := u.revoked
	u.mu.Unlock()
	if revoked {
		end.Close()
	}
}

// revoke ends the use, now and in all that it begins later.
func (u *begun) revoke() {
	u.mu.Lock()
	u.revoked = true
	end := u.end
	u.mu.Unlock()
	if end != nil {
		end.Close()
	}
}

// isRevoked tells whether the use was revoked.
func (u *begun) isRevoked() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.revoked
}

// add notes that a use goes on, until remove is called.
func (o *ongoing) add(u *begun) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.uses == nil {
		o.uses = make(map[*begun]struct{})
	}
	o.uses[u] = struct{}{}
}

// remove notes that a use is over.
func (o *ongoing) remove(u *begun) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.uses, u)
}

// all returns the uses that go on now.
func (o *ongoing) all() []*begun {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Keys(o.uses))
}

// Ongoing returns how many calls are under way or wait here for answers. None of these may have ended when the process
// does.
func (g *Gateway) Ongoing() int { return g.ongoing.count() }

// count returns how many uses go on.
func (o *ongoing) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.uses)
}

// Stop ends what the door cannot end: calls that wait here for answers.
func (g *Gateway) Stop() {
	for _, u := range g.ongoing.all() {
		if u.parked {
			u.end.Close()
		}
	}
}

// Judge ends every call whose caller could not begin it any more, those included that wait for answers. It returns how
// many it ended. It is called after the tenants, the issuers or their keys have changed. now says what the principal of a
// call may do by now; it is false if the token is not accepted any more or its tenant not served.
func (g *Gateway) Judge(now func(auth.Principal) (Caller, bool)) (ended int) {
	for _, u := range g.ongoing.all() {
		if c, ok := now(*u.principal); !ok || !c.mayUse(u.item) {
			u.revoke()
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
// told. It makes no context for that: a call has one anyway wherever it waits, in check and in timed, and there tells
// begun how to end it.
func (g *Gateway) revocable(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		c.begun.principal, c.begun.item = &c.caller.Principal, c.item
		g.ongoing.add(&c.begun)
		defer g.ongoing.remove(&c.begun)
		if !g.stillAllows(c) {
			return mcp.Object{}, ErrRevoked
		}
		if c.lost {
			return mcp.Object{}, errHomeLost
		}
		c.hold = func(end func()) (release func()) { return g.hold(ctx, c, end) }
		result, err := next(ctx, c)
		switch {
		case c.isRevoked(ctx):
			return mcp.Object{}, ErrRevoked
		case errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), ErrStopped):
			return mcp.Object{}, ErrStopped
		}
		return result, err
	}
}

// isRevoked tells whether the call was ended because its caller may not go on with it, by Judge or by the door.
func (c *call) isRevoked(ctx context.Context) bool {
	return c.begun.isRevoked() || errors.Is(context.Cause(ctx), ErrRevoked)
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
	kept := &begun{principal: &c.caller.Principal, item: c.item, parked: true, end: endFunc(end)}
	g.ongoing.add(kept)
	if c.isRevoked(ctx) {
		end()
	}
	return sync.OnceFunc(func() { g.ongoing.remove(kept); leave() })
}
