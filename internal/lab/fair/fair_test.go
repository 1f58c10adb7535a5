package main

import (
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/quiet"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/raid"
)

// TestMain makes the test's binary serve as the parts, which are this program again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		main()
		return
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // for the parts: otherwise each takes a second to end
	os.Exit(m.Run())
}

// TestFairShort lets a real gateway meet every attack: no call of the quiet tenant may be
// refused or lost, and every attack must take place. How long the calls take is for make
// bench-fair to say.
func TestFairShort(t *testing.T) {
	if err := run(t.Context(), []string{"-short"}, t.Output()); err != nil {
		t.Error(err)
	}
}

func sideOf(refused int, latencies ...time.Duration) side {
	n := quiet.Notes{Instead: map[string]int{}}
	for _, latency := range latencies {
		n.Answered = append(n.Answered, quiet.Answer{Nanos: latency.Nanoseconds()})
	}
	if refused > 0 {
		n.Instead["503 DB-OVERLOAD"] = refused
	}
	return side{rounds: []quiet.Notes{n}}
}

func TestVerdict(t *testing.T) {
	fast := slices.Repeat([]time.Duration{time.Millisecond}, 98)
	with := func(last ...time.Duration) []time.Duration { return append(slices.Clone(fast), last...) }
	for name, test := range map[string]struct {
		beside side
		harms  bool
		row    string
	}{
		"as fast as the baseline": {
			sideOf(0, with(3*time.Millisecond, time.Hour)...), false,
			"| x | 1.5 | 1.0 | 0 | no harm |",
		},
		"twice as slow": {
			sideOf(0, with(4*time.Millisecond, time.Hour)...), true,
			"| x | 2.0 | 1.0 | 0 | **does harm** |",
		},
		"one call refused": {
			sideOf(1, with(time.Millisecond)...), true,
			"| x | 0.5 | 1.0 | 1 (1 × 503 DB-OVERLOAD) | **does harm** |",
		},
		"many calls refused": {
			sideOf(2, with()...), true,
			"| x | none | 1.0 | 2 (2 × 503 DB-OVERLOAD) | **does harm** |",
		},
		"no calls": {sideOf(0), true, "| x | none | none | 0 | **does harm** |"},
		"no attack took place": {
			side{
				fault:  errors.New("it did not begin"),
				rounds: sideOf(0, with(0, 0)...).rounds,
			},
			true,
			"| x | 0.5 | 1.0 | 0 | **could not be measured** |",
		},
		"the gateway ended": {
			side{died: true, rounds: sideOf(0, with(0, 0)...).rounds},
			true,
			"| x | 0.5 | 1.0 | 0 | **the gateway ended** |",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := result{
				attack:   raid.Attack{Name: "x"},
				baseline: sideOf(0, with(2*time.Millisecond, 2*time.Millisecond)...), beside: test.beside,
			}
			if got := r.harms(); got != test.harms {
				t.Errorf("harms: got %v, want %v", got, test.harms)
			}
			if got := strings.TrimSpace(r.row()); got != test.row {
				t.Errorf("row: got %s, want %s", got, test.row)
			}
		})
	}
}

// TestABaselineThatIsNoneCountsAsHarm judges attacks that do no harm, beside baselines in
// which the gateway ended or left a call unanswered.
func TestABaselineThatIsNoneCountsAsHarm(t *testing.T) {
	good := slices.Repeat([]time.Duration{time.Millisecond}, 100)
	for verdict, baseline := range map[string]side{
		"no harm":                              sideOf(0, good...),
		"**no baseline**: 1 × 503 DB-OVERLOAD": sideOf(1, good...),
		"**the gateway ended**":                {died: true, rounds: sideOf(0, good...).rounds},
	} {
		r := result{baseline: baseline, beside: sideOf(0, good...)}
		if got, want := r.harms(), verdict != "no harm"; got != want || r.verdict() != verdict {
			t.Errorf("%s: harms %t, and the verdict is %s", verdict, got, r.verdict())
		}
	}
}

// TestSoManyPercentDoNotExceedAPercentile counts in a few calls, where rounding shows.
func TestSoManyPercentDoNotExceedAPercentile(t *testing.T) {
	n := sideOf(0, 1, 2, 3).rounds[0]
	for percent, want := range map[int]time.Duration{33: 1, 50: 2, 67: 3, 99: 3} {
		if got, found := n.Percentile(percent); got != want || !found {
			t.Errorf("%d %% of 1, 2 and 3: got %d, want %d", percent, got, want)
		}
	}
}

// TestPercentileOfRounds wants the median of the rounds, in which a round without answers
// is the slowest.
func TestPercentileOfRounds(t *testing.T) {
	var s side
	for _, more := range []side{sideOf(0, time.Second), sideOf(0, time.Millisecond), sideOf(1)} {
		s.add(&more)
	}
	if got, found := s.percentile(99); got != time.Second || !found {
		t.Errorf("got %v, %v, want 1s, true", got, found)
	}
	s.add(new(sideOf(1)))
	if got, found := s.percentile(99); found {
		t.Errorf("of four rounds, two without an answer: got %v, want none", got)
	}
	if total, by := s.refused(); total != 2 || by["503 DB-OVERLOAD"] != 2 {
		t.Errorf("got %d, %v refused, want 2", total, by)
	}
}

// TestAttackThatDoesNotBite is not taken for one that does no harm.
func TestAttackThatDoesNotBite(t *testing.T) {
	for _, a := range attacks {
		if a.Raiders > 0 && a.Bites(raid.Tally{}) {
			t.Errorf("%s bites without an attempt", a.Name)
		}
	}
	if err := run(t.Context(), []string{"-only", "nothing of the kind"}, t.Output()); err == nil {
		t.Error("a name of no attack was accepted")
	}
}

func TestCores(t *testing.T) {
	for list, want := range map[string][]string{
		"0-1":     {"0", "1"},
		"3":       {"3"},
		"0-2,5,7": {"0", "1", "2", "5", "7"},
		"0-x":     nil,
		"":        nil,
	} {
		if got := coresIn("Name:\tfair\nCpus_allowed_list:\t" + list +
			"\nMems_allowed:\t1\n"); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", list, got, want)
		}
	}
}

// TestHelpIsNoFailure asks for the flags. That ended in an error.
func TestHelpIsNoFailure(t *testing.T) {
	if err := run(t.Context(), []string{"-h"}, t.Output()); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got %v", err)
	}
}
