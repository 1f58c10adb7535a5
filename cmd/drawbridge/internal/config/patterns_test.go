package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestPatternsThatSomePrefixFitsAreTaken shows that only a pattern which can never match
// is refused: the names of tools begin with a prefix, which need not be the server's name
// and may be empty.
func TestPatternsThatSomePrefixFitsAreTaken(t *testing.T) {
	for server, patterns := range map[string][]string{
		`{command: x}`: {
			"other__x", "other__*", "o*", "*x", "*__x",
			"prompt:other__x", "resource:other:file:///*", "resource:o*",
		},
		`{command: x, prefix: "tools"}`: {
			"tools__calcluate", "t*", "prompt:tools__x",
			"resource:other:*",
		},
		`{command: x, prefix: ""}`: {
			"toolbox__calcluate", "delete", "delete_*", "prompt:x",
			"resource:other:*",
		},
		`{builtin: [calculate]}`: {
			"other__calculate", "other__current_time",
			"other__run_*",
		},
		`{builtin: [calculate], prefix: tools}`:     {"tools__calculate"},
		`{url: "https://example.com", prefix: web}`: {"web__x", "resource:other:x"},
	} {
		for _, pattern := range patterns {
			rules := fmt.Sprintf("servers: [files, other], rules: [{deny: [%q]}]", pattern)
			parse(t, strings.Replace(minimal, "servers: [files]", rules, 1)+"  other: "+server+"\n")
		}
	}
}

func TestSubjectsOfKnownIssuersAreTaken(t *testing.T) {
	for _, subject := range []string{"https://login.example/#alice", "https://login.example/#a#b"} {
		parse(t, strings.Replace(minimal, "servers: [files]",
			fmt.Sprintf("servers: [files], rules: [{subjects: [%q], deny: ['*']}]", subject), 1))
	}
}
