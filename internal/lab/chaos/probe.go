package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
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

func newClient() *http.Client {
	// a probe must not meet a connection that a fault has left behind
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
}

// reply is what came back.
type reply struct {
	status  int
	code    string // data.code of the error; "": none
	body    string
	session string // Mcp-Session-Id
	header  http.Header
}

// ok tells whether a call was answered with what its server did.
func (r reply) ok() bool { return r.status == http.StatusOK && strings.Contains(r.body, "serial ") }

func (r reply) String() string {
	return fmt.Sprintf("%d %s %.300q", r.status, r.code, r.body)
}

// at returns the URL of a replica itself.
func at(r *world.Replica) string { return "http://" + r.Address }

// touch calls the plain tool of a server in revision 2026-07-28, as a user of the first
// tenant. header are further ones: name, value, name, value.
func (s *scene) touch(ctx context.Context, base, server string, header ...string) reply {
	return s.call(ctx, base, s.token(crowd.TenantA, prober), server+"__touch", crowd.TenantA, header...)
}

// call calls a tool in revision 2026-07-28.
func (s *scene) call(ctx context.Context, base, token, tool, tenant string, header ...string) reply {
	body := client.Message("1", mcp.MethodToolsCall,
		fmt.Sprintf(`"name":%q,"arguments":{"nonce":"probe","tenant":%q}`, tool, tenant), mcp.LatestModern)
	return s.post(ctx, base, token, body,
		append([]string{
			"MCP-Protocol-Version", mcp.LatestModern, "Mcp-Method", "tools/call", "Mcp-Name",
			tool,
		}, header...)...)
}

const legacyRevision = "2025-11-25"

// open opens a session of 2025-11-25.
func (s *scene) open(ctx context.Context, base string) (session string) {
	token := s.token(crowd.TenantA, prober)
	said := s.post(ctx, base, token, client.Initialize(legacyRevision, client.Unable))
	must.Be(said.session != "", "no session was opened: %v", said)
	s.post(ctx, base, token, client.Initialized, "Mcp-Session-Id", said.session,
		"MCP-Protocol-Version", legacyRevision)
	return said.session
}

// within calls the plain tool of a server in a session.
func (s *scene) within(ctx context.Context, base, session, server string) reply {
	return s.runs(ctx, base, session, server+"__touch", "")
}

// runs calls a tool in a session. more are further arguments.
func (s *scene) runs(ctx context.Context, base, session, tool, more string) reply {
	body := fmt.Sprintf(
		`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":%q,"arguments":{"nonce":"probe","tenant":%q%s}}}`,
		rand.Text(), tool, crowd.TenantA, more) // no two requests of a session have one id
	return s.post(ctx, base, s.token(crowd.TenantA, prober), body, "Mcp-Session-Id", session,
		"MCP-Protocol-Version", legacyRevision)
}

func (s *scene) post(ctx context.Context, base, token, body string, header ...string) reply {
	request := must.Have(http.NewRequestWithContext(ctx, http.MethodPost, base+"/mcp", strings.NewReader(body)))
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	return s.do(request)
}

func (s *scene) do(request *http.Request) reply {
	response, err := s.client.Do(request) //nolint:gosec // of our own gateways
	must.OK(err)
	defer func() { _ = response.Body.Close() }() // it was read
	text := must.Have(io.ReadAll(io.LimitReader(response.Body, 1<<20)))
	r := reply{
		status: response.StatusCode, body: string(text),
		session: response.Header.Get("Mcp-Session-Id"), header: response.Header,
	}
	var message struct {
		Error struct {
			Data struct {
				Code string `json:"code"`
			} `json:"data"`
		} `json:"error"`
	}
	plain := r.body[max(0, strings.Index(r.body, "{")):]
	if json.Unmarshal([]byte(plain), &message) == nil { //nolint:forbidigo // an answer of the gateway, in a tool for trials
		r.code = message.Error.Data.Code
	}
	return r
}

// refuses fails if a replica does not refuse a call of a server with
// one of the codes.
func (s *scene) refuses(ctx context.Context, r *world.Replica, server string, codes ...string) {
	said := s.touch(ctx, at(r), server)
	is(fmt.Sprintf("%s refuses %s with one of %v", r.Name, server, codes),
		slices.Contains(codes, said.code), said)
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
func (s *scene) readyz(ctx context.Context, r *world.Replica) view {
	request := must.Have(http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Operator+"/readyz",
		http.NoBody))
	said := s.do(request)
	v := view{status: said.status}
	must.OK(json.Unmarshal([]byte(said.body), &v)) //nolint:forbidigo // as above
	return v
}
