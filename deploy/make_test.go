package deploy_test

import (
	"regexp"
	"strings"
	"testing"
)

// TestMakeAloneListsEveryTarget compares what make prints without a target with the
// targets that there are.
func TestMakeAloneListsEveryTarget(t *testing.T) {
	makefile := read(t, "../Makefile")
	_, rest, _ := strings.Cut(makefile, "\n.PHONY: ")
	line, _, _ := strings.Cut(rest, "\n")
	out, code := run(t.Context(), t, "..", tool(t, "make", "make"), "--no-print-directory")
	if code != 0 {
		t.Fatalf("make: exit %d: %s", code, out)
	}
	targets := strings.Fields(line)
	for _, target := range targets {
		if !regexp.MustCompile(`(?m)^` + target + ` +[^ ]`).MatchString(out) {
			t.Errorf("make does not say what %s does:\n%s", target, out)
		}
	}
	if defined := regexp.MustCompile(`(?m)^[a-z-]+:`).FindAllString(makefile,
		-1); len(defined) != len(targets) {
		t.Errorf("the targets are %q, and .PHONY names %q", defined, targets)
	}
}
