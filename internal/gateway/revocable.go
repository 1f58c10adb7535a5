package gateway

import (
	"context"
	"errors"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// revocable ends the call as soon as Reauthorize finds that its caller may not go on.
// Whatever the item answers then is not told. Its context is that of all further stages:
// timed has it end when the time of the item is used up.
func (g *Gateway) revocable(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		c.life.Begin(ctx)
		defer c.life.Close()
		c.begun.principal, c.begun.item, c.begun.life = &c.caller.Principal, c.item, &c.life
		g.ongoing.add(&c.begun)
		defer g.ongoing.remove(&c.begun)
		if !g.stillAllows(c) {
			return mcp.Object{}, ErrRevoked
		}
		if c.state != nil && g.isElsewhere(c.state.Home) { // or the door would have forwarded it
			return mcp.Object{}, errHomeLost
		}
		c.hold = func(end func()) (release func()) { return g.hold(ctx, c, end) }
		result, err := next(&c.life, c)
		switch {
		case c.isRevoked(ctx):
			return mcp.Object{}, ErrRevoked
		case errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), ErrStopped):
			return mcp.Object{}, ErrStopped
		}
		return result, err
	}
}

// isRevoked tells whether the call was ended because its caller may not go on with it, by
// Reauthorize or by the door. ctx is that of revocable: whatever ends the call first is
// the only cause in the context of the call.
func (c *call) isRevoked(ctx context.Context) bool {
	return c.begun.revoked.Load() || errors.Is(context.Cause(ctx), ErrRevoked)
}

// stillAllows tells whether the tenants that are in force now allow the call. They may
// have been replaced between the admission of the caller and the moment from which
// Reauthorize knows the call.
func (g *Gateway) stillAllows(c *call) bool {
	t := g.tenants.Load().byID[c.caller.Tenant.ID]
	if t == c.caller.Tenant {
		return true
	}
	now, err := g.Resolve(c.caller.Principal)
	return err == nil && now.mayUse(c.item)
}

// hold keeps the slot of the call and lets Reauthorize end what the source keeps open,
// until release is called. If the call was ended while its source began to wait,
// Reauthorize may have looked too early, so that this is looked at here.
func (g *Gateway) hold(ctx context.Context, c *call, end func()) (release func()) {
	slotRelease, ok := c.slot.hold()
	if !ok {
		return slotRelease
	}
	entry := &begun{principal: &c.caller.Principal, item: c.item, end: end}
	g.ongoing.add(entry)
	if c.isRevoked(ctx) {
		end()
	}
	return sync.OnceFunc(func() { g.ongoing.remove(entry); slotRelease() })
}

// Ongoing returns how many calls are under way or wait here for answers. None of these
// may have ended when the process does.
func (g *Gateway) Ongoing() int { return len(g.ongoing.all()) }

// Stop ends what the door cannot end: calls that wait here for answers.
func (g *Gateway) Stop() {
	for _, u := range g.ongoing.all() {
		if u.life == nil {
			u.end()
		}
	}
}

// Reauthorize ends every call whose caller could not begin it any more, those included
// that wait for answers. It returns how many it ended. It is called after the tenants,
// the issuers or their keys have changed. now says what the principal of a call may do by
// now; it is false if the token is not accepted any more or its tenant not served.
func (g *Gateway) Reauthorize(now func(auth.Principal) (Caller, bool)) (ended int) {
	for _, u := range g.ongoing.all() {
		if c, ok := now(*u.principal); !ok || !c.mayUse(u.item) {
			u.revoke()
			ended++
		}
	}
	return ended
}
