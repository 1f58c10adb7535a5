package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSectionsLeaveEachOtherAsTheyAre(t *testing.T) {
	path := filepath.Join(t.TempDir(), "benchmarks.md")
	for _, s := range []struct{ name, text string }{
		{sectionScale, "## Growth\n\nflat\n"}, {sectionCalls, "## Calls\n\nold"}, {sectionPeers, "## Others"}, {sectionCalls, "## Calls\n\nnew"},
	} {
		if err := writeSection(path, s.name, s.text); err != nil {
			t.Fatal(err)
		}
	}
	page := read(t, path)
	if !strings.HasPrefix(page, "# What the gateway costs\n") {
		t.Errorf("the page begins with %.60q", page)
	}
	rest := page
	for _, part := range []string{
		opening(sectionCalls), "## Calls\n\nnew", closing(sectionCalls), opening(sectionPeers), "## Others",
		closing(sectionPeers), opening(sectionScale), "## Growth\n\nflat", closing(sectionScale),
	} {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Fatalf("%q is missing, or not in its place, in\n%s", part, page)
		}
		rest = after
	}
	if strings.Contains(page, "old") {
		t.Errorf("the text before is still there:\n%s", page)
	}
}

func TestPageWithoutSectionsIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "benchmarks.md")
	if err := os.WriteFile(path, []byte("# Of another time\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeSection(path, sectionCalls, "text"); err != nil {
		t.Fatal(err)
	}
	if page := read(t, path); strings.Contains(page, "Of another time") || !strings.Contains(page, "text") {
		t.Errorf("the page is\n%s", page)
	}
}

func TestPageWithBrokenSectionsIsNotTouched(t *testing.T) {
	begin, end := opening(sectionCalls), closing(sectionCalls)
	for name, page := range map[string]string{
		"no end":         begin + "\ntext\n",
		"no beginning":   "text\n" + end,
		"two":            begin + end + begin + end,
		"one in another": begin + opening(sectionPeers) + "text" + closing(sectionPeers) + end,
	} {
		path := filepath.Join(t.TempDir(), "benchmarks.md")
		if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := writeSection(path, sectionScale, "more"); err == nil {
			t.Errorf("%s: no error, and the page is\n%s", name, read(t, path))
		}
		if got := read(t, path); got != page {
			t.Errorf("%s: the page became\n%s", name, got)
		}
	}
	if err := writeSection(filepath.Join(t.TempDir(), "x"), "other", "text"); err == nil {
		t.Error("a section that the page does not have was written")
	}
}

func TestChartStandsBesideThePage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "benchmarks.md")
	shows, err := writeChart(page, "calls", "<svg/>", "calls per second")
	if err != nil || shows != "![calls per second](charts/calls.svg)" {
		t.Errorf("got %q, %v", shows, err)
	}
	if got := read(t, filepath.Join(filepath.Dir(page), "charts", "calls.svg")); got != "<svg/>" {
		t.Errorf("the picture is %q", got)
	}
}

func TestOriginSaysWhenAndWithWhat(t *testing.T) {
	got := origin(t.Context(), time.Date(2026, 11, 22, 17, 0, 0, 0, time.UTC), []string{"-rounds", "1"})
	for _, part := range []string{"2026-11-22 17:00 UTC", "`go run -C internal/lab ./bench -rounds 1`", " go1.", " processor"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q has no %q", got, part)
		}
	}
}
