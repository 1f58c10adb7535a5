package openapi

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

// maxName bounds the name of a tool, without its prefix, and the name of an argument, in
// bytes.
const maxName = 64

// nameTools gives every operation of a document the name of its tool. The name is the
// operationId, or method and path when there is none, with other characters than a tool's
// name may have replaced. When several operations would share a name, all of them get a
// hash at its end, also the first: otherwise a name that a model knows could come to mean
// another operation when one is added to the document or removed.
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

// plainName returns the name of the operation's tool as long as no other operation would
// have it too.
func (o *operation) plainName() string {
	return cmp.Or(fit(o.id), fit(strings.ToLower(o.method)+"_"+strings.Trim(o.path, "/")))
}

// nameArguments gives each argument its name: the name of its parameter, with characters
// that clients do not take replaced and < and > spelled out. The name body belongs to the
// body. Names do not depend on the order of the parameters in the document. When several
// would share a name,
//
//   - within one place (path, query or header) the parameter that is called exactly so
//     keeps the name, and the others get a hash of their own name at its end;
//   - of parameters in different places, the one in the path keeps it, then the one in
//     the query; the others are called place.name.
//
// The error is for a parameter that still has no name of its own.
func nameArguments(arguments []*argument, hasBody bool) error {
	sorted := slices.SortedFunc(slices.Values(arguments),
		func(a, b *argument) int { return strings.Compare(a.parameter, b.parameter) })
	taken := map[string]bool{"body": hasBody}
	for _, location := range []string{"path", "query", "header"} {
		within := slices.DeleteFunc(slices.Clone(sorted),
			func(a *argument) bool { return a.location != location })
		nameWithin(within)
		for _, a := range within {
			if taken[strings.ToLower(a.name)] || a.name == "" {
				a.name = fit(location + "." + a.name)
			}
			if taken[strings.ToLower(a.name)] {
				return fmt.Errorf("%s parameter %q cannot be told from another one by its name", location,
					a.parameter)
			}
			taken[strings.ToLower(a.name)] = true
		}
	}
	return nil
}

// nameWithin names the arguments of one place, each differently from the others of that
// place.
func nameWithin(arguments []*argument) {
	// by name: how many would get it, how many are called so
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

// comparisons spells out the operators that some APIs write at the end of a parameter's
// name, as in created>=. If they were replaced like other characters, created< and
// created> would both become created.
var comparisons = strings.NewReplacer("<=", "_lte_", ">=", "_gte_", "<", "_lt_", ">", "_gt_")

var unfit = regexp.MustCompile(`[^a-zA-Z0-9.-]+`)

// fit makes a name of a tool or argument of text: one _ takes the place of each run of
// characters that such names must not have. A name that is too long is cut and ends in a
// hash of text.
func fit(text string) string {
	fitted := unfit.ReplaceAllString(text, "_")
	if fitted != text { // a _ at an end that stands for a bracket, as in filter[name], tells a model nothing
		fitted = strings.Trim(fitted, "_")
	}
	if len(fitted) > maxName {
		return hashed(fitted, text)
	}
	return fitted
}

// hashed returns name, cut when it is too long, with "-" and six hexadecimal digits of a
// hash of full at its end.
func hashed(name, full string) string {
	return registry.Marked(name, maxName, full)
}
