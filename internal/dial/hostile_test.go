package dial_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestNoRequestIsLostToAnIdleClose has a server that may close any connection after a
// response.
func TestNoRequestIsLostToAnIdleClose(t *testing.T) {
	t.Parallel()
	const requests = 2000
	var received atomic.Int32
	settled := make(chan struct{})
	server := newRawServer(t, func(_ int, conn *net.TCPConn, in *bufio.Reader) {
		for request(in) {
			received.Add(1)
			io.WriteString(conn, okResponse)
			if rand.IntN(2) == 0 {
				if rand.IntN(2) == 0 {
					conn.SetLinger(0) // a reset
				}
				conn.Close()
				settled <- struct{}{}
				return
			}
			settled <- struct{}{}
		}
	})
	client := newClient(t)
	for i := range requests {
		if text, err := post(t, client, server.url, "{}"); text != "ok" || err != nil {
			t.Fatalf("request %d: got %q and error %v", i, text, err)
		}
		<-settled
	}
	if n := server.opened.Load(); received.Load() != requests || n < requests/3 || n > 2*requests/3 {
		t.Errorf("the server received %d requests on %d connections, want %d on about half as many",
			received.Load(), n, requests)
	}
}

// TestConnectionIsNotReused lists what a server may do with a connection that must not
// see a second request.
func TestConnectionIsNotReused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, response, later string
		want                  string
		fails                 bool
		then                  func(*net.TCPConn) error
	}{
		{name: "half-closed", response: okResponse, want: "ok", then: (*net.TCPConn).CloseWrite},
		{name: "closed", response: okResponse, want: "ok", then: (*net.TCPConn).Close},
		{
			name: "half-closed, no length", response: "HTTP/1.1 200 OK\r\n\r\nok", want: "ok",
			then: (*net.TCPConn).CloseWrite,
		},
		{name: "junk with the body", response: okResponse + "junk", want: "ok"},
		{name: "second response with the body", response: okResponse + okResponse, want: "ok"},
		{name: "junk after the body", response: okResponse, later: "j", want: "ok"},
		{name: "response after the body", response: okResponse, later: okResponse, want: "ok"},
		{name: "junk without a body", response: "HTTP/1.1 204 No Content\r\n\r\nhello"},
		{
			name:     "junk after the last chunk",
			response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nx",
			want:     "ok",
		},
		{
			name: "length too large", response: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", want: "ok",
			fails: true, then: (*net.TCPConn).CloseWrite,
		},
		{name: "length too small", response: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nok", want: "o"},
		{
			name: "two lengths", response: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok",
			fails: true,
		},
		{
			name: "bad chunk", response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
			fails: true,
		},
		{
			name:     "chunks without an end",
			response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", want: "ok",
			fails: true, then: (*net.TCPConn).CloseWrite,
		},
		{name: "no header", fails: true, then: (*net.TCPConn).CloseWrite},
		{name: "no HTTP", response: "SSH-2.0-OpenSSH\r\n\r\n", fails: true},
		{name: "switched", response: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", fails: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			read, settled := make(chan struct{}), make(chan struct{})
			server := newRawServer(t, func(n int, conn *net.TCPConn, in *bufio.Reader) {
				for i := 1; request(in); i++ {
					if i > 1 {
						t.Error("a second request came over the same connection")
					}
					if n > 1 {
						io.WriteString(conn, okResponse)
						continue
					}
					io.WriteString(conn, test.response)
					if test.then != nil {
						test.then(conn)
					}
					<-read
					io.WriteString(conn, test.later)
					close(settled)
				}
			})
			client := newClient(t)
			text, err := post(t, client, server.url, "{}")
			if text != test.want || (err != nil) != test.fails {
				t.Errorf("got %q and error %v, want %q, error: %v", text, err, test.want, test.fails)
			}
			close(read)
			<-settled
			if text, err := post(t, client, server.url, "{}"); text != "ok" || err != nil {
				t.Errorf("second request: got %q and error %v", text, err)
			}
		})
	}
}

// TestEndlessHeader shows that a header is read up to a size, whatever it consists of.
func TestEndlessHeader(t *testing.T) {
	t.Parallel()
	for name, parts := range map[string][2]string{
		"status line":   {"HTTP/1.1 200 ", "x"},
		"value":         {"HTTP/1.1 200 OK\r\nX: ", "x"},
		"headers":       {"HTTP/1.1 200 OK\r\n", "X: y\r\n"},
		"informational": {"", "HTTP/1.1 103 Early Hints\r\n\r\n"},
		"trailer":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "X: y\r\n"},
	} {
		written := make(chan struct{})
		server := newRawServer(t, func(_ int, conn *net.TCPConn, in *bufio.Reader) {
			request(in)
			_, err := io.WriteString(conn, parts[0])
			for err == nil {
				_, err = io.WriteString(conn, strings.Repeat(parts[1], 1000))
			}
			close(written)
		})
		if text, err := post(t, newClient(t), server.url, "{}"); text != "" || err == nil {
			t.Errorf("%s: got %q and error %v, want an error", name, text, err)
		}
		<-written // it ends because the connection does
	}
}

// TestSlowHeader has a server that sends its header byte by byte.
func TestSlowHeader(t *testing.T) {
	t.Parallel()
	server := newRawServer(t, func(_ int, conn *net.TCPConn, in *bufio.Reader) {
		request(in)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nX: ")
		for err == nil {
			<-tick.C
			_, err = io.WriteString(conn, "x")
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	response, err := newClient(t).Transport.RoundTrip(newPost(t, server.url, "{}").WithContext(ctx))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got response %v and error %v, want %v", response, err, context.DeadlineExceeded)
	}
}

// TestEarlyResponse has a server that refuses a body without reading it.
func TestEarlyResponse(t *testing.T) {
	t.Parallel()
	server := newRawServer(t, func(_ int, conn *net.TCPConn, in *bufio.Reader) {
		http.ReadRequest(in)
		io.WriteString(conn, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno")
		io.Copy(io.Discard, in)
	})
	client := newClient(t)
	for _, size := range []int{1 << 10, 16 << 20} {
		response, err := client.Transport.RoundTrip(newPost(t, server.url, strings.Repeat("x", size)))
		if err != nil {
			t.Errorf("%d bytes: %v", size, err)
			continue
		}
		text, err := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusRequestEntityTooLarge || string(text) != "no" || err != nil {
			t.Errorf("%d bytes: got status %d, body %q and error %v", size, response.StatusCode, text, err)
		}
		response.Body.Close()
	}
}

// TestShortRequestBody shows that a server never takes the next request for the rest of a
// body.
func TestShortRequestBody(t *testing.T) {
	t.Parallel()
	server := newRawServer(t, func(_ int, conn *net.TCPConn, in *bufio.Reader) {
		for request(in) {
			io.WriteString(conn, okResponse)
		}
	})
	client := newClient(t)
	r := newPost(t, server.url, "{}")
	r.ContentLength = 10
	if response, err := client.Transport.RoundTrip(r); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got response %v and error %v, want %v", response, err, io.ErrUnexpectedEOF)
	}
	if text, err := post(t, client, server.url, "{}"); text != "ok" || err != nil ||
		server.opened.Load() > 2 {
		t.Errorf("got %q and error %v", text, err)
	}
}
