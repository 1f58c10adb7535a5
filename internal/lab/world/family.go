//go:build linux

package world

import "syscall"

// attributes make a child lead a process group of its own, and live in a new network
// namespace if space.
func attributes(space bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	if space {
		a.Cloneflags = syscall.CLONE_NEWNET
	}
	return a
}
