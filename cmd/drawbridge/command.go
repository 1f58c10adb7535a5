package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
	"unicode"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
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

// command is one subcommand.
type command struct {
	name, does string
	help       help
	words      bool // it takes words, too
	// flags adds its flags to the set, and returns what it does when they were read
	flags func(*flag.FlagSet) action
}

// help is what a command says of itself.
type help struct {
	synopsis string // how it is called, behind its name
	about    string // stands before the list of flags
}

// action is what a command does. Its error says how the process ends, see exitError.
type action func(ctx context.Context, words []string, s streams) error

// run reads the command line and does what the command does.
func (c *command) run(ctx context.Context, args []string, s streams) error {
	f := flag.NewFlagSet(c.name, flag.ContinueOnError)
	f.SetOutput(s.err)
	f.Usage = func() {
		_, _ = fmt.Fprintf(f.Output(), "Usage: drawbridge %s %s\n\n%s\n\n", c.name, c.help.synopsis,
			c.help.about) // the reader is gone
		f.PrintDefaults()
	}
	do := c.flags(f)
	words, err := parseWords(f, args, s)
	if err != nil {
		return err
	}
	if len(words) > 0 && !c.words {
		if ext := filepath.Ext(words[0]); f.Lookup("config") != nil && (ext == ".yaml" || ext == ".yml") {
			return refused("a config is named by a flag: drawbridge %s -config %s", c.name, words[0])
		}
		return refused("what is %q? This command takes flags only; see drawbridge %s -h", words[0], c.name)
	}
	return do(ctx, words, s)
}

// parseWords reads a command line. Words, such as files, stand before, between or behind
// the flags; behind -- all are words. Its error ends the command.
func parseWords(f *flag.FlagSet, args []string, s streams) (words []string, err error) {
	if len(args) == 1 && (args[0] == "-h" || args[0] == "-help" || args[0] == "--help") {
		f.SetOutput(s.out) // help that was asked for is output and no complaint, so that it can be piped
	}
	for {
		switch err := f.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			return nil, &exitError{code: exitOK}
		case err != nil:
			return nil, &exitError{code: exitRefused}
		}
		rest := f.Args()
		read := len(args) - len(rest)
		switch {
		case read > 0 && args[read-1] == "--": // no flags follow
			return append(words, rest...), nil
		case len(rest) == 0:
			return words, nil
		}
		words, args = append(words, rest[0]), rest[1:]
	}
}

// without refuses flags that were given although what, a word or another flag, leaves
// them without an effect; names are all of these.
func without(f *flag.FlagSet, what string, names ...string) error {
	var given []string
	f.Visit(func(one *flag.Flag) {
		if slices.Contains(names, one.Name) {
			given = append(given, "-"+one.Name)
		}
	})
	if len(given) == 0 {
		return nil
	}
	return refused("%s goes without %s", what, strings.Join(given, " and "))
}

// exitError is the error of a command that ends with another exit code than exitFailure,
// or says nothing, or does not say its name. Any other error is a failure, and is printed
// behind the name of the command.
type exitError struct {
	code int
	err  error // nil: all has been said
	bare bool  // the error is printed as it is
}

// Error implements error.
func (e *exitError) Error() string { return fmt.Sprint(e.err) }

// errUnsaid ends a command that has said itself why it fails.
var errUnsaid = &exitError{code: exitFailure}

// unsaidIf returns errUnsaid for a command that fails, nil for one that does not.
func unsaidIf(fails bool) error {
	if fails {
		return errUnsaid
	}
	return nil
}

// refused returns the error for a command line, or a file, that is refused.
func refused(format string, args ...any) error {
	return &exitError{code: exitRefused, err: fmt.Errorf(format, args...)}
}

// wrong is what may be wrong with a command line, so that its rules can stand in a list.
type wrong struct {
	is   bool
	text string
}

// refusedFirst returns the error for the first rule that a command line breaks, nil if it
// keeps them all.
func refusedFirst(rules ...wrong) error {
	for _, rule := range rules {
		if rule.is {
			return refused("%s", rule.text)
		}
	}
	return nil
}

// refusedConfig returns the error for a config that cannot be loaded, whose problems are
// lines for an editor.
func refusedConfig(err error) error { return &exitError{exitRefused, err, true} }

// end says how a command has ended, and returns its exit code.
func end(name string, err error, s streams) int {
	if err == nil {
		return exitOK
	}
	how, known := errors.AsType[*exitError](err)
	if !known {
		how = &exitError{code: exitFailure, err: err}
	}
	switch {
	case how.err == nil:
	case how.bare:
		s.complain("%v\n", how.err)
	default:
		s.complain("drawbridge %s: %v\n", name, how.err)
	}
	return how.code
}

// when returns words if something is so, and "" otherwise.
func when(is bool, format string, args ...any) string {
	if !is {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// legible returns text in one line, in which a reader sees each character.
func legible(text string) string { return strings.Map(visible, strings.ReplaceAll(text, "\n", " ")) }

// visible shows line breaks and what a terminal would obey, in names that clients choose,
// as U+FFFD.
func visible(c rune) rune {
	if unicode.IsPrint(c) {
		return c
	}
	return unicode.ReplacementChar
}

// filled returns a text of this program with what it tells, which always fits.
func filled(text *template.Template, with any) string {
	var out strings.Builder
	if err := text.Execute(&out, with); err != nil {
		panic(err)
	}
	return out.String()
}

// hint returns words about which of the known names was probably meant, "" when none is
// near.
func hint(name string, known []string) string {
	near := registry.Nearest(name, known)
	return when(near != "", " (did you mean %s?)", near)
}

// checkTenant returns an error unless the config has a tenant of that name.
func checkTenant(cfg *config.Config, name string) error {
	tenants := cfg.TenantIDs()
	if slices.Contains(tenants, name) {
		return nil
	}
	return fmt.Errorf("there is no tenant %q%s", name, hint(name, tenants))
}

// scopesOf returns the scopes in a list with commas.
func scopesOf(list string) []string {
	return strings.FieldsFunc(list, func(c rune) bool { return c == ',' || c == ' ' })
}

// spanOf reads a span of time, in days or as Go writes durations.
func spanOf(text string) (time.Duration, error) {
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

// maxReadBytes bounds what is read whole into memory, but for files of the config.
const maxReadBytes = 1 << 20

// input opens a file that a command line names; - is standard input.
func input(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(os.Stdin), nil
	}
	return os.Open(name) //nolint:gosec // the operator's command line names the file
}

// asJSON returns texts and numbers, which can always be encoded, as JSON for people.
func asJSON(v any) string {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err)
	}
	return string(data) + "\n"
}
