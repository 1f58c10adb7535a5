package main

import (
	"context"
	"io"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
)

// The gateway has the server behind it twice, for the quiet tenant and for the loud one.
// A third time it is the dummy of the baseline: attackers meet it instead of the gateway,
// with the same requests.

// serveTools is a part: the server at an address.
func serveTools(ctx context.Context, addr string, in io.Reader, _ io.Writer) {
	ctx, cancel := untilEnd(ctx, in)
	defer cancel()
	must.OK(upstream.Listen(ctx, addr, upstream.NewCareless()))
}

// untilEnd returns a context that ends with ctx or when in does. The part before ends its
// children by closing their standard input, and if it dies they end as well.
func untilEnd(ctx context.Context, in io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() { // ends with the process, or before it
		_, _ = io.Copy(io.Discard, in) // nothing is ever sent
		cancel()
	}()
	return ctx, cancel
}
