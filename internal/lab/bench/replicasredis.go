package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// tally is what a Redis server has done since its start.
type tally struct {
	// times it read from a connection: a round trip each, however many commands came
	// together
	reads    int64
	commands map[string]int64 // by name; those that scripts run count too
	memory   int64            // bytes that it uses now; after since, how many more than before
}

// tally asks what the Redis of the fleet has done.
// https://redis.io/docs/latest/commands/info/
func (f *fleet) tally(ctx context.Context) tally {
	_, port, _ := net.SplitHostPort(f.redis.addr) // we made it
	return readTally(world.Run(ctx, "", "redis-cli", "-p", port, "INFO", "stats", "commandstats", "memory"))
}

// during returns what the Redis of the fleet does while something is done.
func (f *fleet) during(ctx context.Context, do func()) tally {
	before := f.tally(ctx)
	do()
	return f.tally(ctx).since(before)
}

// readTally finds the figures in what INFO says.
func readTally(text string) tally {
	t := tally{reads: -1, commands: make(map[string]int64)}
	number := func(text string) int64 { return must.Have(strconv.ParseInt(text, 10, 64)) }
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch command, found := strings.CutPrefix(name, "cmdstat_"); {
		case name == "total_reads_processed":
			t.reads = number(value)
		case name == "used_memory":
			t.memory = number(value)
		case found:
			calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			t.commands[command] = number(calls)
		}
	}
	must.Be(t.reads >= 0, "redis does not tell its reads; version 7 does: %.200q", text)
	return t
}

// since returns what was done after an earlier tally, without the asking.
func (t tally) since(before tally) tally {
	const own = 2 // of the earlier question its end, and the later one
	d := tally{
		reads: max(0, t.reads-before.reads-own), commands: make(map[string]int64),
		memory: t.memory - before.memory,
	}
	for name, n := range t.commands {
		if n > before.commands[name] && name != "info" {
			d.commands[name] = n - before.commands[name]
		}
	}
	return d
}

// common lists the commands that were run at least every second time, the most frequent
// first. A bar between a command and its part would end the cell of a table.
func (t tally) common(times int) string {
	names := slices.DeleteFunc(page.Frequent(t.commands),
		func(name string) bool { return 2*t.commands[name] < int64(times) })
	for i, name := range names {
		names[i] = fmt.Sprintf("`%s` %s", strings.ReplaceAll(name, "|", " "),
			page.Number(float64(t.commands[name])/float64(times)))
	}
	return strings.Join(names, ", ")
}
