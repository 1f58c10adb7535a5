//go:build linux

package process

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	self = "/proc/self/exe" // this executable, also when its file was replaced since

	lastWait = time.Second // for reading what a keeper that has ended said last
	// from letting go of a keeper until it is killed: it may have been stopped by a
	// signal
	letGoWait = sweepLimit + 5*time.Second
)

// socket is the owner's end of a pair of sockets to a keeper. The owner says nothing on
// it: that it is closed is the message, and the kernel closes it when the owner is
// killed. The keeper sends a few status messages, one a line:
//
//	failed TEXT   the program could not be started; the keeper ends
//	started PID   the program runs
//	ended TEXT    the program has ended, and nothing of it is left; the keeper ends
type socket struct {
	file *os.File
	in   *bufio.Reader
}

// startWithKeeper starts a keeper and has it start the program, whose path and arguments
// are those of cmd.
func startWithKeeper(ctx context.Context, p Program, cmd *exec.Cmd) (*Tree, error) {
	ours, theirs, err := sockets()
	if err != nil {
		return nil, fmt.Errorf("open a socket to the keeper: %w", err)
	}
	l := &socket{file: ours, in: bufio.NewReader(ours)}
	keeper := &exec.Cmd{
		Path: self, Args: slices.Concat(p.Keeper, []string{roleKeeper, p.Rights.text(), cmd.Path}, cmd.Args),
		Dir: p.Dir, Env: p.Env, Stdin: p.Stdin, Stdout: p.Stdout, Stderr: p.Stderr,
		ExtraFiles: []*os.File{theirs},
		// A group of its own keeps away what a terminal sends. No signal on the owner's
		// death: it would end the keeper before the keeper has done its work.
		SysProcAttr: &unix.SysProcAttr{Setpgid: true},
	}
	err = keeper.Start()
	_ = theirs.Close() // the keeper has its own
	if err != nil {
		l.close()
		return nil, fmt.Errorf("start keeper: %w", err)
	}
	t := &Tree{cmd: keeper, socket: l, ended: make(chan struct{})}
	// fails only when it is closed
	stop := context.AfterFunc(ctx, func() { _ = ours.SetReadDeadline(time.Unix(1, 0)) })
	t.leader, err = l.first()
	stop()
	if err != nil {
		t.Kill()
		_ = keeper.Wait() // how the keeper ended says less
		l.close()
		return nil, cmp.Or(ctx.Err(), err)
	}
	return t, nil
}

// sockets returns both ends of a pair. Nobody inherits them who is not given one.
func sockets() (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(pair[0]), "socket"), os.NewFile(uintptr(pair[1]), "socket"), nil
}

// first returns the process id of the program that the keeper has started, or why it
// could not.
func (l *socket) first() (pid int, err error) {
	status, text, err := l.read()
	switch {
	case err != nil:
		return 0, fmt.Errorf("hear of the keeper: %w", err)
	case status != statusStarted:
		return 0, errors.New(text)
	}
	return strconv.Atoi(text)
}

// last returns how the program ended. It is called when the keeper has ended. known is
// false when the keeper did not come to say it, because it was killed itself.
func (l *socket) last() (how string, known bool) {
	// fails only when it was closed, and so does the next line
	_ = l.file.SetReadDeadline(time.Now().Add(lastWait))
	status, text, err := l.read()
	return text, err == nil && status == statusEnded
}

func (l *socket) read() (status, text string, err error) {
	said, err := l.in.ReadString('\n')
	status, text, _ = strings.Cut(strings.TrimSpace(said), " ")
	return status, text, err
}

// terminate has the keeper ask the program to end.
func (*socket) terminate(keeper *os.Process) {
	_ = keeper.Signal(unix.SIGTERM) // fails only when the keeper has just ended
	_ = keeper.Signal(unix.SIGCONT) // in case that the program has stopped it
}

// letGo makes the keeper end everything. What the keeper says of that is still read. A
// keeper that the program has stopped goes on for it; killed at last, it would leave
// whoever called setsid.
func (l *socket) letGo(keeper *os.Process) {
	if raw, err := l.file.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) }) // it may have ended
	}
	_ = keeper.Signal(unix.SIGCONT)                         // fails only when it has just ended
	time.AfterFunc(letGoWait, func() { _ = keeper.Kill() }) // does nothing when it has ended
}

func (l *socket) close() { _ = l.file.Close() } // nothing waits to be written
