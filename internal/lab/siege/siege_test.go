package main

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/quiet"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/raid"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// TestMain makes the test's binary serve as the quiet tenant, which is this program
// again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == quietPart {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestASiege besieges a real gateway of 128 MiB for some seconds, with those attacks that
// make it hold most: it must live, answer every call of the quiet tenant, and give the
// memory back. Parked calls are left out, since they may hold theirs for five minutes.
func TestASiege(t *testing.T) {
	attacks := []string{
		"calls beyond limits", "big bodies", "slow bodies", "many members", "big answers", "streamed answers",
		"slow readers", "sessions", "reconnects",
		"refused logins", "connections", "slow headers",
	}
	report := filepath.Join(t.TempDir(), "siege.md")
	err := run(t.Context(), []string{
		"-minutes", "0.3", "-memory", "128MiB", "-rest", "2m", "-only",
		strings.Join(attacks, ","), "-out", report,
	}, t.Output())
	if errors.Is(err, world.ErrNoCage) {
		t.Skip("NOTHING WAS MEASURED: run it as root on Linux, where control groups bound memory:", err)
	}
	if err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", text)
}

// TestStrangersFillNoDisk has strangers flood the log from one and from many addresses,
// on a small disk that log and audit share: every call of the quiet tenant must be
// answered.
func TestStrangersFillNoDisk(t *testing.T) {
	report := filepath.Join(t.TempDir(), "siege.md")
	err := run(t.Context(), []string{
		"-minutes", "0.2", "-memory", "512MiB", "-disk", "8MiB", "-addresses", "1,3000", "-only",
		"floods of the log,refused logins", "-out", report,
	}, t.Output())
	if errors.Is(err, world.ErrNoCage) {
		t.Skip(
			"NOTHING WAS MEASURED: run it as root on Linux, where control groups bound memory and disks can be mounted:", err)
	}
	if err != nil {
		t.Error(err)
	}
}

// kept is the outcome of a siege in which everything that was promised held.
func kept() *outcome {
	return &outcome{
		limit: 128 << 20, lasted: time.Minute, alive: true, planned: raid.Named(allAttacks, "big bodies"),
		start: 30 << 20, most: 100 << 20, end: 50 << 20, reloads: 1,
		quiet:   &quiet.Notes{Answered: []quiet.Answer{{Nanos: 1e6}}, Instead: map[string]int{}},
		attacks: map[string]*raid.Tally{"big bodies": {Attempts: 1, Answered: 1}},
	}
}

func TestVerdict(t *testing.T) {
	if err := kept().verdict(); err != nil {
		t.Errorf("every promise was kept: got %v", err)
	}
	for name, breaks := range map[string]func(o *outcome){
		"the gateway ended":    func(o *outcome) { o.alive = false },
		"the kernel ended 1":   func(o *outcome) { o.kills = 1 },
		"and 51 MiB after":     func(o *outcome) { o.end = 51 << 20 },
		"and 151 MiB after":    func(o *outcome) { o.start, o.most, o.end = 100<<20, 500<<20, 151<<20 },
		"2 calls of the quiet": func(o *outcome) { o.quiet.Instead["503 DB-OVERLOAD"]++ },
		"0 calls of the quiet": func(o *outcome) { o.quiet.Answered = nil },
		"filled the disk, 64 ": func(o *outcome) { o.disk = &disk{size: 64 << 20, logged: 4 << 20} },
		"never loaded again":   func(o *outcome) { o.reloads = 0 },
		"big bodies did not take": func(
			o *outcome,
		) {
			o.attacks["big bodies"] = &raid.Tally{Attempts: 1, Broken: 1}
		},
		"big bodies did not take pl": func(o *outcome) { o.attacks["big bodies"] = &raid.Tally{} },
		"big bodies was not begun":   func(o *outcome) { o.attacks = nil },
		"instead came 2 × 503 DB-X":  func(o *outcome) { o.quiet.Instead["503 DB-X"] = 2 },
	} {
		o := kept()
		breaks(o)
		if err := o.verdict(); !errors.Is(err, world.ErrBroken) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestAnAttackWithoutSuccessCounts: a small gateway may refuse all of it, and on a busy
// machine none may be answered before its time is over.
func TestAnAttackWithoutSuccessCounts(t *testing.T) {
	for _, tally := range []raid.Tally{{Attempts: 1, Refused: 1}, {Attempts: 32}} {
		o := kept()
		o.attacks["big bodies"] = &tally
		if err := o.verdict(); err != nil {
			t.Errorf("%+v: got %v", tally, err)
		}
	}
}

func TestReportTellsWhatCameInstead(t *testing.T) {
	o := kept()
	o.quiet.Instead["503 DB-OVERLOAD"] = 2
	o.attacks["big bodies"].Instead = map[string]int64{"429 DB-LIMIT-MEMORY": 3, "connection closed": 7}
	text := describe([]*outcome{o})
	for _, want := range []string{
		"| 3, 1 (2 × 503 DB-OVERLOAD) |",
		"| 7 × connection closed, 3 × 429 DB-LIMIT-MEMORY |", "**broken**",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report has no %q:\n%s", want, text)
		}
	}
}

func TestReportOfADiskSaysSo(t *testing.T) {
	o := kept()
	o.disk, o.from = &disk{size: 64 << 20}, 4000
	text := describe([]*outcome{o})
	for _, want := range []string{
		"# When strangers fill the disk\n",
		" MiB, addresses of strangers: 4000\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report has no %q:\n%s", want, text)
		}
	}
}

// TestAttacksBite says that an attack without an attempt is not taken for one that does
// no harm, and that each has a name of its own.
func TestAttacksBite(t *testing.T) {
	names := map[string]bool{}
	for _, a := range allAttacks {
		names[a.Name] = true
		if a.Bites(raid.Tally{}) {
			t.Errorf("%s bites without an attempt", a.Name)
		}
	}
	if got, want := len(names), len(allAttacks); got != want || want < 20 {
		t.Errorf("%d attacks have %d names", want, got)
	}
}

func TestWrongFlags(t *testing.T) {
	for _, args := range []string{
		"-minutes 0", "-memory 512", "-memory x", "-memory -1MiB",
		"-only nothing-of-the-kind", "-storm", "-disk 8", "-addresses 0",
	} {
		if err := run(t.Context(), strings.Fields(args), io.Discard); err == nil ||
			errors.Is(err, world.ErrNoCage) || errors.Is(err, world.ErrBroken) {
			t.Errorf("%s: got %v", args, err)
		}
	}
}

// TestHelpIsNoFailure asks for the flags. That ended in an error.
func TestHelpIsNoFailure(t *testing.T) {
	if err := run(t.Context(), []string{"-h"}, t.Output()); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got %v", err)
	}
}
