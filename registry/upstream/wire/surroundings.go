package wire

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// environment returns the environment of a child: four variables of the gateway's own, and what its config adds. Any
// other variable of the gateway may hold a secret.
func environment(own []string, added map[string]string) []string {
	var env []string
	for _, variable := range own {
		name, _, _ := strings.Cut(variable, "=")
		if _, replaced := added[name]; !replaced && slices.Contains([]string{"PATH", "HOME", "LANG", "TZ"}, name) {
			env = append(env, variable)
		}
	}
	for name, value := range added {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

// keepFiles makes sure that a child inherits no open file. The files that the gateway opens never pass to a child;
// those that it inherited itself might.
func keepFiles() {
	open, _ := os.ReadDir("/dev/fd") // where /dev/fd is missing, the gateway's own files are still safe
	for _, file := range open {
		if fd, err := strconv.Atoi(file.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
