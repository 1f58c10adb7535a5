package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// maxSubscriptions is how many subscriptions a tenant may have at once at this replica.
// One user may have half of them.
const maxSubscriptions = 4096

// What a subscription takes in memory, in bytes, roughly: so much, for itself and what it
// keeps of the request that opened it, and its URI at the door, here, and at the
// server's.
const (
	subscriptionCost = 8 << 10
	subscriptionURIs = 3
)

// Subscription is a subscription to a resource that is open.
type Subscription struct {
	Stop func() // ends it; does not wait, and may be called more than once
	// Allows tells whether that caller, as resolved just now, may still have the
	// subscription. It waits for nothing.
	Allows func(Caller) bool
	// Outcome is how a request that was refused ended, in the words of the records; "":
	// it was not refused, or not recorded.
	Outcome string
}

// Subscribe calls updated whenever the resource with that exposed URI changes, until the
// subscription is stopped. updated gets the exposed URI of what changed, which may be
// only a part of the resource; it is called from any goroutine and must not block. r is
// the request that subscribes: of it counts what records say, and which extensions the
// client declares, by which a server may list other resources. ctx limits only the
// opening of the subscription. Opening one is limited and recorded like a call; errors
// are *mcp.Error. Subscribe does not check again later whether the caller may still see
// the resource: whoever passes updates on asks Reads each time, and stops the
// subscription when it does not allow its caller any more.
func (g *Gateway) Subscribe(ctx context.Context, c Caller, r *Request, uri string,
	updated func(uri string),
) (Subscription, error) {
	var opened Subscription
	request := &Request{
		ID: r.ID, Method: mcp.MethodSubscribe, From: r.From, Extensions: r.Extensions,
		Params: mcp.NewObject(mcp.Member{Name: "uri", Value: mcp.String(uri)}),
		Notify: func(context.Context, mcp.Notification) error { return nil },
	}
	subscribe := &method{
		Method: mcp.MethodOf(mcp.MethodSubscribe),
		label:  "subscription", find: (*Gateway).findResource, check: unchecked,
		clean: sanitize.Policy.Result, conform: conformEmpty,
		use: func(ctx context.Context, s *call) (_ mcp.Object, err error) {
			opened.Stop, err = g.subscribe(ctx, s, updated)
			opened.Allows = func(c Caller) bool { return c.mayUse(s.item) }
			return mcp.Object{}, err
		},
	}
	if _, err := g.call(ctx, g.newCall(c, request, subscribe)); err != nil {
		if opened.Stop != nil {
			opened.Stop() // it was opened, but could not be recorded, or was revoked meanwhile
		}
		return Subscription{Outcome: request.Ended}, err
	}
	return opened, nil
}

// subscribe opens the subscription of a call, within the call.
func (g *Gateway) subscribe(ctx context.Context, s *call, updated func(uri string)) (func(), error) {
	user := share.User(s.caller.Principal.User())
	life, stop, err := g.holdSubscription(ctx, user, s.params.Text("uri"))
	if err != nil {
		return nil, err
	}
	abandon := context.AfterFunc(ctx, stop) // until it is open, it ends with the request
	opened := false
	defer func() {
		if !opened {
			stop()
		}
	}()
	watch, err := s.item.Subscribe(life, user, func(part string) { updated(g.updatedPart(s, part)) })
	switch {
	case !abandon():
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	case !watch:
		return nil, errNotAnnounced
	}
	opened = true
	return stop, nil
}

// holdSubscription takes a slot and memory for a subscription to what has that name,
// until stop is called. The subscription lives longer than the request that opens it, in
// life.
func (g *Gateway) holdSubscription(ctx context.Context, user share.User, name string,
) (life context.Context, stop func(), err error) {
	size := int64(subscriptionCost + subscriptionURIs*len(name))
	if err := take(g.subscriptions, user, maxSubscriptions, maxSubscriptions); err != nil {
		return nil, nil, errors.Join(errSubscriptions, err)
	}
	if err := g.config.Memory.Take(user, size); err != nil {
		g.subscriptions.Give(user, 1)
		return nil, nil, fmt.Errorf("hold the subscription: %w", err)
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	return life, sync.OnceFunc(func() {
		end()
		g.subscriptions.Give(user, 1)
		g.config.Memory.Give(user, size)
	}), nil
}

// updatedPart returns which resource the client of a subscription is told has changed:
// part, as the server said, or the one subscribed to, when part hides text. So no change
// is lost.
func (g *Gateway) updatedPart(s *call, part string) string {
	if _, ok := g.cleanParams(s, mcp.NewObject(mcp.Member{Name: "uri", Value: mcp.String(part)})); ok {
		return part
	}
	return s.params.Text("uri")
}

// Reads tells whether the caller may read the resource with that exposed URI now.
func (g *Gateway) Reads(c Caller, uri string) bool {
	resource, err := g.tenantViewOf(&c).view.Resource(uri)
	return err == nil && c.Tenant.allows(c.rules, resource)
}
