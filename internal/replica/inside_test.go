package replica

import "testing"

// TestReplaysKnowWhatHasCome shows which numbers count as new when word overtakes other word, and a sender dies.
func TestReplaysKnowWhatHasCome(t *testing.T) {
	t.Parallel()
	const a, b ID = "a", "b"
	r := newReplays()
	gone := func(ID) bool { return false }
	for i, step := range []struct {
		from   ID
		number uint64
		isNew  bool
	}{
		{a, 500, true},
		{a, 500, false},
		{a, 499, true}, // overtaken by the first
		{a, 501, true},
		{a, 70_000, true},
		{a, 69_999, true}, // overtaken
		{a, 69_999, false},
		{a, 502, false}, // too late
		{a, 5000, true},
		{a, 501, false},
		{a, 70_000 + overtake - 1, true},
		{a, 70_000, false},
		{a, 69_999, false}, // too late
		{a, 10_000_000, true},
		{a, 9_999_999, true},
		{a, 10_000_000, false},
		{b, 1, true}, // now a is forgotten but for its newest number
		{a, 9_999_998, false},
		{a, 10_000_002, true},
		{a, 10_000_001, true},
		{a, 9_999_998, false},
		{b, 1, false},
	} {
		if got := r.isNew(step.from, step.number, gone); got != step.isNew {
			t.Errorf("step %d: number %d of %s: got %v", i, step.number, step.from, got)
		}
	}
}
