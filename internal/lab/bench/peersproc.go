package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// peerProcess is one peer that runs, with every process that it starts.
type peerProcess struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the peer has ended
	log  string        // path of what it writes
}

// startPeerProcess runs a command in a process group of its own and waits until something listens at addr. It gets an
// environment of its own: no setting of the user's reaches it, and its home is dir.
func startPeerProcess(ctx context.Context, dir, addr string, argv, env []string) (*peerProcess, error) {
	p := &peerProcess{done: make(chan struct{}), log: filepath.Join(dir, "output.log")}
	logs, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = logs.Close() }()        // the child has a descriptor of its own
	p.cmd = exec.Command(argv[0], argv[1:]...) //nolint:gosec,noctx // a program of the table of peers; stop ends it, in its own way
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, logs, logs
	p.cmd.Env = append([]string{searchPath(), "HOME=" + dir, "TMPDIR=" + dir, "DO_NOT_TRACK=1", "NO_UPDATE_NOTIFIER=1"}, env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // stop waits for this; how it ended does not matter
	}()
	err = within(ctx, peerStart, addr+" listens", func() bool { return p.ended() || isListening(ctx, addr) })
	if err == nil && p.ended() {
		err = errors.New("it ended at once")
	}
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("%w: %s", err, p.lastWords())
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

// peerStart is how long a peer may take until it listens.
const peerStart = 30 * time.Second

func (p *peerProcess) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// lastWords returns the last line that the peer wrote.
func (p *peerProcess) lastWords() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return "it left no output"
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return short(lines[len(lines)-1])
}

// stop ends the peer and all that it has started: it asks first, and insists after a few seconds.
func (p *peerProcess) stop() {
	root := p.cmd.Process.Pid
	births := make(map[int]string)
	tree, _ := processTree(root) // its group is ended anyway
	for _, pid := range tree {
		births[pid] = birth(pid)
	}
	_ = syscall.Kill(-root, syscall.SIGTERM) // it may be gone
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
	}
	_ = syscall.Kill(-root, syscall.SIGKILL) // it may be gone
	<-p.done
	for pid, born := range births {
		if pid != root && born != "" && birth(pid) == born {
			_ = syscall.Kill(pid, syscall.SIGKILL) // one that left the group; it may have ended just now
		}
	}
}

// birth returns when a process started, "" if there is none: a number may have another process later.
func birth(pid int) string {
	const starttime = 22 - 3 // of the fields after the name
	if fields, err := statOf(pid); err == nil && len(fields) > starttime {
		return string(fields[starttime])
	}
	return ""
}

// treeCPU returns how long a process and its children have run on processors. The server that some peers start as their
// child does not count: it stands behind the others as a process of its own.
func treeCPU(root int) (time.Duration, error) {
	pids, err := processTree(root)
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
		took, err := busy([]int{pid})
		if err != nil && birth(pid) != "" {
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

// treeMemory returns the resident memory of a process, and of its children what they do not share with others: the text
// of programs and libraries, which several of them have in common, counts once.
func treeMemory(root int) (int64, error) {
	pids, err := processTree(root)
	if err != nil {
		return 0, err
	}
	var total int64
	for _, pid := range pids {
		size, err := resident(pid)
		if pid != root {
			size, err = own(pid)
		}
		if err != nil && !isGone(err) {
			return 0, err
		}
		total += size
	}
	return total, nil
}

// own returns how much memory of a process is not that of files, in bytes. Of pages that it shares with others it has its
// part only.
func own(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	var total int64
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(name) != "Pss_Anon" && string(name) != "Pss_Shmem" {
			continue
		}
		kib, err := strconv.ParseInt(string(bytes.Fields(value)[0]), 10, 64)
		if err != nil {
			return 0, err
		}
		total += kib << 10
	}
	return total, nil
}

// isGone tells whether a file of a process could not be read because the process has ended.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

// announceIn makes every server of ours that a peer has started change its list.
func announceIn(root int) error {
	pids, err := processTree(root)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, pid := range slices.DeleteFunc(pids, func(pid int) bool { return pid == root || !runs(pid, self) }) {
		if err := syscall.Kill(pid, changeSignal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}
