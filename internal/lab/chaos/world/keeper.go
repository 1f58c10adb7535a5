package world

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// keeper starts all children, from one thread of the system. The kernel ends a child when the thread that started it
// does, and threads of Go come and go. So a child lives as long as its keeper, and no longer than this process, however
// that ends.
type keeper struct {
	orders chan func()
	over   chan struct{} // closed when the thread has ended

	mu       sync.Mutex // guards the fields below
	children []*child   // that may run
	closed   bool
}

func newKeeper() *keeper {
	k := &keeper{orders: make(chan func()), over: make(chan struct{})}
	go func() { // close waits for it
		defer close(k.over)
		runtime.LockOSThread() // and never unlocked, so that the thread ends with the goroutine
		for do := range k.orders {
			do()
		}
	}()
	return k
}

// close ends all children, and starts no others.
func (k *keeper) close() {
	k.mu.Lock()
	k.closed = true
	children := slices.Clone(k.children)
	k.mu.Unlock()
	for _, c := range children {
		c.kill()
	}
	close(k.orders)
	<-k.over
}

// order says what to start.
type order struct {
	dir     string   // where it runs, and where what it prints is added to the file log; it must exist
	command []string // the program and its arguments
	env     []string // beside that of this process
	space   bool     // in a new network namespace
	ended   func()   // called when it has ended, before anybody is told; nil: nothing
}

// child is a process that was started, with its process group.
type child struct {
	command *exec.Cmd
	ended   chan struct{} // closed when it has ended
}

// start starts a child.
func (k *keeper) start(o order) (*child, error) {
	log, err := os.OpenFile(filepath.Join(o.dir, logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()                      // the child has its own
	command := exec.Command(o.command[0], o.command[1:]...) //nolint:gosec,noctx // our own programs, which outlive the call; kill ends them
	command.Dir, command.Stdout, command.Stderr = o.dir, log, log
	command.Env = append(os.Environ(), o.env...)
	command.SysProcAttr = attributes(o.space)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, errors.New("the world has ended")
	}
	started := make(chan error)
	k.orders <- func() { started <- command.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", o.command[0], err)
	}
	c := &child{command: command, ended: make(chan struct{})}
	k.children = append(k.children, c)
	go func() { // kill waits for it
		_ = command.Wait()                                      // how it ended is asked of the state
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // what it started and left
		if o.ended != nil {
			o.ended()
		}
		k.forget(c)
		close(c.ended)
	}()
	return c, nil
}

func (k *keeper) forget(c *child) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.children = slices.DeleteFunc(k.children, func(o *child) bool { return o == c })
}

// errNotRunning means that there is no process to do something with.
var errNotRunning = errors.New("it does not run")

// runs tells whether the child has not ended. A nil child never began.
func (c *child) runs() bool {
	if c == nil {
		return false
	}
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// signal sends a signal to the child alone.
func (c *child) signal(number syscall.Signal) error {
	if !c.runs() {
		return errNotRunning
	}
	return c.command.Process.Signal(number)
}

// quit has the child write what all its goroutines do into its log, and ends it.
func (c *child) quit() {
	if c.signal(syscall.SIGQUIT) == nil {
		select {
		case <-c.ended:
		case <-time.After(operatorTime):
		}
	}
	c.kill()
}

// kill ends the child and its group at once, and waits for it.
func (c *child) kill() {
	if c.runs() {
		_ = syscall.Kill(-c.command.Process.Pid, syscall.SIGKILL) // it may just have ended
		<-c.ended
	}
}
