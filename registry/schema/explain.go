package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// Bounds of the text about a value that is not valid. A model reads it, so it must stay
// short.
const (
	maxProblems = 5     // described; the rest is counted
	maxText     = 1_000 // bytes
	maxListed   = 20    // values or names in one problem
)

// explainer turns the faults that the library found into sentences for whoever made the
// value: where, what is wrong, what is allowed. The sentences repeat what the schema says
// and the names of members, but never a value of the data, which may be a secret. The
// library's own texts are not used, because they do repeat values.
type explainer struct {
	root     string // what to call the value as a whole
	problems []string
	left     int    // problems that found no room
	path     string // of the first, as far as the schema names it
	foreign  int    // the first name of the path that the schema does not name, from 1; zero: it names all
}

// add notes one problem of the value at path. The same problem is noted once, although
// several branches may find it.
func (e *explainer) add(path []string, format string, args ...any) {
	if len(e.problems) >= maxProblems {
		e.left++
		return
	}
	if len(e.problems) == 0 {
		e.path = pointer(path, e.foreign)
	}
	spot := e.root
	if len(path) > 0 {
		spot = strings.Join(path, "/")
	}
	problem := mcp.Clip(spot, 150) + ": " + mcp.Clip(fmt.Sprintf(format, args...), 400)
	if !slices.Contains(e.problems, problem) {
		e.problems = append(e.problems, problem)
	}
}

// pointer is the JSON Pointer of what stands at path, up to the first name that is
// foreign.
func pointer(path []string, foreign int) string {
	if foreign > 0 {
		path = path[:min(len(path), foreign-1)]
	}
	var to strictjson.Pointer
	for _, name := range path {
		to = to.AppendToken(name)
	}
	return string(to)
}

// text joins the problems, as many as there is room for.
func (e *explainer) text() string {
	if len(e.problems) == 0 {
		return e.root + ": does not match the schema"
	}
	text := ""
	for i, problem := range e.problems {
		if len(text)+len(problem) > maxText-30 {
			e.left += len(e.problems) - i
			break
		}
		if i > 0 {
			text += "; "
		}
		text += problem
	}
	if e.left > 0 {
		text += fmt.Sprintf("; and %d more", e.left)
	}
	return text
}

// fault explains what is wrong with value: f is what the library found when it checked
// value against n, and path is where the value stands. Keywords of n itself come first,
// then its subschemas in the order of the members they are about.
func (e *explainer) fault(f *fault, n *node, value any, path []string) {
	for _, keyword := range f.keywords {
		e.keyword(f, n, keyword, value, path)
	}
	slices.SortStableFunc(f.inner, byPath) // $ref stays before else
	referred := slices.Contains(f.keywords, "$ref")
	for _, inner := range f.inner {
		switch inner.step {
		case "anyOf", "oneOf":
			continue // the keyword itself has explained its branches
		// $ref or else, which the library leaves without a name; the first is $ref when
		// that keyword failed
		case "":
			inner.step = "else"
			if referred {
				inner.step = "$ref"
				referred = false
			}
		}
		e.inner(inner, n, value, path)
	}
}

// byPath orders faults by the member or item that they are about, items by their
// numbers.
func byPath(a, b *fault) int {
	i, errA := strconv.Atoi(a.at)
	j, errB := strconv.Atoi(b.at)
	if errA == nil && errB == nil && i != j {
		return i - j
	}
	return cmp.Or(strings.Compare(a.at, b.at), strings.Compare(a.step, b.step),
		strings.Compare(a.which, b.which))
}

// inner explains a fault that the library found in one of n's subschemas, of which f.step
// names the keyword.
func (e *explainer) inner(f *fault, n *node, value any, path []string) {
	to := n.follow(f)
	switch f.step { // the names of which the value itself chooses
	case "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames":
		if e.foreign == 0 {
			e.foreign = len(path) + 1
			defer func() { e.foreign = 0 }()
		}
	}
	switch f.step {
	case "properties", "patternProperties", "additionalProperties", "unevaluatedProperties":
		member, ok := value.(map[string]any)[f.at]
		if !ok {
			return // the member is missing, which required has said
		}
		path = append(slices.Clip(path), named(f.at))
		if f.step == "patternProperties" && len(n.patternsOf(f.at)) > 1 {
			// the library does not say which of the patterns it is about
			e.add(path, "does not have the form of members with such a name")
			return
		}
		if to.never {
			e.surplus(n, path)
			return
		}
		value = member
	case "items", "prefixItems", "unevaluatedItems":
		list, _ := value.([]any)
		i, err := strconv.Atoi(f.at)
		if err != nil || i >= len(list) {
			return
		}
		path = append(slices.Clip(path), f.at)
		if to.never {
			e.add(path, "is one item too many")
			return
		}
		if f.step == "unevaluatedItems" {
			e.add(path, "does not have the form of further items")
			return
		}
		value = list[i]
	case "propertyNames":
		e.add(append(slices.Clip(path), named(f.at)), "is a name that is not allowed here")
		return
	}
	e.fault(f, to, value, path)
}

// surplus explains that n has no place for a member, and lists the members that it has a
// place for.
func (e *explainer) surplus(n *node, path []string) {
	var known []string
	for name, p := range n.named {
		if p.node != nil && !p.node.never {
			known = append(known, named(name))
		}
	}
	if len(known) == 0 {
		e.add(path, "is not allowed here")
		return
	}
	slices.Sort(known)
	e.add(path, "is not allowed here; allowed: %s", list(known))
}

// follow returns the subschema of n that f is about. Where the fault leads nowhere it
// returns a schema that allows everything, so that the explanation ends there instead of
// failing.
func (n *node) follow(f *fault) *node {
	isOne := keywords[f.step].shape <= oneSchema // else the fault says which one
	for e := range n.under(f.step) {
		if isOne || e.pattern == nil && e.name == f.which || e.matches(f.which) {
			return e.to
		}
	}
	return &node{}
}

// patternsOf returns the subschemas of patternProperties that a member of that name
// meets.
func (n *node) patternsOf(name string) (met []*node) {
	for _, e := range n.edges {
		if e.matches(name) {
			met = append(met, e.to)
		}
	}
	return met
}

// alternatives explains that value matches none of the branches of anyOf or oneOf, or
// several of oneOf. To list what every branch lacks would help nobody, so it explains the
// branch that is probably meant: of those for the type of the value, the one with the
// least faults.
func (e *explainer) alternatives(f *fault, n *node, keyword string, value any, path []string) {
	branches := 0
	for range n.under(keyword) {
		branches++
	}
	var failed, near []*fault
	var wanted kinds
	for _, inner := range f.inner {
		if inner.step != keyword {
			continue
		}
		failed = append(failed, inner)
		kind := n.follow(inner).kind()
		wanted |= kind
		if kind == 0 || kind&kindOfValue(value) != 0 {
			near = append(near, inner)
		}
	}
	values := n.constants(keyword)
	switch {
	case values != nil && len(failed) == branches:
		e.enum(values, path)
	case keyword == "oneOf" && len(failed) < branches && f.cut:
		e.add(path, "does not match exactly one of the %d allowed forms", branches)
	case keyword == "oneOf" && len(failed) < branches: // of anyOf, the rest was not collected
		e.add(path, "matches several of the %d allowed forms, and must match exactly one", branches)
	case len(failed) == 0:
		e.add(path, "matches none of the %d allowed forms", branches)
	case len(near) == 0:
		e.add(path, "must be %s, got %s", wanted, kindOfValue(value))
	default:
		slices.SortStableFunc(near, func(a, b *fault) int { return a.weight() - b.weight() })
		if len(near) > 1 {
			e.add(path, "matches none of the %d allowed forms; what the nearest one lacks follows",
				branches)
		}
		e.fault(near[0], n.follow(near[0]), value, path)
	}
}

// constants returns the values that the branches of a keyword have, as const; nil if one
// of them has none.
func (n *node) constants(keyword string) (values []mcp.RawJSON) {
	for e := range n.under(keyword) {
		value := e.to.rule("const")
		if value == nil {
			return nil
		}
		values = append(values, value)
	}
	return values
}

// weight counts the faults of a branch. A wrong const or enum weighs more than others,
// since members with a fixed value often tell which branch is meant.
func (f *fault) weight() int {
	weight := len(f.keywords)
	if slices.Contains(f.keywords, "const") || slices.Contains(f.keywords, "enum") {
		weight += 10
	}
	for _, inner := range f.inner {
		weight += inner.weight()
	}
	return weight
}

// kind returns the types that n allows, by itself or through its reference; the empty set
// stands for any type. It follows no more references than can stand in a row.
func (n *node) kind() kinds {
	for range maxInPlace {
		if n.kinds != 0 || !n.refers {
			break
		}
		n = n.child("$ref")
	}
	return n.kinds
}

// kindOfValue returns the type of a decoded value. A number without a fraction is an
// integer, however it is written.
func kindOfValue(value any) kinds {
	switch v := value.(type) {
	case nil:
		return kindNull
	case bool:
		return kindBoolean
	case map[string]any:
		return kindObject
	case []any:
		return kindArray
	case string:
		return kindString
	case json.Number:
		if rat, ok := number(mcp.RawJSON(v)); ok && rat.IsInt() {
			return kindInteger
		}
	}
	return kindNumber
}

// String lists the types as a sentence has them: "null or an integer".
func (k kinds) String() string {
	names := [...]string{"null", "a boolean", "an object", "an array", "a string", "an integer", "a number"}
	if k&kindNumber != 0 {
		k &^= kindInteger
	}
	var said []string
	for i, name := range names {
		if k&(1<<i) != 0 {
			said = append(said, name)
		}
	}
	return strings.Join(said, " or ")
}

// named writes the name of a member, cut when it is long. A name with spaces, slashes,
// quotes or anything but visible ASCII is quoted and escaped, so that it cannot be taken
// for a part of the sentence, or hide in it.
func named(name string) string {
	hides := func(r rune) bool { return r <= ' ' || r > '~' || r == '/' || r == '"' }
	if name == "" || strings.ContainsFunc(name, hides) {
		return strconv.QuoteToASCII(mcp.Clip(name, 60))
	}
	return mcp.Clip(name, 60)
}

// list joins the first maxListed texts with commas and counts the others.
func list(texts []string) string {
	if len(texts) > maxListed {
		return strings.Join(texts[:maxListed], ", ") + fmt.Sprintf(" and %d more", len(texts)-maxListed)
	}
	return strings.Join(texts, ", ")
}
