// Package wiretest runs wire scripts: text files in which each request stands above what
// came back for it. It is for tests only, and knows HTTP but nothing of what is said over
// it.
//
// A script is a txtar archive. Its sections are steps, in order:
//
//	-- request NAME --   a request: method and path, header lines, an empty line, the body
//	-- wait DURATION --  lets time pass
//	-- leave NAME --     breaks the connection of a request
//	-- do ACTION --      runs an action of the test
//
// After each step everything that arrived since the last one stands in sections of its
// own, which the test compares and -update rewrites:
//
//	-- response NAME --  status, headers, body as far as it is there
//	-- more NAME --      what else arrived
//
// "(end)" marks the end of a body, "(broken)" one that was cut off. ${NAME} in a request
// stands for a variable of the test, or for what the script captured; a captured text is
// shown by its name.
package wiretest

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/drawbridge-mcp/drawbridge/internal/fatal"
)

var update = flag.Bool("update", false, "rewrite the answers in wire scripts")

// Run runs every script that matches glob, each in a bubble of its own with a world of
// its own.
func Run(t *testing.T, glob string, open func(t *testing.T) *World) {
	t.Helper()
	run(t, glob, open, *update)
}

// Repeat is Run for another world in which all must come as it did before: it never
// rewrites a script. Requests of the names in without are left out, because what comes
// for them differs.
func Repeat(t *testing.T, glob string, open func(t *testing.T) *World, without ...string) {
	t.Helper()
	run(t, glob, open, false, without...)
}

func run(t *testing.T, glob string, open func(t *testing.T) *World, rewrite bool, without ...string) {
	t.Helper()
	files, err := filepath.Glob(glob)
	if err != nil || len(files) == 0 {
		t.Fatalf("no script matches %s: %v", glob, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			want := omit(fatal.Have(os.ReadFile(file))(t), without) //nolint:gosec // a script of the test
			var got []byte
			synctest.Test(t, func(t *testing.T) { got = play(t, txtar.Parse(want), open(t)) })
			if len(without) > 0 {
				got, want = numbers.ReplaceAll(got, nil), numbers.ReplaceAll(want, nil)
			}
			compare(t, file, got, want, rewrite)
		})
	}
}

func compare(t *testing.T, file string, got, want []byte, rewrite bool) {
	t.Helper()
	if string(got) == string(want) {
		return
	}
	if rewrite {
		fatal.OK(t, os.WriteFile(file, got, 0o600))
		return
	}
	t.Errorf("%s differs; got:\n%s", file, difference(string(got), string(want)))
}

// difference shows the first lines that differ, with what stands around them.
func difference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	first := 0
	for first < len(a) && first < len(b) && a[first] == b[first] {
		first++
	}
	around := func(lines []string) string {
		return strings.Join(lines[max(0, min(first, len(lines))-3):min(first+6, len(lines))], "\n")
	}
	return around(a) + "\nwant:\n" + around(b)
}

// numbers are those of captured texts. They differ after a request was left out.
var numbers = regexp.MustCompile(`\d+\}`)

// omit returns a script without the requests of those names, and what comes for them.
func omit(script []byte, names []string) []byte {
	if len(names) == 0 {
		return script
	}
	parsed := txtar.Parse(script)
	parsed.Files = slices.DeleteFunc(parsed.Files, func(step txtar.File) bool {
		_, rest, _ := strings.Cut(step.Name, " ")
		return slices.Contains(names, rest)
	})
	return txtar.Format(parsed)
}

// play runs the steps of a script and returns the script with what came back.
func play(t *testing.T, script *txtar.Archive, w *World) []byte {
	t.Helper()
	w.start()
	defer w.close()
	played := &txtar.Archive{Comment: script.Comment}
	for _, step := range script.Files {
		verb, rest, _ := strings.Cut(step.Name, " ")
		if verb == "response" || verb == "more" {
			continue
		}
		played.Files = append(played.Files, step)
		if w.Pause > 0 {
			<-time.After(w.Pause) // in the bubble
		}
		switch verb {
		case "request":
			w.send(t, rest, string(step.Data))
		case "wait":
			<-time.After(fatal.Have(time.ParseDuration(rest))(t)) // in the bubble
		case "leave":
			w.disconnect(t, rest)
		case "do":
			action := w.Actions[rest]
			if action == nil {
				t.Fatalf("no action %q", rest)
			}
			action()
		default:
			t.Fatalf("no step %q", verb)
		}
		synctest.Wait()
		played.Files = append(played.Files, w.arrived()...)
	}
	return txtar.Format(played)
}
