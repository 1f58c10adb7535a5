package builtin

import (
	"math/big"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Bounds of a cell that counts as a number. Within them a sum stays small whatever the file says.
const (
	maxCellDigits   = 64
	maxCellExponent = 100
	wideScale       = maxCellDigits + maxCellExponent // decimals of a sum that takes any cell
	narrowScale     = 9                               // decimals of the cells that are summed as machine integers
)

// columnSummary is what is told of a column. Without any number the last four are absent.
type columnSummary struct {
	Name    string      `json:"name"`
	Count   int         `json:"count"`
	Numeric int         `json:"numeric"`
	Sum     mcp.RawJSON `json:"sum,omitzero"`
	Average mcp.RawJSON `json:"average,omitzero"`
	Min     mcp.RawJSON `json:"min,omitzero"`
	Max     mcp.RawJSON `json:"max,omitzero"`
}

// column adds up the cells of one column, without rounding.
type column struct {
	index          int
	name           string
	count, numeric int
	narrow         [narrowScale + 1]int64 // sums of the cells with that many decimals
	wide           big.Int                // what did not fit there, in units of 10^-wideScale
	least, most    cell
}

// cell is a number as it stands in the file, with its size for comparing.
type cell struct {
	text string
	size float64
}

// add takes in one cell.
func (c *column) add(text string) {
	if text == "" {
		return
	}
	c.count++
	n, ok := parseDecimal(text)
	if !ok {
		return
	}
	c.numeric++
	c.sum(n)
	size, _ := strconv.ParseFloat(text, 64) // parseDecimal knows that it is a number within range
	seen := cell{text, size}
	if c.numeric == 1 || seen.less(c.least) {
		c.least = seen.kept()
	}
	if c.numeric == 1 || c.most.less(seen) {
		c.most = seen.kept()
	}
}

// kept returns a copy that does not hold on to the row it came from.
func (a cell) kept() cell { return cell{strings.Clone(a.text), a.size} }

// less compares exactly: rounding to a float keeps the order, so only equal floats need a second look.
func (a cell) less(b cell) bool {
	if a.size != b.size || a.text == b.text {
		return a.size < b.size
	}
	return rational(a.text).Cmp(rational(b.text)) < 0
}

// rational returns the value of text that passed parseDecimal.
func rational(text string) *big.Rat {
	r, _ := new(big.Rat).SetString(text)
	return r
}

func (c *column) sum(n decimalNumber) {
	if n.isNarrow() {
		units, _ := strconv.ParseInt(n.digits, 10, 64)
		old := c.narrow[n.scale]
		if next := old + units; (next > old) == (units > 0) { // no overflow
			c.narrow[n.scale] = next
			return
		}
	}
	units, _ := new(big.Int).SetString(n.digits, 10)
	c.wide.Add(&c.wide, units.Mul(units, tenTo(wideScale-n.scale)))
}

func tenTo(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

func (c *column) summary() columnSummary {
	s := columnSummary{Name: c.name, Count: c.count, Numeric: c.numeric}
	if c.numeric == 0 {
		return s
	}
	total := new(big.Rat).SetFrac(&c.wide, tenTo(wideScale))
	for scale, units := range c.narrow {
		total.Add(total, new(big.Rat).SetFrac(big.NewInt(units), tenTo(scale)))
	}
	s.Sum = jsonNumber(total, shownDigits)
	s.Average = average(total, int64(c.numeric))
	s.Min = jsonNumber(rational(c.least.text), shownDigits)
	s.Max = jsonNumber(rational(c.most.text), shownDigits)
	return s
}

// average returns total / n: exactly when shownDigits are enough for that, else shorter.
func average(total *big.Rat, n int64) mcp.RawJSON {
	quotient := new(big.Rat).Quo(total, new(big.Rat).SetInt64(n))
	if text := jsonNumber(quotient, shownDigits); rational(string(text)).Cmp(quotient) == 0 {
		return text
	}
	return jsonNumber(quotient, 20)
}

// jsonNumber returns r to that many significant digits; fewer when fewer say it exactly.
func jsonNumber(r *big.Rat, digits int) mcp.RawJSON {
	return new(big.Float).SetPrec(workPrecision).SetRat(r).Append(nil, 'g', digits)
}

// decimalNumber is digits × 10^-scale; scale may be negative.
type decimalNumber struct {
	digits string // with a sign or without
	scale  int
}

// isNarrow tells whether digits fit an int64 with room to spare and scale an index of narrow.
func (n decimalNumber) isNarrow() bool {
	return len(n.digits) <= 18 && n.scale >= 0 && n.scale <= narrowScale
}

// parseDecimal reads digits with a sign, a point and an exponent or without, as in -12.5e3.
func parseDecimal(text string) (decimalNumber, bool) {
	mantissa, exponent, ok := cutExponent(text)
	if !ok {
		return decimalNumber{}, false
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	unsigned := strings.TrimPrefix(strings.TrimPrefix(whole, "-"), "+")
	if len(whole)-len(unsigned) > 1 || !allDigits(unsigned) || !allDigits(fraction) {
		return decimalNumber{}, false
	}
	if n := len(unsigned) + len(fraction); n == 0 || n > maxCellDigits {
		return decimalNumber{}, false
	}
	return decimalNumber{whole + fraction, len(fraction) - exponent}, true
}

func cutExponent(text string) (mantissa string, exponent int, ok bool) {
	at := strings.IndexAny(text, "eE")
	if at < 0 {
		return text, 0, true
	}
	exponent, err := strconv.Atoi(text[at+1:])
	return text[:at], exponent, err == nil && -maxCellExponent <= exponent && exponent <= maxCellExponent
}

func allDigits(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return true
}
