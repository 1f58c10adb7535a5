package main

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// TestTallyCountsRoundTrips: commands that are sent together are one round trip, and what
// the tally itself asks is none.
func TestTallyCountsRoundTrips(t *testing.T) {
	server := redistest.StartOpen(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ask := func(commands int) {
		t.Helper()
		if _, err := conn.Write([]byte(strings.Repeat("SET k v\r\n", commands))); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, commands*len("+OK\r\n"))); err != nil {
			t.Fatal(err)
		}
	}
	c, err := newCounter(t.Context(), server.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	count := func() tally {
		t.Helper()
		one, err := c.tally()
		if err != nil {
			t.Fatal(err)
		}
		return one
	}
	before := count()
	if none := count().since(before); none.reads != 0 || len(none.commands) != 0 {
		t.Errorf("between two tallies there are %d reads and %v, want none", none.reads, none.commands)
	}
	before = count()
	big := strings.Repeat("v", 1<<20)
	fmt.Fprintf(conn, "*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$%d\r\n%s\r\n", len(big), big)
	if _, err := io.ReadFull(conn, make([]byte, len("+OK\r\n"))); err != nil {
		t.Fatal(err)
	}
	if grown := count().since(before).memory; grown < 1<<20 || grown > 3<<20 {
		t.Errorf("memory has grown by %d bytes for a value of %d", grown, len(big))
	}
	server.Exec(t, "DEL", "big")
	before = count()
	for range 10 {
		ask(1)
	}
	ask(7)
	done := count().since(before)
	if done.reads != 11 || done.commands["set"] != 17 {
		t.Errorf("%d reads and %v, want 11 round trips with 17 commands", done.reads, done.commands)
	}
	if got, want := done.common(17), "`set` 1"; got != want {
		t.Errorf("the common commands are %q, want %q", got, want)
	}
}

func TestTallyNeedsACountOfReads(t *testing.T) {
	for _, text := range []string{
		"", "# Stats\r\ntotal_commands_processed:3\r\n",
		"total_reads_processed:many\r\n", "total_reads_processed:1\r\ncmdstat_get:calls=x,usec=1\r\n",
	} {
		if got, err := readTally(text); err == nil {
			t.Errorf("%q gives %v, want an error", text, got)
		}
	}
}

func TestReplicasReportSaysWhatWasMeasured(t *testing.T) {
	s := &sharing{plan: plan{took: time.Second, rounds: 2}, times: 300, watched: time.Minute, alone: 130}
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		for i, name := range []string{"1, shares nothing", "1", "3"} {
			f := &fleet{name: name}
			if i > 0 {
				f.redis.addr = "127.0.0.1:1"
			}
			cost := 100 * float64(i+1)
			s.loads = append(s.loads, &fleetLoad{
				fleet: f, revision: revision, cpu: []float64{cost, cost}, redis: []float64{7, 9},
				nginx:   []float64{20, 20},
				latency: []float64{300 + cost, 300 + cost + float64(i)},
			})
		}
	}
	s.trips = []tripFigure{{what: "a call", one: 1.02, three: 2, kept: 512, commands: "`evalsha` 1"}}
	s.stream = []tripFigure{{what: "a stream", three: 0.5, kept: 1024}}
	text := s.section("ORIGIN", "nginx/1")
	for _, want := range []string{
		"ORIGIN", "nginx/1", "2 rounds of 1s", "makes 130 a minute",
		"| 2025-11-25 | 1, shares nothing | 100 | 1 | – | 20 | 400 | – |",
		"| 2025-11-25 | 1 | 200 | 2 | 8 (7–9) | 20 |", "| 500 (500–501) | 100 (100–101) |",
		"| 2026-07-28 | 3 | 300 | 3 |",
		fmt.Sprintf("| a call | %s | 2 | 512 | `evalsha` 1 |", page.Number(1.02)),
		"| a stream | 0.50 | 1024 |", "open for 1m0s",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report has no %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "%!") {
		t.Errorf("the report has a wrong format:\n%s", text)
	}
}
