//go:build linux

package audit

import (
	"errors"
	"os"
	"syscall"
)

// keepSize is FALLOC_FL_KEEP_SIZE: blocks are added to the file and its size stays as it
// is. syscall does not name it.
// https://man7.org/linux/man-pages/man2/fallocate.2.html
const keepSize = 1

// reserve sets blocks of the disk aside for n bytes behind offset. Where the file system
// cannot do that, as some network file systems cannot, it asks whether so many bytes are
// free. That is weaker, because others may take them.
func reserve(f *os.File, offset, n int64) error {
	descriptor := int(f.Fd())
	for {
		err := syscall.Fallocate(descriptor, keepSize, offset, n)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG),
			errors.Is(err, syscall.EIO):
			return os.NewSyscallError("fallocate", err)
		default:
			return hasFree(descriptor, n)
		}
	}
}

// hasFree returns ENOSPC if the file system has fewer than n bytes free, and
// errors.ErrUnsupported if that cannot be known.
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
