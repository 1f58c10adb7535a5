//go:build linux

package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What a keeper says; line.go has the meaning.
const (
	wordFailed  = "failed"
	wordStarted = "started"
	wordEnded   = "ended"
)

const (
	lineFD     = 3                // of the line in the keeper
	sweepLimit = 10 * time.Second // for ending all descendants; what hangs in the kernel cannot be ended at all
	textMax    = 4 << 10          // bytes of a text that is reported
)

// keeper is the life of one keeper.
type keeper struct {
	order
	line   *os.File
	told   sync.Once     // for the last word, which main and sweep may want to say
	doomed chan struct{} // closed when everything is to end
	doom   func()        // closes it
}

// order is what a keeper is told on its command line.
type order struct {
	path string
	args []string // the program's name first
}

// Keep makes the process a keeper as args say, which startKept put on its command line, and does not return. The
// function main calls it before anything else.
func Keep(args []string) {
	// The kernel ends the program when the thread that started it ends. So this goroutine, which lives as long as the
	// process, keeps its thread.
	runtime.LockOSThread()
	o, err := parseOrder(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "drawbridge starts this command itself, and nobody else can:", err)
		os.Exit(2)
	}
	syscall.CloseOnExec(lineFD)
	upward := os.NewFile(lineFD, "line")
	k := &keeper{order: o, line: upward, doomed: make(chan struct{})}
	k.doom = sync.OnceFunc(func() { close(k.doomed) })
	k.run()
}

func parseOrder(args []string) (o order, err error) {
	var stat unix.Stat_t
	if err := unix.Fstat(lineFD, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFSOCK && stat.Mode&unix.S_IFMT != unix.S_IFIFO {
		return o, errors.New("it has no line")
	}
	if len(args) < 2 {
		return o, errors.New("its arguments are missing")
	}
	return order{path: args[0], args: args[1:]}, nil
}

// run starts the program and stays until nothing of it is left.
func (k *keeper) run() {
	runtime.GOMAXPROCS(1) // it has nothing to do at the same time
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if err != nil {
		report(k.line, wordFailed, fmt.Errorf("become a subreaper: %w", err))
	}
	program, err := k.start()
	if err != nil {
		report(k.line, wordFailed, err)
	}
	leave()
	if _, err := fmt.Fprintln(k.line, wordStarted, program); err != nil {
		k.doom() // the owner is gone already
	}
	go func() {
		_, _ = io.Copy(io.Discard, k.line) // ends with the owner, who says nothing
		k.doom()
	}()
	go k.passOn(asked, program)
	go k.sweep()
	how := k.reap(program)
	k.finish(how)
}

// start starts the program.
func (k *keeper) start() (pid int, err error) {
	p, err := os.StartProcess(k.path, k.args, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Env: os.Environ(), Sys: ownGroup()})
	if err != nil {
		return 0, err
	}
	return p.Pid, nil
}

// leave lets go of the program's input and outputs: as long as the keeper held them, nobody would see them closed.
func leave() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	for fd := range 3 {
		if err != nil || unix.Dup3(int(null.Fd()), fd, 0) != nil {
			_ = unix.Close(fd) // as good
		}
	}
}

// passOn tells the program's group to end whenever the keeper is told.
func (k *keeper) passOn(asked <-chan os.Signal, program int) {
	for {
		select {
		case <-asked:
			_ = unix.Kill(-program, unix.SIGTERM) // it may have ended just now
		case <-k.doomed:
			return
		}
	}
}

// reap waits for the program and for the orphans that it leaves, and returns how the program ended. No child is left
// then, and so no descendant: each would have a parent that is a child or descends from one. Nothing else in this
// process waits for a child.
func (k *keeper) reap(program int) (how string) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil: // ECHILD
			return how
		case pid == program:
			how = ending(status)
			k.doom()
		}
	}
}

// ending words how a process ended, as package os does.
func ending(status unix.WaitStatus) string {
	switch {
	case status.Signaled() && status.CoreDump():
		return "signal: " + status.Signal().String() + " (core dumped)"
	case status.Signaled():
		return "signal: " + status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}

// finish says the last word and ends the process.
func (k *keeper) finish(how string) {
	k.told.Do(func() { report(k.line, wordEnded, errors.New(how)) })
}

// report says the last word, as one line, and ends the process at once: nothing in it waits to be written.
func report(to *os.File, word string, err error) {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	_, _ = fmt.Fprintln(to, word, text[:min(len(text), textMax)]) // the reader may be gone
	syscall.Exit(0)
}
