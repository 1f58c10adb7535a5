package archtest

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxCycle is how many files of a package may use each other in a circle. Whoever reads
// one of them has to know all of them, so more are two packages.
const maxCycle = 8

// TestFilesOfAPackageHaveAnOrder finds, in each package, the files that use each other in
// a circle.
func TestFilesOfAPackageHaveAnOrder(t *testing.T) {
	t.Parallel()
	root := repository(t)
	for _, directory := range slices.Concat(layers()...) {
		sources := sourcesOf(t, root, directory)
		if cycle := largestCycle(t, sources); len(cycle) > maxCycle {
			t.Errorf("%s: %d files use each other in a circle, at most %d may: %s",
				directory, len(cycle), maxCycle, strings.Join(cycle, " "))
		}
	}
}

// sourcesOf returns the files of a package on this system, without its tests, each with
// nil for its text.
func sourcesOf(t *testing.T, root, directory string) map[string]any {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(directory), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	sources := make(map[string]any)
	for _, file := range files {
		matches, err := build.Default.MatchFile(filepath.Dir(file), filepath.Base(file))
		if err != nil {
			t.Fatal(err)
		}
		if matches && !strings.HasSuffix(file, "_test.go") {
			sources[file] = nil
		}
	}
	return sources
}

// largestCycle returns the names of the files of a package that are in its largest
// circle. sources has their texts by name, nil for a file that is there.
func largestCycle(t *testing.T, sources map[string]any) []string {
	t.Helper()
	uses := usesAmong(t, sources)
	var largest []string
	for name := range uses {
		if cycle := cycleOf(uses, name); len(cycle) > len(largest) {
			largest = cycle
		}
	}
	for i, name := range largest {
		largest[i] = filepath.Base(name)
	}
	slices.Sort(largest)
	return largest
}

// usesAmong returns which files use what others of them define.
func usesAmong(t *testing.T, sources map[string]any) map[string][]string {
	t.Helper()
	positions := token.NewFileSet()
	var files []*ast.File
	for name, text := range sources {
		file, err := parser.ParseFile(positions, name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	// Without what is imported much has no type, and is not looked at: what a file uses
	// of the others of its package is found all the same, unless it comes through a
	// function of another package.
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	config := types.Config{Importer: nothing{}, Error: func(error) {}}
	pkg, _ := config.Check("p", positions, files, info) // the error is that imports are missing
	uses := make(map[string][]string)
	for name := range sources {
		uses[name] = nil
	}
	for identifier, object := range info.Uses {
		from := positions.Position(identifier.Pos()).Filename
		to := positions.Position(object.Pos()).Filename
		if object.Pkg() == pkg && to != from && to != "" && !slices.Contains(uses[from], to) {
			uses[from] = append(uses[from], to)
		}
	}
	return uses
}

// cycleOf returns the files that a file leads to and that lead back to it, itself among
// them.
func cycleOf(uses map[string][]string, name string) (cycle []string) {
	for other := range reached(uses, name) {
		if reached(uses, other)[name] {
			cycle = append(cycle, other)
		}
	}
	return cycle
}

// reached returns a file and all that it leads to.
func reached(uses map[string][]string, name string) map[string]bool {
	seen, next := map[string]bool{name: true}, []string{name}
	for len(next) > 0 {
		for _, other := range uses[next[0]] {
			if !seen[other] {
				seen[other] = true
				next = append(next, other)
			}
		}
		next = next[1:]
	}
	return seen
}

// nothing imports empty packages.
type nothing struct{}

var _ types.Importer = nothing{}

// Import implements types.Importer.
func (nothing) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	empty := types.NewPackage(path, filepath.Base(path))
	empty.MarkComplete()
	return empty, nil
}

// TestCirclesOfFilesAreFound shows that the test above can fail, and for what.
func TestCirclesOfFilesAreFound(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		sources map[string]any
		want    int
	}{
		{"an order", map[string]any{
			"a.go": "package p\nfunc a() { b() }",
			"b.go": "package p\nfunc b() {}",
		}, 1},
		{"functions", map[string]any{
			"a.go": "package p\nfunc a() { b() }",
			"b.go": "package p\nfunc b() { a() }",
			"c.go": "package p\nfunc c() { a() }",
		}, 2},
		{"a method and a field", map[string]any{
			"a.go": "package p\ntype t struct { f int }",
			"b.go": "package p\nimport \"time\"\nfunc (x *t) m(time.Time) int { return x.f }",
			"c.go": "package p\nfunc c(x *t) { d(x) }",
			"d.go": "package p\nfunc d(x *t) { var y = x; y.m(other()) }\nfunc other() int { c(nil); return 0 }",
		}, 2},
		{"three in a circle", map[string]any{
			"a.go": "package p\nvar a = func() { b() }",
			"b.go": "package p\nfunc b() { c() }",
			"c.go": "package p\nfunc c() { a() }",
		}, 3},
	} {
		if got := largestCycle(t, test.sources); len(got) != test.want {
			t.Errorf("%s: got %q, want %d files", test.name, got, test.want)
		}
	}
}
