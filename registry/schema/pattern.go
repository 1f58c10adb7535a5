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
	translated, err := translate(source)
	if err != nil {
		return nil, 0, err
	}
	parsed, err := syntax.Parse(translated, syntax.Perl)
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
	return regexp.MustCompile(translated), len(program.Inst), nil // it parses and compiles likewise
}

// expanded returns about how many instructions re has once what repeats is written out:
// up to three times as many as the compiler makes of it.
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

// piece is what is read of a pattern at once: an escape, the beginning of a group that
// says what it is, or one character.
var piece = regexp.MustCompile(`(?s)\\(?:x[[:xdigit:]]{2}|u[[:xdigit:]]{4}|u\{[[:xdigit:]]+\}|` +
	`[pP]\{[^}]*\}|0[0-9]?|.)|\(\?[:<]?|.`)

// translate writes a pattern of ECMA-262 as one of RE2. [] and [^] are refused: RE2 takes
// the bracket behind them for the first element. Within brackets, a bracket might begin a
// named class of RE2, so it is escaped. So is a dash beside an escape for several
// characters, which stands for itself in ECMA-262.
func translate(source string) (string, error) {
	var out strings.Builder
	pieces := append(piece.FindAllString(source, -1), "") // behind each stands another
	inClass := false                                      // within brackets
	for i, p := range pieces[:len(pieces)-1] {
		next := pieces[i+1]
		switch {
		case p[0] == '\\':
			var ok bool
			if p, ok = escape(p, inClass); !ok {
				return "", errPattern
			}
		case inClass:
			inClass = p != "]"
			if p == "[" || p == "-" && (isSet(pieces[i-1]) || isSet(next)) {
				p = `\` + p
			}
		case p == "[":
			inClass = true
			if next == "]" || next == "^" && pieces[i+2] == "]" {
				return "", errPattern
			}
		case p == ".":
			p = `[^\n\r\x{2028}\x{2029}]`
		case p == "(?":
			return "", errPattern
		}
		out.WriteString(p)
	}
	return out.String(), nil
}

// isSet tells whether a piece is an escape for several characters.
func isSet(p string) bool {
	return len(p) > 1 && p[0] == '\\' && strings.IndexByte("sSdDwWpP", p[1]) >= 0
}

// escape returns what RE2 has for an escape. Those that are not listed here are refused:
// RE2 either has another meaning for them (\A, \z, \Q) or none (references to groups). So
// is a half of a surrogate pair, since RE2 reads whole characters.
func escape(p string, inClass bool) (translated string, ok bool) {
	if len(p) == 1 {
		return "", false
	}
	switch c := p[1]; {
	case c == 's' || c == 'S':
		set := map[byte]string{'s': space, 'S': notSpace}[c]
		if inClass {
			return set, true
		}
		return "[" + set + "]", true
	case strings.IndexByte("dDwWnrtfv", c) >= 0, strings.IndexByte("bB", c) >= 0 && !inClass,
		c < utf8.RuneSelf && !isAlphanumeric(c):
		return p, true
	case p == `\0`:
		return `\x{0}`, true
	case len(p) > 2 && (c == 'p' || c == 'P'):
		return p, p[3] != '^'
	case len(p) > 2 && (c == 'x' || c == 'u'):
		code, err := strconv.ParseUint(strings.Trim(p[2:], "{}"), 16, 32)
		return fmt.Sprintf(`\x{%x}`, code), err == nil && utf8.ValidRune(rune(code)) //nolint:gosec // G115: a code too large for a rune is invalid as one
	}
	return "", false
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
