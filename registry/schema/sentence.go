package schema

import (
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// keyword explains one keyword of n that failed. A keyword that failed only because one
// of its subschemas did gets no sentence, since that subschema has its own.
func (e *explainer) keyword(f *fault, n *node, keyword string, value any, path []string) {
	switch keyword {
	case "type":
		e.add(path, "must be %s, got %s", n.kinds, kindOfValue(value))
	case "enum":
		elements, _ := n.rule(keyword).Elements()
		e.enum(elements, path)
	case "const":
		e.add(path, "must be %s", mcp.Clip(string(n.rule(keyword)), 200))
	case "required":
		e.missing(n.required, value, path, "is required")
	case "dependentRequired":
		e.dependent(n, value, path)
	case "anyOf", "oneOf":
		e.alternatives(f, n, keyword, value, path)
	case "unevaluatedItems":
		if to := n.child(keyword); to != nil && to.never {
			e.add(path, "has too many items")
		}
	case "pattern":
		e.add(path, "must match the pattern %s", mcp.Clip(n.source, 200))
	default:
		if sentence := sentences[keyword]; sentence != "" {
			e.add(path, "%s", strings.ReplaceAll(sentence, "%s", mcp.Clip(string(n.rule(keyword)), 80)))
		}
	}
}

// sentences are for keywords that need nothing but their value to be explained, for which
// %s stands.
var sentences = map[string]string{
	"not":              "has a form that is excluded",
	"schema":           "must be left out",
	"uniqueItems":      "must not hold the same item twice",
	"minimum":          "must be at least %s",
	"maximum":          "must be at most %s",
	"exclusiveMinimum": "must be above %s",
	"exclusiveMaximum": "must be below %s",
	"multipleOf":       "must be a multiple of %s",
	"minLength":        "must have at least %s characters",
	"maxLength":        "must have at most %s characters",
	"minItems":         "must have at least %s items",
	"maxItems":         "must have at most %s items",
	"minProperties":    "must have at least %s members",
	"maxProperties":    "must have at most %s members",
	"minContains":      "has too few items of the form it must contain",
	"maxContains":      "must have at most %s items of the form it contains",
}

// enum lists the values that are allowed.
func (e *explainer) enum(elements []mcp.RawJSON, path []string) {
	texts := make([]string, len(elements))
	for i, element := range elements {
		texts[i] = mcp.Clip(string(element), 60)
	}
	e.add(path, "must be one of %s", list(texts))
}

// missing says the same of each of the names that the value at path lacks.
func (e *explainer) missing(names []string, value any, path []string, format string, args ...any) {
	object, _ := value.(map[string]any)
	for _, name := range names {
		if _, ok := object[name]; !ok {
			e.add(append(slices.Clip(path), named(name)), format, args...)
		}
	}
}

// dependent names every member that is missing beside one that is there.
func (e *explainer) dependent(n *node, value any, path []string) {
	object, _ := value.(map[string]any)
	rule, _ := mcp.ObjectOf(n.rule("dependentRequired"))
	for given, list := range rule.Members {
		if _, ok := object[given]; !ok {
			continue
		}
		names, _ := n.names(list, "dependentRequired")
		e.missing(names, value, path, "is required when %s is given", named(given))
	}
}
