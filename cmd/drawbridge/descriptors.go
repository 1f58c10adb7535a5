//go:build unix

package main

import (
	"math"
	"syscall"
)

// descriptors returns how many files and connections the process may have open, zero if
// nothing bounds that. Go raises the soft limit to the hard one at the start.
func descriptors() int64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur >= math.MaxInt64 {
		return 0
	}
	return int64(limit.Cur)
}
