//go:build !linux

package wire

import "syscall"

// ownGroup lets a child lead a process group, so that all its descendants end with it.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
