//go:build linux

package postgrestest

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// nobody is a user and a group without rights.
const nobody = 65534

// unprivileged has a program run as nobody if this one is root's, and has the system kill
// it when this process ends, however it ends.
func unprivileged(c *exec.Cmd) *exec.Cmd {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return c
}

// start starts a program on a thread that lasts as long as the process: the system goes
// by the thread that started it.
func start(c *exec.Cmd) error {
	started := make(chan error)
	go func() { // ends with the process
		runtime.LockOSThread()
		started <- c.Start()
		select {}
	}()
	return <-started
}
