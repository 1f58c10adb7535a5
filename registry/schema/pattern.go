package schema

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"
)

// What \s and \S mean in ECMA-262, which counts more characters as white space than RE2
// does. Both are written to stand within brackets.
const (
	space    = `\t-\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`
	notSpace = `\x{0}-\x{8}\x{e}-\x{1f}!-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}` +
		`\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}`
)

var (
	errPattern       = errors.New("a pattern that RE2 would read differently or not at all")
	errPatternLength = errors.New("a pattern of more than " + strconv.Itoa(maxPattern) + " characters")
	errProgram       = errors.New("a pattern of more than " + strconv.Itoa(maxProgram) + " instructions")
)

// compilePattern compiles a pattern of JSON Schema, whose patterns are those of ECMA-262,
// and returns it with the number of its instructions. RE2 is used because its time grows
// only with the pattern times the text, whatever the pattern. What RE2 lacks, or would
// read differently, is translated where it can be; where not, and for a pattern that is
// too large, there is an error.
// https://json-schema.org/draft/2020-12/json-schema-core#section-6.4
func compilePattern(source string) (*regexp.Regexp, int, error) {
	if utf8.RuneCountInString(source) > maxPattern {
		return nil, 0, errPatternLength
	}
	t := translator{in: source}
	if err := t.run(); err != nil {
		return nil, 0, err
	}
	parsed, err := syntax.Parse(t.out.String(), syntax.Perl)
	if err != nil {
		return nil, 0, errPattern
	}
	if expanded(parsed) > 4*maxProgram { // to compile it to count exactly could take a second
		return nil, 0, errProgram
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, 0, errPattern
	}
	if len(program.Inst) > maxProgram {
		return nil, 0, errProgram
	}
	return regexp.MustCompile(t.out.String()), len(program.Inst), nil // it parses and compiles likewise
}

// expanded returns about how many instructions re has once what repeats is written out: up
// to three times as many as the compiler makes of it.
func expanded(re *syntax.Regexp) int {
	size := 1
	if re.Op == syntax.OpLiteral {
		size = len(re.Rune)
	}
	for _, sub := range re.Sub {
		size += expanded(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max)
	}
	return size
}

// translator writes a pattern of ECMA-262 as one of RE2, from left to right.
type translator struct {
	in      string
	i       int // where it reads next
	out     strings.Builder
	inClass bool // within brackets
	set     bool // within brackets, just behind an escape for several characters, such as \w
}

// run translates the whole pattern.
func (t *translator) run() error {
	for t.i < len(t.in) {
		_, size := utf8.DecodeRuneInString(t.in[t.i:])
		piece := t.in[t.i : t.i+size]
		t.i += size
		set := t.set
		t.set = false
		switch {
		case piece == `\`:
			if err := t.escape(); err != nil {
				return err
			}
		case t.inClass:
			t.element(piece, set)
		case piece == ".":
			t.out.WriteString(`[^\n\r\x{2028}\x{2029}]`)
		case piece == "[":
			if err := t.open(); err != nil {
				return err
			}
		case piece == "(" && t.ahead("?") && !t.ahead("?:") && !t.ahead("?<"):
			return errPattern
		default:
			t.out.WriteString(piece)
		}
	}
	return nil
}

// ahead tells whether text comes next.
func (t *translator) ahead(text string) bool { return strings.HasPrefix(t.in[t.i:], text) }

// aheadSet tells whether an escape for several characters comes next.
func (t *translator) aheadSet() bool {
	return t.ahead(`\`) && len(t.in) > t.i+1 && strings.IndexByte("sSdDwWpP", t.in[t.i+1]) >= 0
}

// open begins a class in brackets. [] and [^] are refused: RE2 takes the bracket behind
// them for the first element.
func (t *translator) open() error {
	t.inClass = true
	t.out.WriteByte('[')
	if t.ahead("^") {
		t.i++
		t.out.WriteByte('^')
	}
	if t.ahead("]") {
		return errPattern
	}
	return nil
}

// element writes one character within brackets. A dash beside an escape for several
// characters stands for itself in ECMA-262, so it is escaped; set tells that such an
// escape stands before it. So is a bracket, which might otherwise begin a named class of
// RE2.
func (t *translator) element(piece string, set bool) {
	switch {
	case piece == "]":
		t.inClass = false
	case piece == "[", piece == "-" && (set || t.aheadSet()):
		t.out.WriteByte('\\')
	}
	t.out.WriteString(piece)
}

// escape writes what a backslash stands before. Escapes that are not listed here are
// refused: RE2 either has another meaning for them (\A, \z, \Q) or none (references to
// groups).
func (t *translator) escape() error {
	if t.i >= len(t.in) {
		return errPattern
	}
	c := t.in[t.i]
	t.i++
	switch {
	case c == 's' || c == 'S':
		t.whiteSpace(c)
	case strings.IndexByte("dDwW", c) >= 0:
		t.set = t.inClass
		t.out.WriteString(`\` + string(c))
	case strings.IndexByte("nrtfv", c) >= 0, strings.IndexByte("bB", c) >= 0 && !t.inClass,
		c < utf8.RuneSelf && !isAlphanumeric(c):
		t.out.WriteString(`\` + string(c))
	case c == 'x' || c == 'u':
		return t.hex(c)
	case c == '0' && (t.i >= len(t.in) || t.in[t.i] < '0' || t.in[t.i] > '9'):
		t.out.WriteString(`\x{0}`)
	case (c == 'p' || c == 'P') && t.ahead("{") && !t.ahead("{^"):
		t.set = t.inClass
		t.out.WriteString(`\` + string(c))
		if end := strings.IndexByte(t.in[t.i:], '}'); end > 0 {
			t.out.WriteString(t.in[t.i : t.i+end+1])
			t.i += end + 1
		}
	default:
		return errPattern
	}
	return nil
}

// whiteSpace writes \s or \S with the meaning of ECMA-262.
func (t *translator) whiteSpace(c byte) {
	set := space
	if c == 'S' {
		set = notSpace
	}
	if !t.inClass {
		t.out.WriteString("[" + set + "]")
		return
	}
	t.set = true
	t.out.WriteString(set)
}

// hex writes \xHH, \uHHHH or \u{H…}. A half of a surrogate pair is refused, since RE2
// reads whole characters.
func (t *translator) hex(c byte) error {
	digits := 2
	if c == 'u' {
		digits = 4
	}
	rest := t.in[t.i:]
	if c == 'u' && strings.HasPrefix(rest, "{") {
		digits = strings.IndexByte(rest, '}') - 1
		rest = rest[1:]
		t.i += 2
	}
	if digits < 1 || len(rest) < digits {
		return errPattern
	}
	code, err := strconv.ParseUint(rest[:digits], 16, 32)
	if err != nil || !utf8.ValidRune(rune(code)) { //nolint:gosec // G115: a code too large for a rune is invalid as one
		return errPattern
	}
	t.i += digits
	fmt.Fprintf(&t.out, `\x{%x}`, code)
	return nil
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
