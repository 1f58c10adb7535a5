package sources_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/sources"
)

// childVariable has this test program open the sources, so that the one that has started
// it sees which.
const childVariable = "SOURCES_CHILD"

// TestGoLearnsWhatAProgramIsMadeOf reads the record from which the go command decides
// whether the result of a test still holds.
func TestGoLearnsWhatAProgramIsMadeOf(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		if err := sources.Open(t.Context(),
			"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge"); err != nil {
			t.Error(err)
		}
		if err := sources.OpenTree("../interop"); err != nil {
			t.Error(err)
		}
		return
	}
	record := filepath.Join(t.TempDir(), "record")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.testlogfile="+
		record)
	child.Env = append(os.Environ(), childVariable+"=1")
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"open " + root + "/cmd/drawbridge", "open " + root + "/server", "open " + root + "/internal/mcp",
		"stat " + root + "/go.mod", "stat " + root + "/go.sum", "open ../interop/clients",
	} {
		if !strings.Contains(string(text), "\n"+want+"\n") {
			t.Errorf("the go command does not learn of %q:\n%s", want, text)
		}
	}
	for _, passedOver := range []string{"/node_modules/", root + "/internal/corpus\n"} {
		if strings.Contains(string(text), passedOver) {
			t.Errorf("the go command learns of %q", passedOver)
		}
	}
}

func TestWhatIsNotThereIsAnError(t *testing.T) {
	if err := sources.Open(t.Context(), "./nowhere"); err == nil {
		t.Error("no error of a package that is not there")
	}
	if err := sources.OpenTree("nowhere"); err == nil {
		t.Error("no error of a folder that is not there")
	}
}
