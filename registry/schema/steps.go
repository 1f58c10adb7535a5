package schema

import (
	"errors"
	"strconv"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// RE2 looks at every byte of a text with at most every instruction of a pattern, and
// cannot be stopped meanwhile. One instruction for one byte is a step, which takes up to
// about 20 nanoseconds. So what is bounded is the steps of one check, over all the texts
// that patterns see: a large pattern is fine for short texts, and a long text for small
// patterns, whether or not the schema says how long a text may be.
const (
	maxSteps  = 10_000_000
	freeSteps = 10_000 // nobody counts more exactly whether they are fewer

	smallProgram = 32 // instructions of a program of which a step takes a quarter of the time, or less
)

// weigh returns how many steps a pattern of size instructions takes for each byte of a
// text, at most.
func weigh(size int) int {
	if size <= smallProgram {
		return size/4 + 1
	}
	return size
}

// markPatterns notes which nodes lead to a pattern, and by which of their subschemas, so
// that nobody looks for patterns in the rest of a value.
func markPatterns(nodes []*node) {
	for n := range leading(nodes, func(n *node) bool { return n.program > 0 }, anywhere) {
		n.patterns = true
	}
	for _, n := range nodes {
		for i := range n.edges {
			e := &n.edges[i]
			// n.named has those of properties by their names
			if (e.weight > 0 || e.to.patterns) && e.keyword != "properties" {
				n.patterned = append(n.patterned, e)
			}
		}
	}
}

// stepCounter adds up the steps of patterns for one value: those of every subschema that
// may meet a part of it, whether or not the judges will ask all of them. It stops when
// there are too many.
type stepCounter struct {
	steps int
	path  []string // where the value stands that is being looked at
	limit int      // bytes that the pattern could see by itself that made it too many; zero: there are not
}

// countSteps returns how many steps the patterns of the schema may take for value, about.
// The error says where there are too many.
func (s *Schema) countSteps(value mcp.RawJSON, name string) (int, error) {
	estimate := s.cost.program * len(value)
	if estimate <= freeSteps {
		return estimate, nil
	}
	if s.cost.passes*len(value) > maxReads {
		return 0, errors.New(name + ": too long to check against the patterns of this schema")
	}
	var count stepCounter
	if count.value(s.root, new(strictjson.CursorOf(value))) {
		return count.steps, nil
	}
	e := &explainer{root: name}
	e.add(
		count.path, "too long to check against the patterns of this schema, which could see %d bytes of it "+
			"at most", count.limit)
	return 0, errors.New(e.text())
}

// text adds the steps for one text that a pattern sees. It returns false when there are
// too many.
func (s *stepCounter) text(weight int, quoted []byte) bool {
	if weight == 0 {
		return true
	}
	if s.steps += weight * len(quoted); s.steps > maxSteps {
		s.limit = maxSteps / weight
		return false
	}
	return true
}

// value counts the value at c, which n and what it leads to in place check, and leaves c
// behind it. It returns false, and leaves c anywhere, when there are too many steps.
func (s *stepCounter) value(n *node, c *strictjson.Cursor) bool {
	for _, e := range n.patterned {
		if e.inPlace() && !s.ahead(e.to, c) {
			return false
		}
	}
	switch c.Kind() {
	case '{':
		return s.object(n, c)
	case '[':
		return s.array(n, c)
	case '"':
		return s.text(n.weight, c.Next())
	}
	c.Next()
	return true
}

// ahead is value, and leaves c where it is. It moves c back, since a copy for each item
// of a long list would lie on the heap.
func (s *stepCounter) ahead(n *node, c *strictjson.Cursor) bool {
	start := c.At()
	if !s.value(n, c) {
		return false
	}
	c.MoveTo(start)
	return true
}

func (s *stepCounter) object(n *node, c *strictjson.Cursor) bool {
	for c.Enter(); c.More(); {
		quoted := c.Next()
		name, _ := strictjson.Unquote(quoted)
		s.path = append(s.path, named(name))
		start := c.At()
		if to := n.named[name].node; to != nil && to.patterns && !s.ahead(to, c) {
			return false
		}
		for _, e := range n.patterned {
			if !s.member(e, quoted, c) {
				return false
			}
			c.MoveTo(start)
		}
		s.path = s.path[:len(s.path)-1]
		c.Next()
	}
	return true
}

// member counts what e adds for the member whose name has just been read and whose value
// is at c, which it may move.
func (s *stepCounter) member(e *edge, quoted []byte, c *strictjson.Cursor) bool {
	switch e.part {
	case eachName:
		c.MoveTo(c.At() - len(quoted))
	case eachMember:
		if !s.text(e.weight, quoted) {
			return false
		}
	default:
		return true
	}
	return !e.to.patterns || s.value(e.to, c)
}

func (s *stepCounter) array(n *node, c *strictjson.Cursor) bool {
	c.Enter()
	for i := 0; c.More(); i++ {
		index := strconv.Itoa(i)
		s.path = append(s.path, index)
		for _, e := range n.patterned {
			if e.meetsItem(index) && !s.ahead(e.to, c) {
				return false
			}
		}
		s.path = s.path[:len(s.path)-1]
		c.Next()
	}
	return true
}
