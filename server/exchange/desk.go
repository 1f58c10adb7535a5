package exchange

import (
	"context"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// Desk is what the door uses of *gateway.Gateway. It is an interface so that a test can
// put something that misbehaves in its place.
type Desk interface {
	// Admit finds the tenant of a principal and takes the price of n requests. Resolve
	// only finds the tenant.
	Admit(ctx context.Context, p auth.Principal, n int) (gateway.Caller, error)
	Resolve(p auth.Principal) (gateway.Caller, error)
	Charge(ctx context.Context, c gateway.Caller, n int) error
	ChargeSize(ctx context.Context, c gateway.Caller, size int64) error

	// Handle answers a request; Repeat judges who asks for the answer of an earlier one.
	Handle(ctx context.Context, c gateway.Caller, r *gateway.Request) (mcp.Object, error)
	Repeat(ctx context.Context, c gateway.Caller, r *gateway.Request) error
	// Home names the replica that alone can go on with a request.
	Home(c gateway.Caller, method string, params mcp.Object, declared mcp.Extensions) replica.ID
	// HeaderParams tells which headers of a request must repeat its arguments.
	HeaderParams(c gateway.Caller, declared mcp.Extensions, tool string) []registry.HeaderParam

	// Extensions are those that are offered to the caller beside tasks.
	Extensions(c gateway.Caller) mcp.Extensions

	OpenStream(ctx context.Context, c gateway.Caller, kind string) (closed func(), err error)
	Lists(c gateway.Caller) gateway.Digests
	OnChange(do func())
	Subscribe(ctx context.Context, c gateway.Caller, r *gateway.Request, uri string,
		updated func(uri string)) (gateway.Subscription, error)
	Reads(c gateway.Caller, uri string) bool
	FollowTask(ctx context.Context, c gateway.Caller, r *gateway.Request, id string,
		onStatus func(state mcp.Object) bool) (gateway.Subscription, error)
	// IsEverywhere tells whether all replicas reach the task that the params name.
	IsEverywhere(params mcp.Object) bool
	// FollowsTask tells whether a task is the caller's, who may use its tool now.
	FollowsTask(c gateway.Caller, id string) bool

	// Ongoing counts the calls that go on; Reauthorize ends those whose callers lost the
	// right.
	Ongoing() int
	Reauthorize(now func(auth.Principal) (gateway.Caller, bool)) (ended int)
	// Refuse puts a refusal of the door on record.
	Refuse(ctx context.Context, r audit.Record)
	// Note puts on record what became of a request without the desk.
	Note(ctx context.Context, r audit.Record)
}
