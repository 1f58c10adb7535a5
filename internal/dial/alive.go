//go:build unix

package dial

import "syscall"

// alive tells whether an idle connection can be used again: the server has neither closed it nor sent anything. What it
// sent while nobody asked would be taken for the response to the next request. Looking takes one byte from the socket
// without removing it. It does not wait, because the Go runtime makes all sockets non-blocking: if there is nothing to
// read, the answer is EAGAIN at once.
func (c *conn) alive() bool {
	if c.raw == nil {
		return false
	}
	var err error
	look := func(fd uintptr) bool {
		_, _, err = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
		return true
	}
	return c.raw.Read(look) == nil && err == syscall.EAGAIN
}
