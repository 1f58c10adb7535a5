//go:build !linux

package wire

import "syscall"

// ownGroup makes a child lead a process group, so that all its descendants can be ended with it. Unlike on Linux, the
// child may outlive a gateway that is killed.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
