package wire

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// environment returns what a child sees: four variables of the gateway's own and what its config adds.
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

// keepFiles makes sure that no open file passes to a child. Files that the gateway opens never do; those that it
// inherited itself might.
func keepFiles() {
	open, _ := os.ReadDir("/dev/fd") // where there is none, what the gateway opened is still safe
	for _, file := range open {
		if fd, err := strconv.Atoi(file.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// termGroup asks the group of the process to end, unless the process is reaped already.
func termGroup(pid int, exited <-chan struct{}) {
	select {
	case <-exited:
	default:
		_ = syscall.Kill(-pid, syscall.SIGTERM) // it may just have ended
	}
}

// killGroup ends the group of a process at once. The group's number cannot belong to anyone else yet: it is free only
// when the last member is gone, and then not handed out again until all others were.
func killGroup(pid int) {
	_ = syscall.Kill(-pid, syscall.SIGKILL) // usually nobody is left
}
