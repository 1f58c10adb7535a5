package registry

import (
	"maps"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// check returns "" when data is valid, else what is wrong with it. root is what to call the value as a whole. twins
// tells whether names that fold alike are refused: parsers further on may take one for the other.
func (s *schema) check(data mcp.RawJSON, root string, twins bool) string {
	if text := s.tooMuch(data); text != "" {
		return root + ": " + text
	}
	if twins && hasTwins(&cursor{data: data}) {
		decoded := (&cursor{data: data}).value()
		if place, first, second := undeclaredTwins(decoded, s.root.inPlace(nil), nil); place != nil {
			e := &explainer{root: root}
			e.add(place[:len(place)-1], "must not have both %s and %s, whose names differ only in form", named(first), named(second))
			return e.text()
		}
	}
	if s.cost.passes*len(data) <= maxPatternWork && s.root.accepts(&cursor{data: data}) {
		return ""
	}
	values, _ := (&cursor{data: data}).size()
	if s.cost.work(data, values) > maxWork {
		return root + ": too many values to check against this schema"
	}
	decoded := (&cursor{data: data}).value()
	found, err := s.judge(decoded)
	if err != nil {
		return root + ": " + err.Error()
	}
	if found == nil {
		return ""
	}
	e := &explainer{root: root}
	e.fault(found, s.root, decoded, nil)
	return e.text()
}

// tooMuch returns why data is refused unread.
func (s *schema) tooMuch(data mcp.RawJSON) string {
	if s.cost.program*len(data) > maxPatternWork {
		return "too long to check against the patterns of this schema"
	}
	if len(data) > maxString {
		if _, longest := (&cursor{data: data}).size(); longest > maxString {
			return "a string is longer than 1 MiB"
		}
	}
	return ""
}

func sortedNames(object map[string]any) []string { return slices.Sorted(maps.Keys(object)) }
