package schema

import (
	"math/big"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// maxCount bounds minLength, maxItems and other keywords that count. The library keeps
// counts as floats and converts them to integers, which is only defined for numbers up to
// this one.
const maxCount = 1 << 53

// assertion reads a keyword that says something of the value by itself, without
// subschemas, and notes it twice: as it is written, for the library, and in the fields of
// n, for the fast path. Any other keyword is skipped.
func (p *parser) assertion(n *node, name string, value mcp.RawJSON) error {
	var err error
	switch name {
	case "type":
		err = n.readType(value)
	case "enum":
		err = n.readEnum(value)
	case "const":
		n.allow(value)
	case "required":
		n.required, err = n.names(value, name)
	case "dependentRequired":
		err = n.readDependent(value)
	case "pattern":
		return p.readPattern(n, value)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
		if text := string(value); p.dialect == draft4 && (text == "true" || text == "false") {
			break // see exclusive
		}
		if _, ok := number(value); !ok {
			return n.refuse("%s must be a number", name)
		}
	case "multipleOf":
		if divisor, ok := number(value); !ok || divisor.Sign() <= 0 {
			err = n.refuse("multipleOf must be a number above 0")
		}
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains",
		"maxContains":
		err = n.readCount(name, value)
	case "uniqueItems":
		if text := string(value); text != "true" && text != "false" {
			err = n.refuse("uniqueItems must be true or false")
		}
		n.bounds.unique = string(value) == "true"
	default:
		return nil
	}
	if err == nil {
		n.rules = append(n.rules, strictjson.Member{Name: name, Value: value})
	}
	return err
}

// readType reads type, which is one name or a list of names.
func (n *node) readType(value mcp.RawJSON) error {
	list := []mcp.RawJSON{value}
	if value.IsArray() {
		list, _ = value.Elements()
	}
	for _, element := range list {
		text, _ := element.Text()
		kind, ok := kindsByName[text]
		if !ok {
			return n.refuse(
				"type must be one or several of null, boolean, object, array, string, number, integer")
		}
		n.kinds |= kind
	}
	if n.kinds == 0 {
		return n.refuse("type must not be an empty list")
	}
	return nil
}

func (n *node) readEnum(value mcp.RawJSON) error {
	elements, ok := value.Elements()
	if !ok || len(elements) == 0 || len(elements) > maxEnum {
		return n.refuse("enum must be a list of 1 to %d values", maxEnum)
	}
	n.allow(elements...)
	return nil
}

// allow notes the values of enum or const: strings as their opening quote and decoded
// text, others as written. The quote keeps the string "1" apart from the number 1. A
// schema that has both keywords is left to the library, because a value must then be in
// both sets.
func (n *node) allow(values ...mcp.RawJSON) {
	if n.allowed != nil {
		n.unproven = true
	}
	n.allowed = make(map[string]bool, len(values))
	for _, value := range values {
		if text, ok := value.Text(); ok {
			n.allowed[`"`+text] = true
		} else {
			n.allowed[string(value)] = true
		}
	}
}

// readDependent checks dependentRequired, an object that lists by name which other names
// must be there too. Only the library decides about it.
func (n *node) readDependent(value mcp.RawJSON) error {
	o, ok := mcp.ObjectOf(value)
	if !ok {
		return n.refuse("dependentRequired must be an object of lists of names")
	}
	for _, list := range o.Members {
		if _, err := n.names(list, "dependentRequired"); err != nil {
			return err
		}
	}
	return nil
}

// readPattern compiles the pattern for RE2. The library is given the translation, so that
// both judges use the same expression; the error texts show the pattern as its author
// wrote it.
func (p *parser) readPattern(n *node, value mcp.RawJSON) error {
	source, ok := value.Text()
	if !ok {
		return n.refuse("pattern must be a string")
	}
	compiled, size, err := p.compile(n, "pattern", source)
	if err != nil || compiled == nil {
		return err
	}
	n.pattern, n.source = compiled, source
	n.program += size
	n.weight = weigh(size)
	n.rules = append(n.rules, strictjson.Member{Name: "pattern", Value: mcp.String(compiled.String())})
	return nil
}

// readCount reads a keyword that counts characters, items or members. JSON Schema allows
// 2.0 for 2.
func (n *node) readCount(name string, value mcp.RawJSON) error {
	count, ok := number(value)
	if !ok || !count.IsInt() || count.Sign() < 0 || count.Cmp(new(big.Rat).SetInt64(maxCount)) > 0 {
		return n.refuse("%s must be a whole number from 0 to 2^53", name)
	}
	n.bounds.count(name, int(count.Num().Int64()))
	return nil
}

// exclusive brings a bound of draft-04, beside which a flag may stand, into the form of
// later dialects, in which the keyword of the flag has the bound as its value.
func (n *node) exclusive(bound, flag string) {
	open := string(n.rule(flag)) == "true"
	n.rules = slices.DeleteFunc(n.rules, func(r strictjson.Member) bool { return r.Name == flag })
	for i := range n.rules {
		if n.rules[i].Name == bound && open {
			n.rules[i].Name = flag
		}
	}
}

// number returns the exact value of a JSON number; ok is false when value is something
// else. An exponent can make a short text a huge number, but strictjson has bounded
// exponents before.
func number(value mcp.RawJSON) (*big.Rat, bool) {
	if len(value) == 0 || value[0] != '-' && (value[0] < '0' || value[0] > '9') {
		return nil, false
	}
	return new(big.Rat).SetString(string(value))
}
