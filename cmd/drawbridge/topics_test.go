package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
)

var (
	codeShape = regexp.MustCompile(`^DB-[A-Z-]+[A-Z]$`)
	leaning   = regexp.MustCompile(`^(?:the same|that|those|means)\b|\b(?:above|below)\b|reasons?$`)
)

// TestEveryRefusalIsExplained reads both tables of refusals, of the desk and of the door:
// explain and help have words for each code, outcome and reason, and a refusal of the
// desk has the code that the vocabulary says.
func TestEveryRefusalIsExplained(t *testing.T) {
	t.Parallel()
	desk, door := parsed(t, "../../internal/gateway/errors.go"), parsed(t, "../../server/exchange/errors.go")
	texts := constants(t, "../../internal/gateway")
	codes := map[string]bool{}
	for _, file := range []*ast.File{desk, door} {
		ast.Inspect(file, func(n ast.Node) bool {
			if text := textOf(n, nil); codeShape.MatchString(text) {
				codes[text] = true
			}
			return true
		})
	}
	for code := range codes {
		if m := meaningOf(code); m.says == "" || m.cure == "" {
			t.Errorf("%s: nobody explains it: docs/reference/codes.md has no row with its meaning and cure",
				code)
		}
	}
	failures := 0
	ast.Inspect(desk, func(n ast.Node) bool {
		if outcome, reason, code, is := failureOf(n, texts); is {
			failures++
			explained(t, outcome, reason, code)
		}
		return true
	})
	for _, e := range gateway.Vocabulary() {
		explained(t, e.Outcome, e.Reason, "")
	}
	for words, m := range meanings() {
		if leaning.MatchString(m.says) || strings.HasPrefix(m.says, "it") && strings.ContainsAny(words, ",-") {
			t.Errorf("%s: %q says nothing without the rows around it, and help prints it alone", words, m.says)
		}
	}
	reasons := map[string]bool{}
	for _, e := range gateway.Vocabulary() {
		reasons[e.Reason] = true
	}
	for name, text := range texts {
		if strings.HasPrefix(name, "reason") && !reasons[text] {
			t.Errorf("the vocabulary has no row with the reason %s (%s)", text, name)
		}
	}
	if len(codes) < 50 || failures < 20 {
		t.Errorf("found %d codes and %d failures in the tables", len(codes), failures)
	}
}

// explained fails unless a way to end has words, and the code that the vocabulary says;
// "" for the code: any.
func explained(t *testing.T, outcome, reason, code string) {
	t.Helper()
	if meaningOf(outcome).says == "" && outcome != "" {
		t.Errorf("%s: nobody explains this outcome: docs/reference/codes.md has no row of it", outcome)
	}
	named := reason != "" && !strings.HasPrefix(reason, "DB-")
	if named && outcome != "unheld" && meaningOf(outcome+", "+reason).says == "" {
		t.Errorf("%s, %s: nobody explains this reason: docs/reference/codes.md has no row of both", outcome,
			reason)
	}
	if got := gateway.CodeOf(outcome, reason, "tools/call"); code != "" && got != code && outcome != "" {
		t.Errorf("%s, %s: the table sends %s, and the vocabulary has %q", outcome, reason, code, got)
	}
}

// failureOf reads failure{kind: …, reason: …, told: mcp.Stable(…, code, …)}. What is no
// constant is "".
func failureOf(n ast.Node, texts map[string]string) (outcome, reason, code string, is bool) {
	literal, ok := n.(*ast.CompositeLit)
	if !ok {
		return "", "", "", false
	}
	if name, ok := literal.Type.(*ast.Ident); !ok || name.Name != "failure" {
		return "", "", "", false
	}
	variable := false // the reason is none of the constants, so the code may be another one
	for _, element := range literal.Elts {
		field := element.(*ast.KeyValueExpr)
		switch field.Key.(*ast.Ident).Name {
		case "kind":
			outcome = textOf(field.Value, texts)
		case "reason":
			reason = textOf(field.Value, texts)
			variable = reason == ""
		case "told":
			ast.Inspect(field.Value, func(n ast.Node) bool {
				if text := textOf(n, nil); code == "" && codeShape.MatchString(text) {
					code = text
				}
				return true
			})
		}
	}
	if variable {
		code = ""
	}
	return outcome, reason, code, len(literal.Elts) > 0
}

// textOf returns the text of a literal, or of the name of a constant.
func textOf(n ast.Node, texts map[string]string) string {
	switch n := n.(type) {
	case *ast.BasicLit:
		if n.Kind == token.STRING {
			text, _ := strconv.Unquote(n.Value) // it was parsed
			return text
		}
	case *ast.Ident:
		return texts[n.Name]
	}
	return ""
}

// constants returns the texts of the constants of a package.
func constants(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := fs.Glob(os.DirFS(dir), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, file := range files {
		ast.Inspect(parsed(t, dir+"/"+file), func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == len(spec.Values) {
				for i, name := range spec.Names {
					if text := textOf(spec.Values[i], nil); text != "" {
						texts[name.Name] = text
					}
				}
			}
			return true
		})
	}
	return texts
}

func parsed(t *testing.T, file string) *ast.File {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}
