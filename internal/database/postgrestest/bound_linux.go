//go:build linux

package postgrestest

import (
	"os"
	"os/exec"
	"syscall"
)

// nobody is a user and a group without rights.
const nobody = 65534

// unprivileged has a program run as nobody if this one is root's.
func unprivileged(c *exec.Cmd) *exec.Cmd {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() == 0 {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return c
}
