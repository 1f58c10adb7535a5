package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// peerStart is how long a peer may take until it listens.
const peerStart = 30 * time.Second

// startPeer runs a command and waits until something listens at addr. It gets an
// environment of its own: no setting of the user's reaches it, and its home is dir.
func (l *lab) startPeer(ctx context.Context, dir, addr string, command []string,
	env ...string,
) *world.Process {
	p := l.Start(world.Order{
		Dir: dir, Command: command, Bare: true,
		Env: append([]string{
			"PATH=" + os.Getenv("PATH"), //nolint:forbidigo // a lab has no config
			"HOME=" + dir, "TMPDIR=" + dir, "DO_NOT_TRACK=1",
			"NO_UPDATE_NOTIFIER=1",
		}, env...),
	})
	defer must.Else(p.KillTree)
	p.Listens(ctx, addr, peerStart)
	return p
}

// treeCPU returns how long a process and its children have run on processors. The server
// that some peers start as their child does not count: it stands behind the others as a
// process of its own.
func treeCPU(root int) (total time.Duration) {
	self := must.Have(os.Executable())
	for _, pid := range world.Tree(root) {
		if pid != root && runs(pid, self) {
			continue
		}
		took, err := must.Got(func() time.Duration { return world.Busy(pid) })
		must.Be(err == nil || world.Birth(pid) == "", "%w", err)
		total += took
	}
	return total
}

// runs tells whether a process is of that program.
func runs(pid int, program string) bool {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && path == program
}

// treeMemory returns the resident memory of a process, and of its children what they do
// not share with others: the text of programs and libraries, which several of them have
// in common, counts once.
func treeMemory(root int) int64 {
	tree := world.Tree(root)
	total := world.Resident(root)
	for _, pid := range tree[1:] {
		size, err := own(pid)
		must.Be(err == nil || world.Gone(err), "%w", err)
		total += size
	}
	return total
}

// own returns how much memory of a process is not that of files, in bytes. Of pages that
// it shares with others it has its part only.
func own(pid int) (int64, error) { return world.Field(pid, "smaps_rollup", "Pss_Anon", "Pss_Shmem") }

// announceIn makes every server of ours that a peer has started change its list.
func announceIn(root int) {
	self := must.Have(os.Executable())
	for _, pid := range world.Tree(root)[1:] {
		if !runs(pid, self) {
			continue
		}
		err := syscall.Kill(pid, upstream.ChangeSignal)
		must.Be(err == nil || errors.Is(err, syscall.ESRCH), "%w", err)
	}
}
