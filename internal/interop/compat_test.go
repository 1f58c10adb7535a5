package interop_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// compatPage is where the tests keep what they found.
const compatPage = "../../docs/evidence/compatibility.md"

// compatMu guards the page: tests that run beside each other own a part each.
var compatMu sync.Mutex

// keepCompat compares what a test found with its part of the page, which is between two
// marks, or writes it there with
// -update-compat.
func keepCompat(t testing.TB, part, text string) {
	t.Helper()
	compatMu.Lock()
	defer compatMu.Unlock()
	head, old, foot := compatPart(t, part)
	switch {
	case old == text:
	case *updateCompat:
		if err := os.WriteFile(compatPage, []byte(head+text+foot), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s says of %s otherwise (-) than was found (+); make compat writes it:\n%s", compatPage,
			part,
			cmp.Diff(strings.Split(old, "\n"), strings.Split(text, "\n")))
	}
}

// compatPart returns a part of the page, and what is before and after it.
func compatPart(t testing.TB, part string) (head, text, foot string) {
	t.Helper()
	page, err := os.ReadFile(compatPage)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := fmt.Sprintf("<!-- begin %s -->\n", part), fmt.Sprintf("<!-- end %s -->\n", part)
	head, rest, found := strings.Cut(string(page), begin)
	text, foot, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s lacks %q and %q", compatPage, begin, end)
	}
	return head + begin, text, end + foot
}
