//go:build linux

package process

import "syscall"

// ownGroup makes a program lead a process group, so that its descendants can be ended with it, and has the kernel end
// the program when its parent dies, however that happens.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
