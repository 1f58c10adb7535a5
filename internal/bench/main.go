// Command bench compares a tools/call through the gateway, with its whole chain on, to the same call made directly and
// through Go's httputil.ReverseProxy: same upstream, same run, each answer checked. It starts every part as a process
// of its own on loopback and writes what it saw as ratios, because absolute figures belong to one machine.
//
//	go run ./internal/bench -out deploy/BENCHMARKS.md
//
// Its command scale shows how the gateway's work grows with what it holds:
//
//	go run ./internal/bench scale
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run is the whole program. The processes that it starts are this program again, with the name of their part as first
// argument.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 2 && args[0] == "upstream" {
		return serveUpstream(ctx, args[1])
	}
	if len(args) == 3 && args[0] == "proxy" {
		return serveProxy(ctx, args[1], args[2])
	}
	if len(args) > 0 && args[0] == "scale" {
		return runScale(ctx, args[1:], out)
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	report := flags.String("out", "", "file to write the report to; the standard output when empty")
	took := flags.Duration("time", 3*time.Second, "how long each part runs in each round")
	rounds := flags.Int("rounds", 3, "rounds; the median counts")
	streams := flags.Int("streams", 1000, "idle event streams to open for the measure of memory")
	if err := flags.Parse(args); err != nil {
		return err
	}
	lab, err := newLab(ctx)
	if err != nil {
		return err
	}
	defer lab.close()
	results, err := lab.measure(ctx, *took, *rounds, out)
	if err != nil {
		return err
	}
	memory, err := lab.memory(ctx, *streams)
	if err != nil {
		return err
	}
	text := describe(results, memory, *took, *rounds)
	if *report == "" {
		_, err = io.WriteString(out, text)
		return err
	}
	return os.WriteFile(*report, []byte(text), 0o644) //nolint:gosec // a report for everybody to read
}
