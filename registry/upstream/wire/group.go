//go:build linux

package wire

import "syscall"

// ownGroup lets a child lead a process group, so that all its descendants end with it, and lets it end with the
// gateway, however that ends.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
