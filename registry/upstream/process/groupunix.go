//go:build unix

package process

import (
	"os"
	"strconv"
	"syscall"
)

// possible tells why no program can be run here; nil: programs can be.
func possible() error { return nil }

// ownGroup makes a program lead a process group, so that its descendants can be ended
// with it.
func ownGroup() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setpgid: true}
	bind(attributes)
	return attributes
}

// terminateGroup asks a process group to end.
func terminateGroup(leader int) {
	_ = syscall.Kill(-leader, syscall.SIGTERM) // fails only when the program has just ended
}

// killGroup ends a process group at once. Its number cannot belong to another group yet:
// it becomes free only when the last member is gone, and is then not handed out again
// until all other numbers were.
func killGroup(leader int) {
	_ = syscall.Kill(-leader, syscall.SIGKILL) // usually nobody is left
}

// KeepFiles makes sure that a program inherits no open file. The files that the gateway
// opens never pass to a program; those that it inherited itself might.
func KeepFiles() {
	open, _ := os.ReadDir("/dev/fd") // where /dev/fd is missing, the gateway's own files are still safe
	for _, file := range open {
		if fd, err := strconv.Atoi(file.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
