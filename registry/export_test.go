package registry

import (
	"regexp"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Verdicts returns what the short way and what the library say about data, each by itself.
func Verdicts(raw, data mcp.RawJSON) (short, library bool, err error) {
	s, err := compile(raw)
	if err != nil {
		return false, false, err
	}
	found, err := s.library.judge((&cursor{data: data}).value())
	return s.root.accepts(&cursor{data: data}), found == nil, err
}

// CompilePattern returns how a pattern of ECMA-262 is read.
var CompilePattern = compilePattern

// IsRecursive tells whether a value can meet one subschema at several levels.
func IsRecursive(raw mcp.RawJSON) bool {
	s, err := compile(raw)
	if err != nil {
		return false
	}
	seen, open := map[*node]bool{}, map[*node]bool{}
	var leads func(n *node) bool
	leads = func(n *node) bool {
		if open[n] || seen[n] {
			return open[n]
		}
		seen[n], open[n] = true, true
		defer delete(open, n)
		for _, e := range n.edges {
			if leads(e.to) {
				return true
			}
		}
		return false
	}
	return leads(s.root)
}

// TemplateMatches tells whether uri is one of the template's.
func TemplateMatches(t *Template, uri string) bool { return t.pattern.matches(uri) }

// TemplateExpression returns the template's pattern as a regular expression.
func TemplateExpression(t *Template) *regexp.Regexp {
	var out strings.Builder
	for _, p := range t.pattern.parts {
		if p.literal != "" {
			out.WriteString(regexp.QuoteMeta(p.literal))
			continue
		}
		rest := `[\s\S]*`
		if p.without != "" {
			rest = "[^" + p.without + "]*"
		}
		if p.first != 0 {
			rest = "(?:" + regexp.QuoteMeta(string(p.first)) + rest + ")?"
		}
		out.WriteString(rest)
	}
	return regexp.MustCompile(`\A(?:` + out.String() + `)\z`)
}
