package wire

import (
	"slices"
	"strings"
)

// environment returns the environment of a child: four variables of the gateway's own,
// and what its config adds. Any other variable of the gateway may hold a secret.
func environment(own []string, added map[string]string) []string {
	var env []string
	for _, variable := range own {
		name, _, _ := strings.Cut(variable, "=")
		if _, replaced := added[name]; !replaced && slices.Contains([]string{"PATH", "HOME", "LANG", "TZ"},
			name) {
			env = append(env, variable)
		}
	}
	for name, value := range added {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}
