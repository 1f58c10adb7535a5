// Package cgroup answers: how much memory may the process have before the kernel of Linux
// ends it, or slows it down so much that it might as well? It reads that from the files
// of the control group that the process runs in, of version 1 and 2, and from those above
// it. It does not know what the answer is used for. Elsewhere than on Linux there are no
// such files, and so no limit.
package cgroup

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// unlimited is where limits of version 1 begin that mean none: the kernel shows the
// largest number of whole pages.
const unlimited = 1 << 60

// MemoryLimit returns the lowest limit of memory, in bytes, among the control group of
// this process and those above it as far as they can be seen; in a container these
// usually begin with the container's own. Zero means that there is no limit, or that it
// cannot be read. root is the file system from / on.
func MemoryLimit(root fs.FS) int64 {
	// what cannot be read has no lines
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	mounts, _ := fs.ReadFile(root, "proc/self/mountinfo")
	lowest := int64(0)
	for line := range strings.Lines(string(mounts)) {
		m, ok := mountOf(line)
		if !ok {
			continue
		}
		if group, ok := m.groupIn(string(groups)); ok {
			lowest = lower(lowest, m.limit(root, group))
		}
	}
	return lowest
}

// lower returns the lower of two limits of which zero means none.
func lower(a, b int64) int64 {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// mount is a place where a hierarchy of control groups with memory is in the file system.
type mount struct {
	root  string // the group that is at the mount's place
	path  string
	files []string // that hold the limits of a group
}

// second tells whether the mount is of version 2.
func (m *mount) second() bool { return m.files[0] == maxFile }

const (
	maxFile  = "memory.max"  // beyond it, the kernel ends processes
	highFile = "memory.high" // beyond it, the kernel lets them wait at each step, longer and longer
	oldFile  = "memory.limit_in_bytes"
)

// mountOf reads one line of mountinfo. ok is false if the line is not about control
// groups that may limit memory.
// https://www.kernel.org/doc/html/latest/filesystems/proc.html#proc-pid-mountinfo-information-about-mounts
func mountOf(line string) (m mount, ok bool) {
	before, after, found := strings.Cut(line, " - ")
	fields, kind := strings.Fields(before), strings.Fields(after)
	if !found || len(fields) < 5 || len(kind) < 3 {
		return m, false
	}
	m = mount{root: path.Clean(fields[3]), path: path.Clean(fields[4])}
	switch {
	case kind[0] == "cgroup2":
		m.files = []string{maxFile, highFile}
	case kind[0] == "cgroup" && slices.Contains(strings.Split(kind[2], ","), "memory"):
		m.files = []string{oldFile}
	}
	return m, m.files != nil
}

// groupIn finds the group of the process in the hierarchy of the mount. groups is the
// content of /proc/self/cgroup, with lines such as "4:memory:/a/b" of version 1 and the
// line "0::/a/b" of version 2.
func (m *mount) groupIn(groups string) (group string, ok bool) {
	for line := range strings.Lines(groups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		second := fields[0] == "0" && fields[1] == ""
		if m.second() && second || !m.second() && slices.Contains(strings.Split(fields[1], ","), "memory") {
			return path.Clean(fields[2]), true
		}
	}
	return "", false
}

// limit returns the lowest limit of a group and of those above it within the mount. A
// container may show the group as the host names it, although only the container's own
// group is mounted; then that one counts.
func (m *mount) limit(root fs.FS, group string) int64 {
	if m.root != "/" {
		below, found := strings.CutPrefix(group, m.root)
		if !found || below != "" && below[0] != '/' {
			below = ""
		}
		group = path.Clean("/" + below)
	}
	lowest := int64(0)
	for {
		for _, file := range m.files {
			lowest = lower(lowest, limitIn(root, path.Join(m.path, group, file)))
		}
		if group == "/" {
			return lowest
		}
		group = path.Dir(group)
	}
}

// limitIn reads the limit in one file, zero if it holds none or cannot be read.
func limitIn(root fs.FS, name string) int64 {
	data, _ := fs.ReadFile(root, strings.TrimPrefix(name, "/"))         // without it there is no number
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64) // version 2 says max if there is none
	if err != nil || n <= 0 || n >= unlimited {
		return 0
	}
	return n
}
