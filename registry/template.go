package registry

import (
	"errors"
	"regexp"
	"strings"
)

// Bounds of URI templates.
const (
	maxExpressions = 64 // of one template
	// maxMatching bounds the work of finding the templates of one URI, or of all links in
	// one result, in bytes of URIs times parts of patterns (see work). A server writes
	// both the templates and the links, so without a bound it could keep a processor busy
	// for as long as it likes.
	maxMatching = 4_000_000
)

var errTemplate = errors.New(
	"uriTemplate must be an absolute URI of at most 2048 visible characters with at most 64 expressions as " +
		"in RFC 6570")

// uriPattern is a URI template, read as a pattern that URIs match. It only decides which
// server a URI belongs to; the server then reads the URI exactly. So it is generous: an
// expression stands for any text that could stand at its place, also for none, whatever
// the number, order and values of its variables. https://www.rfc-editor.org/rfc/rfc6570
type uriPattern struct {
	parts   []patternPart
	literal int // bytes of literal text: of two patterns, the one with more says more about a URI
}

// patternPart is a literal text or an expression. An expression matches nothing, or the
// character first followed by any number of characters that are not in without.
type patternPart struct {
	literal string // empty for an expression
	first   byte   // the character that the operator writes before the values, as ? of {?x}; 0: none
	without string // characters that end the expression's text
}

// newURIPattern reads a template. The error is errTemplate.
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

// isAbsolute tells whether the URIs that the pattern matches can be absolute. The
// template begins with a scheme, or with an expression that may stand for one.
func (p *uriPattern) isAbsolute() bool {
	if len(p.parts) == 0 {
		return false
	}
	first := p.parts[0]
	return first.literal == "" && first.first == 0 || schemeOf(first.literal) != ""
}

// readExpression reads the text between braces: an operator, which decides the characters
// that the expression matches, and names of variables, of which only the form is checked.
// https://www.rfc-editor.org/rfc/rfc6570#section-2.2
func readExpression(expression string) (part patternPart, ok bool) {
	operator := expression[:min(len(expression), 1)]
	part, ok = operators[operator]
	if !ok {
		return patternPart{without: "/?#"}, variables.MatchString(expression)
	}
	return part, variables.MatchString(expression[1:])
}

// operators are the parts of a pattern that expressions with an operator make.
var operators = map[string]patternPart{
	"+": {},
	"#": {first: '#'},
	".": {first: '.', without: "/?#"},
	"/": {first: '/', without: "?#"},
	";": {first: ';', without: "?#"},
	"?": {first: '?', without: "#"},
	"&": {first: '&', without: "#"},
}

// variables is the form of a list of variables.
var variables = regexp.MustCompile(`^` + variable + `(?:,` + variable + `)*$`)

// variable is the form of one of them, with a modifier or without: a, b:3 or c*. The RFC
// allows no hyphens in names, but servers use them.
// https://www.rfc-editor.org/rfc/rfc6570#section-2.3
const variable = `[\w.%-]+(?:\*|:[1-9][0-9]{0,3})?`

// work returns what matches will cost, in the unit of maxMatching.
func (p *uriPattern) work(uri string) int {
	if !strings.HasPrefix(uri, p.parts[0].literal) {
		return 1
	}
	return len(uri) * len(p.parts)
}

// matches tells whether the whole uri matches the pattern. Going through the ways of
// matching one after the other could take exponential time, so it keeps the set of all
// places in uri where the parts so far can end, and goes through the parts once. Its time
// is at most proportional to the length of uri times that of the pattern.
func (p *uriPattern) matches(uri string) bool {
	if len(uri) > maxURI || !strings.HasPrefix(uri, p.parts[0].literal) {
		return false
	}
	// now[i]: the parts so far can match uri[:i]
	now, next := make([]bool, len(uri)+1), make([]bool, len(uri)+1)
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

// step sets next[j] for every j at which the part can end when it begins at an i with
// now[i]. alive is false when there is no such j, so that the pattern cannot match.
func (p *patternPart) step(uri string, now, next []bool) (alive bool) {
	if p.literal != "" {
		for i := range now {
			if now[i] && strings.HasPrefix(uri[i:], p.literal) {
				next[i+len(p.literal)], alive = true, true
			}
		}
		return alive
	}
	within := false // the expression has begun before i and may go on at i
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
