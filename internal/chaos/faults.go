package main

import (
	"context"
	"errors"
	"flag"
	"io"
)

// newFaults is the part faults.
func newFaults(*flag.FlagSet) proof {
	return func(context.Context, io.Writer) (string, error) { return "", errors.New("there are no faults yet") }
}
