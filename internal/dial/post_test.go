package dial_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
)

const jsonResponse = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

// room says what it is told to.
type memory struct{ err error }

func (r memory) Hold(int) error { return r.err }

// prepared returns a POST that is sent the short way.
func prepared(t testing.TB, client *http.Client, target string) *dial.Post {
	t.Helper()
	address, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	p := dial.NewPost(client.Transport, address, http.Header{
		"Content-Type": {"application/json"},
		"X":            {"y"},
	})
	if p == nil {
		t.Fatal("the request is not plain")
	}
	return p
}

// send sends a POST the short way. usual tells whether the answer came that way too.
func send(ctx context.Context, p *dial.Post, body string) (text string, usual bool, err error) {
	answer, other, _, err := p.Send(ctx, nil, []byte(body), memory{})
	switch {
	case err != nil:
		return "", false, err
	case answer != nil:
		return string(answer), true, nil
	}
	defer other.Body.Close()
	rest, err := io.ReadAll(other.Body)
	return string(rest), false, err
}

// TestPostHasTheLinesOfItsCall beside those that all calls have: by them a server knows
// who calls.
func TestPostHasTheLinesOfItsCall(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, r.Header.Get("X")+" "+r.Header.Get("Who"))
	}))
	defer server.Close()
	p := prepared(t, newClient(t), server.URL)
	for _, who := range []string{"ann", "bob"} {
		lines := func(b []byte) []byte { return append(b, "Who: "+who+"\r\n"...) }
		answer, _, _, err := p.Send(t.Context(), lines, []byte("{}"), memory{})
		if string(answer) != "y "+who || err != nil {
			t.Errorf("got %q, %v, want %q", answer, err, "y "+who)
		}
	}
}

// TestPostGivesWhatRoundTripGives has a server that sends all sorts of responses, whole
// and in two parts, and sends something more behind some of them. The connections opened
// show which were used again.
func TestPostGivesWhatRoundTripGives(t *testing.T) {
	t.Parallel()
	large := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		100_000, strings.Repeat("x", 100_000))
	header, _, _ := strings.Cut(jsonResponse, "\r\n\r\n")
	for _, test := range []struct {
		name, response string
		cut            int // where the server stops for a moment; zero: nowhere
		usual          bool
	}{
		{"usual", jsonResponse, 0, true},
		{"header, then body", jsonResponse, len(header) + 4, true},
		{"part of the body", jsonResponse, len(jsonResponse) - 1, true},
		{"large", large, 0, true},
		{"large in parts", large, 50_000, true},
		{"part of the header", jsonResponse, 30, false},
		{"chunked", strings.TrimSuffix(header, "Content-Length: 2") +
			"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 0, false},
		{"event stream", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: {}\n\r\n0\r\n\r\n", 0, false},
		{"after a hint", "HTTP/1.1 103 Early Hints\r\n\r\n" + jsonResponse, 0, false},
		{"accepted", "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", 0, false},
		{"not found", "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", 0, false},
		{"close", strings.Replace(jsonResponse, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1), 0, false},
		{"long header", strings.Replace(jsonResponse, "\r\n\r\n", "\r\nX: "+strings.Repeat("x", 10_000)+
			"\r\n\r\n", 1), 0, false},
		{
			"two lengths", strings.Replace(jsonResponse, "\r\n\r\n", "\r\nContent-Length: 3\r\n\r\n", 1), 0,
			false,
		},
		{"second response", jsonResponse + jsonResponse, 0, true},
		{"junk behind", jsonResponse + "x", 0, true},
		{"body too short", strings.TrimSuffix(jsonResponse, "}"), 0, false},
		{"header too short", header, 0, false},
		{"no HTTP", "SSH-2.0-OpenSSH\r\n\r\n", 0, false},
		{"nothing", "", 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got [2]string
			for i, short := range []bool{true, false} {
				server := newRawServer(t, func(_ int, conn *net.TCPConn, in *bufio.Reader) {
					for request(in) {
						io.WriteString(conn, test.response[:test.cut])
						io.WriteString(conn, test.response[test.cut:])
						if strings.HasSuffix(test.name, "short") || test.response == "" {
							return
						}
					}
				})
				client := newClient(t)
				p := prepared(t, client, server.url)
				for range 3 {
					var text string
					var err error
					if short {
						var usual bool
						text, usual, err = send(t.Context(), p, "{}")
						// then it is chance
						if inHeader := test.cut > 0 && test.cut < len(header); usual != test.usual &&
							err == nil && !inHeader {
							t.Errorf("the short way was taken: %v, want %v", usual, test.usual)
						}
					} else {
						text, err = post(t, client, server.url, "{}")
					}
					if err != nil {
						text = "" // the short way gives a whole answer or none
					}
					got[i] += fmt.Sprintf("%d bytes %.20q, failed: %v; ", len(text), text, err != nil)
				}
				got[i] += fmt.Sprintf("%d connections", server.opened.Load())
			}
			if got[0] != got[1] {
				t.Errorf("got  %s\nwant %s", got[0], got[1])
			}
		})
	}
}

// TestNoPostIsLostToAnIdleClose has a server that may close any connection after an
// answer, or send more than it was asked for.
func TestNoPostIsLostToAnIdleClose(t *testing.T) {
	t.Parallel()
	const requests = 2000
	var received atomic.Int32
	settled := make(chan struct{})
	server := newRawServer(t, func(_ int, conn *net.TCPConn, in *bufio.Reader) {
		for request(in) {
			n := received.Add(1)
			fmt.Fprintf(
				conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 6\r\n\r\n%06d", n)
			switch rand.IntN(4) {
			case 0:
				conn.SetLinger(0) // a reset
				conn.Close()
			case 1:
				conn.CloseWrite()
			case 2:
				io.WriteString(conn, jsonResponse)
			}
			settled <- struct{}{}
		}
	})
	p := prepared(t, newClient(t), server.url)
	for i := range requests {
		if text, usual, err := send(t.Context(), p, "{}"); text != fmt.Sprintf("%06d", i+1) || !usual ||
			err != nil {
			t.Fatalf("request %d: got %q and error %v", i, text, err)
		}
		<-settled
	}
	if n := server.opened.Load(); received.Load() != requests || n < requests/2 || n > requests-requests/8 {
		t.Errorf("the server received %d requests on %d connections, want %d on about three quarters as many",
			received.Load(), n, requests)
	}
}

// TestPostEndsWithItsContext waits for a header, for a body and for an answer that is
// refused room.
func TestPostEndsWithItsContext(t *testing.T) {
	t.Parallel()
	errFull := errors.New("no room")
	for _, test := range []struct {
		name, says string
		memory     error
		want       error
	}{
		{"waiting for the header", "", nil, context.Canceled},
		{"in the header", "HTTP/1.1 200 OK\r\nX: ", nil, context.Canceled},
		{"in the body", strings.TrimSuffix(jsonResponse, "}"), nil, context.Canceled},
		{"no room", jsonResponse, errFull, errFull},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			waiting, ended := make(chan struct{}), make(chan struct{})
			server := newRawServer(t, func(_ int, conn *net.TCPConn, in *bufio.Reader) {
				request(in)
				io.WriteString(conn, test.says)
				close(waiting)
				if _, err := in.ReadByte(); err == nil {
					t.Error("the connection was used again")
				}
				close(ended)
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.memory == nil {
				go func() {
					<-waiting
					cancel()
				}()
			}
			answer, other, sent, err := prepared(t, newClient(t), server.url).Send(ctx, nil, []byte("{}"),
				memory{test.memory})
			if answer != nil || other != nil || !sent || !errors.Is(err, test.want) {
				t.Errorf("got %q, %v, sent: %v and error %v, want %v", answer, other, sent, err, test.want)
			}
			<-ended
		})
	}
}

// TestPostsThatAreLeftToNetHTTP lists what is not sent the short way.
func TestPostsThatAreLeftToNetHTTP(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	for target, header := range map[string]http.Header{
		"http://example.com/a": {"Connection": {"close"}},
		"http://example.com/":  {"X": {"a\r\nY: b"}},
	} {
		address, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		if dial.NewPost(client.Transport, address, header) != nil {
			t.Errorf("%s with %v can be sent the short way", target, header)
		}
	}
	address := &url.URL{Scheme: "http", Host: "example.com"}
	if dial.NewPost(http.DefaultTransport, address, nil) != nil {
		t.Error("so can one of another client")
	}
	p := prepared(t, client, "http://127.0.0.1:1/")
	if answer, other, sent, err := p.Send(t.Context(), nil, make([]byte, 64<<10+1), memory{}); answer != nil ||
		other != nil || sent || err != nil {
		t.Errorf("a large body: got %q, %v, sent: %v and error %v, want nothing", answer, other, sent, err)
	}
}
