package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/chaos/crowd"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// A probe is a call beside the crowd, of which the ledger knows nothing, to see what one
// replica answers.

const prober = "prober" // the user that probes come from

// reply is what came back.
type reply struct {
	status  int
	code    string // data.code of the error; "": none
	body    string
	session string // Mcp-Session-Id
}

// ok tells whether a call was answered with what its server did.
func (r reply) ok() bool { return r.status == http.StatusOK && strings.Contains(r.body, "serial ") }

func (r reply) String() string {
	return fmt.Sprintf("%d %s %.300q", r.status, r.code, r.body)
}

// touch calls the plain tool of a server in revision 2026-07-28, as a user of the first
// tenant. more are further headers.
func (s *scene) touch(ctx context.Context, r *world.Replica, server string, more ...[2]string) reply {
	q := s.toolCall(r, s.token(crowd.TenantA, prober), server+"__touch", probing, crowd.TenantA)
	q.More = more
	return ask(ctx, q.Addr, q.Bytes())
}

const probing = "probe" // in the place of a nonce

// toolCall is a call of a tool in revision 2026-07-28.
func (s *scene) toolCall(r *world.Replica, token, tool, nonce, tenant string) client.Request {
	return modern(r.Address, token, mcp.MethodToolsCall, tool,
		fmt.Sprintf(`"name":%q,"arguments":{"nonce":%q,"tenant":%q}`, tool, nonce, tenant))
}

// modern is a request of revision 2026-07-28.
func modern(addr, token, method, tool, params string) client.Request {
	return client.Request{
		Addr: addr, Token: token, Revision: mcp.LatestModern, RPC: method, Tool: tool,
		Body: client.Message("1", method, params, mcp.LatestModern),
	}
}

// open opens a session of 2025-11-25.
func (s *scene) open(ctx context.Context, r *world.Replica) (session string) {
	q := client.Request{
		Addr: r.Address, Token: s.token(crowd.TenantA, prober),
		Body: client.Initialize(mcp.LatestLegacy, client.Unable),
	}
	said := ask(ctx, q.Addr, q.Bytes())
	must.Be(said.session != "", "no session was opened: %v", said)
	q.Revision, q.Session, q.Body = mcp.LatestLegacy, said.session, client.Initialized
	ask(ctx, q.Addr, q.Bytes())
	return said.session
}

// within calls the plain tool of a server in a session.
func (s *scene) within(ctx context.Context, r *world.Replica, session, server string) reply {
	return s.runs(ctx, r, session, server+"__touch", "")
}

// runs calls a tool in a session. more are further arguments.
func (s *scene) runs(ctx context.Context, r *world.Replica, session, tool, more string) reply {
	id := strconv.Quote(rand.Text()) // no two requests of a session have one id
	params := fmt.Sprintf(`"name":%q,"arguments":{"nonce":%q,"tenant":%q%s}`, tool, probing, crowd.TenantA, more)
	return ask(ctx, r.Address, client.Request{
		Addr: r.Address, Token: s.token(crowd.TenantA, prober), Revision: mcp.LatestLegacy, Session: session,
		Body: client.Message(id, mcp.MethodToolsCall, params, mcp.LatestLegacy),
	}.Bytes())
}

// ask sends a request on a connection of its own: a probe must not meet one that a fault
// has left behind.
func ask(ctx context.Context, addr string, request []byte) reply {
	c := client.Dial(ctx, addr, "")
	defer c.Close()
	c.Patience = patience
	a := c.Exchange(request, 1<<20)
	return reply{a.Status, a.Code(), string(a.Body), a.Session}
}

// is fails unless something is so, and says what came instead.
func is(what string, so bool, said any) {
	if !so {
		panic(fmt.Errorf("want that %s: got %v", what, said))
	}
}

// view is what /readyz says.
type view struct {
	Ready    bool     `json:"ready"`
	Draining bool     `json:"draining"`
	Problems []string `json:"problems"`
	Warnings []string `json:"warnings"`
	Redis    string   `json:"redis"`
	status   int
}

// readyz asks a replica how it is.
func readyz(ctx context.Context, r *world.Replica) view {
	said := ask(ctx, r.Operator,
		client.Request{Addr: r.Operator, Method: http.MethodGet, Path: "/readyz"}.Bytes())
	v := view{status: said.status}
	must.OK(json.Unmarshal([]byte(said.body), &v)) //nolint:forbidigo // our own gateway's
	return v
}
