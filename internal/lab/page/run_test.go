package page

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAPartWritesItsSection runs a part with a flag of its own, one that has something to
// say beside an error, and one that has an error alone.
func TestAPartWritesItsSection(t *testing.T) {
	broken := errors.New("a promise was broken")
	parts := map[string]Part{}
	for name, err := range map[string]error{"": nil, "broken": broken, "none": broken} {
		parts[name] = Part{"section-" + name, func(flags *flag.FlagSet) Measure {
			times := flags.Int("times", 1, "")
			return func(context.Context, Report) (string, error) {
				if name == "none" {
					return "", err
				}
				return "## Measured\n\n" + strings.Repeat("again ", *times), err
			}
		}}
	}
	path, took := filepath.Join(t.TempDir(), "page.md"), regexp.MustCompile(`It took \d+s\.`)
	for _, test := range []struct {
		args, has string
		wrong     bool
	}{
		{"-times 2 -out " + path, "<!-- section-: written by the command of that name -->\n\n## Measured\n\nMade 2", false},
		{"-out " + path, "It took 0s.\n\nagain\n\n<!-- section-: end", false},
		{"broken -out " + path, "again\n\n<!-- section-broken: end", true},
		{"none -out " + path, "section-broken", true},
		{"-out " + path + " more", "", true},
		{"other", "", true},
		{"-storm", "", true},
	} {
		err := Run(t.Context(), "lab", parts, strings.Fields(test.args), t.Output())
		text, _ := os.ReadFile(path)
		text = took.ReplaceAll(text, []byte("It took 0s.")) // however busy the machine is
		if (err != nil) != test.wrong || !strings.Contains(string(text), test.has) ||
			strings.Contains(string(text), "section-none") {
			t.Errorf("%s: got %v, and the page\n%s", test.args, err, text)
		}
	}
}
