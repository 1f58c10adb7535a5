package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

// Problem is one thing that is wrong with a file, with its place. A Problem without a
// text also serves as a mere place. The text never holds a secret, since it is logged:
// values that came from the environment or from a field for secrets are not quoted.
// Validate prints problems with these JSON names.
type Problem struct {
	File   string `json:"file"`
	Line   int    `json:"line"`   // from 1
	Column int    `json:"column"` // from 1
	Text   string `json:"problem"`
	Hint   string `json:"did_you_mean,omitempty"` // what was probably meant; "": nobody can tell
}

// String writes the problem as a line that editors understand: file:line:column: text.
func (p Problem) String() string {
	text := fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text)
	if p.Hint != "" {
		text += fmt.Sprintf(" (did you mean %s?)", p.Hint)
	}
	return text
}

// RefusedError lists everything that is wrong with a file, by place. It is never empty.
type RefusedError []Problem

// Error writes each problem as a line.
func (e RefusedError) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].String()
	}
	return strings.Join(lines, "\n")
}

// sorted orders the problems by file and place, in the slice that it is given, and drops
// repeated ones. Two checks may find the same fault.
func sorted(problems []Problem) []Problem {
	slices.SortStableFunc(problems, byPlace)
	return slices.Compact(problems)
}

// byPlace compares where two problems stand.
func byPlace(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
}

// nearest returns the one of known that looks most like name, "" when none looks like a
// slip of it.
func nearest(name string, known []string) string { return registry.Nearest(name, known) }

// nearestKey is nearest for names that are the keys of a map.
func nearestKey[T any](name string, known map[string]T) string {
	return nearest(name, slices.Sorted(maps.Keys(known)))
}

// orList writes names as a choice: a, b or c.
func orList(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}
