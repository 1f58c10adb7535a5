package upstream_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

const benchParams = `{"name":"tool","arguments":{"text":"hello"}}`

// BenchmarkCall measures a call from the catalogue to the server and back. The servers
// allocate nothing for a call, so what is reported is the gateway's own.
func BenchmarkCall(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		for name, cfg := range map[string]func() upstream.Config{
			"legacy": func() upstream.Config { return upstream.Config{URL: quick(b, false, size)} },
			"modern": func() upstream.Config { return upstream.Config{URL: quick(b, true, size)} },
			"stdio":  func() upstream.Config { return command("quick", strconv.Itoa(size)) },
		} {
			b.Run(fmt.Sprintf("%s/%dKiB", name, size>>10), func(b *testing.B) {
				r := start(b, cfg())
				r.untilTool("tool")
				tool := r.tool("tool")
				b.SetParallelism(8)
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					call := request(b, benchParams, nil)
					for pb.Next() {
						if _, err := tool.Call(b.Context(), call); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}

// TestACallAllocatesSeldom counts what the way to a server and back costs the gateway. It
// allocated 37 times with a request and a response of net/http for each call.
func TestACallAllocatesSeldom(t *testing.T) {
	for _, modern := range []bool{false, true} {
		r := start(t, upstream.Config{URL: quick(t, modern, 100)})
		r.untilTool("tool")
		tool, call := r.tool("tool"), request(t, benchParams, nil)
		n := testing.AllocsPerRun(200, func() {
			if _, err := tool.Call(t.Context(), call); err != nil {
				t.Fatal(err)
			}
		})
		if n > mostAllocated && !raced { // the race detector allocates too
			t.Errorf("modern=%v: a call allocates %v times, want %d at most", modern, n, mostAllocated)
		}
	}
}

// mostAllocated is how often a call may allocate on the way from the catalogue to a
// server over HTTP and back.
const mostAllocated = 12

// quickAnswer appends the answer to a call with a text of that many bytes.
func quickAnswer(dst, id []byte, text string) []byte {
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), id...)
	return append(append(append(dst, `,"result":{"content":[{"type":"text","text":"`...), text...),
		`"}]}}`...)
}

// idOf returns the id of a call, and false for every other message.
func idOf(message []byte) (id []byte, call bool) {
	if !bytes.Contains(message, []byte(`"tools/call"`)) {
		return nil, false
	}
	_, rest, _ := bytes.Cut(message, []byte(`"id":`))
	id, _, call = bytes.Cut(rest, []byte(","))
	return id, call
}

// quick serves HTTP, and answers every call with the same result at the least cost.
func quick(t testing.TB, modern bool, size int) string {
	t.Helper()
	s := &web{modern: modern, session: "s", open: map[string]bool{}}
	if modern {
		s.session = ""
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("x", size)
	var (
		mu    sync.Mutex
		conns []net.Conn
		wg    sync.WaitGroup
	)
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			wg.Go(func() {
				defer conn.Close()
				quickTalk(conn, s, text)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, conn := range conns {
			conn.Close()
		}
		wg.Wait()
	})
	return "http://" + listener.Addr().String()
}

// quickTalk serves one connection. What is no call is for the handler.
func quickTalk(conn net.Conn, other http.Handler, text string) {
	in := bufio.NewReaderSize(conn, 64<<10)
	var out, body []byte
	for {
		if _, err := in.Peek(1); err != nil {
			return
		}
		data, _ := in.Peek(in.Buffered())
		if id, call := idOf(data); call {
			body = quickAnswer(body[:0], id, text)
			out = append(out[:0], "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "...)
			out = append(strconv.AppendInt(out, int64(len(body)), 10), "\r\n\r\n"...)
			in.Discard(len(data)) // the gateway writes a request at once
			out = append(out, body...)
			conn.Write(out)
			continue
		}
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		w := httptest.NewRecorder()
		other.ServeHTTP(w, r)
		io.Copy(io.Discard, r.Body)
		answer := w.Result()
		answer.ContentLength = int64(w.Body.Len())
		answer.Write(conn)
	}
}

// serveQuick is the whole program of a child that does the same. Its argument is the size
// of the text.
func serveQuick() {
	size, _ := strconv.Atoi(os.Args[len(os.Args)-1])
	text := strings.Repeat("x", size)
	in, out := bufio.NewReaderSize(os.Stdin, 64<<10), []byte(nil)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		_, rest, asked := bytes.Cut(line, []byte(`"id":`))
		id, _, _ := bytes.Cut(rest, []byte(","))
		switch _, call := idOf(line); {
		case call:
			out = quickAnswer(out[:0], id, text)
		case !asked:
			continue
		case bytes.Contains(line, []byte(`"initialize"`)):
			out = fmt.Appendf(out[:0],
				`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"q","version":"1"}}}`, id)
		case bytes.Contains(line, []byte(`"tools/list"`)):
			out = fmt.Appendf(out[:0],
				`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"tool","inputSchema":{"type":"object"}}]}}`, id)
		default:
			out = fmt.Appendf(out[:0],
				`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, id)
		}
		os.Stdout.Write(append(out, '\n'))
	}
}
