// Command bench compares a tools/call through the gateway, with its whole chain on, to
// the same call made directly and through nginx and Go's httputil.ReverseProxy: same
// upstream, same run, each answer checked. It also measures other kinds of calls and idle
// event streams. It starts every part as a process of its own on loopback and writes what
// it saw as ratios, because absolute figures belong to one machine.
//
//	go run -C internal/lab ./bench -out docs/evidence/benchmarks.md
//
// Its command scale shows how the gateway's work grows with what it holds:
//
//	go run -C internal/lab ./bench scale
//
// Its command peers installs other gateways and measures them beside this one:
//
//	go run -C internal/lab ./bench peers
//
// Its command replicas shows what several replicas that share Redis cost:
//
//	go run -C internal/lab ./bench replicas
//
// Its command record shows what the fields of records that explain a decision cost a call:
//
//	go run -C internal/lab ./bench record
//
// Its command signin shows what a call costs by how its caller is let in:
//
//	go run -C internal/lab ./bench signin
//
// Its command credentials shows what it costs a call to tell a server who makes it:
//
//	go run -C internal/lab ./bench credentials
//
// Read calls.go for what is measured, measure.go for how rounds are compared, lab.go for
// the parts, and page.go for the report, of which each command writes a section.
package main

import (
	"context"
	"io"
	"os"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

func main() {
	world.Main("bench", func(ctx context.Context, args []string) error { return run(ctx, args, os.Stdout) },
		1, nil)
}

// run is the whole program. The processes that it starts are this program again, with the
// name of their part as first argument.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "upstream":
			return upstream.NewQuick(false).Serve(ctx, args[1], args[2:]...)
		case "proxy":
			return serveProxy(ctx, args[1], args[2])
		case "stdio":
			return upstream.NewQuick(false).ServeStdio(os.Stdin, out)
		case "peers":
			return runPeers(ctx, args[1:], out)
		case "peers-upstream":
			return upstream.NewQuick(true).Serve(ctx, args[1])
		case "peers-stdio":
			return upstream.NewQuick(true).ServeStdio(os.Stdin, out)
		case "scale":
			return runScale(ctx, args[1:], out)
		case "record":
			return runRecord(ctx, args[1:], out)
		case "signin":
			return runSignIn(ctx, args[1:], out)
		case "credentials":
			return runCredentials(ctx, args[1:], out)
		case "tokens":
			return serveTokens(ctx, args[1])
		case "replicas":
			return runReplicas(ctx, args[1:], out)
		}
	}
	return runCalls(ctx, args, out)
}
