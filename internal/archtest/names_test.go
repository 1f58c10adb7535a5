package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// privateWords lists words that only the authors could read: what they stood for is an
// error or a notice (told), a check (doubt, glance, look), memory or a budget (room), a
// status (news), a slot (berth). A reader guesses a name at first sight, or finds it in a
// textbook.
func privateWords() []string {
	return []string{
		"abroad", "berth", "bury", "doubt", "errand", "farewell", "glance", "guest", "knocking", "linger",
		"lookout", "mailbox", "moor", "news", "orphan", "passage", "room", "stays", "stir", "stranger", "teller",
		"thrift", "told", "trickle",
	}
}

var nameWord = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// naming returns where the file defines a name with a private word in it.
func naming(s *source) (found []string) {
	ast.Inspect(s.file, func(node ast.Node) bool {
		for _, name := range defined(node) {
			for _, word := range nameWord.FindAllString(name.Name, -1) {
				word = strings.ToLower(word)
				if slices.Contains(privateWords(), word) ||
					slices.Contains(privateWords(), strings.TrimSuffix(word, "s")) {
					found = append(found, s.report(name, "%s has the private word %s", name.Name, word))
				}
			}
		}
		return true
	})
	return found
}

// defined returns the names that a node itself defines.
func defined(node ast.Node) (names []*ast.Ident) {
	add := func(expressions ...ast.Expr) {
		for _, e := range expressions {
			if name, ok := e.(*ast.Ident); ok {
				names = append(names, name)
			}
		}
	}
	switch n := node.(type) {
	case *ast.FuncDecl:
		add(n.Name)
	case *ast.TypeSpec:
		add(n.Name)
	case *ast.Field:
		names = n.Names
	case *ast.ValueSpec:
		names = n.Names
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			add(n.Lhs...)
		}
	case *ast.RangeStmt:
		if n.Tok == token.DEFINE {
			add(n.Key, n.Value)
		}
	}
	return names
}
