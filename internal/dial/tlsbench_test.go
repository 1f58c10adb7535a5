package dial_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// BenchmarkTLS shows what it would gain to speak HTTP/1.1 over TLS by ourselves, as over
// plain connections: before a server of HTTP/1.1 alone, and before one that net/http
// speaks HTTP/2 with. The own way is the least that a client must do: look whether the
// connection is alive, write, and read one answer. Its processor time has that of the
// server in it.
func BenchmarkTLS(b *testing.B) {
	text := strings.Repeat("x", 300)
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 300\r\n\r\n" +
		text)
	both := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "300")
		io.WriteString(w, text)
	}))
	both.EnableHTTP2 = true
	both.StartTLS()
	b.Cleanup(both.Close)
	trusted := x509.NewCertPool()
	trusted.AddCert(both.Certificate())
	listener := tls.NewListener(listen(b), &tls.Config{
		Certificates: both.TLS.Certificates,
		NextProtos:   []string{"http/1.1"}, MinVersion: tls.VersionTLS12,
	})
	b.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for buffer := make([]byte, 4096); ; {
					if n, err := conn.Read(buffer); n == 0 || err != nil {
						return
					}
					conn.Write(answer)
				}
			}()
		}
	}()
	for _, server := range []struct{ name, address string }{
		{"HTTP/1.1", listener.Addr().String()},
		{"HTTP/2", both.Listener.Addr().String()},
	} {
		for _, callers := range []int{1, 8} {
			name := server.name + ", " + strconv.Itoa(callers) + " per processor"
			b.Run("net_http/"+name, func(b *testing.B) {
				client := &http.Client{Transport: &http.Transport{
					DisableCompression: true, MaxIdleConnsPerHost: 256, ForceAttemptHTTP2: true,
					TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12},
				}}
				defer client.CloseIdleConnections()
				measure(b, callers, func() func() error {
					return func() error {
						_, err := post(b, client, "https://"+server.address+"/", text)
						return err
					}
				})
			})
			b.Run("own/"+name, func(b *testing.B) {
				measure(b, callers, func() func() error { return dialTLS(b, trusted, server.address, text) })
			})
		}
	}
}

func listen(b *testing.B) net.Listener {
	b.Helper()
	listener, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	return listener
}

// measure runs calls of several callers, each made by its own newCall.
func measure(b *testing.B, callers int, newCall func() func() error) {
	b.SetParallelism(callers)
	b.ReportAllocs()
	before := processorTime(b)
	b.RunParallel(func(next *testing.PB) {
		call := newCall()
		for next.Next() {
			if err := call(); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric((processorTime(b)-before)*1e6/float64(b.N), "cpu-µs/op")
}

// dialTLS opens a connection and returns what sends a request over it and reads the
// answer.
func dialTLS(b *testing.B, trusted *x509.CertPool, address, text string) func() error {
	dialer := &tls.Dialer{Config: &tls.Config{
		RootCAs: trusted, MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
	}}
	conn, err := dialer.DialContext(context.Background(), "tcp", address)
	if err != nil {
		return func() error { return err }
	}
	b.Cleanup(func() { conn.Close() })
	raw, err := conn.(*tls.Conn).NetConn().(*net.TCPConn).SyscallConn()
	if err != nil {
		return func() error { return err }
	}
	request := []byte("POST / HTTP/1.1\r\nHost: " + address + "\r\nContent-Length: " +
		strconv.Itoa(len(text)) + "\r\n\r\n" + text)
	buffer := make([]byte, 4096)
	look := func(fd uintptr) bool {
		_, _, _ = syscall.Recvfrom(int(fd), buffer[:1], syscall.MSG_PEEK)
		return true
	}
	in := bufio.NewReader(conn)
	return func() error {
		if err := raw.Read(look); err != nil {
			return err
		}
		if _, err := conn.Write(request); err != nil {
			return err
		}
		for {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return err
			}
			if len(bytes.TrimSpace(line)) == 0 {
				break
			}
		}
		_, err := io.ReadFull(in, make([]byte, len(text)))
		return err
	}
}
