//go:build linux

package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	sweepEvery = 10 * time.Millisecond // between two rounds
	stopPasses = 20                    // of a round, in each of which new descendants are stopped
)

// relative is one process, as /proc shows it.
type relative struct {
	pid, parent int
	start       string // when it started: together with the pid this names one process for ever
}

// sweep ends all descendants once they are doomed. It goes on until reap finds that none
// is left and ends the process, or sweepLimit is over.
func (k *keeper) sweep() {
	<-k.doomed
	ticker := time.NewTicker(sweepEvery)
	limit := time.NewTimer(sweepLimit)
	for {
		killAll(os.Getpid())
		select {
		case <-ticker.C:
		case <-limit.C:
			k.finish(fmt.Sprintf("what it started could not be ended within %v", sweepLimit))
		}
	}
}

// killAll kills all descendants of a process. It stops them first, pass by pass until
// none is new, since what runs on could start others as fast as they are killed.
func killAll(of int) {
	stopped := map[relative]bool{}
	for range stopPasses {
		found := false
		for _, r := range descendants(of) {
			if !stopped[r] {
				stopped[r], found = true, true
				r.signal(unix.SIGSTOP)
			}
		}
		if !found {
			break
		}
	}
	for r := range stopped {
		r.signal(unix.SIGKILL)
	}
}

// signal sends a signal to this very process. The number of one that has ended may belong
// to a stranger by now: so the process is held first, and then seen to be the one that is
// meant.
func (r relative) signal(s unix.Signal) {
	process, err := os.FindProcess(r.pid)
	if err != nil {
		return // it has ended
	}
	if now, ok := inspect(r.pid); ok && now.start == r.start {
		_ = process.Signal(s) // it may have ended just now
	}
	_ = process.Release() // only its number is forgotten
}

// descendants returns the children of a process, their children and so on, as they are at
// about this moment.
func descendants(of int) []relative {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]relative{}
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			if r, ok := inspect(pid); ok {
				children[r.parent] = append(children[r.parent], r)
			}
		}
	}
	all := children[of]
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i].pid]...)
		delete(children, all[i].pid) // numbers that were taken anew while reading must not make a circle
	}
	return all
}

// inspect reads one process from /proc. ok is false when there is none, or it waits to be
// reaped.
// https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
func inspect(pid int) (r relative, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return r, false
	}
	// The second field is a name in parentheses, which may hold any character.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const state, parent, start = 0, 1, 19 // the fields 3, 4 and 22
	if len(fields) <= start || fields[state][0] == 'Z' {
		return r, false
	}
	r = relative{pid: pid, start: string(fields[start])}
	r.parent, err = strconv.Atoi(string(fields[parent]))
	return r, err == nil
}
