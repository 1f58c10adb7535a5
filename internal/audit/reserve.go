//go:build linux

package audit

import (
	"errors"
	"os"
	"syscall"
)

const keepSize = 1 // FALLOC_FL_KEEP_SIZE: the blocks are the file's, its size stays

// reserve sets blocks aside for n bytes behind offset. Where that cannot be done, as on some network file systems, what
// is free counts, although others may take it.
func reserve(f *os.File, offset, n int64) error {
	descriptor := int(f.Fd())
	for {
		err := syscall.Fallocate(descriptor, keepSize, offset, n)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG), errors.Is(err, syscall.EIO):
			return os.NewSyscallError("fallocate", err)
		default:
			return hasFree(descriptor, n)
		}
	}
}

// hasFree is an error when the file system has fewer than n bytes free.
func hasFree(descriptor int, n int64) error {
	var system syscall.Statfs_t
	if err := syscall.Fstatfs(descriptor, &system); err != nil {
		return errors.ErrUnsupported
	}
	if uint64(n) > system.Bavail*uint64(system.Bsize) { //nolint:gosec // neither is negative
		return os.NewSyscallError("statfs", syscall.ENOSPC)
	}
	return nil
}
