//go:build unix

package dial

import "syscall"

// alive tells whether the server has neither closed an idle connection nor sent what nobody asked for. It does not
// wait, because sockets of this process never block.
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
