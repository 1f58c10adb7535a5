//go:build unix

package streams

import (
	"errors"
	"syscall"
)

// writeNow writes to a socket, which does not block, as many bytes as it takes now.
func writeNow(fd uintptr, data []byte) (int, error) {
	n, err := syscall.Write(int(fd), data)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
		return 0, nil
	}
	return max(n, 0), err
}
