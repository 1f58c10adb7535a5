//go:build linux

package dial

import (
	"io"
	"net"
	"syscall"
	"testing"
)

// TestTheKernelKeepsLittleForAFastServer reads what a server sends as fast as it can,
// which is when Linux lets the memory of a connection grow.
func TestTheKernelKeepsLittleForAFastServer(t *testing.T) {
	t.Parallel()
	const size = 64 << 20
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		c, err := listener.Accept()
		if err != nil {
			return // the dialer failed, and says why
		}
		defer c.Close()
		chunk := make([]byte, 1<<20)
		for range size / len(chunk) {
			if _, err := c.Write(chunk); err != nil {
				t.Error(err)
			}
		}
	}()
	c, err := newDialer(true, nil).DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{c}, make([]byte, 1<<20)); n != size ||
		err != nil {
		t.Fatalf("read %d bytes of %d: %v", n, size, err)
	}
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var kept int
	_ = raw.Control(
		func(fd uintptr) {
			kept, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET,
				syscall.SO_RCVBUF)
		})
	if err != nil || kept <= 0 || kept > 2*receiveBuffer {
		t.Errorf("the kernel keeps up to %d bytes (error %v), want at most %d", kept, err, 2*receiveBuffer)
	}
}
