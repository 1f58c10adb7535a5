package dial

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// TestThroughFindsHosts sends requests to a host that is no address: plain ones over one
// own connection, and a large one over another of net/http.
func TestThroughFindsHosts(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	}))
	var connections atomic.Int32
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	unknown := errors.New("nobody knows that host")
	client := Through(func(host string) (string, *tls.Config, error) {
		if host != "a0" {
			return "", nil, unknown
		}
		secure := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: trusted, ServerName: "example.com"}
		return server.Listener.Addr().String(), secure, nil
	})
	send := func(host string, size int) error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+host+"/x",
			bytes.NewReader(make([]byte, size)))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.RoundTrip(r)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if body, err := io.ReadAll(response.Body); err != nil || len(body) != size {
			t.Errorf("got %d bytes and %v, want %d", len(body), err, size)
		}
		return nil
	}
	for _, test := range []struct{ size, connections int }{
		{0, 1}, {10, 1}, {maxSent, 1}, {maxSent + 1, 2}, {10, 2}, {maxSent + 1, 2},
	} {
		if err := send("a0", test.size); err != nil {
			t.Fatal(err)
		}
		if got := int(connections.Load()); got != test.connections {
			t.Errorf("after a body of %d bytes: got %d connections, want %d", test.size, got, test.connections)
		}
	}
	for _, size := range []int{10, maxSent + 1} {
		if err := send("b1", size); !errors.Is(err, unknown) {
			t.Errorf("a host that is not found, %d bytes: got %v", size, err)
		}
	}
}

// TestThroughSendsOnce has connections end while a request is answered, one that net/http
// takes for safe to send again.
func TestThroughSendsOnce(t *testing.T) {
	t.Parallel()
	var times atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/breaks" {
			times.Add(1)
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(server.Close)
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	client := Through(func(string) (string, *tls.Config, error) {
		secure := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: trusted, ServerName: "example.com"}
		return server.Listener.Addr().String(), secure, nil
	})
	for _, size := range []int{10, maxSent + 1} {
		for _, path := range []string{"/x", "/breaks"} { // the second over a connection that was used
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://a0"+path,
				bytes.NewReader(make([]byte, size)))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Idempotency-Key", "k")
			response, err := client.RoundTrip(r)
			if err == nil {
				_ = response.Body.Close()
			}
			if (err != nil) != (path == "/breaks") {
				t.Errorf("%s with %d bytes: got error %v", path, size, err)
			}
		}
		if got := times.Swap(0); got != 1 {
			t.Errorf("a request of %d bytes came %d times, want once", size, got)
		}
	}
}

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
