package gateway

import (
	"context"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// maxSubscriptions is how many subscriptions a tenant has at once, one user half of them.
const maxSubscriptions = 4096

// Subscribe tells of changes of the resource with that exposed URI until stop is called. updated gets the exposed URI
// that changed, which may be of a part of the resource; it is called from any goroutine and must not wait. id is that
// of the HTTP request, for records. ctx is for the opening alone. Errors are *mcp.Error, of calls: a subscription is
// limited and recorded like one. Whether the caller still may see what changed is for Reads to say.
func (g *Gateway) Subscribe(ctx context.Context, c Caller, id, uri string, updated func(uri string)) (stop func(), err error) {
	request := &Request{
		ID: id, Method: mcp.MethodSubscribe,
		Params: mcp.NewObject(mcp.Member{Name: "uri", Value: mcp.String(uri)}),
		Notify: func(context.Context, mcp.Notification) error { return nil },
	}
	subscribe := &method{
		Method: mcp.MethodOf(mcp.MethodSubscribe),
		label:  "subscription", find: (*Gateway).findResource, check: unchecked, conform: conformNothing,
		use: func(ctx context.Context, s *call) (_ mcp.Object, err error) {
			stop, err = g.subscribe(ctx, s, updated)
			return mcp.Object{}, err
		},
	}
	if _, err := g.call(ctx, newCall(c, request, subscribe)); err != nil {
		if stop != nil {
			stop() // it was opened, but could not be recorded
		}
		return nil, err
	}
	return stop, nil
}

// subscribe opens the subscription of a call.
func (g *Gateway) subscribe(ctx context.Context, s *call, updated func(uri string)) (func(), error) {
	leave, ok := enter(g.subscriptions, s.caller, maxSubscriptions)
	if !ok {
		return nil, errSubscriptions
	}
	// It lives longer than the request that opens it, and ends with it while it is not open.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	abandon := context.AfterFunc(ctx, end)
	stop := sync.OnceFunc(func() { end(); leave() })
	opened := false
	defer func() {
		if !opened {
			stop()
		}
	}()
	told, err := s.resource.Subscribe(life, s.caller.Tenant.ID, updated)
	switch {
	case !abandon():
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	case !told:
		return nil, errNotTold
	}
	opened = true
	return stop, nil
}

func conformNothing(_ *Gateway, _ *call, result mcp.Object) (mcp.Object, error) { return result, nil }

// Reads tells whether the caller may read the resource with that exposed URI now.
func (g *Gateway) Reads(c Caller, uri string) bool {
	resource, err := g.look(c.Tenant).view.Resource(uri)
	return err == nil && c.Tenant.allows(c.rules, &resource.Item)
}
