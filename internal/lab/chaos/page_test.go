package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestASectionIsReplacedAndNothingElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	const opening, closing = "<!-- rolling: written by the command of that name -->", "<!-- rolling: end -->"
	for name, test := range map[string]struct{ page, want string }{
		"an empty section":     {"# Head\n" + opening + "\n" + closing + "\nTail\n", "# Head\n" + opening + "\n\nnew\n\n" + closing + "\nTail\n"},
		"a full section":       {opening + "\nold\n" + closing + "\n<!-- soak: end -->", opening + "\n\nnew\n\n" + closing + "\n<!-- soak: end -->"},
		"no section":           {"# Head\n", ""},
		"no end":               {opening + "\nold\n", ""},
		"the end stands first": {closing + opening, ""},
		"two sections":         {opening + closing + opening + closing, ""},
	} {
		if err := os.WriteFile(path, []byte(test.page), 0o600); err != nil {
			t.Fatal(err)
		}
		err := writeSection(path, "rolling", "\nnew\n")
		got, readErr := os.ReadFile(path)
		if readErr != nil {
			t.Fatal(readErr)
		}
		if want := test.want; want == "" {
			if err == nil || string(got) != test.page {
				t.Errorf("%s: got error %v and %q, want an error and the page as it was", name, err, got)
			}
		} else if err != nil || string(got) != want {
			t.Errorf("%s: got error %v and %q, want %q", name, err, got, want)
		}
	}
}

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
