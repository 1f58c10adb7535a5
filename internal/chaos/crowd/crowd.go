// Package crowd is a crowd of MCP clients of all revisions that use a gateway as good clients do, and enter in a ledger
// what they ask and what they get. They are written by hand, since what they must notice, such as an event that comes
// twice, a library would hide.
package crowd

import (
	"context"

	"github.com/drawbridge-mcp/drawbridge/internal/chaos/ledger"
)

// The tenants and servers that a gateway needs for a crowd. Each tenant uses both servers, whose tools are exposed as
// modern__touch and legacy__touch: "modern" is /mcp of an upstream.Server, "legacy" is /legacy of one.
const (
	TenantA = "red"
	TenantB = "blue"
	Modern  = "modern"
	Legacy  = "legacy"
)

// Config is what a crowd needs.
type Config struct {
	URL    string // of the gateway or of the load balancer, such as http://127.0.0.1:8080, without a path
	Token  func(tenant, user string) string
	Ledger *ledger.Ledger
	Size   int // how many clients of each kind; zero: one
}

// Crowd is a crowd at work.
type Crowd struct{}

// Start sets a crowd to work. It ends with Stop, or abruptly with ctx.
func Start(ctx context.Context, c Config) *Crowd { return &Crowd{} }

// Stop asks nothing new, waits until all that was asked has its end, and ends streams and sessions. It returns an error
// if ctx ends before that.
func (c *Crowd) Stop(ctx context.Context) error { return nil }

// Deeds is what a crowd did, as a proof that it did something.
type Deeds struct {
	Calls      int // asked
	Resumed    int // streams that went on after they broke
	Questions  int // questions of tools that were answered, on a stream or by a repeat of the call
	Cancelled  int // calls that their client cancelled
	Repeated   int // calls with an Idempotency-Key that were sent again after a broken connection
	Changes    int // changes of lists and resources that were told
	Sessions   int // that were opened, over HTTP+SSE too
	Listened   int // subscriptions/listen that were acknowledged
	Postponed  int // requests that were told to come again later
	Reconnects int // sessions that were opened because the last one was gone
}

// Deeds returns what the crowd has done so far.
func (c *Crowd) Deeds() Deeds { return Deeds{} }
