package server

import (
	"context"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// desk is everything that the door uses of *gateway.Gateway. Each part of the door has only the one of these interfaces
// that it needs; the whole is named only where a server is made, and where a test puts something else in its place.
type desk interface {
	admission
	handling
	streaming
	listing
	watching
	judging
	recording
}

// admission finds the tenant of a principal, and takes what its requests cost.
type admission interface {
	Admit(ctx context.Context, p auth.Principal, n int) (gateway.Caller, error)
	Resolve(p auth.Principal) (gateway.Caller, error)
	Charge(ctx context.Context, c gateway.Caller, n int) error
	ChargeSize(ctx context.Context, c gateway.Caller, size int64) error
}

// handling answers requests, knows which headers of a request must repeat its arguments and which replica alone can go on
// with it, and judges who asks for the answer of an earlier one.
type handling interface {
	Handle(ctx context.Context, c gateway.Caller, r *gateway.Request) (mcp.Object, error)
	Repeat(ctx context.Context, c gateway.Caller, r *gateway.Request) error
	Home(c gateway.Caller, method string, params mcp.Object) replica.ID
	HeaderParams(c gateway.Caller, tool string) []registry.HeaderParam
}

// streaming gives out the places for event streams.
type streaming interface {
	OpenStream(ctx context.Context, c gateway.Caller, kind string) (closed func(), err error)
}

// listing tells when the lists that a caller sees have changed.
type listing interface {
	Lists(c gateway.Caller) gateway.Digests
	Changed() <-chan struct{}
}

// watching tells of changes of resources, and whether a caller may still read them.
type watching interface {
	Subscribe(ctx context.Context, c gateway.Caller, id, uri string, updated func(uri string)) (gateway.Subscription, error)
	Reads(c gateway.Caller, uri string) bool
}

// judging ends calls whose callers may not go on with them, and tells how many calls go on.
type judging interface {
	Ongoing() int
	Judge(now func(auth.Principal) (gateway.Caller, bool)) (ended int)
}

// recording puts refusals of the door on record.
type recording interface {
	Refuse(ctx context.Context, r audit.Record)
}

// handle passes a request to the desk.
func (s *Server) handle(ctx context.Context, c gateway.Caller, r *gateway.Request) (mcp.Object, *mcp.Error) {
	return s.guarded(ctx, func() (mcp.Object, error) { return s.desk.Handle(ctx, c, r) })
}

// guarded calls the desk, and turns a panic there into an internal error. It is needed because the goroutine may be one
// that no HTTP handler recovers.
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
