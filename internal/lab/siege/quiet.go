package main

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/quiet"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
)

// The quiet tenant makes between five and nine calls a second.
const (
	quietLeast = 111 * time.Millisecond // between two calls
	quietMost  = 200 * time.Millisecond
)

// quietPart is the argument that makes this program the quiet tenant.
const quietPart = "part-quiet"

// beQuiet is the process of the quiet tenant and of its server, which has one of its own,
// too. It says the address of the server first.
func beQuiet(ctx context.Context, _ []string, in io.Reader, out io.Writer) {
	server := httptest.NewServer(upstream.NewCareless())
	defer server.Close()
	defer server.CloseClientConnections()
	must.Have(fmt.Fprintln(out, server.Listener.Addr()))
	quiet.Be(ctx, in, out)
}
