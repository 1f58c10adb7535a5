package builtin

import (
	"math/big"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Bounds of a cell that counts as a number, and so of an exact sum: with an exponent of a
// billion, it would fill the memory.
const (
	maxCellDigits   = 64
	maxCellExponent = 100
	// most decimals that a cell can have, and those of the wide sum
	wideScale = maxCellDigits + maxCellExponent
	// most decimals of a cell that is summed as a machine integer
	narrowScale = 9
)

// columnSummary is what the model is told about a column. Without any number in the
// column, the last four are absent.
type columnSummary struct {
	Name    string      `json:"name"`
	Count   int         `json:"count"`
	Numeric int         `json:"numeric"`
	Sum     mcp.RawJSON `json:"sum,omitzero"`
	Average mcp.RawJSON `json:"average,omitzero"`
	Min     mcp.RawJSON `json:"min,omitzero"`
	Max     mcp.RawJSON `json:"max,omitzero"`
}

// column adds up the cells of one column without rounding. Nearly all cells in real files
// have few digits, so they are added as machine integers, which is many times faster than
// big.Int; the others go into wide.
type column struct {
	index          int // in a row
	name           string
	count, numeric int                    // cells that are not empty, and that are numbers
	narrow         [narrowScale + 1]int64 // narrow[n] is the sum of cells with n decimals, in units of 10^-n
	wide           big.Int                // the sum of all other cells, in units of 10^-wideScale
	least, most    cell                   // valid when numeric is not zero
}

// cell is a number as it stands in the file, and rounded to a float for fast comparison.
type cell struct {
	text string
	size float64
}

// add counts one cell, given without spaces around it.
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
	// no error: parseDecimal took it for a number, and its exponent is bounded
	size, _ := strconv.ParseFloat(text, 64)
	seen := cell{text, size}
	if c.numeric == 1 || seen.less(c.least) {
		c.least = seen.cloned()
	}
	if c.numeric == 1 || c.most.less(seen) {
		c.most = seen.cloned()
	}
}

// cloned returns a copy with a text of its own: text is a part of the string of its whole
// row, which would stay in memory.
func (a cell) cloned() cell { return cell{strings.Clone(a.text), a.size} }

// less compares exactly. Rounding to floats never reverses an order, so only cells that
// round to the same float need to be compared as rationals.
func (a cell) less(b cell) bool {
	if a.size != b.size || a.text == b.text {
		return a.size < b.size
	}
	return rational(a.text).Cmp(rational(b.text)) < 0
}

// rational returns the value of a text that is a number.
func rational(text string) *big.Rat {
	r, _ := new(big.Rat).SetString(text)
	return r
}

// sum adds n to one of the narrow sums, or to the wide one when n has too many digits or
// the narrow sum would overflow.
func (c *column) sum(n decimalNumber) {
	if n.isNarrow() {
		units, _ := strconv.ParseInt(n.digits, 10, 64)
		old := c.narrow[n.scale]
		// a sum that overflows wraps around, to the wrong side
		if next := old + units; (next > old) == (units > 0) {
			c.narrow[n.scale] = next
			return
		}
	}
	units, _ := new(big.Int).SetString(n.digits, 10)
	c.wide.Add(&c.wide, units.Mul(units, tenTo(wideScale-n.scale)))
}

// tenTo returns 10^n.
func tenTo(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// summary returns what is told about the column once all its cells were added.
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

// average returns total / n: exactly when that takes at most shownDigits digits,
// otherwise rounded to 20.
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

// decimalNumber is the number digits × 10^-scale.
type decimalNumber struct {
	digits string // with or without a sign
	scale  int    // number of decimals; negative for a large exponent
}

// isNarrow tells whether the number can be added to one of the narrow sums: digits fit an
// int64 with room for many cells, and scale is an index of narrow.
func (n decimalNumber) isNarrow() bool {
	return len(n.digits) <= 18 && n.scale >= 0 && n.scale <= narrowScale
}

// parseDecimal reads a number of digits, with or without sign, point and exponent, as
// -12.5e3. It is false for everything else, also for NaN, hexadecimal numbers and
// thousands separators, and for numbers beyond the bounds.
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

// cutExponent splits a number into what stands before e and its exponent, 0 when it has
// none. ok is false when the exponent is no number or beyond maxCellExponent.
func cutExponent(text string) (mantissa string, exponent int, ok bool) {
	at := strings.IndexAny(text, "eE")
	if at < 0 {
		return text, 0, true
	}
	exponent, err := strconv.Atoi(text[at+1:])
	return text[:at], exponent, err == nil && -maxCellExponent <= exponent && exponent <= maxCellExponent
}

func allDigits(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}
