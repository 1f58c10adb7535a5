package quiet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Call returns a call of the small tool of a server, as it goes over the wire.
func Call(addr, token, server string) []byte {
	tool := server + "__echo"
	return client.Request{
		Addr: addr, Token: token, Revision: mcp.LatestModern, RPC: mcp.MethodToolsCall, Tool: tool,
		Body: client.Message("1", mcp.MethodToolsCall, `"name":"`+tool+`","arguments":{"message":"hello"}`,
			mcp.LatestModern),
	}.Bytes()
}

// Instead says what came instead of the answer to a Call, "" if it was answered.
func Instead(answer *client.Answer, err error) string {
	broken, _ := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "no answer in time"
	case broken != nil && broken.Op == "dial":
		return "no connection"
	case err != nil:
		return "connection closed"
	case answer.Status != http.StatusOK || !bytes.Contains(answer.Body, []byte(upstream.Sentence)):
		return fmt.Sprintf("%d %s", answer.Status, answer.Code())
	}
	return ""
}

// Calls returns the orders to call a server of a gateway as each of the users who have
// these tokens.
func Calls(addr, server string, tokens []string) (o Orders) {
	o.Addr = addr
	for _, token := range tokens {
		o.Calls = append(o.Calls, string(Call(addr, token, server)))
	}
	return o
}

// Tokens returns a token for each user of a tenant of a gateway whose issuer has the
// claim team.
func Tokens(secret, issuer, addr, tenant string, users int) (all []string) {
	for i := range users {
		all = append(all, world.Token(secret, issuer, "http://"+addr+"/mcp", fmt.Sprintf("user%d", i),
			map[string]any{"team": tenant}))
	}
	return all
}

// Serves waits until each tenant is served by a server.
func Serves(ctx context.Context, addr string, tokens map[string][]string, servers map[string]string) error {
	for tenant, server := range servers {
		line, call := client.LineTo(ctx, addr), Call(addr, tokens[tenant][0], server)
		err := world.Within(ctx, time.Minute, "the gateway serves tenant "+tenant,
			func() bool {
				return Instead(must.Got(func() *client.Answer { return line.Exchange(call, 1<<10) })) == ""
			})
		line.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
