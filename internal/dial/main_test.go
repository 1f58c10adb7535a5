package dial_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// limit is how long a test waits for what must happen.
const limit = 2 * time.Minute

const okResponse = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// rawServer is a server that says what a test wants it to say.
type rawServer struct {
	url    string
	opened atomic.Int32

	mu    sync.Mutex // guards the fields below
	conns []net.Conn
}

// newRawServer serves connections with talk, and closes each when talk returns. n counts
// the connections from 1.
func newRawServer(t testing.TB, talk func(n int, conn *net.TCPConn, in *bufio.Reader)) *rawServer {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{url: "http://" + listener.Addr().String() + "/"}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			n := int(s.opened.Add(1))
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			s.mu.Unlock()
			wg.Go(func() {
				defer conn.Close()
				talk(n, conn.(*net.TCPConn), bufio.NewReader(conn))
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		s.mu.Lock()
		for _, conn := range s.conns {
			conn.Close()
		}
		s.mu.Unlock()
		wg.Wait()
	})
	return s
}

// request reads one request with its body; false when there is none.
func request(in *bufio.Reader) bool {
	r, err := http.ReadRequest(in)
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body)
	}
	return err == nil
}

// newClient returns a client that may reach the servers of tests.
func newClient(t testing.TB) *http.Client {
	t.Helper()
	client := dial.Client(dial.Config{PrivateAddresses: true})
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func newPost(t testing.TB, target, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// post sends a request and returns what came back of it.
func post(t testing.TB, client *http.Client, target, body string) (string, error) {
	t.Helper()
	response, err := client.Transport.RoundTrip(newPost(t, target, body))
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// echo answers with the body of the request. It reads all of it first, because servers of
// net/http stop to read once they write.
func echo(w http.ResponseWriter, r *http.Request) {
	if body, err := io.ReadAll(r.Body); err == nil {
		w.Write(body)
	}
}
