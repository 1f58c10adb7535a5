package main

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
)

// TestWhatIsTimedIsRefusedInTheSameWords shows that there is something to compare. The
// times themselves are for the program alone.
func TestWhatIsTimedIsRefusedInTheSameWords(t *testing.T) {
	w := open(t)
	all, end := w.contrasts()
	defer end()
	if len(all) < 20 {
		t.Errorf("%d things to time, want at least 20", len(all))
	}
	for _, c := range all {
		if err := must.Try(func() { w.alike(&c) }); err != nil {
			t.Error(err)
		}
		if w.clock(&c.forbidden) <= 0 {
			t.Errorf("%s takes no time", c.what)
		}
	}
}

// TestHowLikelyOneIsGreater compares the statistic with a count over all pairs.
func TestHowLikelyOneIsGreater(t *testing.T) {
	for _, test := range []struct{ a, b []time.Duration }{
		{[]time.Duration{1, 2, 3}, []time.Duration{4, 5}},
		{[]time.Duration{4, 5}, []time.Duration{1, 2, 3}},
		{[]time.Duration{1, 1, 1}, []time.Duration{1}},
		{[]time.Duration{3, 1, 4, 1, 5, 9, 2, 6}, []time.Duration{5, 3, 5, 8, 9, 7, 9}},
	} {
		want := 0.0
		for _, x := range test.a {
			for _, y := range test.b {
				switch {
				case x > y:
					want++
				case x == y:
					want += 0.5
				}
			}
		}
		want /= float64(len(test.a) * len(test.b))
		if got := greater(test.a, test.b); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v over %v: got %v, want %v", test.a, test.b, got, want)
		}
	}
}

// TestTimeTellsOnlyWhatIsBothLikelyAndLarge holds the two bounds together.
func TestTimeTellsOnlyWhatIsBothLikelyAndLarge(t *testing.T) {
	for _, test := range []struct {
		name string
		timed
		want bool
	}{
		{"alike", timed{auc: 0.5}, false},
		{"likely and large", timed{auc: 0.56, forbidden: 3 * time.Microsecond}, true},
		{"sooner when forbidden", timed{auc: 0.2, unknown: 3 * time.Microsecond}, true},
		{"small", timed{auc: 0.9, forbidden: time.Microsecond}, false},
		{"unlikely", timed{auc: 0.54, forbidden: time.Second}, false},
	} {
		if got := test.isTold(); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

// TestRunsOfFuzzTargetsAreRead reads what the go command says.
func TestRunsOfFuzzTargetsAreRead(t *testing.T) {
	const out = "fuzz: elapsed: 3s, execs: 100 (33/sec), new interesting: 1 (total: 9)\n" +
		"fuzz: elapsed: 10s, execs: 17071 (1471/sec), new interesting: 85 (total: 94)\n"
	if got := (target{}).read(out, nil); got.took != 10*time.Second || got.executions != 17_071 ||
		got.found != "" {
		t.Errorf("got %+v, want 17,071 executions in 10 s that found nothing", got)
	}
	if got := (target{}).read(out+"Failing input written to x",
		errors.New("exit status 1")); got.found == "" {
		t.Errorf("got %+v, want that it found something", got)
	}
}
