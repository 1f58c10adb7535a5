//go:build linux

package wire

import "syscall"

// ownGroup makes a child lead a process group, so that all its descendants can be ended with it, and has the kernel end
// the child when the gateway dies, however that happens.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
