//go:build !linux

package world

import "syscall"

// attributes make a child lead a process group of its own. Elsewhere than on Linux it may
// outlive this process, and there are no network namespaces, which network.begin says
// before anybody asks for one here.
func attributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
