package openapi

import "strings"

// maxName bounds the name of a tool, before its prefix, and of an argument, in bytes.
const maxName = 64

// nameTools gives every operation the name of its tool: the operationId, else method and path, made of the characters
// that a tool's name may have.
func nameTools(operations []*operation) {
	for _, o := range operations {
		o.name = o.plainName()
	}
}

func (o *operation) plainName() string {
	if name := fit(o.id); name != "" {
		return name
	}
	return fit(strings.ToLower(o.method) + "_" + strings.Trim(o.path, "/"))
}

// fit puts _ in place of every run of characters that names of tools and of their arguments must not have.
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
	return fitted[:min(len(fitted), maxName)]
}

func isAlphanumeric(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
