package schema

import (
	"math/big"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// maxCount bounds minLength and its kin: beyond it the library's conversion to an integer is undefined.
const maxCount = 1 << 53

// assertion reads a keyword that asserts something without a subschema, and skips any other.
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
		err = n.readBound(name, value)
	case "multipleOf":
		if divisor, ok := number(value); !ok || divisor.Sign() <= 0 {
			err = n.refuse("multipleOf must be a number above 0")
		}
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains":
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

func (n *node) readType(value mcp.RawJSON) error {
	list := []mcp.RawJSON{value}
	if value.IsArray() {
		list, _ = value.Elements()
	}
	for _, element := range list {
		text, _ := element.Text()
		kind, ok := kindOf(text)
		if !ok {
			return n.refuse("type must be one or several of null, boolean, object, array, string, number, integer")
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

// allow notes values of enum or const. Where a schema has both, the library alone decides.
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

func (p *parser) readPattern(n *node, value mcp.RawJSON) error {
	source, ok := value.Text()
	if !ok {
		return n.refuse("pattern must be a string")
	}
	compiled, size, err := p.compile(n, source)
	if err != nil {
		return err
	}
	n.pattern, n.source = compiled, source
	n.program += size
	n.rules = append(n.rules, strictjson.Member{Name: "pattern", Value: mcp.String(compiled.String())})
	return nil
}

func (n *node) readCount(name string, value mcp.RawJSON) error {
	count, ok := number(value)
	if !ok || !count.IsInt() || count.Sign() < 0 || count.Cmp(new(big.Rat).SetInt64(maxCount)) > 0 {
		return n.refuse("%s must be a whole number from 0 to 2^53", name)
	}
	n.bounds.count(name, int(count.Num().Int64()))
	return nil
}

func (n *node) readBound(name string, value mcp.RawJSON) error {
	if _, ok := number(value); !ok {
		return n.refuse("%s must be a number", name)
	}
	n.bounds.limit(name, value)
	return nil
}

// number returns the value of a JSON number. The bounds of strictjson keep it small.
func number(value mcp.RawJSON) (*big.Rat, bool) {
	if len(value) == 0 || value[0] != '-' && (value[0] < '0' || value[0] > '9') {
		return nil, false
	}
	return new(big.Rat).SetString(string(value))
}
