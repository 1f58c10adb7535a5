package main

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
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
	f := &fleet{redis: part{addr: server.Address}}
	count := func() tally { return f.tally(t.Context()) }
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
		if got, err := must.Got(func() tally { return readTally(text) }); err == nil {
			t.Errorf("%q gives %v, want an error", text, got)
		}
	}
}

func TestReplicasReportSaysWhatWasMeasured(t *testing.T) {
	s := &sharing{plan: plan{took: time.Second, rounds: 2}, times: 300, watched: time.Minute, alone: 130}
	apart, three := fleetPlan{name: "3 that share nothing", size: 3}, fleetPlan{name: "3", size: 3, shares: true}
	far := fleetPlan{name: "far", size: 3, shares: true, away: 20 * time.Millisecond}
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		for i, p := range []fleetPlan{apart, {name: "1", size: 1, shares: true}, three, far} {
			cost := 100 * (1 + 0.25*float64(i))
			l := &fleetLoad{
				fleet: &fleet{fleetPlan: p}, revision: revision, cpu: []float64{cost, cost},
				nginx:   []float64{20, 20},
				latency: []float64{300 + cost, 300 + cost + float64(i)},
				redis:   []float64{0, 0}, // as measured where there is none
			}
			if p.shares {
				l.redis = []float64{7, 9}
			}
			if revision == "2025-11-25" && i > 1 {
				l.forwarded = []float64{700.5, 700.5}
			}
			s.loads = append(s.loads, l)
		}
	}
	s.trips = []tripFigure{{what: "a call", one: 1.02, three: 2, kept: 512, commands: "`evalsha` 1", most: 1}}
	s.trips = append(s.trips, tripFigure{what: "a list", most: 1})
	s.stream = []tripFigure{{what: "a stream", three: 0.5, kept: 1024}}
	text := s.section("nginx/1")
	for _, want := range []string{
		"nginx/1", "2 rounds of 1s", "makes 130 a minute",
		"| 2025-11-25 | 3 that share nothing | 100 | 1 | – | 20 | 400 | – | – |",
		"| 2025-11-25 | 1 | 125 | 1.25 | 8 (7–9) | 20 | 426 (425–426) | 25.5 (25–26) | – |",
		"| 2025-11-25 | 3 | 150 | 1.50 | 8 (7–9) | 20 | 451 (450–452) | 51 (50–52) | 300 |",
		"| 2025-11-25: CPU a call ÷ three that share nothing | 1.50 | 1.50 | yes |",
		"one at a time | 300 | 300 | **no** |",
		"| 2026-07-28: CPU a call ÷ three that share nothing | 1.15 | 1.50 | **no** |",
		"| 2026-07-28: µs that a Redis 20ms away adds, one at a time | 100 | 25.5 (25–26) | yes |",
		"| a call: round trips to Redis | 1 | 2 | **no** |", "| a list: round trips to Redis | 1 | 0 | yes |",
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
	missed := s.missed()
	if missed == nil || !strings.Contains(missed.Error(), "a call: round trips to Redis: 2, which is more than 1") ||
		strings.Contains(missed.Error(), "a list") {
		t.Errorf("the bounds that are not kept are %v", missed)
	}
	if b := (bound{most: 1}); b.kept() || b.seen() != "–" {
		t.Errorf("what was not measured is kept %t, as %s", b.kept(), b.seen())
	}
}

// TestForwardedCallsAreThoseElsewhere: of three calls in turn one is answered where the
// session is led, which is the fastest kind, wherever in the turn it stands.
func TestForwardedCallsAreThoseElsewhere(t *testing.T) {
	var latency []time.Duration
	for range 9 {
		latency = append(latency, 700, 400, 900)
	}
	latency = append(latency, 700)
	if got := forwardedOf(latency, 3); got != 700 && got != 900 {
		t.Errorf("got a median of %d, want one of the forwarded", got)
	}
}

// TestTooFewCallsToKnowTheForwarded are an error that says what to do, as after -time
// 50ms on a busy machine.
func TestTooFewCallsToKnowTheForwarded(t *testing.T) {
	for calls := range 3 {
		latency := []time.Duration{700, 400, 900}[:calls]
		err := must.Try(func() { forwardedOf(latency, 3) })
		if err == nil || !strings.Contains(err.Error(), "-time is too short") {
			t.Errorf("%d calls to 3 replicas: got %v, want that -time is too short", calls, err)
		}
	}
	if got := forwardedOf([]time.Duration{700, 400, 900}, 3); got != 900 {
		t.Errorf("one call to each of 3 replicas: got a median of %d, want 900", got)
	}
}

// TestClientsGoToDoorsInTurn, and requests name the first address all the same.
func TestClientsGoToDoorsInTurn(t *testing.T) {
	all := &target{addr: "a:1", doors: []string{"a:1", "b:2", "c:3"}}
	for caller, want := range []string{"a:1", "b:2", "c:3", "a:1"} {
		if got := all.at(caller); got.doors[0] != want || got.addr != "a:1" {
			t.Errorf("caller %d: got %s for %s, want %s", caller, got.doors[0], got.addr, want)
		}
	}
	if one := (&target{addr: "a:1"}); one.at(2) != one {
		t.Error("a target with one door has another for the third caller")
	}
}
