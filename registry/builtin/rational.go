package builtin

import (
	"errors"
	"math/big"
	"strconv"
)

// Bounds of a value, checked after every operation: powers of powers would fill any
// memory within a short expression.
const (
	maxBits       = 1 << 14 // of numerator and denominator together: about 4,900 digits
	maxExponent   = 1 << 20 // of ^, for every base but 0, 1 and -1
	maxDecimals   = 1000    // decimals that round may be asked for
	workPrecision = 256     // bits of an approximate value, about 77 digits
	shownDigits   = 50      // significant digits shown of an approximate value
)

var (
	errTooLarge       = errors.New("the result needs more than about 4,900 digits")
	errDivisionByZero = errors.New("division by zero")
	errNegativeRoot   = errors.New("square root of a negative number")
	errExponent       = errors.New("the exponent must be an integer (sqrt(x) gives a square root)")
	errDecimals       = errors.New("the second argument of round must be an integer from -1000 to 1000")
)

// value is a number. It is exact, unless it was computed from a square root that is not
// rational. A value is not modified once it was made: operations make a new rat.
type value struct {
	rat         *big.Rat
	approximate bool
}

// bounded returns v, rounded to workPrecision when it is approximate. The error is
// errTooLarge.
func (v value) bounded() (value, error) {
	if v.approximate {
		rounded := new(big.Float).SetPrec(workPrecision).SetRat(v.rat)
		v.rat, _ = rounded.Rat(nil)
	}
	if bits(v.rat) > maxBits {
		return value{}, errTooLarge
	}
	return v, nil
}

// bits returns the size of r, in bits.
func bits(r *big.Rat) int { return r.Num().BitLen() + r.Denom().BitLen() }

// binary returns the value of a binary operation, one of + - * / % ^. The error is one of
// those above.
func binary(operator byte, a, b value) (value, error) {
	result := value{new(big.Rat), a.approximate || b.approximate}
	switch operator {
	case '+':
		result.rat.Add(a.rat, b.rat)
	case '-':
		result.rat.Sub(a.rat, b.rat)
	case '*':
		result.rat.Mul(a.rat, b.rat)
	case '^':
		return power(a, b)
	default:
		if b.rat.Sign() == 0 {
			return value{}, errDivisionByZero
		}
		result.rat.Quo(a.rat, b.rat)
		if operator == '%' { // a - b*floor(a/b), which has the sign of b
			result.rat.Mul(b.rat, floor(result.rat))
			result.rat.Sub(a.rat, result.rat)
		}
	}
	return result.bounded()
}

// power raises base to an exponent, which must be an integer. It is exact even for a
// negative exponent.
func power(base, exponent value) (value, error) {
	if !exponent.rat.IsInt() {
		return value{}, errExponent
	}
	base.approximate = base.approximate || exponent.approximate
	n := new(big.Int).Abs(exponent.rat.Num())
	if exponent.rat.Sign() < 0 {
		if base.rat.Sign() == 0 {
			return value{}, errDivisionByZero
		}
		base.rat = new(big.Rat).Inv(base.rat)
	}
	// powers of 0, 1 and -1 stay small, so any exponent is allowed: unless it is 0, all
	// that counts is whether it is odd
	if bits(base.rat) <= 2 && base.rat.IsInt() && n.Sign() > 0 {
		n.Sub(big.NewInt(2), n.And(n, big.NewInt(1)))
	}
	if !n.IsInt64() || n.Int64() > maxExponent {
		return value{}, errTooLarge
	}
	return repeated(base, n.Int64())
}

// repeated raises base to n by repeated squaring. Every step is bounded, so that a large
// power fails early.
func repeated(base value, n int64) (value, error) {
	result := value{big.NewRat(1, 1), base.approximate}
	var err error
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			if result, err = binary('*', result, base); err != nil {
				return value{}, err
			}
		}
		if n > 1 {
			if base, err = binary('*', base, base); err != nil {
				return value{}, err
			}
		}
	}
	return result, nil
}

// root returns the square root of v: the exact one when it is rational, otherwise an
// approximate value.
func root(v value) (value, error) {
	if v.rat.Sign() < 0 {
		return value{}, errNegativeRoot
	}
	num, den := new(big.Int).Sqrt(v.rat.Num()), new(big.Int).Sqrt(v.rat.Denom())
	exact := new(big.Rat).SetFrac(num, den)
	if new(big.Rat).Mul(exact, exact).Cmp(v.rat) == 0 {
		return value{exact, v.approximate}, nil
	}
	square := new(big.Float).SetPrec(workPrecision).SetRat(v.rat)
	approximation, _ := new(big.Float).Sqrt(square).Rat(nil)
	return value{approximation, true}.bounded()
}

// Div is Euclidean division, which rounds down because a denominator is positive
func floor(r *big.Rat) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Div(r.Num(), r.Denom()))
}

// ceil returns the least integer that is not less than r.
func ceil(r *big.Rat) *big.Rat {
	down := floor(new(big.Rat).Neg(r))
	return down.Neg(down)
}

// rounded rounds r to that many decimals; a half is rounded away from zero. decimals may
// be negative.
func rounded(r *big.Rat, decimals int64) *big.Rat {
	scale := rational("1e" + strconv.FormatInt(decimals, 10))
	whole := rational(new(big.Rat).Mul(r, scale).FloatString(0))
	return whole.Quo(whole, scale)
}

// text returns an exact value as a decimal number when it has finitely many decimals,
// otherwise as a fraction such as 1/3. It returns an approximate value to shownDigits
// significant digits.
func (v value) text() string {
	if v.approximate {
		return decimal(v.rat)
	}
	if decimals, finite := v.rat.FloatPrec(); finite {
		return v.rat.FloatString(decimals)
	}
	return v.rat.RatString()
}

// decimal returns r rounded to shownDigits significant digits.
func decimal(r *big.Rat) string {
	return new(big.Float).SetPrec(workPrecision).SetRat(r).Text('g', shownDigits)
}
