package main

import (
	"strings"
	"testing"
)

func TestWrongArguments(t *testing.T) {
	for _, args := range []string{"nothing", "faults more", "-storm", "faults -storm"} {
		if err := run(t.Context(), strings.Fields(args), t.Output()); err == nil {
			t.Errorf("%s: no error", args)
		}
	}
}

func TestHelpIsNoFailure(t *testing.T) {
	if err := run(t.Context(), []string{"-h"}, t.Output()); err != nil {
		t.Errorf("got %v", err)
	}
}
