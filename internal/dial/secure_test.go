package dial

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// secureServer is a server over TLS that says what a test wants it to say, and the
// transport that trusts it. It is inside the package because no config makes a client
// trust a server of a test.
type secureServer struct {
	*transport
	target *url.URL
	opened atomic.Int32
}

func newSecureServer(t *testing.T, talk func(conn *tls.Conn, in *bufio.Reader)) *secureServer {
	t.Helper()
	known := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	t.Cleanup(known.Close)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &secureServer{
		transport: trusting(t, known.Certificate()),
		target:    &url.URL{Scheme: "https", Host: listener.Addr().String(), Path: "/"},
	}
	cfg := &tls.Config{Certificates: known.TLS.Certificates, MinVersion: tls.VersionTLS12}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		conns []net.Conn
	)
	wg.Go(func() {
		for {
			dialed, err := listener.Accept()
			if err != nil {
				return
			}
			s.opened.Add(1)
			mu.Lock()
			conns = append(conns, dialed)
			mu.Unlock()
			wg.Go(func() {
				defer dialed.Close()
				conn := tls.Server(dialed, cfg)
				talk(conn, bufio.NewReader(conn))
			})
		}
	})
	t.Cleanup(func() {
		s.CloseIdleConnections()
		listener.Close()
		mu.Lock()
		for _, conn := range conns {
			conn.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return s
}

// trusting returns a transport that trusts a certificate.
func trusting(t *testing.T, certificate *x509.Certificate) *transport {
	t.Helper()
	made := newTransport(newDialer(true, nil))
	made.rest.TLSClientConfig.RootCAs = x509.NewCertPool()
	made.rest.TLSClientConfig.RootCAs.AddCert(certificate)
	t.Cleanup(made.CloseIdleConnections)
	return made
}

type anyRoom struct{}

func (anyRoom) Hold(int) error { return nil }

// asked reads one request.
func asked(in *bufio.Reader) bool {
	r, err := http.ReadRequest(in)
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body)
	}
	return err == nil
}

// ask sends a POST as registry/upstream/wire does, and tells whether that went over an
// own connection.
func ask(t *testing.T, p *Post) (text string, own bool, err error) {
	t.Helper()
	answer, other, sent, err := p.Send(t.Context(), nil, []byte("{}"), anyRoom{})
	if answer != nil || err != nil || sent {
		if other != nil {
			t.Errorf("got status %d, want a usual answer", other.StatusCode)
			other.Body.Close()
		}
		return string(answer), true, err
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.request.URL.String(),
		strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := p.transport.RoundTrip(r)
	if err != nil {
		return "", false, err
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	return string(all), false, err
}

// TestOwnConnectionsOverTLS shows that they serve a server of HTTP/1.1 alone, and not one
// of HTTP/2, and not at first.
func TestOwnConnectionsOverTLS(t *testing.T) {
	t.Parallel()
	for _, newer := range []bool{false, true} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `"%s"`, r.Proto)
		}))
		server.EnableHTTP2 = newer
		server.StartTLS()
		t.Cleanup(server.Close)
		target, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		p := NewPost(trusting(t, server.Certificate()), target, http.Header{})
		want := map[bool]string{false: `"HTTP/1.1"`, true: `"HTTP/2.0"`}[newer]
		for i := range 4 {
			if text, own, err := ask(t, p); text != want || own != (i > 0 && !newer) || err != nil {
				t.Errorf("HTTP/2 offered: %v, request %d: got %s over an own connection: %v, error %v", newer,
					i, text, own, err)
			}
		}
	}
}

// TestNoPostOverTLSIsLostToAnIdleClose has a server that may close after an answer, say
// that it will, or send more than it was asked for: in a record of its own, or a part of
// one.
func TestNoPostOverTLSIsLostToAnIdleClose(t *testing.T) {
	t.Parallel()
	const requests = 600
	var received atomic.Int32
	settled := make(chan struct{})
	s := newSecureServer(t, func(conn *tls.Conn, in *bufio.Reader) {
		for asked(in) {
			n := received.Add(1)
			answer := fmt.Sprintf(
				"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 6\r\n\r\n%06d", n)
			choice := rand.IntN(6)
			if choice == 0 {
				answer += answer
			}
			io.WriteString(conn, answer)
			switch choice {
			case 1:
				conn.Close()
			case 2:
				conn.CloseWrite()
			case 3:
				io.WriteString(conn, answer)
			case 4:
				conn.NetConn().Write([]byte{23, 3, 3, 0}) // a part of a header
			}
			settled <- struct{}{}
		}
	})
	s.version(s.target.Host).Store(true)
	p := NewPost(s.transport, s.target, http.Header{})
	for i := range requests {
		if text, own, err := ask(t, p); text != fmt.Sprintf("%06d", i+1) || !own || err != nil {
			t.Fatalf("request %d: got %q over an own connection: %v, error %v", i, text, own, err)
		}
		<-settled
	}
	if n := s.opened.Load(); received.Load() != requests || n < requests/2 || n > requests-requests/12 {
		t.Errorf("the server received %d requests on %d connections, want %d on about five sixths as many",
			received.Load(), n, requests)
	}
}

// TestRecordsAreFollowed cuts records anywhere.
func TestRecordsAreFollowed(t *testing.T) {
	t.Parallel()
	record := func(size int) []byte {
		return append([]byte{23, 3, 3, byte(size >> 8), byte(size)}, make([]byte, size)...)
	}
	data := slices.Concat(record(0), record(1), record(300), record(2))
	ends := []int{0, 5, 11, 316, 323}
	for from := range data {
		for to := from; to <= len(data); to++ {
			r := &records{}
			r.follow(data[:from])
			r.follow(data[from:to])
			if whole := r.left == 0 && len(r.header) == 0; whole != slices.Contains(ends, to) {
				t.Fatalf("%d bytes and %d more: at the end of a record: %v", from, to-from, whole)
			}
		}
	}
}

// TestUntrustedServer shows that own connections verify servers.
func TestUntrustedServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(server.Close)
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	stranger := newTransport(newDialer(true, nil))
	named := trusting(t, server.Certificate())
	for name, test := range map[string]struct {
		*transport
		host string
	}{
		"unknown authority": {stranger, target.Host},
		"another name":      {named, strings.Replace(target.Host, "127.0.0.1", "localhost", 1)},
	} {
		test.version(test.host).Store(true)
		p := NewPost(test.transport, &url.URL{Scheme: "https", Host: test.host}, http.Header{})
		answer, other, sent, err := p.Send(t.Context(), nil, []byte("{}"), anyRoom{})
		if refused, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok || answer != nil ||
			other != nil || sent {
			t.Errorf("%s: got %q, %v, sent: %v, error %v (%v), want one of the certificate", name, answer,
				other, sent, err, refused)
		}
	}
}

// TestHandshakeEndsWithItsContext has a server that says nothing.
func TestHandshakeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	reached, ended := make(chan struct{}), make(chan struct{})
	s := newSecureServer(t, func(conn *tls.Conn, _ *bufio.Reader) {
		close(reached)
		<-ended
		conn.Close()
	})
	s.version(s.target.Host).Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-reached
		cancel()
	}()
	_, _, sent, err := NewPost(s.transport, s.target, http.Header{}).Send(ctx, nil, []byte("{}"), anyRoom{})
	if !errors.Is(err, context.Canceled) || sent {
		t.Errorf("got error %v, sent: %v, want %v", err, sent, context.Canceled)
	}
	close(ended)
}

// full is a connection that takes no byte any more until it is closed.
type full struct {
	net.Conn
	wrote, closed chan struct{}
	once          sync.Once
}

func (f *full) Write([]byte) (int, error) {
	close(f.wrote)
	<-f.closed
	return 0, net.ErrClosed
}

func (f *full) Close() error {
	f.once.Do(func() { close(f.closed) })
	return f.Conn.Close()
}

// TestTheEndOfARequestWaitsForNoServer has a server over TLS take nothing any more when
// the time of a request is over.
func TestTheEndOfARequestWaitsForNoServer(t *testing.T) {
	t.Parallel()
	server := newSecureServer(t, func(_ *tls.Conn, in *bufio.Reader) { asked(in) })
	c, err := server.connect(t.Context(), server.target)
	if err != nil {
		t.Fatal(err)
	}
	stuck := &full{Conn: c.under.Conn, wrote: make(chan struct{}), closed: make(chan struct{})}
	c.under.Conn = stuck
	var cut sync.WaitGroup
	cut.Go(c.cut)
	select {
	case <-stuck.closed:
	case <-stuck.wrote:
		t.Error("something is written to the server before the connection is closed")
		stuck.Close()
	}
	cut.Wait()
}

// TestConnectLeavesItsConfigAsItIs has a config that is good for every host: it must not
// have the name of the first one afterwards.
func TestConnectLeavesItsConfigAsItIs(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	secure := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	secure.RootCAs.AddCert(server.Certificate())
	conn, err := Connect(t.Context(), server.Listener.Addr().String(), secure)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if secure.ServerName != "" {
		t.Errorf("the config is for %s now", secure.ServerName)
	}
}
