package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestServeRefusesAFaultyConfig has serve end before it listens.
func TestServeRefusesAFaultyConfig(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "drawbridge.yaml")
	if err := os.WriteFile(file, []byte("tenants: 5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, said := operate(t, "serve", "-config", file); code != exitRefused || !strings.Contains(said, ":1:10: ") {
		t.Errorf("got exit %d and %q, want 2 and the place of the fault", code, said)
	}
}

// TestAConfigIsNamedByAFlag tells so who names it without.
func TestAConfigIsNamedByAFlag(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"validate", "serve", "usage", "token"} {
		code, said := operate(t, command, "gw.yaml")
		if want := "drawbridge " + command + " -config gw.yaml"; code != exitRefused || !strings.Contains(said, want) {
			t.Errorf("got exit %d and %q, want 2 and %q", code, said, want)
		}
	}
	if code, said := operate(t, "validate", "strict"); code != exitRefused || !strings.Contains(said, `what is "strict"?`) {
		t.Errorf("got exit %d and %q, want 2 and what it is", code, said)
	}
}

// TestServeRefusesADelayBelowZero by its name.
func TestServeRefusesADelayBelowZero(t *testing.T) {
	t.Parallel()
	code, said := operate(t, "serve", "-drain-delay", "-1s", "-config", filepath.Join(t.TempDir(), "none.yaml"))
	if code != exitRefused || !strings.Contains(said, "-drain-delay must not be negative") {
		t.Errorf("got exit %d and %q, want 2 and the name of the flag", code, said)
	}
}

// flagSet returns the flags of a command, to which none was added yet.
func flagSet(name string, errs io.Writer) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(errs)
	return flags
}

// TestWordsStandBetweenFlags shows that a command that takes words, such as keys revoke
// ID, reads them wherever they stand.
func TestWordsStandBetweenFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"revoke", "ID", "-config", "F", "-on"},
		{"-config", "F", "revoke", "ID", "-on"},
		{"-on", "revoke", "-config=F", "ID"},
		{"-on", "-config", "F", "revoke", "ID"},
	} {
		var errs bytes.Buffer
		flags := flagSet("keys", &errs)
		config, on := flags.String("config", "", ""), flags.Bool("on", false, "")
		words, err := parseWords(flags, args, streams{&errs, &errs})
		if err != nil || !slices.Equal(words, []string{"revoke", "ID"}) || *config != "F" || !*on {
			t.Errorf("%q: got the words %q, -config %q, -on %t, error %v", args, words, *config, *on, err)
		}
	}
	for _, args := range [][]string{{"--", "-a", "-b"}, {"-on", "--", "-a", "-b"}} {
		var errs bytes.Buffer
		flags := flagSet("plan", &errs)
		flags.Bool("on", false, "")
		words, err := parseWords(flags, args, streams{&errs, &errs})
		if err != nil || !slices.Equal(words, []string{"-a", "-b"}) {
			t.Errorf("%q: got the words %q, error %v, and %q", args, words, err, errs.String())
		}
	}
	for _, args := range [][]string{{"revoke", "-of", "ID"}, {"ID", "-config"}} {
		var errs bytes.Buffer
		flags := flagSet("keys", &errs)
		flags.String("config", "", "")
		_, err := parseWords(flags, args, streams{&errs, &errs})
		if how, ok := errors.AsType[*exitError](err); !ok || how.code != exitRefused || errs.Len() == 0 {
			t.Errorf("%q: got error %v, and %q", args, err, errs.String())
		}
	}
}
