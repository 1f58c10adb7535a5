package registry

import (
	"errors"
	"strings"
)

// Bounds of URI templates.
const (
	maxExpressions = 64        // of one template
	maxMatching    = 4_000_000 // bytes times parts of patterns, to find the templates of one URI, or of all links in a result
)

var errTemplate = errors.New("uriTemplate must be an absolute URI of at most 2048 visible characters with at most 64 expressions as in RFC 6570")

// uriPattern is a URI template read as a pattern. It only decides where a URI goes, so it is generous: a variable
// stands for any text that may stand at its place, also for none, and the order of variables does not matter.
// https://www.rfc-editor.org/rfc/rfc6570
type uriPattern struct {
	parts   []patternPart
	literal int // bytes of literal text: how much the pattern says
}

// patternPart is literal text, or an expression: an operator's first character and then any but some characters, or
// nothing.
type patternPart struct {
	literal string
	first   byte   // 0: none
	without string // characters that the expression does not stand for
}

// newURIPattern reads a template.
func newURIPattern(template string) (*uriPattern, error) {
	if len(template) > maxURI || !isVisible(template) || strings.Contains(template, " ") {
		return nil, errTemplate
	}
	p := &uriPattern{}
	for rest := template; rest != ""; {
		literal, after, open := strings.Cut(rest, "{")
		if strings.Contains(literal, "}") {
			return nil, errTemplate
		}
		if literal != "" {
			p.parts = append(p.parts, patternPart{literal: literal})
			p.literal += len(literal)
		}
		if !open {
			break
		}
		expression, after, closed := strings.Cut(after, "}")
		part, ok := readExpression(expression)
		if !closed || !ok {
			return nil, errTemplate
		}
		p.parts = append(p.parts, part)
		rest = after
	}
	if !p.isAbsolute() || strings.Count(template, "{") > maxExpressions {
		return nil, errTemplate
	}
	return p, nil
}

// isAbsolute tells whether what the pattern matches can begin with a scheme, and only with that.
func (p *uriPattern) isAbsolute() bool {
	if len(p.parts) == 0 {
		return false
	}
	first := p.parts[0]
	return first.literal == "" && first.first == 0 || schemeOf(first.literal) != ""
}

// readExpression reads what stands between braces.
// https://www.rfc-editor.org/rfc/rfc6570#section-2.2
func readExpression(expression string) (part patternPart, ok bool) {
	part.without = "/?#"
	if expression == "" {
		return part, false
	}
	switch c := expression[0]; c {
	case '+':
		part.without = ""
	case '#':
		part.first, part.without = c, ""
	case '.':
		part.first = c
	case '/', ';':
		part.first, part.without = c, "?#"
	case '?', '&':
		part.first, part.without = c, "#"
	default:
		return part, areVariables(expression)
	}
	return part, areVariables(expression[1:])
}

func areVariables(list string) bool {
	for variable := range strings.SplitSeq(list, ",") {
		name, exploded := strings.CutSuffix(variable, "*")
		if before, digits, limited := strings.Cut(name, ":"); limited {
			if exploded || !isMaxLength(digits) {
				return false
			}
			name = before
		}
		// Servers write hyphens too, which the RFC does not have.
		if name == "" || !onlyNameCharacters(strings.ReplaceAll(name, "%", "")) {
			return false
		}
	}
	return true
}

// isMaxLength follows https://www.rfc-editor.org/rfc/rfc6570#section-2.4.1: 1 to 9999.
func isMaxLength(digits string) bool {
	return len(digits) >= 1 && len(digits) <= 4 && digits[0] != '0' && strings.Trim(digits, "0123456789") == ""
}

// work is what matches costs.
func (p *uriPattern) work(uri string) int {
	if !strings.HasPrefix(uri, p.parts[0].literal) {
		return 1
	}
	return len(uri) * len(p.parts)
}

// matches tells whether uri is one of the template's. It follows all ways through the pattern at once, so its time is
// at most the product of both lengths.
func (p *uriPattern) matches(uri string) bool {
	if len(uri) > maxURI || !strings.HasPrefix(uri, p.parts[0].literal) {
		return false
	}
	now, next := make([]bool, len(uri)+1), make([]bool, len(uri)+1) // where the parts so far can end
	now[0] = true
	for i := range p.parts {
		clear(next)
		if !p.parts[i].step(uri, now, next) {
			return false
		}
		now, next = next, now
	}
	return now[len(uri)]
}

// step sets in next where the part can end that begins where now says; alive is false when that is nowhere.
func (p *patternPart) step(uri string, now, next []bool) (alive bool) {
	if p.literal != "" {
		for i := range now {
			if now[i] && strings.HasPrefix(uri[i:], p.literal) {
				next[i+len(p.literal)], alive = true, true
			}
		}
		return alive
	}
	within := false // in text that began with the first character
	for i := range now {
		next[i] = now[i] || within
		alive = alive || next[i]
		if i == len(uri) {
			break
		}
		begins := now[i] && (p.first == 0 || uri[i] == p.first)
		goes := within && strings.IndexByte(p.without, uri[i]) < 0
		within = begins && (p.first != 0 || strings.IndexByte(p.without, uri[i]) < 0) || goes
	}
	return alive
}
