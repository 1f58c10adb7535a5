package builtin

import (
	"fmt"
	"math/big"
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
	low, high := arity(name)
	if high == 0 {
		return value{}, p.errorAt(start, "an unknown name (the functions are "+functionNames+")")
	}
	args, err := p.list()
	if err != nil {
		return value{}, err
	}
	if len(args) < low || len(args) > high {
		return value{}, p.errorAt(start, fmt.Sprintf("%s with %d arguments", name, len(args)))
	}
	result, err := apply(name, args)
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

// arity returns the least and the greatest number of arguments that a function takes; 0,
// 0 when there is no such function. A new function goes here, into apply and into
// functionNames.
func arity(name string) (low, high int) {
	switch name {
	case "abs", "ceil", "floor", "sqrt":
		return 1, 1
	case "round":
		return 1, 2
	case "min", "max":
		return 1, maxExpression
	}
	return 0, 0
}

// apply returns the value of a function. name is known to arity, and the number of args
// is one that arity allows.
func apply(name string, args []value) (value, error) {
	v := args[0]
	switch name {
	case "abs":
		v.rat = new(big.Rat).Abs(v.rat)
	case "floor":
		v.rat = floor(v.rat)
	case "ceil":
		v.rat = ceil(v.rat)
	case "sqrt":
		return root(v)
	case "round":
		return roundTo(args)
	default:
		return extreme(name, args), nil
	}
	return v, nil
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

// extreme is min and max. The result is approximate when any of args is, even when it is
// an exact one itself: with the true value of the approximate one, another could be the
// least.
func extreme(name string, args []value) value {
	best := args[0]
	approximate := best.approximate
	for _, v := range args[1:] {
		approximate = approximate || v.approximate
		if order := v.rat.Cmp(best.rat); name == "min" && order < 0 || name == "max" && order > 0 {
			best = v
		}
	}
	best.approximate = approximate
	return best
}
