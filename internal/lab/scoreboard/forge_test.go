package main

import "testing"

// TestNoForgeryPasses tries every forgery of tokens under every algorithm.
func TestNoForgeryPasses(t *testing.T) {
	got := newTally(quietly)
	open(t).tryForgeries(got)
	if n, good := got.tried[forgedTokens], got.all-got.tried[forgedTokens]; n < 6_000 || good != 13 {
		t.Errorf("%d forgeries and %d good tokens, want at least 6,000 and 13", n, good)
	}
	for _, example := range got.examples {
		t.Error(example)
	}
}
