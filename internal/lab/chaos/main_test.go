package main

import (
	"errors"
	"flag"
	"strings"
	"testing"
)

func TestWrongArguments(t *testing.T) {
	for _, args := range []string{
		"nothing", "faults more", "-storm", "faults -storm", "rolling -only nobody",
	} {
		if err := run(t.Context(), strings.Fields(args), t.Output()); err == nil {
			t.Errorf("%s: no error", args)
		}
	}
}

func TestHelpIsNoFailure(t *testing.T) {
	if err := run(t.Context(), []string{"-h"}, t.Output()); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got %v", err)
	}
}
