package main

import (
	"testing"
)

// TestCatalogueIsWhole says that no fault is without a name of its own, words for the
// report, and something that is made.
func TestCatalogueIsWhole(t *testing.T) {
	const least = 40
	names := map[string]bool{}
	for _, f := range catalogue() {
		if f.name == "" || f.done == "" || f.holds == "" || f.make == nil || f.ground.redis == "" {
			t.Errorf("the fault %q is not whole", f.name)
		}
		if names[f.name] {
			t.Errorf("two faults are %q", f.name)
		}
		names[f.name] = true
	}
	if len(names) < least {
		t.Errorf("got %d kinds of faults, want %d at least", len(names), least)
	}
	t.Logf("%d kinds of faults", len(names))
}
