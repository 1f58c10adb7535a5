package schema

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// hasTwins tells whether any object in the next value has twins: two names that
// strictjson.Fold makes equal, so that a lenient parser may take them for one. It passes
// the value. Since it reads every value of every call, it neither decodes nor allocates
// while the names are plain and few.
func hasTwins(c *strictjson.Cursor) bool {
	switch c.Kind() {
	case '[':
		found := false
		for c.Enter(); c.More(); {
			found = hasTwins(c) || found
		}
		return found
	case '{':
	default:
		c.Next()
		return false
	}
	var buffer [12][]byte
	names, found, simple := buffer[:0], false, true
	for c.Enter(); c.More(); {
		name := c.Next()
		names = append(names, name)
		simple = simple && isLower(name)
		found = hasTwins(c) || found
	}
	return found || !simple && foldAlike(names)
}

// isLower tells whether a quoted name is certainly its own folded form: plain ASCII
// without capitals and escapes. Objects with such names alone have no twins.
func isLower(quoted []byte) bool {
	for _, b := range quoted {
		if b >= utf8.RuneSelf || b >= 'A' && b <= 'Z' || b == '\\' {
			return false
		}
	}
	return true
}

// foldAlike tells whether two of the quoted names fold to the same. A few names of plain
// ASCII are compared pair by pair, which needs no memory.
func foldAlike(names [][]byte) bool {
	if len(names) <= 12 && !slices.ContainsFunc(names, isExotic) {
		for i, a := range names {
			for _, b := range names[:i] {
				if len(a) == len(b) && bytes.EqualFold(a, b) {
					return true
				}
			}
		}
		return false
	}
	seen := make(map[string]bool, len(names))
	for _, quoted := range names {
		name, _ := strictjson.Unquote(quoted)
		folded := strictjson.Fold(name)
		if seen[folded] {
			return true
		}
		seen[folded] = true
	}
	return false
}

// isExotic tells whether a quoted name needs decoding and folding: it is not ASCII, or
// has an escape.
func isExotic(quoted []byte) bool {
	return bytes.ContainsFunc(quoted, func(r rune) bool { return r >= utf8.RuneSelf || r == '\\' })
}

// undeclaredTwins finds the first twins in the next value that the schema does not
// declare, and passes the value if there are none. at are the nodes that the value meets;
// it walks down the value and the nodes together, because a name that is declared in one
// place may be none in another. path leads to the value, found to the second of the
// twins; it is nil when there are none.
func undeclaredTwins(c *strictjson.Cursor, at []*node, path []string) (found []string, first, second string) {
	switch c.Kind() {
	case '[':
		c.Enter()
		for i := 0; c.More() && found == nil; i++ {
			index := strconv.Itoa(i)
			inner := below(at, func(e *edge) bool { return e.meetsItem(index) })
			found, first, second = undeclaredTwins(c, inner, append(slices.Clip(path), index))
		}
	case '{':
		seen := map[string]string{} // names, by their folded form
		for c.Enter(); c.More() && found == nil; {
			name, _ := strictjson.Unquote(c.Next())
			inner, folded := append(slices.Clip(path), named(name)), strictjson.Fold(name)
			other, ok := seen[folded]
			if ok && (!declares(at, name) || !declares(at, other)) {
				return inner, min(other, name), max(other, name)
			}
			seen[folded] = name
			found, first, second = undeclaredTwins(c,
				below(at, func(e *edge) bool { return e.meetsMember(name) }), inner)
		}
	default:
		c.Next()
	}
	return found, first, second
}

// declares tells whether name is among the properties of one of the nodes.
func declares(at []*node, name string) bool {
	return slices.ContainsFunc(at, func(n *node) bool { return n.named[name].node != nil })
}

// below returns the nodes that a part of the value meets: those that such edges lead to,
// and all that these lead to in place.
func below(at []*node, meets func(*edge) bool) (all []*node) {
	for _, n := range at {
		edges := n.readable()
		for i := range edges {
			if meets(&edges[i]) {
				all = edges[i].to.reach(all, (*edge).inPlace)
			}
		}
	}
	return all
}
