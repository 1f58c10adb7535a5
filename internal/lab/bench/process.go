package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// resident returns the resident memory of a process, in bytes.
func resident(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmRSS:")); ok {
			kib, err := strconv.ParseInt(string(bytes.Fields(rest)[0]), 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("no VmRSS")
}

// isListening tells whether something takes connections at an address.
func isListening(ctx context.Context, addr string) bool {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	_ = conn.Close() // it was opened to see whether it can be
	return true
}

// processTree returns a process and all that come from it. One that is gone has none.
func processTree(root int) ([]int, error) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	children := make(map[int][]int)
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil {
			continue
		}
		if parent, err := parentOf(pid); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	tree := []int{root}
	for i := 0; i < len(tree); i++ {
		tree = append(tree, children[tree[i]]...)
	}
	return tree, nil
}

// parentOf returns the process that a process comes from.
func parentOf(pid int) (int, error) {
	fields, err := statOf(pid)
	if err != nil {
		return 0, err
	}
	if len(fields) < 2 {
		return 0, fmt.Errorf("unknown form of /proc/%d/stat", pid)
	}
	return strconv.Atoi(string(fields[1]))
}

// statOf returns what the system says of a process, from its state on.
// https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
func statOf(pid int) ([][]byte, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	return bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]), nil
}

// busy returns how long processes have run on processors together, by the clock that the system has for each process.
// https://man7.org/linux/man-pages/man3/clock_getcpuclockid.3.html
func busy(pids []int) (time.Duration, error) {
	const scheduled = 2 // the clock of all that the scheduler gave the process, in nanoseconds
	var total time.Duration
	for _, pid := range pids {
		var took unix.Timespec
		if err := unix.ClockGettime(int32(^pid)<<3|scheduled, &took); err != nil { //nolint:gosec // a pid has 22 bits at most
			return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
		}
		total += time.Duration(took.Nano())
	}
	return total, nil
}

// residentOf returns the resident memory of processes together, in bytes.
func residentOf(pids []int) (int64, error) {
	var total int64
	for _, pid := range pids {
		held, err := resident(pid)
		if err != nil {
			return 0, err
		}
		total += held
	}
	return total, nil
}

// allowDescriptors asks the system for that many open files, for this process and for those that it starts from now on,
// and returns how many there are.
func allowDescriptors(wanted uint64) (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	most := max(limit.Max, wanted)
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: most, Max: most}) == nil {
		return most, nil
	}
	// Only root may raise the upper bound. Setting it to what it is lets children inherit it whole.
	return limit.Max, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit.Max, Max: limit.Max})
}
