package dial

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestIdleTimeIsWhatKeepAliveNames is inside the package because its clock must be a fake
// one, under which real connections do not work.
func TestIdleTimeIsWhatKeepAliveNames(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"timeout=5":                    4 * time.Second,
		"timeout=5, max=100":           4 * time.Second,
		"max=100,\tTimeout=5 ,":        4 * time.Second,
		"timeout=60, timeout=5":        4 * time.Second,
		"timeout=5, timeout=60":        4 * time.Second,
		"timeout=5, timeout=x":         4 * time.Second,
		"timeout=0002":                 time.Second,
		"timeout=1":                    time.Second / 2,
		"timeout=90":                   idleTimeout - time.Second,
		"timeout=91":                   idleTimeout,
		"timeout=18446744073709551617": idleTimeout,
		"":                             idleTimeout,
		"max=5":                        idleTimeout,
		"timeout":                      idleTimeout,
		"timeout=":                     idleTimeout,
		"timeout=-5":                   idleTimeout,
		"timeout=+5":                   idleTimeout,
		"timeout=5s":                   idleTimeout,
		"timeout=1.5":                  idleTimeout,
		"timeout= 5":                   idleTimeout,
		"timeout =5":                   idleTimeout,
		`timeout="5"`:                  idleTimeout,
		"timeout=5;max=1":              idleTimeout,
		"no-timeout=5":                 idleTimeout,
		"5":                            idleTimeout,
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &pool{most: 1, conns: map[origin][]*conn{}}
			closed := 0
			c := &conn{life: idleTime([]byte(value), idleTimeout), cut: func() { closed++ }}
			p.put(c)
			time.Sleep(want - 1)
			if p.take(origin{}) != c {
				t.Errorf("%q: not used again before %v", value, want)
			}
			p.put(c)
			time.Sleep(want)
			if p.take(origin{}) != nil || closed != 1 {
				t.Errorf("%q: used again after %v, or not closed", value, want)
			}
			time.Sleep(idleTimeout) // until nothing sweeps any more
		})
	}
}

// TestSweepLeavesWhatMayBeIdleLonger has connections to one host whose times end in
// another order than they began.
func TestSweepLeavesWhatMayBeIdleLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pool{most: 3, conns: map[origin][]*conn{}}
		var closed atomic.Int32
		for _, value := range []string{"timeout=5", "timeout=80", "timeout=5"} {
			p.put(&conn{life: idleTime([]byte(value), idleTimeout), cut: func() { closed.Add(1) }})
		}
		time.Sleep(sweepEvery)
		synctest.Wait()
		p.mu.Lock()
		if closed.Load() != 2 || len(p.conns[origin{}]) != 1 || p.conns[origin{}][0].life != 79*time.Second {
			t.Errorf("%d were closed, %d are left; want 2, and the one of 79 s", closed.Load(),
				len(p.conns[origin{}]))
		}
		p.mu.Unlock()
		time.Sleep(idleTimeout)
	})
}

// TestNoRequestMeetsACloseThatItsServerNamed has a server of net/http that names a time
// in its answers, and does not close then: so the connections that it sees show what the
// client decides by itself. Half a second is what may be used of one second, and nothing
// depends on how much longer it takes.
func TestNoRequestMeetsACloseThatItsServerNamed(t *testing.T) {
	t.Parallel()
	answers := map[string]func(w http.ResponseWriter){
		"usual": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, "{}")
		},
		"event stream": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {}\n\n")
			w.(http.Flusher).Flush()
		},
		"no body": func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted) },
	}
	for _, test := range []struct {
		keepAlive string
		want      int32 // connections for two requests
	}{
		{"timeout=60", 1},
		{"timeout=1, max=100", 2},
		{"timeout=0", 2},
	} {
		for name, answer := range answers {
			for _, scheme := range []string{"http", "https"} {
				t.Run(fmt.Sprintf("%s/%s/%s", test.keepAlive, name, scheme), func(t *testing.T) {
					t.Parallel()
					var opened atomic.Int32
					server := httptest.NewUnstartedServer(http.HandlerFunc(
						func(w http.ResponseWriter, r *http.Request) {
							io.Copy(io.Discard, r.Body)
							w.Header().Set("Keep-Alive", test.keepAlive)
							answer(w)
						}))
					server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
						if s == http.StateNew {
							opened.Add(1)
						}
					}
					p := startPost(t, server, scheme)
					sendAndRead(t, p)
					<-time.After(time.Second / 2)
					sendAndRead(t, p)
					if opened.Load() != test.want {
						t.Errorf("got %d connections, want %d", opened.Load(), test.want)
					}
				})
			}
		}
	}
}

// startPost starts a server, and returns a request to it that goes over own connections.
func startPost(t *testing.T, server *httptest.Server, scheme string) *Post {
	t.Helper()
	client := newTransport(newDialer(true, nil))
	if scheme == "https" {
		server.StartTLS()
		client = trusting(t, server.Certificate())
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	t.Cleanup(client.CloseIdleConnections)
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	client.version(target.Host).Store(true)
	return NewPost(client, target, http.Header{})
}

// sendAndRead sends a request over an own connection, and reads its answer to the end.
func sendAndRead(t *testing.T, p *Post) {
	t.Helper()
	_, other, sent, err := p.Send(t.Context(), nil, []byte("{}"), anyRoom{})
	if other != nil {
		_, err = io.Copy(io.Discard, other.Body)
		other.Body.Close()
	}
	if !sent || err != nil {
		t.Fatalf("sent over an own connection: %v, error %v", sent, err)
	}
}
