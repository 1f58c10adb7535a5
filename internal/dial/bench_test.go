package dial_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// BenchmarkCalls compares the client to one of net/http: calls per second, and processor
// time per call, of this process with the server in it.
func BenchmarkCalls(b *testing.B) {
	body := strings.Repeat("x", 300)
	answer := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 300\r\n\r\n" + body
	server := newRawServer(b, func(_ int, conn *net.TCPConn, in *bufio.Reader) {
		for request(in) {
			io.WriteString(conn, answer)
		}
	})
	std := &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 256}}
	b.Cleanup(std.CloseIdleConnections)
	own := newClient(b)
	for _, bench := range []struct {
		name    string
		client  *http.Client
		callers int // per processor
	}{
		{"net/http, 1", std, 0},
		{"own, 1", own, 0},
		{"net/http, 16", std, 8},
		{"own, 16", own, 8},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			before := processorTime(b)
			call := func() {
				if text, err := post(b, bench.client, server.url, body); len(text) != len(body) ||
					err != nil {
					b.Errorf("got %d bytes and error %v", len(text), err)
				}
			}
			if bench.callers == 0 {
				for b.Loop() {
					call()
				}
			} else {
				b.SetParallelism(bench.callers)
				b.RunParallel(func(next *testing.PB) {
					for next.Next() {
						call()
					}
				})
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
			b.ReportMetric((processorTime(b)-before)*1e6/float64(b.N), "cpu-µs/op")
		})
	}
}

// processorTime returns the seconds that this process has used.
func processorTime(b *testing.B) float64 {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	total := 0.0
	for _, t := range []syscall.Timeval{usage.Utime, usage.Stime} {
		total += float64(t.Sec) + float64(t.Usec)/1e6
	}
	return total
}
