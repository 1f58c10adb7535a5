package registry

import (
	"regexp"
	"strings"
)

// Distance is distance, for patterns without a star.
func Distance(pattern, name string, enough int) int {
	return distance(pattern, name, len(pattern), enough)
}

// TemplateMatches tells whether uri is one of the template's.
func TemplateMatches(t *Item, uri string) bool { return t.pattern.matches(uri) }

// TemplateExpression returns the template's pattern as a regular expression.
func TemplateExpression(t *Item) *regexp.Regexp {
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
