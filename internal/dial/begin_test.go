package dial

import (
	"io"
	"net"
	"net/http"
	"testing"
)

// TestLargeRequestsLeaveNoMemory looks at the memory that connections keep for requests.
func TestLargeRequestsLeaveNoMemory(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		size int
		kept bool
	}{{100, true}, {maxRetainedOut, false}, {maxSent, false}} {
		near, far := net.Pipe()
		read := make(chan int64, 1)
		go func() { // it ends with far
			n, _ := io.CopyN(io.Discard, far, int64(test.size))
			read <- n
		}()
		c := &conn{Conn: near}
		waits := make(chan error, 1)
		go func() { // it ends with near
			_, err := c.begin(&message{
				head: []byte("GET / HTTP/1.1\r\n"), method: http.MethodGet,
				body: make([]byte, test.size),
			}, false)
			waits <- err
		}()
		if n := <-read; n != int64(test.size) {
			t.Errorf("got %d bytes of %d", n, test.size)
		}
		_ = far.Close()
		_ = near.Close()
		<-waits
		if got := c.out != nil; got != test.kept {
			t.Errorf("after a body of %d bytes: memory is kept: %v, want %v", test.size, got, test.kept)
		}
	}
}
