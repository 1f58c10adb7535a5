package connlimit_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/connlimit"
)

// TestConnectionClosesAfterARequestWithTwoEnds sends requests in one piece and byte by
// byte, and reads which of them keep their connection.
func TestConnectionClosesAfterARequestWithTwoEnds(t *testing.T) {
	t.Parallel()
	const (
		length  = "Content-Length: 2\r\n"
		chunked = "Transfer-Encoding: chunked\r\n"
		plain   = "POST / HTTP/1.1\r\nHost: a\r\n" + length + "\r\n{}"
		chunks  = "POST / HTTP/1.1\r\nHost: a\r\n" + chunked + "\r\n2\r\n{}\r\n0\r\n\r\n"
		twice   = "\r\n2\r\n{}\r\n0\r\n\r\n"
	)
	address := echoServer(t)
	for name, test := range map[string]struct {
		requests []string
		closes   bool // after the last one
	}{
		"one with a length":  {[]string{plain}, false},
		"one in chunks":      {[]string{chunks}, false},
		"many of both kinds": {[]string{plain, chunks, chunks, plain, plain, chunks}, false},
		"with both": {[]string{"POST / HTTP/1.1\r\nHost: a\r\n" + length + chunked +
			twice}, true},
		"with both, the other first": {[]string{"POST / HTTP/1.1\r\nHost: a\r\n" + chunked + length +
			twice}, true},
		"with both in other letters": {[]string{"POST / HTTP/1.1\r\nHost: a\r\ncONTENT-lENGTH:2\r\n" +
			chunked + twice}, true},
		"with both as the first": {[]string{"POST / HTTP/1.1\r\n" + length + "Host: a\r\n" + chunked +
			twice}, true},
		"with both behind others": {[]string{plain, chunks, "POST / HTTP/1.1\r\nHost: a\r\n" + length +
			chunked + twice}, true},
		"with the same length twice": {[]string{"POST / HTTP/1.1\r\nHost: a\r\n" + length + length +
			"\r\n{}"}, false},
		"HTTP/1.0 that would stay open": {[]string{"POST / HTTP/1.0\r\nConnection: keep-alive\r\n" + length +
			chunked + "\r\n{}"}, true},
		"a name that only begins so": {[]string{"POST / HTTP/1.1\r\nHost: a\r\nContent-Lengths: 2\r\n" +
			chunked + twice}, false},
	} {
		for _, piece := range []int{1 << 10, 1} {
			t.Run(fmt.Sprintf("%s, %d bytes at a time", name, piece), func(t *testing.T) {
				t.Parallel()
				c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				answers := bufio.NewReader(c)
				for i, request := range test.requests {
					for rest := request; rest != ""; rest = rest[min(piece, len(rest)):] {
						if _, err := io.WriteString(c, rest[:min(piece, len(rest))]); err != nil {
							t.Fatal(err)
						}
					}
					answer, err := http.ReadResponse(answers, nil)
					if err != nil {
						t.Fatal(err)
					}
					body, err := io.ReadAll(answer.Body)
					if err != nil || string(body) != "{}" {
						t.Errorf("request %d: got %q, %v, want its body", i, body, err)
					}
					if want := test.closes && i == len(test.requests)-1; answer.Close != want {
						t.Errorf("request %d: got close %t, want %t", i, answer.Close, want)
					}
				}
				if !test.closes {
					return
				}
				if _, err := answers.ReadByte(); !errors.Is(err, io.EOF) {
					t.Errorf("got %v, want the end of the connection", err)
				}
			})
		}
	}
}

// TestPipelinedRequestsWithTwoEndsCloseTheirConnection sends one request with both
// headers right behind another that is not suspicious.
func TestPipelinedRequestsWithTwoEndsCloseTheirConnection(t *testing.T) {
	t.Parallel()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", echoServer(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const both = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"+both+
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(c)
	if got := strings.Count(string(said), "200 OK"); got != 2 {
		t.Errorf("got %d answers, %v, want 2 and the end:\n%s", got, err, said)
	}
}

// echoServer serves what it is sent, with a limiter, and returns its address.
func echoServer(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limiter := connlimit.New(connlimit.Config{Total: 100})
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request,
	) {
		_, _ = io.Copy(w, r.Body)
	})}
	limiter.Attach(s)
	done := make(chan error, 1)
	go func() { done <- s.Serve(limiter.Listener(l)) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}
