package config

import (
	"regexp"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
)

// pairs reads names with values, such as headers. The values may be secrets, so no
// message quotes one. A name that looks like that of a secret may not take the default of
// a variable, and no value may end in a variable without braces: a gateway that runs with
// a placeholder for its token fails later, and less clearly. The function check returns
// what is wrong with a pair, "" when nothing is.
func (r *reader) pairs(
	what string, check func(name, value string) string,
) func(*node) map[string]string {
	return func(n *node) map[string]string {
		out := map[string]string{}
		r.entries(n, what, func(m member) {
			reason := check(m.name, m.value.text)
			if !r.faultBroken(m.value) {
				r.faultFirst(
					wrong{m.value.kind != scalar, m.value, "a text is wanted here"},
					wrong{reason != "", m.key, reason},
					wrong{bareVariable.MatchString(m.value.raw), m.value, "a variable is written as ${NAME}"},
					wrong{
						m.value.defaulted && sanitize.NamesSecret(m.name), m.value,
						"a name like that of a secret allows no default: set the variable or, if this is " +
							"no secret, write the value itself",
					})
			}
			out[m.name] = m.value.text
		})
		return out
	}
}

// bareVariable is a value that is, or ends in, a variable as shells and some clients
// write it.
var bareVariable = regexp.MustCompile(`(^| )\$[A-Z_][A-Z0-9_]*$`)

// checkVariable returns what is wrong with an environment variable for a program, "" when
// nothing is.
func checkVariable(name, value string) string {
	if !variableName.MatchString(name) || strings.ContainsRune(value, 0) {
		return "the name of a variable has letters, digits and _; its value has no NUL"
	}
	return ""
}

var (
	headerPattern = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	ownHeaders    = regexp.MustCompile(`(?i)^(host|connection|content-.*|transfer-encoding|te|trailer|` +
		`upgrade|keep-alive|accept|accept-encoding|mcp-.*|last-event-id)$`)
)

// checkHeaderOnce returns checkHeader for the headers of one mapping. Capitals make no
// other header, and nobody could say which of two is sent.
func checkHeaderOnce() func(name, value string) string {
	seen := map[string]bool{}
	return func(name, value string) string {
		reason, key := checkHeader(name, value), strings.ToLower(name)
		if reason == "" && seen[key] {
			reason = "the header " + name + " stands twice"
		}
		seen[key] = true
		return reason
	}
}

// checkHeader returns what is wrong with a header for a server, "" when nothing is.
// Headers that the gateway sets itself are refused, since a second value could break the
// framing of a request or contradict the protocol. A line break in a value would begin a
// header of its own.
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
