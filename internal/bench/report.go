package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// describe writes the report.
func describe(results []result, memory int64, took time.Duration, rounds int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# What the gateway costs

One tools/call of an echo tool, in three ways to the same upstream, in one run: directly, through Go's
httputil.ReverseProxy (idle connections as many as the concurrency, body read before it is sent on), and through
drawbridge with its whole chain on: token, tenant, rules, request, call, user and tool limits, argument schema, time
limit, output cleaning, audit (a line is written before each answer; `+"`sync: interval`"+`, so it is synced to disk once a
second), log line, metrics. Every answer's content is checked; load, parts and upstream share the machine.

Absolute figures belong to one machine. Compare the ratios, and make your own: `+"`make bench`"+` writes this file.

| revision | connections | drawbridge ÷ ReverseProxy, calls per second | drawbridge ÷ direct | added at the median, beyond direct |
|---|---|---|---|---|
`)
	for _, r := range results {
		fmt.Fprintf(&b, "| %s | %d | **%.2f** | %.2f | %v |\n", r.era, r.connections,
			r.rate["drawbridge"]/r.rate["ReverseProxy"], r.rate["drawbridge"]/r.rate["direct"],
			(r.latency["drawbridge"] - r.latency["direct"]).Round(time.Microsecond))
	}
	fmt.Fprintf(&b, "\nResident memory with 1,000 idle event streams open, after the runs above: **%.1f MiB**.\n", float64(memory)/(1<<20))
	fmt.Fprintf(&b, "\n%d rounds of %v for each way and count of connections; the median of the rounds. %s on %d processors, %s/%s.\n",
		rounds, took, runtime.Version(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	b.WriteString("\nThe figures behind the ratios, calls per second:\n\n| revision | connections | direct | ReverseProxy | drawbridge |\n|---|---|---|---|---|\n")
	for _, r := range results {
		fmt.Fprintf(&b, "| %s | %d | %.0f | %.0f | %.0f |\n", r.era, r.connections, r.rate["direct"], r.rate["ReverseProxy"], r.rate["drawbridge"])
	}
	return b.String()
}
