//go:build linux

package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// become gives up rights and makes the process the program. It returns only the reason
// why it could not.
func (o order) become() error {
	runtime.GOMAXPROCS(1) // so that no thread is begun beside this one without need
	parent := os.Getppid()
	if err := o.rights.take(); err != nil {
		return err
	}
	// A change of the user cancels what ownGroup asked for.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("end with the keeper: %w", err)
	}
	if os.Getppid() != parent {
		return errors.New("its keeper has ended")
	}
	environment := os.Environ()
	// The limit comes last. The kernel counts the processes of the new user, whom it
	// would refuse to become where they are too many, and each thread of this program is
	// one: Go ends where it cannot begin another.
	processes := int64(o.rights.Limits.Processes)
	if err := restrict("processes", unix.RLIMIT_NPROC, processes, processes); err != nil {
		return err
	}
	return &os.PathError{Op: "exec", Path: o.path, Err: syscall.Exec(o.path, o.args, environment)} //nolint:gosec // the operator's own command
}

// take restricts the process to the rights, except for the number of processes.
func (r Rights) take() error {
	l := r.Limits
	seconds := int64((l.CPU + time.Second - 1) / time.Second)
	for _, one := range []struct {
		name       string
		resource   int
		soft, hard int64
	}{
		// Not the address space, of which Node.js and Go reserve far more than they use.
		{"memory", unix.RLIMIT_DATA, l.Memory, l.Memory},
		{"cpu_time", unix.RLIMIT_CPU, seconds, seconds + 1}, // a second to end after SIGXCPU
		{"files", unix.RLIMIT_NOFILE, int64(l.Files), int64(l.Files)},
	} {
		if err := restrict(one.name, one.resource, one.soft, one.hard); err != nil {
			return err
		}
	}
	return r.User.take()
}

// restrict sets one limit unless it is zero.
func restrict(name string, resource int, soft, hard int64) error {
	if soft <= 0 || hard <= 0 {
		return nil
	}
	if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: uint64(soft), Max: uint64(hard)}); err != nil {
		return fmt.Errorf("limits.%s is more than the gateway itself may have: %w", name, err)
	}
	return nil
}

// take makes the process one of the user, for good.
func (u User) take() error {
	if u == (User{}) {
		return nil
	}
	if err := gainNothing(); err != nil {
		return err
	}
	// A gateway that has only the capabilities is refused, because the program could be
	// left with them.
	if os.Geteuid() == 0 && syscall.Setgroups(nil) == nil && syscall.Setgid(int(u.GID)) == nil &&
		syscall.Setuid(int(u.UID)) == nil {
		return nil
	}
	return fmt.Errorf(
		"run as user %d: the gateway must run as root for that, with the capabilities SETUID and SETGID",
		u.UID)
}

// gainNothing makes the thread, and what it becomes, unable to get rights from the file
// of a program, such as sudo's, and empties the bounding set of its capabilities. The set
// needs the capability SETPCAP; a gateway without it was given few by its container, and
// what the set allows nobody can get any more.
func gainNothing() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	for capability := uintptr(0); ; capability++ {
		switch err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); {
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EPERM): // behind the last, or without SETPCAP
			return nil
		case err != nil:
			return fmt.Errorf("empty the bounding set: %w", err)
		}
	}
}
