package doctest_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/archtest"
)

// repository is what the repository has of the things that a document may name.
type repository struct {
	root     string
	files    []string            // from the root, with slashes; directories too
	declared map[string][]string // by package name: "Type", "Type.Method", "Type.Field", "Func", "const"
	literals map[string]bool     // what stands in a string of the product: methods, codes, metrics
	targets  []string            // of the Makefile
	flags    map[string][]string // by command of drawbridge
	// the files of Go that are no tests and stand in no package beside the product
	product []source
	values  map[string]string // of the product's constants that are texts, by package and name: mcp.Name
}

// source is one file of the product.
type source struct {
	name string // from the root
	tree *ast.File
	set  *token.FileSet
}

// at says where in the file a node is.
func (s source) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", s.name, s.set.Position(n.Pos()).Line)
}

// surveyed returns what the repository has. All tests share it: to read it takes seconds.
func surveyed(t *testing.T) *repository {
	t.Helper()
	once.Do(func() { shared = survey(t) })
	if shared == nil {
		t.Fatal("the repository could not be read, see another test")
	}
	return shared
}

var (
	once   sync.Once
	shared *repository
)

// survey reads the repository. The flags of the commands come from the program's own
// help.
func survey(t *testing.T) *repository {
	t.Helper()
	r := &repository{
		root: root, declared: map[string][]string{}, literals: map[string]bool{}, values: map[string]string{},
	}
	err := filepath.WalkDir(r.root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", ".bin", "node_modules"}, entry.Name()):
			return filepath.SkipDir
		}
		name, err := filepath.Rel(r.root, path)
		if err != nil {
			return err
		}
		r.files = append(r.files, filepath.ToSlash(name))
		if strings.HasSuffix(name, ".go") {
			return r.readGo(path, filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(r.root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(string(makefile), -1) {
		r.targets = append(r.targets, match[1])
	}
	r.flags = flagsOf(r.product)
	return r
}

// readGo adds what one Go file declares, and the strings in it. The name is that from the
// root.
func (r *repository) readGo(file, name string) error {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	r.declare(tree)
	if strings.HasSuffix(name, "_test.go") {
		return nil
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		if text, ok := textOf(n); ok {
			r.literals[text] = true
		}
		return true
	})
	if !slices.Contains(archtest.Support(), path.Dir(name)) {
		r.product = append(r.product, source{name, tree, set})
		r.readConstants(tree)
	}
	return nil
}

// textOf returns the text of a string literal; ok is false for any other node.
func textOf(n ast.Node) (text string, ok bool) {
	literal, ok := n.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	return strings.Trim(literal.Value, "\"`"), true
}

// readConstants notes the constants of a file that are texts.
func (r *repository) readConstants(file *ast.File) {
	for _, declaration := range file.Decls {
		d, ok := declaration.(*ast.GenDecl)
		if !ok || d.Tok != token.CONST {
			continue
		}
		for _, spec := range d.Specs {
			s, ok := spec.(*ast.ValueSpec)
			if !ok || len(s.Values) != len(s.Names) {
				continue
			}
			for i, name := range s.Names {
				if text, ok := textOf(s.Values[i]); ok {
					r.values[file.Name.Name+"."+name.Name] = text
				}
			}
		}
	}
}

// declare adds what a file declares.
func (r *repository) declare(file *ast.File) {
	add := func(names ...string) {
		pkg := strings.TrimSuffix(file.Name.Name, "_test")
		r.declared[pkg] = append(r.declared[pkg], strings.Join(names, "."))
	}
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if receiver := receiverOf(d); receiver != "" {
				add(receiver, d.Name.Name)
			} else {
				add(d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				declareSpec(spec, add)
			}
		}
	}
}

func declareSpec(spec ast.Spec, add func(...string)) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			add(name.Name)
		}
	case *ast.TypeSpec:
		add(s.Name.Name)
		var members *ast.FieldList
		switch t := s.Type.(type) {
		case *ast.StructType:
			members = t.Fields
		case *ast.InterfaceType:
			members = t.Methods
		default:
			return
		}
		for _, field := range members.List {
			for _, name := range field.Names {
				add(s.Name.Name, name.Name)
			}
		}
	}
}

// receiverOf returns the name of a method's type, "" for a function.
func receiverOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	kind := d.Recv.List[0].Type
	if star, ok := kind.(*ast.StarExpr); ok {
		kind = star.X
	}
	switch k := kind.(type) {
	case *ast.IndexExpr:
		kind = k.X
	case *ast.IndexListExpr:
		kind = k.X
	}
	if name, ok := kind.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

// declares tells whether name ("Type", "Type.Method") is declared in the package, or in
// any when pkg is "".
func (r *repository) declares(pkg, name string) bool {
	if pkg != "" {
		return slices.Contains(r.declared[pkg], name)
	}
	for _, names := range r.declared {
		if slices.Contains(names, name) {
			return true
		}
	}
	return false
}

// isFolder tells whether a folder at the root has that name.
func (r *repository) isFolder(name string) bool {
	return slices.ContainsFunc(r.files, func(file string) bool { return strings.HasPrefix(file, name+"/") })
}

// has tells whether a file or directory is there: by its path from the root, which may
// hold * and {a,b}, or by its last name alone.
func (r *repository) has(path string) bool {
	if head, rest, ok := strings.Cut(path, "{"); ok {
		choices, tail, closed := strings.Cut(rest, "}")
		return closed && !slices.ContainsFunc(strings.Split(choices, ","),
			func(choice string) bool { return !r.has(head + choice + tail) })
	}
	path = strings.TrimSuffix(strings.TrimPrefix(path, "./"), "/")
	path = strings.TrimSuffix(strings.TrimSuffix(path, "..."), "/")
	return path == "" || slices.ContainsFunc(r.files, func(file string) bool {
		if !strings.Contains(path, "/") {
			file = file[strings.LastIndex(file, "/")+1:]
		}
		matches, _ := filepath.Match(path, file) // a malformed pattern matches nothing
		return matches
	})
}

// flagsOf returns the flags of each command: the function signOutCommand, as that of
// sign-out, adds its flags to the set flags.
func flagsOf(product []source) map[string][]string {
	all := map[string][]string{}
	for _, s := range product {
		if path.Dir(s.name) != "cmd/drawbridge" {
			continue
		}
		for _, declaration := range s.tree.Decls {
			d, ok := declaration.(*ast.FuncDecl)
			if !ok {
				continue
			}
			command, ok := strings.CutSuffix(d.Name.Name, "Command")
			if !ok {
				continue
			}
			command = capital.ReplaceAllStringFunc(command,
				func(letter string) string { return "-" + strings.ToLower(letter) })
			all[command] = []string{"-h"}
			ast.Inspect(d, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && flagOf(call) != "" {
					all[command] = append(all[command], "-"+flagOf(call))
				}
				return true
			})
		}
	}
	return all
}

var capital = regexp.MustCompile("[A-Z]")

// flagOf returns the name of the flag that a call such as flags.String or flags.StringVar
// defines, "" for any other call.
func flagOf(call *ast.CallExpr) string {
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) < 3 {
		return ""
	}
	if set, ok := function.X.(*ast.Ident); !ok || set.Name != "flags" {
		return ""
	}
	name, ok := textOf(call.Args[0])
	if !ok {
		name, _ = textOf(call.Args[1])
	}
	return name
}
