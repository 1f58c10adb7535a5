package builtin

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Bounds of an expression. They bound the work as well: every value has at most maxBits,
// and an operand of that size takes several characters to write (as 9^5000), so an
// expression of 1000 characters has only few expensive operations.
const (
	maxExpression = 1000 // characters
	maxNesting    = 64   // of parentheses, signs and powers: the parser recurses
	// digits after the e of a number: 1e99999 would take memory before it is bounded
	maxLiteralExponent = 4
)

// functionNames lists for messages the functions that there are.
const functionNames = "abs, ceil, floor, max, min, round, sqrt"

// expressionError says what is wrong with an expression, and where. Its text is for the
// model.
type expressionError struct {
	character int // counted from 1
	reason    string
}

func (e *expressionError) Error() string {
	return fmt.Sprintf("%s, at character %d", e.reason, e.character)
}

// evaluate returns the value of an expression. Errors are *expressionError. The grammar,
// in which each rule is a method of parser (function is in function.go):
//
//	sum     = product { ("+" | "-") product }
//	product = signed { ("*" | "/" | "%") signed }
//	signed  = ("-" | "+") signed | power
//	power   = primary [ "^" signed ]
//	primary = number | "(" sum ")" | function "(" sum { "," sum } ")"
func evaluate(text string) (value, error) {
	if utf8.RuneCountInString(text) > maxExpression {
		return value{}, &expressionError{
			maxExpression + 1,
			fmt.Sprintf("an expression has at most %d characters", maxExpression),
		}
	}
	p := &parser{text: text}
	result, err := p.sum()
	if err != nil {
		return value{}, err
	}
	if !p.ended() {
		return value{}, p.unexpected("an operator or the end")
	}
	return result, nil
}

// parser is a recursive descent parser that evaluates as it reads, without building a
// tree.
type parser struct {
	text    string
	at      int // index of the next byte
	nesting int // how deep the present place is nested; at most maxNesting
}

// peek skips spaces and returns the next byte without reading it. At the end it returns
// 0, a byte that begins nothing in an expression.
func (p *parser) peek() byte {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
	if p.at == len(p.text) {
		return 0
	}
	return p.text[p.at]
}

// ended tells whether only spaces are left.
func (p *parser) ended() bool {
	p.peek()
	return p.at == len(p.text)
}

// errorAt returns an error for the character at byte index at.
func (p *parser) errorAt(at int, reason string) error {
	return &expressionError{utf8.RuneCountInString(p.text[:at]) + 1, reason}
}

// unexpected returns the error for the next character, where something else is wanted. It
// has a hint for those that models write by mistake.
func (p *parser) unexpected(wanted string) error {
	if p.ended() {
		return p.errorAt(p.at, "the expression ends where "+wanted+" is expected")
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.at:])
	hint := ""
	switch r {
	case ',':
		hint = " (write numbers without thousands separators)"
	case '%':
		hint = " (% is the remainder of a division; for percent divide by 100)"
	case '*':
		hint = " (^ is the power)"
	}
	return p.errorAt(p.at, fmt.Sprintf("%q where %s is expected%s", r, wanted, hint))
}

// nested runs read one level deeper, or returns an error when that is too deep. It is on
// every path that recurses.
func (p *parser) nested(read func() (value, error)) (value, error) {
	if p.nesting == maxNesting {
		return value{}, p.errorAt(p.at, fmt.Sprintf("more than %d levels of nesting", maxNesting))
	}
	p.nesting++
	defer func() { p.nesting-- }()
	return read()
}

func (p *parser) sum() (value, error) { return p.chain("+-", p.product) }

func (p *parser) product() (value, error) { return p.chain("*/%", p.signed) }

// chain reads operands with any of the operators between them, and evaluates them from
// left to right.
func (p *parser) chain(operators string, operand func() (value, error)) (value, error) {
	left, err := operand()
	for err == nil {
		operator := p.peek()
		if strings.IndexByte(operators, operator) < 0 {
			break
		}
		left, err = p.apply(operator, left, operand)
	}
	return left, err
}

// apply reads the operator at p.at and its right operand, and returns the result. An
// error of the operation is placed at the operator.
func (p *parser) apply(operator byte, left value, operand func() (value, error)) (value, error) {
	at := p.at
	p.at++
	right, err := operand()
	if err != nil {
		return value{}, err
	}
	result, err := binary(operator, left, right)
	if err != nil {
		return value{}, p.errorAt(at, err.Error())
	}
	return result, nil
}

// signed reads any number of signs and a power: -2^2 is -(2^2).
func (p *parser) signed() (value, error) {
	sign := p.peek()
	if sign != '-' && sign != '+' {
		return p.power()
	}
	p.at++
	v, err := p.nested(p.signed)
	if err == nil && sign == '-' {
		v.rat = new(big.Rat).Neg(v.rat)
	}
	return v, err
}

// power reads a base and, behind ^, its exponent. The exponent may have a sign and a
// power of its own: 2^3^2 is 2^(3^2).
func (p *parser) power() (value, error) {
	base, err := p.primary()
	if err != nil || p.peek() != '^' {
		return base, err
	}
	return p.apply('^', base, func() (value, error) { return p.nested(p.signed) })
}

// primary reads a number, a sum in parentheses or the call of a function.
func (p *parser) primary() (value, error) {
	switch c := p.peek(); {
	case c == '(':
		p.at++
		v, err := p.nested(p.sum)
		if err != nil {
			return value{}, err
		}
		return v, p.expect(')')
	case isDigit(c) || c == '.':
		return p.number()
	case isLetter(c):
		return p.function()
	}
	return value{}, p.unexpected("a number, a function or (")
}

// expect reads c, or returns an error when something else comes next.
func (p *parser) expect(c byte) error {
	if p.peek() != c {
		return p.unexpected(string(c))
	}
	p.at++
	return nil
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// literal is a number: digits with or without a point, and perhaps an exponent.
var literal = regexp.MustCompile(`^([0-9]*\.?[0-9]*)(?:([eE])[-+]?([0-9]*))?`)

// number reads a number such as 12, .5 or 6.02e23. Spaces within are not allowed.
func (p *parser) number() (value, error) {
	start := p.at
	found := literal.FindStringSubmatch(p.text[start:])
	mantissa, isScaled, exponent := found[1], found[2] != "", found[3]
	switch {
	case mantissa == ".":
		return value{}, p.errorAt(start, "a point without digits")
	case isScaled && exponent == "":
		return value{}, p.errorAt(start+len(mantissa), "an exponent without digits")
	case len(exponent) > maxLiteralExponent:
		return value{}, p.errorAt(start+len(mantissa), errTooLarge.Error())
	}
	p.at += len(found[0])
	v, err := value{rat: rational(found[0])}.bounded()
	if err != nil {
		return value{}, p.errorAt(start, err.Error())
	}
	return v, nil
}
