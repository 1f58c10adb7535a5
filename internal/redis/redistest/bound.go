//go:build linux

package redistest

import (
	"cmp"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// StartBound starts a program that the system kills when this process ends, however it
// ends: a test program that runs into its time, or is killed, does not end its servers.
// The system goes by the thread that started the program. So one goroutine starts them
// all, on a thread that is its own and lasts as long as the process.
func StartBound(program *exec.Cmd) error {
	program.SysProcAttr = cmp.Or(program.SysProcAttr, &syscall.SysProcAttr{})
	program.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	starts() <- func() { started <- program.Start() }
	return <-started
}

var starts = sync.OnceValue(func() chan<- func() {
	all := make(chan func())
	go func() { // ends with the process
		runtime.LockOSThread()
		for start := range all {
			start()
		}
	}()
	return all
})
