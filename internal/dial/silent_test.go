package dial

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// mutable is a connection that a network can lose: nothing arrives any more, on either
// side, and neither side is told.
type mutable struct {
	net.Conn

	lost   chan struct{}
	closed chan struct{}
	once   sync.Once
}

func (m *mutable) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	select {
	case <-m.lost:
		<-m.closed
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (m *mutable) Write(p []byte) (int, error) {
	select {
	case <-m.lost:
		return len(p), nil
	default:
		return m.Conn.Write(p)
	}
}

func (m *mutable) Close() error {
	m.once.Do(func() { close(m.closed) })
	return m.Conn.Close()
}

// pipes is a listener for what the transport of a test dials.
type pipes struct {
	conns chan net.Conn
	end   chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.end:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.end)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestSilentConnectionOfHTTP2IsGivenUp has the network lose a connection that carries the
// requests to a server without a word, as when a host fails. The server can be reached
// over another one a minute later at the latest.
func TestSilentConnectionOfHTTP2IsGivenUp(t *testing.T) {
	t.Parallel()
	known := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	known.Close()
	synctest.Test(t, func(t *testing.T) {
		listener := &pipes{conns: make(chan net.Conn), end: make(chan struct{})}
		cfg := &tls.Config{
			Certificates: known.TLS.Certificates, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"},
		}
		server := &http.Server{
			ReadHeaderTimeout: time.Minute, TLSConfig: cfg,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, r.Proto)
			}),
		}
		go func() { _ = server.Serve(tls.NewListener(listener, cfg)) }()
		made := newRest(newDialer(true, nil))
		made.TLSClientConfig.RootCAs = x509.NewCertPool()
		made.TLSClientConfig.RootCAs.AddCert(known.Certificate())
		var dialed []*mutable
		made.DialContext = func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			c := &mutable{Conn: ours, lost: make(chan struct{}), closed: make(chan struct{})}
			dialed = append(dialed, c)
			listener.conns <- theirs
			return c, nil
		}
		ask := func() (string, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://example.com/",
				strings.NewReader("{}"))
			if err != nil {
				return "", err
			}
			response, err := made.RoundTrip(r)
			if err != nil {
				return "", err
			}
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			return string(text), err
		}
		if got, err := ask(); got != "HTTP/2.0" || err != nil {
			t.Fatalf("got %q, %v, want an answer over HTTP/2", got, err)
		}
		close(dialed[0].lost)
		began := time.Now()
		for {
			if got, err := ask(); err == nil && got == "HTTP/2.0" {
				break
			}
			if time.Since(began) > time.Hour {
				t.Fatal("got no answer for an hour")
			}
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("got an answer after %v, want within a minute", took)
		}
		made.CloseIdleConnections()
		_ = server.Close()
		for _, c := range dialed {
			_ = c.Close()
		}
		synctest.Wait()
	})
}
