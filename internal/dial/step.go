//go:build unix

package dial

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// canPeek says that ask can look at a socket.
const canPeek = true

// ask is called by RawConn.Read with the socket, and once more whenever it has returned
// false and there is something to read. The order of what happens is what makes it right:
//
//	RawConn.Read  makes the poller forget what it knew of the socket
//	look          nothing has come: the server has neither closed an idle connection nor sent
//	              anything. What it sent while nobody asked would be taken for the response to
//	              this request
//	write         the request
//	false         RawConn.Read waits. What comes after the look, the poller has noted, also
//	              while the request was written
//	read          the first bytes of the response
//
// Without the look, nobody may wait before a read has found nothing: the poller tells of
// what comes, and not of what is there. So the look costs no call of the system beyond
// those that every request needs. It cannot be left out either, not even for a connection
// that was idle for a moment only: a server may close after each response, and a request
// that was written must not be sent again.
func (c *conn) ask(fd uintptr) (done bool) {
	t := &c.turn
	if t.out != nil {
		n, err := ignoringInterrupts(func() (int, error) {
			n, _, err := syscall.Recvfrom(int(fd), c.memory[:1], syscall.MSG_PEEK)
			return n, err
		})
		silent := n <= 0 && err == syscall.EAGAIN //nolint:errorlint // the system returns this value
		if t.idle && !silent {
			t.err = errStale
			return true
		}
		c.write()
		if silent {
			return false
		}
	}
	if c.under != nil {
		return true // TLS reads by itself
	}
	n, err := ignoringInterrupts(func() (int, error) { return syscall.Read(int(fd), c.memory) })
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return false
	case err != nil:
		t.err = os.NewSyscallError("read", err)
	case n == 0:
		t.err = io.EOF
	default:
		c.first = c.memory[:n]
	}
	return true
}

// ignoringInterrupts calls a function of the system until no signal interrupts it.
func ignoringInterrupts(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); err != syscall.EINTR { //nolint:errorlint // the system returns this value
			return n, err
		}
	}
}
