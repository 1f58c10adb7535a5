package server

import (
	"context"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// desk is what the door uses of *gateway.Gateway. Whoever works at the door gets the one part that it needs; the whole
// is for New, and for tests that put something else in its place.
type desk interface {
	admission
	handling
	streaming
	listing
	watching
	recording
}

// admission finds out what a principal is to the gateway, and takes what its requests cost.
type admission interface {
	Admit(ctx context.Context, p auth.Principal, n int) (gateway.Caller, error)
	Resolve(p auth.Principal) (gateway.Caller, error)
	Charge(ctx context.Context, c gateway.Caller, n int) error
}

// handling answers requests, and knows which of their headers repeat arguments.
type handling interface {
	Handle(ctx context.Context, c gateway.Caller, r *gateway.Request) (mcp.Object, error)
	HeaderParams(c gateway.Caller, tool string) []registry.HeaderParam
}

// streaming gives out the places for event streams.
type streaming interface {
	OpenStream(c gateway.Caller, kind string) (closed func(), err error)
}

// listing tells when the lists that a caller sees have changed.
type listing interface {
	Lists(c gateway.Caller) gateway.Digests
	Changed() <-chan struct{}
}

// watching tells of changes of resources, and whether a caller may still read them.
type watching interface {
	Subscribe(ctx context.Context, c gateway.Caller, id, uri string, updated func(uri string)) (stop func(), err error)
	Reads(c gateway.Caller, uri string) bool
}

// recording puts refusals of the door on record.
type recording interface {
	Refuse(ctx context.Context, r audit.Record)
}

// handle puts a request before the desk.
func (s *Server) handle(ctx context.Context, c gateway.Caller, r *gateway.Request) (mcp.Object, *mcp.Error) {
	return s.guarded(ctx, func() (mcp.Object, error) { return s.desk.Handle(ctx, c, r) })
}

// guarded calls the desk. A panic there becomes an internal error: the goroutine may be one that nobody else guards.
func (s *Server) guarded(ctx context.Context, do func() (mcp.Object, error)) (result mcp.Object, told *mcp.Error) {
	defer func() {
		if problem := recover(); problem != nil {
			s.panicked(ctx, problem)
			result, told = mcp.Object{}, errPanic.told
		}
	}()
	result, err := do()
	if err != nil {
		return mcp.Object{}, toldOf(err)
	}
	return result, nil
}
