package main

import (
	"context"
	"io"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/quiet"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
)

// The gateway has the server behind it twice, for the quiet tenant and for the loud one.
// A third time it is the dummy of the baseline: attackers meet it instead of the gateway,
// with the same requests.

// serveTools is a role: the server at an address.
func serveTools(ctx context.Context, args []string, in io.Reader, _ io.Writer) {
	ctx, cancel := quiet.UntilEnd(ctx, in)
	defer cancel()
	must.OK(upstream.Listen(ctx, args[0], upstream.NewCareless()))
}
