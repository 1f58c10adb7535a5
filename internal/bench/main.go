// Command bench compares a tools/call through the gateway, with its whole chain on, to the same call made directly and
// through nginx and Go's httputil.ReverseProxy: same upstream, same run, each answer checked. It also measures other
// kinds of calls and idle event streams. It starts every part as a process of its own on loopback and writes what it saw
// as ratios, because absolute figures belong to one machine.
//
//	go run ./internal/bench -out docs/evidence/benchmarks.md
//
// Its command scale shows how the gateway's work grows with what it holds:
//
//	go run ./internal/bench scale
//
// Its command peers installs other gateways and measures them beside this one:
//
//	go run ./internal/bench peers
//
// Its command replicas shows what several replicas that share Redis cost:
//
//	go run ./internal/bench replicas
//
// Read calls.go for what is measured, measure.go for how rounds are compared, lab.go for the parts, and page.go for the
// report, of which each command writes a section.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run is the whole program. The processes that it starts are this program again, with the name of their part as first
// argument.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "upstream":
			return serveUpstream(ctx, args[1], args[2:]...)
		case "proxy":
			return serveProxy(ctx, args[1], args[2])
		case "stdio":
			return serveStdio(os.Stdin, out)
		case "peers":
			return runPeers(ctx, args[1:], out)
		case "peers-upstream":
			return servePeerUpstream(ctx, args[1])
		case "peers-stdio":
			return servePeerStdio(os.Stdin, out)
		case "scale":
			return runScale(ctx, args[1:], out)
		case "replicas":
			return runReplicas(ctx, args[1:], out)
		}
	}
	return runCalls(ctx, args, out)
}
