package dial_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestBodiesAndReuse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, method, response, want string
		connections                  int32 // of 3 requests
	}{
		{"length", "POST", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", 1},
		{"chunked", "POST", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", "hello", 1},
		{"trailer", "POST", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n", "hello", 1},
		{"empty", "POST", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", 1},
		{"no content", "POST", "HTTP/1.1 204 No Content\r\n\r\n", "", 1},
		{"accepted", "DELETE", "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", "", 1},
		{"head", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "", 1},
		{"early hints", "POST", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", 1},
		{"until the end", "POST", "HTTP/1.1 200 OK\r\n\r\nhello", "hello", 3},
		{
			"close", "POST", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", "hello",
			3,
		},
		{
			"close, chunked", "POST",
			"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "hello", 3,
		},
		{"HTTP/1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", 3},
		{
			"HTTP/1.0, kept", "GET",
			"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", "hello", 1,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := newRawServer(t, func(_ int, conn *net.TCPConn, in *bufio.Reader) {
				for request(in) {
					if io.WriteString(conn, test.response); test.connections > 1 {
						return
					}
				}
			})
			client := newClient(t)
			for range 3 {
				r := newPost(t, server.url, "{}")
				r.Method = test.method
				response, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(response.Body)
				if string(text) != test.want || err != nil {
					t.Errorf("got body %q and error %v, want %q", text, err, test.want)
				}
				response.Body.Close()
			}
			if n := server.opened.Load(); n != test.connections {
				t.Errorf("3 requests opened %d connections, want %d", n, test.connections)
			}
		})
	}
}

// TestRequestOnTheWire compares what arrives to what net/http would have sent.
func TestRequestOnTheWire(t *testing.T) {
	t.Parallel()
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		// a map is printed sorted
		fmt.Fprintln(w, r.Method, r.RequestURI, r.Host, r.ContentLength, r.TransferEncoding, r.Close,
			r.Header, string(body))
	})
	own, std := newClient(t), &http.Client{Transport: &http.Transport{DisableCompression: true}}
	t.Cleanup(std.CloseIdleConnections)
	for _, test := range []struct {
		method, path, body string
		host               string
		header             http.Header
	}{
		{"GET", "", "", "", http.Header{}},
		{"GET", "/a%2Fb/ü c?x=1&y=%20", "", "", http.Header{"Accept": {"*/*"}}},
		{"", "/?", "", "other.test:81", http.Header{
			"X-Two": {"1", "2"}, "X-Space": {" \t a b\t"},
			"X-Empty": {""}, "X-Utf8": {"ü"},
		}},
		{"POST", "/mcp", "{}", "", http.Header{
			"Content-Type": {"application/json"},
			"User-Agent":   {"drawbridge/1"},
		}},
		{"POST", "/mcp", "", "", http.Header{"User-Agent": {""}}},
		{"DELETE", "/mcp", "", "", http.Header{
			"Content-Length": {"7"}, "Transfer-Encoding": {"chunked"},
			"Host": {"evil.test"}, "Trailer": {"X"},
		}},
		{"PUT", "/", strings.Repeat("x", 64<<10), "", nil},
		{"PUT", "/", strings.Repeat("x", 64<<10+1), "", nil},
	} {
		var got [2]string
		for i, client := range []*http.Client{own, std} {
			r := newPost(t, target+test.path, test.body)
			if test.body == "" {
				r.Body = nil
			}
			r.Method, r.Host = test.method, test.host
			if test.header != nil {
				r.Header = test.header.Clone()
			}
			response, err := client.Transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			got[i] = fmt.Sprint(response.StatusCode, len(text), string(text[:min(len(text), 1000)]))
			response.Body.Close()
		}
		if got[0] != got[1] {
			t.Errorf("%s %s:\ngot  %s\nwant %s", test.method, test.path, got[0], got[1])
		}
	}
}

// TestUnusualRequests shows that what the own connections do not do is still done.
func TestUnusualRequests(t *testing.T) {
	t.Parallel()
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, r.ContentLength, r.Close, string(body))
	})
	client := newClient(t)
	for name, test := range map[string]struct {
		change func(*http.Request)
		want   string
	}{
		"unknown length": {func(
			r *http.Request,
		) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader("abc")), -1
		}, "-1 falseabc"},
		"close":         {func(r *http.Request) { r.Close = true }, "2 true{}"},
		"close, header": {func(r *http.Request) { r.Header.Set("Connection", "close") }, "2 true{}"},
		"expect":        {func(r *http.Request) { r.Header.Set("Expect", "100-continue") }, "2 false{}"},
	} {
		r := newPost(t, target, "{}")
		test.change(r)
		response, err := client.Do(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if text, err := io.ReadAll(response.Body); string(text) != test.want || err != nil {
			t.Errorf("%s: got %q and error %v, want %q", name, text, err, test.want)
		}
		response.Body.Close()
	}
}

// TestHeaderInjection shows that no part of a request can begin a header or a request of
// its own.
func TestHeaderInjection(t *testing.T) {
	t.Parallel()
	server := newRawServer(t, func(_ int, _ *net.TCPConn, in *bufio.Reader) {
		// net/http sends no host at all in the place of a bad one.
		if r, err := http.ReadRequest(in); err == nil && (r.Method != http.MethodPost || r.Host != "" ||
			r.Header.Get("X") != "" || r.Header.Get("B") != "") {
			t.Errorf("the server received %v", r)
		}
	})
	for name, change := range map[string]func(*http.Request){
		"value":       func(r *http.Request) { r.Header["X"] = []string{"a\r\nB: c"} },
		"line feed":   func(r *http.Request) { r.Header["X"] = []string{"a\nB: c"} },
		"NUL":         func(r *http.Request) { r.Header["X"] = []string{"a\x00"} },
		"name":        func(r *http.Request) { r.Header["X: y\r\nB"] = []string{"c"} },
		"name, space": func(r *http.Request) { r.Header["X "] = []string{"c"} },
		"no name":     func(r *http.Request) { r.Header[""] = []string{"c"} },
		"method":      func(r *http.Request) { r.Method = "GET / HTTP/1.1\r\nX: y\r\n\r\nGET" },
		"host":        func(r *http.Request) { r.Host = "a\r\nX: y" },
		"query":       func(r *http.Request) { r.URL.RawQuery = "a HTTP/1.1\r\nX: y" },
		"user agent":  func(r *http.Request) { r.Header["User-Agent"] = []string{"a\r\nX: y"} },
	} {
		r := newPost(t, server.url, "{}")
		change(r)
		if response, err := newClient(t).Transport.RoundTrip(r); err == nil {
			t.Errorf("%s: got status %d, want an error", name, response.StatusCode)
		}
	}
}

// TestManyAtOnce shows that every response goes to its request.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	const callers, calls = 64, 50
	var opened atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(echo))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	client := newClient(t)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for j := range calls {
				body := fmt.Sprint(i, "/", j, strings.Repeat("x", rand.IntN(9000)))
				if got, err := post(t, client, server.URL, body); got != body || err != nil {
					t.Errorf("call %d of caller %d: got %.20q and error %v, want %.20q", j, i, got, err, body)
				}
			}
		})
	}
	wg.Wait()
	if n := opened.Load(); n > callers {
		t.Errorf("%d callers opened %d connections", callers, n)
	}
}

func TestBigBodies(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.URL.Path == "/length" {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		}
		if err == nil {
			w.Write(body)
		}
	})
	client := newClient(t)
	text := make([]byte, size)
	for i := range text {
		text[i] = byte(rand.IntN(256))
	}
	for _, path := range []string{"/length", "/chunked", "/length"} {
		if got, err := post(t, client, target+path, string(text)); !bytes.Equal([]byte(got), text) ||
			err != nil {
			t.Errorf("%s: got %d bytes and error %v, want the %d bytes that were sent", path, len(got), err,
				size)
		}
	}
}

// TestStreaming shows that what a server sends is read at once: it sends the next event
// only when the one before has been read.
func TestStreaming(t *testing.T) {
	t.Parallel()
	read := make(chan struct{})
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 5 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
			select {
			case <-read:
			case <-r.Context().Done():
			}
		}
	})
	response, err := get(t.Context(), t, newClient(t), target)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(response.Body)
	for i := range 5 {
		if !lines.Scan() || lines.Text() != fmt.Sprint("data: ", i) || !lines.Scan() {
			t.Fatalf("event %d: got %q and error %v", i, lines.Text(), lines.Err())
		}
		read <- struct{}{}
	}
	if lines.Scan() || lines.Err() != nil {
		t.Errorf("after the end: got %q and error %v", lines.Text(), lines.Err())
	}
}

// TestWroteHeaders shows that the trace tells whether a server may have received a
// request.
func TestWroteHeaders(t *testing.T) {
	t.Parallel()
	wrote := make(chan struct{}, 1)
	server := newRawServer(t, func(n int, conn *net.TCPConn, in *bufio.Reader) {
		if request(in); n == 1 {
			<-wrote // it is told before the response
			io.WriteString(conn, okResponse)
		}
	})
	closed, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	client := newClient(t)
	for _, test := range []struct {
		name, target string
		ended        bool // the context
		fails        bool
		times        int
	}{
		{"answered", server.url, false, false, 1},
		{"received, not answered", server.url, false, true, 1},
		{"nobody there", "http://" + closed.Addr().String(), false, true, 0},
		{"cancelled before", server.url, true, true, 0},
	} {
		times := 0
		trace := &httptrace.ClientTrace{WroteHeaders: func() { times++; wrote <- struct{}{} }}
		ctx, cancel := context.WithCancel(httptrace.WithClientTrace(t.Context(), trace))
		defer cancel()
		if test.ended {
			cancel()
		}
		r := newPost(t, test.target, "{}").WithContext(ctx)
		response, err := client.Transport.RoundTrip(r)
		if times != test.times || (err != nil) != test.fails {
			t.Errorf("%s: told %d times, error %v; want %d, error: %v", test.name, times, err, test.times,
				test.fails)
		}
		if err == nil {
			response.Body.Close()
		}
	}
}

func TestCloseIdleConnections(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{}, 2)
	server := newRawServer(t, func(_ int, conn *net.TCPConn, in *bufio.Reader) {
		for request(in) {
			io.WriteString(conn, okResponse)
		}
		ended <- struct{}{}
	})
	client := newClient(t)
	for want := range int32(2) {
		if _, err := post(t, client, server.url, "{}"); err != nil {
			t.Fatal(err)
		}
		client.CloseIdleConnections()
		<-ended
		if n := server.opened.Load(); n != want+1 {
			t.Errorf("%d connections were opened, want %d", n, want+1)
		}
	}
}

// TestMaxIdle shows that no more than 256 connections to one host are kept.
func TestMaxIdle(t *testing.T) {
	t.Parallel()
	server := newRawServer(t, func(_ int, conn *net.TCPConn, in *bufio.Reader) {
		for request(in) {
			io.WriteString(conn, okResponse)
		}
	})
	const most, beyond = 256, 4
	client := newClient(t)
	for range 2 {
		bodies := make([]io.ReadCloser, most+beyond)
		for i := range bodies {
			response, err := client.Transport.RoundTrip(newPost(t, server.url, "{}"))
			if err != nil {
				t.Fatal(err)
			}
			bodies[i] = response.Body
		}
		for _, body := range bodies {
			io.Copy(io.Discard, body)
			body.Close()
		}
	}
	if n := server.opened.Load(); n != most+2*beyond {
		t.Errorf("%d connections were opened, want %d at first and %d more", n, most+beyond, beyond)
	}
}
