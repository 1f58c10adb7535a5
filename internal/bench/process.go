package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
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

// processes returns a process and those that it started, such as nginx's workers.
func processes(pid int) []int {
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return []int{pid} // a kernel that does not tell
	}
	all := []int{pid}
	for field := range strings.FieldsSeq(string(children)) {
		if child, err := strconv.Atoi(field); err == nil {
			all = append(all, child)
		}
	}
	return all
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
