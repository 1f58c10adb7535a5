package openapi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// maxName bounds the name of a tool, before its prefix, and of an argument, in bytes.
const maxName = 64

// nameTools gives every operation of a document the name of its tool: the operationId, else method and path, made of the
// characters that a tool's name may have. Operations that would share a name get a hash of what the document calls them
// at its end, all of them: a name never changes hands because another operation came or was left out.
func nameTools(operations []*operation) {
	holders, ids := map[string]int{}, map[string]int{}
	for _, o := range operations {
		o.name = o.plainName()
		holders[strings.ToLower(o.name)]++
		ids[o.id]++
	}
	for _, o := range operations {
		if holders[strings.ToLower(o.name)] == 1 {
			continue
		}
		full := o.id
		if full == "" || ids[full] > 1 { // no operationId may stand twice, but in some documents one does
			full = o.method + " " + o.path
		}
		o.name = hashed(o.name, full)
	}
}

func (o *operation) plainName() string {
	if name := fit(o.id); name != "" {
		return name
	}
	return fit(strings.ToLower(o.method) + "_" + strings.Trim(o.path, "/"))
}

// nameArguments gives each argument the name of its parameter, made of the characters that clients take, with < and >
// spelled out. It depends on no order: of several in one place that would share a name, the one whose own name it is
// keeps it, and the others end in a hash of theirs. Of one from each place, the path's keeps it, then the query's, and the
// other is called place.name; body is always the body's.
func nameArguments(arguments []*argument, hasBody bool) error {
	sorted := slices.SortedFunc(slices.Values(arguments), func(a, b *argument) int { return strings.Compare(a.parameter, b.parameter) })
	taken := map[string]bool{"body": hasBody}
	for _, place := range []string{openapi3.ParameterInPath, openapi3.ParameterInQuery, openapi3.ParameterInHeader} {
		within := slices.DeleteFunc(slices.Clone(sorted), func(a *argument) bool { return a.place != place })
		nameWithin(within)
		for _, a := range within {
			if taken[strings.ToLower(a.name)] || a.name == "" {
				a.name = fit(place + "." + a.name)
			}
			if taken[strings.ToLower(a.name)] {
				return fmt.Errorf("%s parameter %q cannot be told from another one by its name", place, a.parameter)
			}
			taken[strings.ToLower(a.name)] = true
		}
	}
	return nil
}

// nameWithin names the arguments of one place.
func nameWithin(arguments []*argument) {
	holders, owners := map[string]int{}, map[string]int{}
	for _, a := range arguments {
		a.name = fit(a.parameter)
		if strings.ContainsAny(a.parameter, "<>") {
			a.name = fit(strings.Trim(comparisons.Replace(a.parameter), "_"))
		}
		holders[strings.ToLower(a.name)]++
		if a.name == a.parameter {
			owners[strings.ToLower(a.name)]++
		}
	}
	for _, a := range arguments {
		shared := strings.ToLower(a.name)
		if holders[shared] > 1 && (a.name != a.parameter || owners[shared] > 1) {
			a.name = hashed(a.name, a.parameter)
		}
	}
}

// comparisons are what some APIs end the names of parameters in.
var comparisons = strings.NewReplacer("<=", "_lte_", ">=", "_gte_", "<", "_lt_", ">", "_gt_")

// fit puts _ in place of every run of characters that names of tools and of their arguments must not have. A name that
// is too long is cut and ends in a hash of the whole.
func fit(text string) string {
	var out strings.Builder
	for _, c := range text {
		if !isAlphanumeric(c) && c != '-' && c != '.' {
			c = '_'
		}
		if c != '_' || !strings.HasSuffix(out.String(), "_") {
			out.WriteRune(c)
		}
	}
	fitted := out.String()
	if fitted != text { // what was put in place of brackets at an end says nothing
		fitted = strings.Trim(fitted, "_")
	}
	if len(fitted) > maxName {
		return hashed(fitted, text)
	}
	return fitted
}

// hashed returns name, cut where it is too long, with the beginning of a hash of full at its end, as registry makes the
// names that its prefixes make too long.
func hashed(name, full string) string {
	sum := sha256.Sum256([]byte(full))
	tail := "-" + hex.EncodeToString(sum[:3])
	return name[:min(len(name), maxName-len(tail))] + tail
}

func isAlphanumeric(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
