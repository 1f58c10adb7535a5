package world

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
)

// Field returns the bytes that the kernel's file of a process has under names such as
// VmRSS, one after the other; they are added up. The file is status or smaps_rollup.
func Field(pid int, file string, names ...string) (int64, error) {
	return must.Got(func() (total int64) {
		text := string(must.Have(os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))))
		for _, name := range names {
			_, rest, found := strings.Cut(text, "\n"+name+":")
			fields := strings.Fields(rest)
			must.Be(found && len(fields) > 0, "process %d has no %s", pid, name)
			total += must.Have(strconv.ParseInt(fields[0], 10, 64)) << 10 // KiB
		}
		return total
	})
}

// Resident returns the resident memory of processes together, in bytes.
func Resident(pids ...int) (total int64) {
	for _, pid := range pids {
		total += must.Have(Field(pid, "status", "VmRSS"))
	}
	return total
}

// Busy returns how long processes have run on processors together, by the clock that the
// system has for each process.
// https://man7.org/linux/man-pages/man3/clock_getcpuclockid.3.html
func Busy(pids ...int) (total time.Duration) {
	const scheduled = 2 // the clock of all that the scheduler gave the process, in nanoseconds
	for _, pid := range pids {
		var took unix.Timespec
		err := unix.ClockGettime(int32(^pid)<<3|scheduled, &took) //nolint:gosec // a pid has 22 bits at most
		must.Be(err == nil, "processor time of process %d: %w", pid, err)
		total += time.Duration(took.Nano())
	}
	return total
}

// Tree returns a process and all that come from it. One that is gone has none.
func Tree(root int) []int {
	folders, _ := filepath.Glob("/proc/[0-9]*") // the pattern is good
	children := make(map[int][]int)
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil {
			continue
		}
		const parent = 4 - 3
		if parent, err := strconv.Atoi(stat(pid, parent)); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	tree := []int{root}
	for i := 0; i < len(tree); i++ {
		tree = append(tree, children[tree[i]]...)
	}
	return tree
}

// Birth returns when a process started, "" if there is none: a number may have another
// process later.
func Birth(pid int) string {
	const starttime = 22 - 3
	return stat(pid, starttime)
}

// stat returns a field of what the system says of a process, counted from its state on,
// "" if there is none. https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
func stat(pid, field int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // without it there is no process
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) <= field {
		return ""
	}
	return string(fields[field])
}

// Gone tells whether a file of a process could not be read because the process has ended.
func Gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

// AllowDescriptors asks the system for that many open files, for this process and for
// those that it starts from now on, and returns how many there are.
func AllowDescriptors(wanted uint64) uint64 {
	var limit syscall.Rlimit
	must.OK(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	most := max(limit.Max, wanted)
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: most, Max: most}) == nil {
		return most
	}
	// Only root may raise the upper bound. Setting it to what it is lets children inherit
	// it whole.
	must.OK(syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit.Max, Max: limit.Max}))
	return limit.Max
}
