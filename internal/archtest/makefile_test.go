package archtest

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTheRaceDetectorSeesWhatRunsAtTheSameTime compares the list of the Makefile with the
// packages of the product in whose code or tests a goroutine starts.
func TestTheRaceDetectorSeesWhatRunsAtTheSameTime(t *testing.T) {
	t.Parallel()
	root := repository(t)
	listed := listedIn(t, "RACE")
	for _, directory := range slices.Concat(layers()...) {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(directory), "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has %d files, error %v", directory, len(files), err)
		}
		concurrent := slices.ContainsFunc(files, func(name string) bool {
			s, err := parse(directory, name, nil)
			if err != nil {
				t.Fatal(err)
			}
			return startsGoroutine(s.file)
		})
		at := slices.Index(listed, "./"+directory)
		switch {
		case concurrent && at < 0:
			t.Errorf("%s starts goroutines, and is not in RACE of the Makefile", directory)
		case !concurrent && at >= 0:
			t.Errorf("%s starts no goroutine, and is in RACE of the Makefile", directory)
		}
		if at >= 0 {
			listed = slices.Delete(listed, at, at+1)
		}
	}
	if len(listed) > 0 {
		t.Errorf("RACE of the Makefile has what is no package of the product, or has it twice: %q", listed)
	}
}

// TestTestsThatStartGoroutinesAreNamedSo compares the packages of which the race detector
// sees some tests with the names by which make finds them.
func TestTestsThatStartGoroutinesAreNamedSo(t *testing.T) {
	t.Parallel()
	root, raced := repository(t), listedIn(t, "RACE")
	for _, directory := range listedIn(t, "SELDOM") {
		if !slices.Contains(raced, directory) {
			t.Errorf("%s stands in SELDOM of the Makefile, and not in RACE", directory)
		}
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(directory), "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has %d files, error %v", directory, len(files), err)
		}
		for _, name := range files {
			s, err := parse(directory, name, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range s.file.Decls {
				f, isFunction := d.(*ast.FuncDecl)
				if startsGoroutine(d) && (!isFunction || !isRacedTest(f.Name.Name)) {
					t.Errorf("%s starts goroutines, and is in no test whose name ends in AtOnce", name)
				}
			}
		}
	}
}

// TestTestsThatRunAloneAreThere looks for the tests that make runs without the race
// detector: go test does not miss a name that there is none of.
func TestTestsThatRunAloneAreThere(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(repository(t), "cmd", "drawbridge", "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, name := range files {
		s, err := parse("cmd/drawbridge", name, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range s.file.Decls {
			if f, is := d.(*ast.FuncDecl); is {
				there[f.Name.Name] = true
			}
		}
	}
	alone := listedIn(t, "ALONE")
	if len(alone) == 0 {
		t.Error("ALONE of the Makefile is empty, so each test would run alone")
	}
	for _, name := range alone {
		if !there[name] {
			t.Errorf("%s stands in ALONE of the Makefile, and cmd/drawbridge has no such test", name)
		}
	}
}

func isRacedTest(name string) bool {
	return strings.HasPrefix(name, "Test") && strings.HasSuffix(name, "AtOnce")
}

// listedIn returns the packages, or names, that stand in a variable of the Makefile.
func listedIn(t *testing.T, variable string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?m)^` + variable + ` *=((?:.*\\\n)*.*)$`).FindSubmatch(text)
	if list == nil {
		t.Fatalf("the Makefile has no %s", variable)
	}
	return strings.Fields(strings.ReplaceAll(string(list[1]), "\\\n", " "))
}

// startsGoroutine tells whether there is a go statement, or a call of a method Go, as
// errgroup and sync.WaitGroup have it.
func startsGoroutine(in ast.Node) (found bool) {
	ast.Inspect(in, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.CallExpr:
			if method, ok := n.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "Go" {
				found = true
			}
		}
		return !found
	})
	return found
}

func TestStartsOfGoroutinesAreFound(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		"func f() { go f() }":              true,
		"func f() { g.Go(f) }":             true,
		"func f() { f() }":                 false,
		"func f() { Go(f); var x = g.Go }": false,
	} {
		s, err := parse("server", "x.go", "package x\n"+body)
		if err != nil {
			t.Fatal(err)
		}
		if got := startsGoroutine(s.file); got != want {
			t.Errorf("%s: %v, want %v", body, got, want)
		}
	}
}

// TestProgramsShareWhatIsCompiled shows that make run and make build do not compile
// everything twice.
func TestProgramsShareWhatIsCompiled(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(repository(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	const shared = "$(BUILD) "
	for _, target := range []string{"run", "build"} {
		recipe := regexp.MustCompile(`(?m)^` + target + `:.*\n((?:\t.*\n)+)`).FindSubmatch(text)
		if recipe == nil {
			t.Fatalf("there is no target %s", target)
		}
		if !strings.Contains(string(recipe[1]), shared) || strings.Contains(string(recipe[1]), "go build") {
			t.Errorf("make %s does not build with BUILD:\n%s", target, recipe[1])
		}
	}
}
