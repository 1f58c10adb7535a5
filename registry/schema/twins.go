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

// undeclaredTwins finds the first twins that the schema does not declare. at are the
// nodes that value meets; it walks down the value and the nodes together, because a name
// that is declared in one place may be none in another. path leads to value,
// found to the first of the twins; it is nil when there are none.
func undeclaredTwins(value any, at []*node, path []string) (found []string, first, second string) {
	switch v := value.(type) {
	case []any:
		for i, item := range v {
			inner := append(slices.Clip(path), strconv.Itoa(i))
			if found, first, second = undeclaredTwins(item,
				below(at, func(n *node) []*node { return n.atIndex(i) }), inner); found != nil {
				return found, first, second
			}
		}
	case map[string]any:
		if first, second = alike(v, at); first != "" {
			return append(slices.Clip(path), named(first)), first, second
		}
		for _, name := range sortedNames(v) {
			inner := append(slices.Clip(path), named(name))
			if found, first, second = undeclaredTwins(v[name],
				below(at, func(n *node) []*node { return n.atName(name) }), inner); found != nil {
				return found, first, second
			}
		}
	}
	return nil, "", ""
}

// alike returns twins of object of which the nodes do not declare both, "" when there are
// none.
func alike(object map[string]any, at []*node) (first, second string) {
	seen := make(map[string]string, len(object))
	for _, name := range sortedNames(object) {
		folded := strictjson.Fold(name)
		other, ok := seen[folded]
		if ok && (!declares(at, name) || !declares(at, other)) {
			return other, name
		}
		seen[folded] = name
	}
	return "", ""
}

// declares tells whether name is among the properties of one of the nodes.
func declares(at []*node, name string) bool {
	return slices.ContainsFunc(at, func(n *node) bool { return n.named[name].node != nil })
}

// below returns the nodes that a part of the value meets: those that step leads to, and
// all that these lead to in place.
func below(at []*node, step func(*node) []*node) []*node {
	var all []*node
	for _, n := range at {
		for _, to := range step(n) {
			all = to.inPlace(all)
		}
	}
	return all
}

// inPlace appends n and every node that it leads to for the same value. A node that is in
// all already is not appended again.
func (n *node) inPlace(all []*node) []*node {
	if slices.Contains(all, n) {
		return all
	}
	all = append(all, n)
	for _, e := range n.readable() {
		if e.inPlace() {
			all = e.to.inPlace(all)
		}
	}
	return all
}

// atName returns the nodes that the member with that name meets by n. It may return too
// many, since it does not look at what additionalProperties leaves to others: then more
// names count as declared.
func (n *node) atName(name string) []*node {
	var to []*node
	for _, e := range n.readable() {
		if e.keyword == "properties" && e.name == name || partOf(e.keyword) == "{" &&
			(e.pattern == nil || e.pattern.MatchString(name)) {
			to = append(to, e.to)
		}
	}
	return to
}

// atIndex returns the nodes that the item with that index meets by n; it too may return
// too many.
func (n *node) atIndex(i int) []*node {
	var to []*node
	index := 0
	for _, e := range n.readable() {
		tuple := e.keyword == "prefixItems"
		if tuple && index == i || partOf(e.keyword) == "[" {
			to = append(to, e.to)
		}
		if tuple {
			index++
		}
	}
	return to
}
