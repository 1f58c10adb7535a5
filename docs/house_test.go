package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// house is what the repository has of the things that a document may name.
type house struct {
	root     string
	files    []string            // from the root, with slashes; directories too
	declared map[string][]string // by package name: "Type", "Type.Method", "Type.Field", "Func", "const"
	literals map[string]bool     // what stands in a string of the product: methods, codes, metrics
	targets  []string            // of the Makefile
	flags    map[string][]string // by command of drawbridge
}

// survey reads the repository. The flags of the commands come from the program's own help.
func survey(t *testing.T) *house {
	t.Helper()
	h := &house{root: "..", declared: map[string][]string{}, literals: map[string]bool{}}
	err := filepath.WalkDir(h.root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", ".bin", "node_modules"}, entry.Name()):
			return filepath.SkipDir
		}
		name, err := filepath.Rel(h.root, path)
		if err != nil {
			return err
		}
		h.files = append(h.files, filepath.ToSlash(name))
		if strings.HasSuffix(name, ".go") {
			return h.readGo(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(h.root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(string(makefile), -1) {
		h.targets = append(h.targets, match[1])
	}
	h.flags = flagsOfCommands(t, h.root)
	return h
}

// readGo adds what one Go file declares, and the strings in it.
func (h *house) readGo(path string) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	add := func(names ...string) {
		pkg := strings.TrimSuffix(file.Name.Name, "_test")
		h.declared[pkg] = append(h.declared[pkg], strings.Join(names, "."))
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
	if strings.HasSuffix(path, "_test.go") {
		return nil
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			h.literals[strings.Trim(literal.Value, "\"`")] = true
		}
		return true
	})
	return nil
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

// declares tells whether name ("Type", "Type.Method") is declared in the package, or in any when pkg is "".
func (h *house) declares(pkg, name string) bool {
	if pkg != "" {
		return slices.Contains(h.declared[pkg], name)
	}
	for _, names := range h.declared {
		if slices.Contains(names, name) {
			return true
		}
	}
	return false
}

// isFolder tells whether a folder at the root has that name.
func (h *house) isFolder(name string) bool {
	return slices.ContainsFunc(h.files, func(file string) bool { return strings.HasPrefix(file, name+"/") })
}

// has tells whether a file or directory is there: by its path from the root, which may hold * and {a,b}, or by its last
// name alone.
func (h *house) has(path string) bool {
	if head, rest, ok := strings.Cut(path, "{"); ok {
		choices, tail, closed := strings.Cut(rest, "}")
		return closed && !slices.ContainsFunc(strings.Split(choices, ","), func(choice string) bool { return !h.has(head + choice + tail) })
	}
	path = strings.TrimSuffix(strings.TrimPrefix(path, "./"), "/")
	path = strings.TrimSuffix(strings.TrimSuffix(path, "..."), "/")
	return path == "" || slices.ContainsFunc(h.files, func(file string) bool {
		if !strings.Contains(path, "/") {
			file = file[strings.LastIndex(file, "/")+1:]
		}
		matches, _ := filepath.Match(path, file) // a malformed pattern matches nothing
		return matches
	})
}
