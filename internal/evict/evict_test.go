package evict_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/evict"
)

// TestOne looks at all of a small map. What is worth one may not be dropped.
func TestOne(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		has, left []float64
	}{
		"nothing":           {nil, nil},
		"what must stay":    {[]float64{1}, []float64{1}},
		"the least":         {[]float64{1, 3, 5}, []float64{1, 5}},
		"all without worth": {[]float64{-1, 0, 1, 3}, []float64{1, 3}},
	} {
		all := make(map[float64]bool)
		for _, key := range test.has {
			all[key] = true
		}
		evict.One(all, 10, func(key float64, _ bool) (worth float64, may bool) { return key, key != 1 })
		if left := slices.Sorted(maps.Keys(all)); !slices.Equal(left, test.left) {
			t.Errorf("%s: got %v, want %v", name, left, test.left)
		}
	}
}

// TestASampleIsEnough drops one of many after a look at few.
func TestASampleIsEnough(t *testing.T) {
	t.Parallel()
	all := make(map[int]bool)
	for key := range 1000 {
		all[key] = true
	}
	looked := 0
	evict.One(all, 16, func(key int, _ bool) (worth float64, may bool) {
		looked++
		return float64(key + 1), true
	})
	if looked != 16 || len(all) != 999 {
		t.Errorf("looked at %d, and left %d", looked, len(all))
	}
}

// TestSpansForgetWhatIsOld enters something and looks for it later.
func TestSpansForgetWhatIsOld(t *testing.T) {
	t.Parallel()
	const length = time.Minute
	entered := time.Now()
	for after, want := range map[time.Duration][2]bool{ // in this span, and in the one before
		0: {true, false}, length - 1: {true, false}, length: {false, true}, 2*length - 1: {false, true},
		2 * length: {false, false}, time.Hour: {false, false},
	} {
		spans := evict.Spans[string, bool]{Length: length}
		spans.Turn(entered)
		spans.Now["a"] = true
		spans.Turn(entered.Add(after))
		if got := [2]bool{spans.Now["a"], spans.Previous["a"]}; got != want {
			t.Errorf("after %v: got it in this span and the one before: %v, want %v", after, got, want)
		}
	}
}
