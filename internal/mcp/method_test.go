package mcp

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// TestEveryMethodIsInTheTable reads the names of methods from the source, so that one
// that is added without a row fails.
func TestEveryMethodIsInTheTable(t *testing.T) {
	asked := map[string]bool{MethodElicit: true, MethodSample: true, MethodRoots: true} // servers send these
	seen := 0
	for _, file := range []string{"mcp.go", "task.go"} {
		for name, method := range methodConstants(t, file) {
			seen++
			if known := MethodOf(method).Name == method; known == asked[method] {
				t.Errorf("%s = %q: in the table: %v, sent by servers: %v", name, method, known, asked[method])
			}
		}
	}
	if want := len(methods) + len(asked); seen != want {
		t.Errorf("got %d constants named Method…, want %d: one for each row and each question", seen, want)
	}
}

// methodConstants returns the values of the constants in a file whose names begin with
// Method, by name.
func methodConstants(t *testing.T, file string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Method") {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			t.Fatalf("%s is no literal", spec.Names[0].Name)
		}
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		found[spec.Names[0].Name] = value
		return true
	})
	return found
}

// TestRowsOfTheTableFitTogether finds rows whose columns contradict each other.
func TestRowsOfTheTableFitTogether(t *testing.T) {
	eraOf := map[Tasks]Era{TasksAsked: Legacy, TasksGiven: Modern}
	for name, m := range methods {
		switch {
		case m.Named && (m.Subject == "" || m.Only == Legacy):
			t.Errorf("%s: Named, but without a subject or not of the modern era: %+v", name, m)
		case m.Lists && m.Result == "":
			t.Errorf("%s: a list without a member for its items: %+v", name, m)
		case m.Tasks != 0 && (!m.OfTasks() || m.Only != eraOf[m.Tasks]):
			t.Errorf("%s: of a form of tasks, but not of that form's era: %+v", name, m)
		case m.OfTasks() && (m.Subject == "taskId") == (m.Name == MethodTasksList):
			t.Errorf("%s: about tasks, but its subject is %q, which is for all but their list", name, m.Subject)
		}
	}
}
