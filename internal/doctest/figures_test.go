package doctest_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	rolled = regexp.MustCompile(`([0-9,]+) requests during ([0-9]+) restarts, 0 lost`)
	shown  = regexp.MustCompile(`([0-9,]+) requests during ([0-9]+) restarts, none lost`)
	cell   = regexp.MustCompile(`\| (yes|[0-9]+) `)
	cells  = regexp.MustCompile(`([0-9]+) of ([0-9]+) combinations`)
)

// TestFiguresOfTheREADMEAreMeasured compares two figures of the README with the pages of
// evidence, which their labs write anew.
func TestFiguresOfTheREADMEAreMeasured(t *testing.T) {
	t.Parallel()
	readme, requests, restarts := read(t, "README.md"), 0, 0
	for _, found := range rolled.FindAllStringSubmatch(read(t, "docs/evidence/reliability.md"), -1) {
		requests += number(t, found[1])
		restarts += number(t, found[2])
	}
	says := shown.FindStringSubmatch(readme)
	if says == nil || number(t, says[1]) != requests || number(t, says[2]) != restarts {
		t.Errorf("README.md has %q, and reliability.md %d requests during %d restarts", says, requests, restarts)
	}

	_, sdks, _ := strings.Cut(read(t, "docs/evidence/compatibility.md"), "\n## SDKs\n")
	works, all := 0, 0
	for line := range strings.Lines(sdks) {
		for _, found := range cell.FindAllStringSubmatch(line, -1) {
			if all++; found[1] == "yes" {
				works++
			}
		}
	}
	says = cells.FindStringSubmatch(readme)
	if says == nil || number(t, says[1]) != works || number(t, says[2]) != all {
		t.Errorf("README.md has %q, and compatibility.md %d of %d that work", says, works, all)
	}
}

// number reads a number with commas.
func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.ReplaceAll(text, ",", ""))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
