package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// peerStart is how long a peer may take until it listens.
const peerStart = 30 * time.Second

// startPeer runs a command and waits until something listens at addr. It gets an
// environment of its own: no setting of the user's reaches it, and its home is dir.
func (l *lab) startPeer(ctx context.Context, dir, addr string, command []string,
	env ...string,
) (*world.Process, error) {
	p, err := l.Start(world.Order{
		Dir: dir, Command: command, Bare: true,
		Env: append([]string{
			searchPath(), "HOME=" + dir, "TMPDIR=" + dir, "DO_NOT_TRACK=1",
			"NO_UPDATE_NOTIFIER=1",
		}, env...),
	})
	if err != nil {
		return nil, err
	}
	if err := p.Listens(ctx, addr, peerStart); err != nil {
		p.KillTree()
		return nil, err
	}
	return p, nil
}

// searchPath returns the variable that says where programs lie.
func searchPath() string {
	for _, variable := range os.Environ() {
		if strings.HasPrefix(variable, "PATH=") {
			return variable
		}
	}
	return "PATH=/usr/local/bin:/usr/bin:/bin"
}

// treeCPU returns how long a process and its children have run on processors. The server
// that some peers start as their child does not count: it stands behind the others as a
// process of its own.
func treeCPU(root int) (time.Duration, error) {
	pids, err := world.Tree(root)
	if err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	var total time.Duration
	for _, pid := range pids {
		if pid != root && runs(pid, self) {
			continue
		}
		took, err := world.Busy(pid)
		if err != nil && world.Birth(pid) != "" {
			return 0, err
		}
		total += took
	}
	return total, nil
}

// runs tells whether a process is of that program.
func runs(pid int, program string) bool {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && path == program
}

// treeMemory returns the resident memory of a process, and of its children what they do
// not share with others: the text of programs and libraries, which several of them have
// in common, counts once.
func treeMemory(root int) (int64, error) {
	pids, err := world.Tree(root)
	if err != nil {
		return 0, err
	}
	var total int64
	for _, pid := range pids {
		size, err := world.Resident(pid)
		if pid != root {
			size, err = own(pid)
		}
		if err != nil && !world.Gone(err) {
			return 0, err
		}
		total += size
	}
	return total, nil
}

// own returns how much memory of a process is not that of files, in bytes. Of pages that
// it shares with others it has its part only.
func own(pid int) (int64, error) { return world.Field(pid, "smaps_rollup", "Pss_Anon", "Pss_Shmem") }

// announceIn makes every server of ours that a peer has started change its list.
func announceIn(root int) error {
	pids, err := world.Tree(root)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, pid := range slices.DeleteFunc(pids,
		func(pid int) bool { return pid == root || !runs(pid, self) }) {
		if err := syscall.Kill(pid, upstream.ChangeSignal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}
