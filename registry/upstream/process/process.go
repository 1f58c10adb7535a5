// Package process runs a program together with everything that it starts, and answers how
// all of that ends: when the program ends, when its owner wants it to end, and when its
// owner dies. It deliberately does not know what the program says.
//
// On Linux a keeper stands between the owner and the program. It is this very executable,
// started anew, and it has no other task than to outlive both of them for a moment:
//
//	owner (the gateway)
//	  |  socket: one of a pair; its end tells the keeper that the owner is gone or lets go
//	  v
//	keeper ------ is told SIGTERM, passes it on to the program's group
//	  |  subreaper: a descendant whose parent ends becomes a child of the keeper, whatever its group or session is
//	  v
//	program --- what it starts --- what that starts
//
// The keeper kills every descendant when the program or the socket has ended, and ends
// when none is left. Neither a process group nor a signal on the death of the parent
// would do: setsid leaves the one, and the other is not inherited. A control group needs
// rights that a gateway should not have, and nobody would empty it once the gateway was
// killed.
//
// Without a keeper, and so on other Unix systems, the program leads a process group that
// is killed when the program ends. Systems without process groups run no programs.
package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Program is what is run.
type Program struct {
	Command string // a name that is looked up in PATH, or a path
	Args    []string
	Dir     string   // where it runs, and a relative path in Command starts; "": where its owner runs
	Env     []string // its whole environment

	// Stdin, Stdout and Stderr pass to the program. The caller closes its own when Start
	// has returned.
	Stdin, Stdout, Stderr *os.File

	Rights Rights // needs a keeper unless it is zero

	// Keeper is how the command line of this executable begins, its name included, when
	// it is to call Keep with the arguments that follow. nil: there is no keeper.
	Keeper []string
}

// Check tells why the program of a command that runs in dir (as Program.Dir) cannot be
// started: it is not in PATH or not at its path, or this system runs none. nil: it can be
// started.
func Check(command, dir string) error {
	if err := possible(); err != nil {
		return err
	}
	if dir != "" && strings.Contains(command, "/") && !filepath.IsAbs(command) {
		command = dir + "/" + command // not joined: "./x" must not become a name that is looked up in PATH
	}
	_, err := exec.LookPath(command)
	return err
}

// Tree is a program that was started, and all that descends from it. Wait must be called
// once; Terminate and Kill may be called at any time.
type Tree struct {
	cmd    *exec.Cmd     // the program, or its keeper
	leader int           // the process group of the program
	socket *socket       // to the keeper; nil without one
	ended  chan struct{} // closed when cmd is reaped
}

// Start starts a program. ctx bounds the start alone. An error means that nothing runs.
func Start(ctx context.Context, p Program) (*Tree, error) {
	if err := possible(); err != nil {
		return nil, err
	}
	// Nothing of a client's reaches this command line: it is the operator's own.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), p.Command, p.Args...) //nolint:gosec // see above
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	if p.Keeper != nil {
		return startWithKeeper(ctx, p, cmd)
	}
	if p.Rights != (Rights{}) {
		return nil, errors.New("a user or limits of its own need Linux")
	}
	cmd.Dir, cmd.Env = p.Dir, p.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Stdin, p.Stdout, p.Stderr
	cmd.SysProcAttr = ownGroup()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &Tree{cmd: cmd, leader: cmd.Process.Pid, ended: make(chan struct{})}, nil
}

// Wait waits for the program to end, and ends what it left behind: with a keeper
// everything, otherwise its process group. The error says how the program ended, and is
// never nil.
func (t *Tree) Wait() error {
	err := cmp.Or(t.cmd.Wait(), errors.New("exit status 0"))
	defer close(t.ended)
	if t.socket != nil {
		defer t.socket.close()
		said, known := t.socket.last()
		if known {
			return errors.New(said)
		}
		err = fmt.Errorf("its keeper ended: %w", err) // killed, so that it could not end the rest
	}
	killGroup(t.leader)
	return err
}

// Terminate asks the program and its process group to end. It does nothing once the
// program is reaped, because its number may then belong to another process.
func (t *Tree) Terminate() {
	select {
	case <-t.ended:
		return
	default:
	}
	if t.socket != nil {
		t.socket.terminate(t.cmd.Process)
		return
	}
	terminateGroup(t.leader)
}

// Kill ends everything at once. It does not wait for that; Wait does.
func (t *Tree) Kill() {
	if t.socket != nil {
		t.socket.letGo(t.cmd.Process)
		return
	}
	killGroup(t.leader)
}
