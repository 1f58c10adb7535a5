package config

import (
	"regexp"
	"slices"
	"strings"
)

// pairs reads names with values that may be secrets: no value is ever quoted, and one whose name looks like that of a
// secret may have no default. check returns what is wrong with a pair, "" when nothing is.
func (r *reader) pairs(n *node, what string, check func(name, value string) string) map[string]string {
	out := map[string]string{}
	r.entries(n, what, func(m member) {
		switch reason := check(m.name, m.value.text); {
		case m.value.kind != scalar:
			r.fault(m.value, "a text is wanted here")
		case m.value.broken != "":
		case reason != "":
			r.fault(m.key, "%s", reason)
		case m.value.defaulted && secretName(m.name):
			r.fault(m.value, "a secret has no default: the variable is not set")
		}
		out[m.name] = m.value.text
	})
	return out
}

// secretName tells whether what has that name is probably a secret.
func secretName(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"auth", "token", "secret", "key", "password", "cookie", "credential"}, func(word string) bool {
		return strings.Contains(name, word)
	})
}

func checkVariable(name, value string) string {
	if !variableName(name) || strings.ContainsRune(value, 0) {
		return "the name of a variable has letters, digits and _; its value has no NUL"
	}
	return ""
}

var (
	headerPattern = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	ownHeaders    = regexp.MustCompile(`(?i)^(host|connection|content-.*|transfer-encoding|te|trailer|upgrade|keep-alive|accept|accept-encoding|mcp-.*|last-event-id)$`)
)

func checkHeader(name, value string) string {
	switch {
	case !headerPattern.MatchString(name):
		return "this is not the name of an HTTP header"
	case ownHeaders.MatchString(name):
		return "the gateway sets " + name + " itself"
	case strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }):
		return "the value of " + name + " has a control character (a line break at its end?)"
	}
	return ""
}
