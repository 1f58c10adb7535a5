//go:build linux

package process

import "syscall"

// bind has the kernel end the program when its parent dies, however that happens.
func bind(program *syscall.SysProcAttr) { program.Pdeathsig = syscall.SIGKILL }
