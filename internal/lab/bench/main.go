// Command bench compares a tools/call through the gateway, with its whole chain on, to
// the same call made directly and through nginx and Go's httputil.ReverseProxy: same
// upstream, same run, each answer checked. It also measures other kinds of calls and idle
// event streams. It starts every part as a process of its own on loopback and writes what
// it saw as ratios, because absolute figures belong to one machine.
//
//	go run -C internal/lab ./bench -out docs/evidence/benchmarks.md
//
// Its other parts go behind its name, such as ./bench scale: scale shows how the
// gateway's work grows with what it holds; peers installs other gateways and measures
// them beside this one; replicas shows what several replicas that share Redis cost;
// record shows what the fields of records that explain a decision cost a call; signin
// what it costs by how its caller is let in; and credentials what it costs to tell a
// server who makes it.
//
// Read calls.go for what is measured, measure.go for how rounds are compared, lab.go for
// the processes, and report.go for the report, of which each part writes a section.
package main

import (
	"context"
	"io"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

func main() { world.Main("bench", roles, run, 1, nil) }

// roles are what processes of this program do that the others measure.
var roles = map[string]world.Role{
	"upstream": func(ctx context.Context, args []string, _ io.Reader, _ io.Writer) {
		must.OK(upstream.NewQuick(false).Serve(ctx, args[0], args[1:]...))
	},
	"stdio": func(_ context.Context, _ []string, in io.Reader, out io.Writer) {
		must.OK(upstream.NewQuick(false).ServeStdio(in, out))
	},
	"peers-upstream": func(ctx context.Context, args []string, _ io.Reader, _ io.Writer) {
		must.OK(upstream.NewQuick(true).Serve(ctx, args[0]))
	},
	"peers-stdio": func(_ context.Context, _ []string, in io.Reader, out io.Writer) {
		must.OK(upstream.NewQuick(true).ServeStdio(in, out))
	},
	"proxy": func(ctx context.Context, args []string, _ io.Reader, _ io.Writer) {
		must.OK(serveProxy(ctx, args[0], args[1]))
	},
	"tokens": func(ctx context.Context, args []string, _ io.Reader, _ io.Writer) {
		must.OK(serveTokens(ctx, args[0]))
	},
}

// run is the process that measures.
func run(ctx context.Context, args []string, out io.Writer) error {
	return page.Run(ctx, "bench", map[string]page.Part{
		"":            {Section: "bench", Begin: newCalls},
		"scale":       {Section: "bench-scale", Begin: newScale},
		"peers":       {Section: "bench-peers", Begin: newPeers},
		"replicas":    {Section: "bench-replicas", Begin: newReplicas},
		"record":      {Section: "bench-record", Begin: recordFields.measured},
		"signin":      {Section: "bench-signin", Begin: signIns.measured},
		"credentials": {Section: "bench-credentials", Begin: credentials.measured},
	}, args, out)
}
