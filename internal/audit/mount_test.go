//go:build linux

package audit_test

import "syscall"

func mountSmall(directory string) error {
	return syscall.Mount("tmpfs", directory, "tmpfs", 0, "size=1m")
}

func unmount(directory string) error { return syscall.Unmount(directory, syscall.MNT_DETACH) }
