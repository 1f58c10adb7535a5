package main

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitRefused = 2 // a config or a command line that is refused
)

// defaultConfigFile is read when -config is not given.
const defaultConfigFile = "drawbridge.yaml"

// streams are where a command writes: its results to out, and messages for people to err.
// Tests have buffers in their place.
type streams struct {
	out, err io.Writer
}

// say writes to standard output.
func (s streams) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, format, args...) // the reader is gone
}

// complain writes to standard error.
func (s streams) complain(format string, args ...any) {
	_, _ = fmt.Fprintf(s.err, format, args...) // the reader is gone
}

// newFlags returns the flag set of a command. Synopsis is how the command is called;
// about stands in its help, before the list of flags.
func newFlags(name, synopsis, about string, s streams) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(s.err)
	f.Usage = func() {
		s := s
		if f.Output() == s.out {
			s.err = s.out
		}
		s.complain("Usage: drawbridge %s %s\n\n%s\n\n", name, synopsis, about)
		f.PrintDefaults()
	}
	return f
}

// parseFlags reads the command line of a command that takes flags only. If done is true,
// the command has nothing left to do and ends with code.
func parseFlags(f *flag.FlagSet, args []string, s streams) (code int, done bool) {
	words, code, done := parseWords(f, args, s)
	if !done && len(words) > 0 {
		s.complain("drawbridge %s: what is %q? This command takes flags only; see drawbridge %s -h\n",
			f.Name(), words[0], f.Name())
		return exitRefused, true
	}
	return code, done
}

// parseWords reads the command line of a command that also takes words, such as files,
// which stand before, between or behind its flags; behind -- all are words. If done is
// true, the command has nothing left to do and ends with code.
func parseWords(f *flag.FlagSet, args []string, s streams) (words []string, code int, done bool) {
	if len(args) == 1 && (args[0] == "-h" || args[0] == "-help" || args[0] == "--help") {
		f.SetOutput(s.out) // help that was asked for is output and no complaint, so that it can be piped
	}
	for {
		switch err := f.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			return nil, exitOK, true
		case err != nil:
			return nil, exitRefused, true
		}
		rest := f.Args()
		read := len(args) - len(rest)
		switch {
		case read > 0 && args[read-1] == "--": // no flags follow
			return append(words, rest...), exitOK, false
		case len(rest) == 0:
			return words, exitOK, false
		}
		words, args = append(words, rest[0]), rest[1:]
	}
}

// hint returns words about which of the known names was probably meant, "" when none is
// near.
func hint(name string, known []string) string {
	if near := registry.Nearest(name, known); near != "" {
		return fmt.Sprintf(" (did you mean %s?)", near)
	}
	return ""
}
