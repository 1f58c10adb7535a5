package builtin

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// function reads the name of a function and its arguments, and returns its value. Case
// does not count in names.
func (p *parser) function() (value, error) {
	start := p.at
	for p.at < len(p.text) && isLetter(p.text[p.at]) {
		p.at++
	}
	name := strings.ToLower(p.text[start:p.at])
	f, known := functions[name]
	if !known {
		return value{}, p.errorAt(start, "an unknown name (the functions are "+functionNames+")")
	}
	args, err := p.list()
	if err != nil {
		return value{}, err
	}
	if len(args) < f.least || len(args) > f.most {
		return value{}, p.errorAt(start, fmt.Sprintf("%s with %d arguments", name, len(args)))
	}
	result, err := f.apply(args)
	if err == nil {
		result, err = result.bounded()
	}
	if err != nil {
		return value{}, p.errorAt(start, err.Error())
	}
	return result, nil
}

// list reads the arguments of a function with the parentheses around them. There must be
// at least one.
func (p *parser) list() ([]value, error) {
	if err := p.expect('('); err != nil {
		return nil, err
	}
	var args []value
	for {
		v, err := p.nested(p.sum)
		if err != nil {
			return nil, err
		}
		args = append(args, v)
		if p.peek() != ',' {
			return args, p.expect(')')
		}
		p.at++
	}
}

// called is a function: the least and the greatest number of its arguments, and what it
// makes of them.
type called struct {
	least, most int
	apply       func(args []value) (value, error)
}

// functions are all that there are. The name of a new one goes into functionNames, too.
var functions = map[string]called{
	"abs":   {1, 1, exactly((*big.Rat).Abs)},
	"floor": {1, 1, exactly(func(_, x *big.Rat) *big.Rat { return floor(x) })},
	"ceil":  {1, 1, exactly(func(_, x *big.Rat) *big.Rat { return ceil(x) })},
	"sqrt":  {1, 1, func(args []value) (value, error) { return root(args[0]) }},
	"round": {1, 2, roundTo},
	"min":   {1, maxExpression, func(args []value) (value, error) { return extreme(args, -1), nil }},
	"max":   {1, maxExpression, func(args []value) (value, error) { return extreme(args, +1), nil }},
}

// exactly returns the function of one argument that a method of a rational computes. The
// result is approximate if the argument is.
func exactly(method func(result, x *big.Rat) *big.Rat) func(args []value) (value, error) {
	return func(args []value) (value, error) {
		return value{method(new(big.Rat), args[0].rat), args[0].approximate}, nil
	}
}

// roundTo is round(x) and round(x, decimals); negative decimals round to tens, hundreds
// and so on.
func roundTo(args []value) (value, error) {
	v, decimals := args[0], int64(0)
	if len(args) == 2 {
		n := args[1].rat
		decimals = n.Num().Int64()
		if !n.IsInt() || !n.Num().IsInt64() || decimals > maxDecimals || decimals < -maxDecimals {
			return value{}, errDecimals
		}
		v.approximate = v.approximate || args[1].approximate
	}
	v.rat = rounded(v.rat, decimals)
	return v, nil
}

// extreme is min, with an order of -1, and max, with 1. The result is approximate when
// any of args is, even when it is an exact one itself: with the true value of the
// approximate one, another could be the least.
func extreme(args []value, order int) value {
	best := slices.MaxFunc(args, func(a, b value) int { return order * a.rat.Cmp(b.rat) })
	best.approximate = slices.ContainsFunc(args, func(v value) bool { return v.approximate })
	return best
}
