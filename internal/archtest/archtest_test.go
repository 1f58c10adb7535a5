package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// source is one parsed file of the package in directory.
type source struct {
	directory string // from the root, with slashes
	name      string
	file      *ast.File
	positions *token.FileSet
}

func (s *source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

func (s *source) report(node ast.Node, format string, args ...any) string {
	line := s.positions.Position(node.Pos()).Line
	return fmt.Sprintf("%s:%d: %s", path.Join(s.directory, s.name), line, fmt.Sprintf(format, args...))
}

func parse(directory, name string, text any) (*source, error) {
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, name, text, parser.SkipObjectResolution)
	return &source{directory: directory, name: filepath.Base(name), file: file, positions: positions}, err
}

// violations returns where the file differs from the plan.
func violations(s *source) []string {
	if slices.Contains(Support(), s.directory) {
		return nil
	}
	layer := layerOf(s.directory)
	if layer < 0 {
		return []string{s.report(s.file.Name, "package %s is not in the plan", s.directory)}
	}
	if s.isTest() {
		return nil
	}
	var found []string
	for _, spec := range s.file.Imports {
		if problem := importProblem(s.directory, layer, importPath(spec)); problem != "" {
			found = append(found, s.report(spec, "%s", problem))
		}
	}
	return slices.Concat(found, dialing(s), asking(s), naming(s))
}

// asking returns where the file asks for the token of a caller, which goes to one place
// alone.
func asking(s *source) (found []string) {
	if s.directory == tokenPackage {
		return nil
	}
	ast.Inspect(s.file, func(node ast.Node) bool {
		if n, ok := node.(*ast.SelectorExpr); ok && n.Sel.Name == "SubjectToken" {
			found = append(found, s.report(n, "a caller's token is asked for in %s alone", tokenPackage))
		}
		return true
	})
	return found
}

// layerOf returns the index in layers, -1 for a package that is not in the plan.
func layerOf(directory string) int {
	return slices.IndexFunc(layers(), func(layer []string) bool { return slices.Contains(layer, directory) })
}

func importPath(spec *ast.ImportSpec) string {
	name, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value
	}
	return name
}

func importProblem(directory string, layer int, imported string) string {
	if own, ok := strings.CutPrefix(imported, module+"/"); ok {
		switch below := layerOf(own); {
		case slices.Contains(Support(), own):
			return fmt.Sprintf("%s is no part of the product", own)
		case below < 0:
			return fmt.Sprintf("%s is not in the plan", own)
		case below == layer:
			return fmt.Sprintf("%s is on the same layer", own)
		case below < layer:
			return fmt.Sprintf("%s is on a higher layer", own)
		}
		return ""
	}
	d, known := doorTo(imported)
	switch {
	case !known && strings.Contains(strings.Split(imported, "/")[0], "."):
		return fmt.Sprintf("library %s has no door in the plan", imported)
	case known && !slices.Contains(d.open, directory) && !slices.Contains(d.open, "*"):
		return fmt.Sprintf("library %s has no door here (%s), only in %q", imported, d.why, d.open)
	}
	return ""
}

// doorTo returns the door with the longest beginning of the import path.
func doorTo(imported string) (best door, known bool) {
	for _, d := range doors() {
		if (imported == d.library || strings.HasPrefix(imported, d.library+"/")) &&
			len(d.library) > len(best.library) {
			best, known = d, true
		}
	}
	return best, known
}

// dialing returns where the file could open a connection by itself.
func dialing(s *source) []string {
	if s.directory == dialPackage {
		return nil
	}
	var found []string
	imported := importedNames(s.file)
	ast.Inspect(s.file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.StarExpr: // a pointer is how a client is handed over, and what libraries say to whoever dials for them
			from, name := selected(imported, n.X)
			return (from != "net/http" || name != "Client") && (from != "net" || name != "Dialer")
		case *ast.SelectorExpr:
			if from, name := selected(imported, n); slices.ContainsFunc(dialers()[from],
				func(start string) bool { return opens(name, start) }) {
				found = append(found, s.report(n, "%s.%s opens connections, which only %s does", from, name,
					dialPackage))
			}
		}
		return true
	})
	return found
}

// opens tells whether name is start, or for Dial and Lookup begins with it.
func opens(name, start string) bool {
	return name == start || (start == "Dial" || start == "Lookup") && strings.HasPrefix(name, start)
}

// importedNames returns the import path by the name it has in the file.
func importedNames(file *ast.File) map[string]string {
	names := make(map[string]string)
	for _, spec := range file.Imports {
		imported := importPath(spec)
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = imported
	}
	return names
}

// selected returns the import path and the name that an expression such as net.Dial
// selects.
func selected(imported map[string]string, expression ast.Expr) (from, name string) {
	selector, ok := expression.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	if identifier, ok := selector.X.(*ast.Ident); ok {
		return imported[identifier.Name], selector.Sel.Name
	}
	return "", ""
}

func TestCodeFollowsThePlan(t *testing.T) {
	t.Parallel()
	files := eachGoFile(t, repository(t), foreign, func(directory, name string) error {
		s, err := parse(directory, name, nil)
		if err != nil {
			return err
		}
		for _, violation := range violations(s) {
			t.Error(violation)
		}
		return nil
	})
	if files < 20 {
		t.Errorf("%d files looked at", files)
	}
}

// eachGoFile calls do with the path of each Go file below root, and with its directory
// from there, and returns how many there are. It does not look into directories that
// skips names.
func eachGoFile(t *testing.T, root string, skips func(root, name, base string) bool,
	do func(directory, name string) error,
) (files int) {
	t.Helper()
	root += "/" // it may be a link
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skips(root, name, entry.Name()):
			return filepath.SkipDir
		case entry.IsDir(), filepath.Ext(name) != ".go":
			return nil
		}
		directory, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		files++
		return do(filepath.ToSlash(directory), name)
	})
	if err != nil {
		t.Error(err)
	}
	return files
}

// labProblem returns what is wrong with a lab that imports a package.
func labProblem(directory, imported string) string {
	own, isLab := strings.CutPrefix(imported, module+"/internal/lab/")
	layerOf := func(name string) int {
		return slices.IndexFunc(labLayers(),
			func(layer []string) bool { return slices.Contains(layer, name) })
	}
	switch layer, below := layerOf(directory), layerOf(own); {
	case layer < 0:
		return fmt.Sprintf("lab %s is not in the plan", directory)
	case isLab && below <= layer:
		return fmt.Sprintf("lab %s is not on a lower layer than %s", own, directory)
	}
	return ""
}

func TestLabsFollowThePlan(t *testing.T) {
	t.Parallel()
	root, seen := filepath.Join(repository(t), "internal", "lab"), map[string]bool{}
	none := func(string, string, string) bool { return false }
	eachGoFile(t, root, none, func(directory, name string) error {
		s, err := parse(directory, name, nil)
		if err != nil || s.isTest() {
			return err
		}
		seen[s.directory] = true
		for _, spec := range s.file.Imports {
			if problem := labProblem(s.directory, importPath(spec)); problem != "" {
				t.Error(s.report(spec, "%s", problem))
			}
		}
		return nil
	})
	if planned := len(slices.Concat(labLayers()...)); len(seen) != planned {
		t.Errorf("%d packages of labs, and %d in the plan", len(seen), planned)
	}
}

func TestLabsBesideThePlanAreFound(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		from, imported string
		wrong          bool
	}{
		{"bench", "/internal/lab/page", false},
		{"bench", "/internal/freeport", false},
		{"world", "/internal/lab/upstream", true},
		{"page", "/internal/lab/world", true},
		{"bench", "/internal/lab/bench/more", true},
		{"other", "/auth", true},
	} {
		if got := labProblem(test.from, module+test.imported); (got != "") != test.wrong {
			t.Errorf("%s imports %s: got %q, wrong %t", test.from, test.imported, got, test.wrong)
		}
	}
}

// foreign tells whether a directory holds no packages of this module.
func foreign(root, name, base string) bool {
	if name == root {
		return false
	}
	_, err := os.Stat(filepath.Join(name, "go.mod"))
	return err == nil || base == "testdata" || base == "node_modules" || base[0] == '.' || base[0] == '_'
}

func repository(t *testing.T) string {
	t.Helper()
	directory, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(directory, "go.mod")); err == nil {
			return directory
		}
		if directory == filepath.Dir(directory) {
			t.Fatal("no go.mod above this package")
		}
		directory = filepath.Dir(directory)
	}
}

// TestViolationsAreFound shows that the test above can fail, and for what.
func TestViolationsAreFound(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file, body string
		want             string // "": nothing is found
	}{
		{"down", "server/x.go", `import _ "` + module + `/internal/gateway"`, ""},
		{"far down", "cmd/drawbridge/x.go", `import _ "` + module + `/internal/seal"`, ""},
		{"up", "internal/mcp/x.go", `import _ "` + module + `/registry"`, "higher layer"},
		{"sideways", "auth/x.go", `import _ "` + module + `/ratelimit"`, "same layer"},
		{"to a subpackage on the same layer", "internal/gateway/x.go", `import _ "` + module +
			`/registry/upstream"`, "same layer"},
		{"an unknown package", "internal/util/x.go", ``, "not in the plan"},
		{"an unknown package of tests", "internal/util/x_test.go", ``, "not in the plan"},
		{"the root", "x.go", ``, "not in the plan"},
		{
			"of an unknown package", "server/x.go", `import _ "` + module + `/internal/util"`,
			"not in the plan",
		},
		{"in a test", "internal/mcp/x_test.go", `import _ "` + module +
			`/registry"; import _ "github.com/kaptinlin/jsonschema"; import "net"; var _ = net.Dial`, ""},
		{"a private word", "server/x.go", `type call struct { lastTold int }`, "lastTold has the private word told"},
		{"a private word of a local", "server/x.go", `func f() { for _, rooms := range "" { _ = rooms } }`, "rooms"},
		{"a word of the field", "server/x.go", `func f() { bedroom, newsletter := 0, 0; _, _ = bedroom, newsletter }`, ""},
		{"through a door", "registry/schema/x.go", `import _ "github.com/kaptinlin/jsonschema"`, ""},
		{"beside a door", "registry/x.go", `import _ "github.com/kaptinlin/jsonschema"`, "no door here"},
		{
			"a library's inner package", "auth/x.go", `import _ "github.com/go-json-experiment/json/jsontext"`,
			"no door here",
		},
		{"an unknown library", "server/x.go", `import _ "example.com/x"`, "no door in the plan"},
		{
			"an older version of a library", "server/x.go", `import _ "github.com/go-chi/chi"`,
			"no door in the plan",
		},
		{"a library for everyone", "auth/x.go", `import _ "golang.org/x/sync/errgroup"`, ""},
		{"HTTP at the desk", "internal/gateway/x.go", `import _ "net/http"`, "no door here"},
		{
			"HTTP at a door", "server/x.go",
			`import "net/http"; var c *http.Client; var h http.Header; func f(*http.Client)`, "",
		},
		{"pprof has its own door", "server/x.go", `import _ "net/http/pprof"`, "no door here"},
		{
			"another name", "auth/x.go", `import j "github.com/go-json-experiment/json"; var _ = j.Marshal`,
			"no door here",
		},
		{"a program", "cmd/drawbridge/x.go", `import _ "os/exec"`, "no door here"},
		{"unsafe", "internal/mcp/x.go", `import _ "unsafe"`, "no door here"},
		{
			"asking for a token", "server/x.go",
			`func f(p interface{ SubjectToken() string }) { p.SubjectToken() }`, "a caller's token",
		},
		{"dialing", "auth/x.go", `import "net"; var _ = net.DialTimeout`, "opens connections"},
		{"a dialer", "auth/x.go", `import n "net"; var d n.Dialer`, "opens connections"},
		{"a look-up", "server/x.go", `import "net"; var _ = net.LookupHost`, "opens connections"},
		{
			"TLS dialing", "auth/x.go", `import "crypto/tls"; func f() { tls.Dial("", "", nil) }`,
			"opens connections",
		},
		{"a transport", "server/x.go", `import "net/http"; var t = &http.Transport{}`, "opens connections"},
		{
			"the default client", "auth/x.go", `import "net/http"; func f() { http.DefaultClient.Do(nil) }`,
			"opens connections",
		},
		{"a client", "auth/x.go", `import "net/http"; var c = &http.Client{}`, "opens connections"},
		{
			"a client that is no pointer", "auth/x.go", `import "net/http"; type s struct{ c http.Client }`,
			"opens connections",
		},
		{"a new client", "auth/x.go", `import "net/http"; var c = new(http.Client)`, "opens connections"},
		{"listening", "cmd/drawbridge/x.go", `import "net"; var _ = net.Listen`, ""},
		{"a tool", "internal/corpus/x.go", `import "net"; import _ "testing"; import _ "` + module +
			`/cmd/drawbridge"; var _ = net.Dial`, ""},
		{"of a tool", "server/x.go", `import _ "` + module + `/internal/wiretest"`, "no part of the product"},
		{"of a tool in a test", "server/x_test.go", `import _ "` + module + `/internal/wiretest"`, ""},
		{"testing outside tests", "auth/x.go", `import _ "testing"`, "no door here"},
		{
			"the package that dials", "internal/dial/x.go",
			`import ("net"; "net/http"); var d net.Dialer; var c = http.Client{}`, "",
		},
	}
	for _, test := range tests {
		s, err := parse(path.Dir(test.file), path.Base(test.file), "package x\n"+test.body)
		if err != nil {
			t.Fatal(err)
		}
		found := violations(s)
		if test.want == "" && len(found) > 0 {
			t.Errorf("%s: found %q, want nothing", test.name, found)
		}
		if test.want != "" && (len(found) != 1 || !strings.Contains(found[0], test.want) ||
			!strings.HasPrefix(found[0], test.file+":")) {
			t.Errorf("%s: found %q, want one with %q", test.name, found, test.want)
		}
	}
}

// TestPlanIsSound shows that no package stands on two layers and that doors open into
// rooms that exist.
func TestPlanIsSound(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, layer := range layers() {
		for _, name := range layer {
			if seen[name] {
				t.Errorf("%s stands on two layers", name)
			}
			seen[name] = true
		}
	}
	for _, name := range Support() {
		if seen[name] {
			t.Errorf("%s stands on a layer and is one of Support", name)
		}
	}
	for _, d := range doors() {
		for _, name := range d.open {
			if name != "*" && !seen[name] {
				t.Errorf("the door to %s opens into %s, which is on no layer", d.library, name)
			}
		}
	}
}
