//go:build linux

package process

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What Keep is called for: its first argument.
const (
	roleKeeper  = "keeper"
	roleProgram = "program" // to become the program, with its rights
)

// What a keeper says; socket.go has the meaning.
const (
	statusFailed  = "failed"
	statusStarted = "started"
	statusEnded   = "ended"
)

const (
	socketFD = 3 // of the socket in the keeper, and of the pipe in what becomes the program
	// for ending all descendants; what hangs in the kernel cannot be ended at all
	sweepLimit = 10 * time.Second
	textMax    = 4 << 10 // bytes of a text that is reported
)

// keeper is the life of one keeper.
type keeper struct {
	order
	socket *os.File
	doomed chan struct{} // closed when everything is to end
	doom   func()        // closes it
}

// order is what a keeper is told on its command line.
type order struct {
	rights Rights
	path   string
	args   []string // the program's name first
}

// Keep makes the process a keeper as args say, which startWithKeeper put on its command
// line, and does not return. The function main calls it before anything else.
func Keep(args []string) {
	// The kernel ends the program when the thread that started it ends. So this
	// goroutine, which lives as long as the process, keeps its thread.
	runtime.LockOSThread()
	o, err := parseOrder(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "drawbridge starts this command itself, and nobody else can:", err)
		os.Exit(2)
	}
	syscall.CloseOnExec(socketFD)
	upward := os.NewFile(socketFD, "socket")
	if args[0] == roleProgram {
		report(upward, statusFailed, o.become())
	}
	k := &keeper{order: o, socket: upward, doomed: make(chan struct{})}
	k.doom = sync.OnceFunc(func() { close(k.doomed) })
	k.run(os.Args[:len(os.Args)-len(args)])
}

func parseOrder(args []string) (o order, err error) {
	var stat unix.Stat_t
	if err := unix.Fstat(socketFD, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFSOCK &&
		stat.Mode&unix.S_IFMT != unix.S_IFIFO {
		return o, errors.New("it has no socket")
	}
	if len(args) < 4 || args[0] != roleKeeper && args[0] != roleProgram {
		return o, errors.New("its arguments are wrong")
	}
	o.rights, err = parseRights(args[1])
	o.path, o.args = args[2], args[3:]
	return o, err
}

// run starts the program and stays until nothing of it is left.
func (k *keeper) run(again []string) {
	runtime.GOMAXPROCS(1) // it has nothing to do at the same time
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if err != nil {
		report(k.socket, statusFailed, fmt.Errorf("become a subreaper: %w", err))
	}
	program, err := k.start(again)
	if err != nil {
		report(k.socket, statusFailed, err)
	}
	closeStandardFiles()
	if _, err := fmt.Fprintln(k.socket, statusStarted, program); err != nil {
		k.doom() // the owner is gone already
	}
	go func() {
		_, _ = io.Copy(io.Discard, k.socket) // ends with the owner, who says nothing
		k.doom()
	}()
	go k.passOn(asked, program)
	go k.sweep()
	k.finish(k.reap(program))
}

// start starts the program, which then has its rights already. again is how the command
// line begins that makes this executable call Keep.
func (k *keeper) start(again []string) (pid int, err error) {
	path, args, files := k.path, k.args, []*os.File{os.Stdin, os.Stdout, os.Stderr}
	if k.rights != (Rights{}) {
		return k.startWithRights(again, files)
	}
	p, err := os.StartProcess(path, args, &os.ProcAttr{Files: files, Env: os.Environ(), Sys: ownGroup()})
	if err != nil {
		return 0, err
	}
	return p.Pid, nil
}

// startWithRights starts this executable once more, which gives up rights and becomes the
// program. Only a process itself can do that before any line of the program runs. It
// tells through a pipe why it could not; that the pipe closes without a word says that
// the program runs.
func (k *keeper) startWithRights(again []string, files []*os.File) (pid int, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer r.Close() //nolint:errcheck // nothing was written
	args := slices.Concat(again, []string{roleProgram, k.rights.text(), k.path}, k.args)
	how := &os.ProcAttr{Files: append(files, w), Env: os.Environ(), Sys: ownGroup()}
	p, err := os.StartProcess(self, args, how) //nolint:gosec // the command line is the one that the keeper has from the gateway
	// What was started has its own end of the pipe.
	_ = w.Close()
	if err != nil {
		return 0, err
	}
	said, err := io.ReadAll(io.LimitReader(r, 2*textMax))
	if err == nil && len(said) == 0 {
		return p.Pid, nil
	}
	_, _ = unix.Wait4(p.Pid, nil, 0, nil) // it ends by itself
	_, text, _ := strings.Cut(strings.TrimSpace(string(said)), " ")
	return 0, cmp.Or(err, errors.New(text))
}

// closeStandardFiles closes the input and outputs of the program: as long as the keeper
// held them, nobody would see them closed.
func closeStandardFiles() {
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

// reap waits for the program and for the orphans that it leaves, and returns how the
// program ended. No child is left then, and so no descendant: each would have a parent
// that is a child or descends from one. Nothing else in this process waits for a child.
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

// finish says how the program ended, and ends the process. Where sweep and reap come to
// it at once, the owner reads the first line alone.
func (k *keeper) finish(how string) { report(k.socket, statusEnded, errors.New(how)) }

// report says how it ended, as one line, and ends the process at once: nothing in it
// waits to be written.
func report(to *os.File, status string, err error) {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	_, _ = fmt.Fprintln(to, status, text[:min(len(text), textMax)]) // the reader may be gone
	syscall.Exit(0)
}
