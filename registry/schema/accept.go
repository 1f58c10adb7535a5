package schema

import (
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// accepts is the fast path: it returns true only when the value at c certainly satisfies
// n, and then leaves c behind that value. False proves nothing, it only means that the
// library has to judge, and leaves c anywhere within the value. The text is read as it
// stands, without being decoded and without allocating: that is enough for nearly every
// valid call of a tool, whose schemas are mostly plain.
func (n *node) accepts(c *strictjson.Cursor) bool {
	if n.never || n.unproven {
		return false
	}
	if !n.acceptsInPlace(*c) {
		return false
	}
	switch c.Kind() {
	case '{':
		return n.admits(kindObject) && n.allowed == nil && n.acceptsObject(c)
	case '[':
		return n.admits(kindArray) && n.allowed == nil && n.acceptsArray(c)
	case '"':
		return n.admits(kindString) && n.acceptsString(c.Next())
	case 't', 'f':
		return n.admits(kindBoolean) && n.allows(c.Next())
	case 'n':
		return n.admits(kindNull) && n.allows(c.Next())
	}
	return n.acceptsNumber(c.Next())
}

// admits tells whether the types that n names include kind.
func (n *node) admits(kind kinds) bool { return n.kinds == 0 || n.kinds&kind != 0 }

// allows tells whether enum and const of n have the scalar, which is compared as written:
// 1.0 does not count as 1 here, and is left to the library.
func (n *node) allows(scalar []byte) bool { return n.allowed == nil || n.allowed[string(scalar)] }

// acceptsInPlace looks at the subschemas that apply to the whole value: the target of
// $ref and every branch of allOf must accept it, and at least one branch of anyOf if
// there are any. Other such keywords make a node unproven.
func (n *node) acceptsInPlace(c strictjson.Cursor) bool {
	asked, found := false, false
	for i := range n.edges {
		e, at := &n.edges[i], c
		switch e.keyword {
		case "$ref", "allOf":
			if !e.to.accepts(&at) {
				return false
			}
		case "anyOf":
			asked, found = true, found || e.to.accepts(&at)
		}
	}
	return found || !asked
}

// acceptsObject reads the members one by one. A name with an escape ends the fast path,
// since the map of names holds decoded ones.
func (n *node) acceptsObject(c *strictjson.Cursor) bool {
	rest := n.child("additionalProperties")
	count, required := 0, 0
	for c.Enter(); c.More(); {
		count++
		name, ok := plain(c.Next())
		if !ok {
			return false
		}
		p := n.named[string(name)]
		if p.required {
			required++
		}
		schema := p.node
		if schema == nil {
			schema = rest
		}
		if schema == nil {
			c.Next()
		} else if !schema.accepts(c) {
			return false
		}
	}
	return required == n.needs && n.bounds.members.holds(count)
}

// acceptsArray reads the items one by one. Whether several items are unique is left to
// the library.
func (n *node) acceptsArray(c *strictjson.Cursor) bool {
	items := n.child("items")
	count := 0
	for c.Enter(); c.More(); {
		count++
		if items == nil {
			c.Next()
		} else if !items.accepts(c) {
			return false
		}
	}
	return n.bounds.items.holds(count) && (!n.bounds.unique || count < 2)
}

// acceptsString decides a string without escapes. One with escapes is only decided where
// any string will do.
func (n *node) acceptsString(quoted []byte) bool {
	if n.allowed == nil && n.pattern == nil && n.bounds.text == (span{}) {
		return true
	}
	text, ok := plain(quoted)
	if !ok {
		return false
	}
	if n.allowed != nil && !n.allowed[string(quoted[:len(quoted)-1])] {
		return false
	}
	if n.bounds.text != (span{}) && !n.bounds.text.holds(utf8.RuneCount(text)) {
		return false
	}
	return n.pattern == nil || n.pattern.Match(text)
}

// acceptsNumber decides a number by its digits. 2.0 is an integer too, but does not look
// like one: where only integers are allowed, the library decides about it.
func (n *node) acceptsNumber(text []byte) bool {
	if n.kinds != 0 && n.kinds&kindNumber == 0 && (n.kinds&kindInteger == 0 || !isDigits(text)) ||
		!n.allows(text) {
		return false
	}
	for i := range n.bounds.limits {
		if !n.bounds.limits[i].proves(text) {
			return false
		}
	}
	return true
}

// isDigits tells whether a number is written as an integer: digits, perhaps with a minus
// before them.
func isDigits(number []byte) bool {
	for i, b := range number {
		if (b < '0' || b > '9') && (b != '-' || i > 0) {
			return false
		}
	}
	return len(number) > 0
}
