package page_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
)

const opening, closing = "<!-- rolling: written by the command of that name -->", "<!-- rolling: end -->"

func TestASectionIsReplacedAndNothingElse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "page.md")
	const other = "<!-- soak: written by the command of that name -->"
	for name, test := range map[string]struct{ page, want string }{
		"an empty section": {"# Head\n" + opening + "\n" + closing + "\nTail\n", "# Head\n" + opening +
			"\n\nnew\n\n" + closing + "\nTail\n"},
		"a full section": {
			opening + "\nold\n" + closing + "\n<!-- soak: end -->",
			opening + "\n\nnew\n\n" + closing + "\n<!-- soak: end -->",
		},
		"no section":           {"# Head\n", "# Head\n" + opening + "\n\nnew\n\n" + closing + "\n"},
		"no end":               {opening + "\nold\n", ""},
		"the end stands first": {closing + opening, ""},
		"two sections":         {opening + closing + opening + closing, ""},
		"one in another":       {opening + other + "text" + closing, ""},
	} {
		if err := os.WriteFile(path, []byte(test.page), 0o600); err != nil {
			t.Fatal(err)
		}
		err := page.WriteSection(nil, path, "rolling", "\nnew\n")
		got := read(t, path)
		if want := test.want; want == "" {
			if err == nil || got != test.page {
				t.Errorf("%s: got error %v and %q, want an error and the page as it was", name, err, got)
			}
		} else if err != nil || got != want {
			t.Errorf("%s: got error %v and %q, want %q", name, err, got, want)
		}
	}
}

func TestASectionMakesAPageThatIsNotThere(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "page.md")
	for _, text := range []string{"old", "new"} {
		if err := page.WriteSection(nil, path, "rolling", text); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := read(t, path), opening+"\n\nnew\n\n"+closing+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var out strings.Builder
	if err := page.WriteSection(&out, "", "rolling", "\ntext\n"); err != nil || out.String() != "text\n" {
		t.Errorf("without a page: got %q, error %v", out.String(), err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAChartStandsBesideThePage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "benchmarks.md")
	bars := &page.Bars{Title: "Calls", Groups: []page.Group{{Label: "all", Bars: []page.Bar{{Value: 1}}}}}
	if shows := (page.Report{Path: path}).Chart("calls", bars, "calls per second"); shows !=
		"![calls per second](charts/calls.svg)" {
		t.Errorf("got %q", shows)
	}
	if got := read(t, filepath.Join(filepath.Dir(path), "charts", "calls.svg")); !strings.HasPrefix(got,
		"<svg ") {
		t.Errorf("the picture is %q", got)
	}
}

func TestOriginSaysWhenAndWithWhat(t *testing.T) {
	t.Parallel()
	got := page.Origin(t.Context(), time.Date(2026, 11, 22, 17, 0, 0, 0, time.UTC), "bench", "-rounds", "1")
	for _, part := range []string{
		"2026-11-22 17:00 UTC", "`go run -C internal/lab ./bench -rounds 1`",
		" go1.", " processor",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("%q has no %q", got, part)
		}
	}
}

func TestCountsAreListed(t *testing.T) {
	t.Parallel()
	for want, counts := range map[string]map[string]int{
		"none":                    nil,
		"1,234 × b, 2 × a, 2 × c": {"a": 2, "b": 1234, "c": 2},
	} {
		if got := page.Counted(counts, "none"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
