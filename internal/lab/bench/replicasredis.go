package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
)

// tally is what a Redis server has done since its start.
type tally struct {
	// times it read from a connection: a round trip each, however many commands came
	// together
	reads    int64
	commands map[string]int64 // by name; those that scripts run count too
	memory   int64            // bytes that it uses now; after since, how many more than before
}

// counter asks a Redis server for tallies, on one connection.
type counter struct {
	conn net.Conn
	in   *bufio.Reader
}

func newCounter(ctx context.Context, addr string) *counter {
	conn := must.Have((&net.Dialer{}).DialContext(ctx, "tcp", addr))
	return &counter{conn: conn, in: bufio.NewReader(conn)}
}

// tally asks what the server has done. The question itself is one read.
// https://redis.io/docs/latest/commands/info/
func (c *counter) tally() tally {
	must.Have(io.WriteString(c.conn, "INFO stats commandstats memory\r\n"))
	head := must.Have(c.in.ReadString('\n'))
	body := make([]byte, must.Have(strconv.Atoi(strings.Trim(head, "$\r\n")))+len("\r\n"))
	must.Have(io.ReadFull(c.in, body))
	return readTally(string(body))
}

// during returns what the server does while something is done.
func (c *counter) during(do func()) tally {
	before := c.tally()
	do()
	return c.tally().since(before)
}

func (c *counter) close() {
	if c != nil {
		_ = c.conn.Close() // nothing is asked any more
	}
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
	const own = 1 // the later question
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
