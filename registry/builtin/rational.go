package builtin

import (
	"errors"
	"math/big"
)

// Bounds of a value on the way and at the end.
const (
	maxBits       = 1 << 14 // of numerator and denominator together: about 4,900 digits
	maxExponent   = 1 << 20 // of ^, whatever the base
	maxPlaces     = 1000    // decimals that round may be asked for
	workPrecision = 256     // bits kept of a value that is approximate
	shownDigits   = 50      // significant digits shown of one
)

var (
	errTooLarge       = errors.New("the result needs more than about 4,900 digits")
	errDivisionByZero = errors.New("division by zero")
	errNegativeRoot   = errors.New("square root of a negative number")
	errExponent       = errors.New("the exponent must be an integer (sqrt(x) gives a square root)")
	errPlaces         = errors.New("the second argument of round must be an integer from -1000 to 1000")
)

// value is a number. It is exact unless a square root on the way to it was not rational.
type value struct {
	rat         *big.Rat
	approximate bool
}

// bounded returns v, with an approximate value cut to the precision that is kept, or errTooLarge.
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

func bits(r *big.Rat) int { return r.Num().BitLen() + r.Denom().BitLen() }

// binary applies one of + - * / % ^.
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
		if operator == '%' { // a - b*floor(a/b): the sign is that of b
			result.rat.Mul(b.rat, floor(result.rat))
			result.rat.Sub(a.rat, result.rat)
		}
	}
	return result.bounded()
}

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
	if bits(base.rat) <= 2 && base.rat.IsInt() { // 0, 1 and -1 stay small
		return smallPower(base, n), nil
	}
	if !n.IsInt64() || n.Int64() > maxExponent {
		return value{}, errTooLarge
	}
	return repeated(base, n.Int64())
}

// smallPower raises 0, 1 or -1.
func smallPower(base value, n *big.Int) value {
	if n.Bit(0) == 1 {
		return base
	}
	if n.Sign() == 0 || base.rat.Sign() != 0 {
		base.rat = big.NewRat(1, 1)
	}
	return base
}

// repeated raises base to n by squaring; every step is bounded.
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

// root returns the square root: exact when it is rational.
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

func floor(r *big.Rat) *big.Rat { // a denominator is positive, so Euclid's division rounds down
	return new(big.Rat).SetInt(new(big.Int).Div(r.Num(), r.Denom()))
}

func ceil(r *big.Rat) *big.Rat {
	down := floor(new(big.Rat).Neg(r))
	return down.Neg(down)
}

// rounded rounds r to that many decimals, half away from zero.
func rounded(r *big.Rat, places int64) *big.Rat {
	scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(max(places, -places)), nil))
	if places < 0 {
		scale.Inv(scale)
	}
	result := new(big.Rat).Abs(r)
	result = floor(result.Add(result.Mul(result, scale), big.NewRat(1, 2)))
	if r.Sign() < 0 {
		result.Neg(result)
	}
	return result.Quo(result, scale)
}

// text returns v as a decimal when that is finite, else as a fraction. Of a value that is approximate it returns
// shownDigits digits.
func (v value) text() string {
	if v.approximate {
		return decimal(v.rat)
	}
	if places, finite := v.rat.FloatPrec(); finite {
		return v.rat.FloatString(places)
	}
	return v.rat.RatString()
}

// decimal returns r to shownDigits significant digits.
func decimal(r *big.Rat) string {
	return new(big.Float).SetPrec(workPrecision).SetRat(r).Text('g', shownDigits)
}
