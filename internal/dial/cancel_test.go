package dial_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestContextEndsEveryWait shows that a request ends with its context, wherever it waits,
// and that its connection does so too.
func TestContextEndsEveryWait(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		body int    // bytes
		says string // what the server says before it falls silent
		read bool   // it reads the request
	}{
		{"writing", 64 << 20, "", false},
		{"waiting for the header", 2, "", true},
		{"in the header", 2, "HTTP/1.1 200 OK\r\nX: ", true},
		{"after an informational response", 2, "HTTP/1.1 103 Early Hints\r\n\r\n", true},
		{"reading the body", 2, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", true},
		{"reading chunks", 2, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", true},
		{"reading to the end", 2, "HTTP/1.1 200 OK\r\n\r\nhel", true},
	} {
		for _, want := range []error{context.Canceled, context.DeadlineExceeded} {
			t.Run(test.name+", "+want.Error(), func(t *testing.T) {
				t.Parallel()
				waiting, ended := make(chan struct{}), make(chan struct{})
				server := newRawServer(t, func(n int, conn *net.TCPConn, in *bufio.Reader) {
					if n > 1 {
						request(in)
						io.WriteString(conn, okResponse)
						return
					}
					if in.Peek(1); test.read {
						request(in)
					}
					io.WriteString(conn, test.says)
					close(waiting)
					if !test.read {
						<-ended
						return
					}
					if _, err := in.ReadByte(); err == nil {
						t.Error("the connection was used again")
					}
				})
				client := newClient(t)
				r := newPost(t, server.url, strings.Repeat("x", test.body))
				ctx, cancel := context.WithCancel(t.Context())
				if errors.Is(want, context.DeadlineExceeded) {
					ctx = expiring{t.Context(), waiting}
				}
				defer cancel()
				go func() {
					<-waiting
					if errors.Is(want, context.Canceled) {
						cancel()
					}
				}()
				begin := time.Now()
				response, err := client.Transport.RoundTrip(r.WithContext(ctx))
				if err == nil {
					_, err = io.ReadAll(response.Body)
					response.Body.Close()
				}
				if !errors.Is(err, want) || time.Since(begin) > limit/3 {
					t.Errorf("got error %v after %v, want %v at once", err, time.Since(begin), want)
				}
				close(ended)
				if text, err := post(t, client, server.url, "{}"); text != "ok" || err != nil ||
					server.opened.Load() != 2 {
					t.Errorf("next request: got %q and error %v, %d connections, want 2", text, err,
						server.opened.Load())
				}
			})
		}
	}
}

// expiring is a context whose time is over when the channel is closed, however slow the
// machine is.
type expiring struct {
	context.Context //nolint:containedctx // it is one itself

	over <-chan struct{}
}

func (e expiring) Done() <-chan struct{} { return e.over }

func (e expiring) Err() error {
	select {
	case <-e.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestCancelAfterTheEnd shows that a connection outlives the context of a request that it
// has served.
func TestCancelAfterTheEnd(t *testing.T) {
	t.Parallel()
	server := newRawServer(t, func(_ int, conn *net.TCPConn, in *bufio.Reader) {
		for request(in) {
			io.WriteString(conn, okResponse)
		}
	})
	client := newClient(t)
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		response, err := client.Transport.RoundTrip(newPost(t, server.url, "{}").WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, response.Body)
		cancel()
		response.Body.Close()
	}
	if n := server.opened.Load(); n != 1 {
		t.Errorf("%d connections were opened, want 1", n)
	}
}

// TestCancelAtAnyMoment aims at the moments between: whatever happens, a response is
// whole and the request's own.
func TestCancelAtAnyMoment(t *testing.T) {
	t.Parallel()
	target := serve(t, echo)
	client := newClient(t)
	for i := range 1000 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Microsecond)
		body := strings.Repeat(string(rune('a'+i%26)), 1+i*7%5000)
		response, err := client.Transport.RoundTrip(newPost(t, target, body).WithContext(ctx))
		var text []byte
		if err == nil {
			text, err = io.ReadAll(response.Body)
			response.Body.Close()
		}
		cancel()
		if err == nil && string(text) != body || err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("request %d: got %.20q and error %v", i, text, err)
		}
	}
}

// TestCloseEndsRead shows that a body may be closed while another goroutine reads it.
func TestCloseEndsRead(t *testing.T) {
	t.Parallel()
	server := newRawServer(t, func(_ int, conn *net.TCPConn, in *bufio.Reader) {
		request(in)
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel")
		in.ReadByte() // until the client is gone
	})
	response, err := newClient(t).Transport.RoundTrip(newPost(t, server.url, "{}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(response.Body, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	got := make(chan error)
	go func() {
		_, err := response.Body.Read(make([]byte, 1))
		got <- err
	}()
	response.Body.Close()
	if err := <-got; !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("got error %v, want %v", err, http.ErrBodyReadAfterClose)
	}
	if _, err := response.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("later: got error %v, want %v", err, http.ErrBodyReadAfterClose)
	}
}

// TestCloseRacesTheEnd closes bodies at the moment when they end, and shows that no
// connection serves two requests.
func TestCloseRacesTheEnd(t *testing.T) {
	t.Parallel()
	target := serve(t, echo)
	client := newClient(t)
	done := make(chan struct{})
	for i := range 500 {
		body := strings.Repeat(string(rune('a'+i%26)), 100)
		response, err := client.Transport.RoundTrip(newPost(t, target, body))
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		go func() {
			response.Body.Close()
			done <- struct{}{}
		}()
		text, err := io.ReadAll(response.Body)
		if err == nil && string(text) != body || err != nil && !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Fatalf("request %d: got %q and error %v", i, text, err)
		}
		<-done
	}
}
