package main

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

func TestSpreadIsMedianLeastAndMost(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   spread
		text   string
	}{
		{nil, spread{}, "–"},
		{[]float64{2}, spread{2, 2, 2}, "2"},
		{[]float64{3, 1.5, 2}, spread{2, 1.5, 3}, "2 (1.50–3)"},
		{[]float64{4, 1, 2, 3}, spread{2.5, 1, 4}, "2.50 (1–4)"},
	} {
		before := slices.Clone(test.values)
		got := spreadOf(test.values)
		if got != test.want || got.String() != test.text {
			t.Errorf("spreadOf(%v) = %v %q, want %v %q", test.values, got, got, test.want, test.text)
		}
		if !slices.Equal(before, test.values) {
			t.Errorf("spreadOf changed the order of %v to %v", before, test.values)
		}
	}
}

// A ratio of medians would say 2 here: each side's own middle, of different rounds.
func TestRatioComparesRoundsNotMedians(t *testing.T) {
	if got, want := ratioOf([]float64{10, 20, 60}, []float64{10, 40, 20}), (spread{1, 0.5, 3}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := ratioOf([]float64{1}, nil); got != (spread{}) {
		t.Errorf("beside nothing: got %v", got)
	}
	if got := ratioOf([]float64{1}, []float64{0}); got != (spread{}) {
		t.Errorf("by 0: got %v", got)
	}
}

func TestRoundsTurnTheirOrder(t *testing.T) {
	all := []string{"a", "b", "c"}
	for round, want := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"a", "b", "c"}} {
		if got := turned(all, round); !slices.Equal(got, want) {
			t.Errorf("round %d: %v, want %v", round, got, want)
		}
	}
}

func TestProcessorTimeOfAProcessGrows(t *testing.T) {
	own := world.Tree(os.Getpid())
	if own[0] != os.Getpid() {
		t.Fatalf("processes of %d: %v", os.Getpid(), own)
	}
	before := world.Busy(own[0])
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if world.Busy(own[0]) > before {
			return
		}
	}
	t.Error("a minute of work took no processor time")
}

func TestResidentMemoryIsOfAllProcesses(t *testing.T) {
	one := world.Resident(os.Getpid())
	if one < 1<<20 {
		t.Fatalf("this process has %d bytes", one)
	}
	if two := world.Resident(os.Getpid(), os.Getppid()); two <= one/2 {
		t.Errorf("with its parent it has %d bytes", two)
	}
	if must.Try(func() { world.Resident(-1) }) == nil {
		t.Error("a process that is not there has memory")
	}
}

// Once only the worker that had started already was counted, and nginx looked as if it
// took half of its CPU.
func TestNginxCountsWithAllWorkers(t *testing.T) {
	l := &lab{
		Lab:   &world.Lab{Dir: t.TempDir(), Keeper: &world.Keeper{}},
		parts: make(map[string]part), upstream: "127.0.0.1:1",
	}
	defer l.Close()
	l.startNginx(t.Context(), world.Addresses(1)[0])
	p, found := l.parts[wayNginx]
	if _, err := exec.LookPath("nginx"); err != nil {
		if found || !strings.Contains(nginxVersion(t.Context()), "not installed") {
			t.Errorf("nginx is not installed, and yet %v, %s", p, nginxVersion(t.Context()))
		}
		return
	}
	if got := len(p.pids); got != 1+runtime.NumCPU() {
		t.Errorf("nginx has %d processes, want its master and a worker for each of %d processors", got,
			runtime.NumCPU())
	}
}
