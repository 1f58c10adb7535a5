//go:build !linux

package process

import "syscall"

// ownGroup makes a program lead a process group, so that its descendants can be ended with it. Unlike on Linux, the
// program may outlive an owner that is killed.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
