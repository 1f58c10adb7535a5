package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// rolloverPosts is how many requests the test below sends at least. Its figures in the
// documentation are of 20,000.
var rolloverPosts = flag.Int64("rollover.posts", 2000,
	"requests while replicas are restarted behind nginx, at least")

// rolloverNginx asks nobody how the replicas are: it learns that one stops only when that
// refuses a connection. A POST that was sent is never sent again.
const rolloverNginx = `daemon off;
worker_processes 1;
pid %[1]s/nginx.pid;
error_log %[1]s/nginx.err;
events { worker_connections 1024; }
http {
  access_log off;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  upstream replicas { %[3]skeepalive 64; }
  server {
    listen %[2]s;
    add_header Answered-By $upstream_addr always;
    location / {
      proxy_pass http://replicas;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_buffering off;
    }
  }
}
`

// address returns the host and port at which the process listens.
func (r *recorder) address() string {
	return strings.TrimSuffix(strings.TrimPrefix(r.url, "http://"), "/mcp")
}

// startNginx starts nginx at an address, which sends each request to the next of the
// replicas and says in its answer which that was.
func startNginx(t *testing.T, listen string, replicas ...*recorder) {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("nginx is missing; .ci/setup installs it")
		}
		t.Skip("nginx is not installed")
	}
	dir := t.TempDir()
	var servers strings.Builder
	for _, r := range replicas {
		fmt.Fprintf(&servers, "server %s max_fails=0; ", r.address())
	}
	config := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, rolloverNginx, dir, listen, &servers), 0o600); err != nil {
		t.Fatal(err)
	}
	nginx := exec.CommandContext(context.Background(), program, "-e", filepath.Join(dir, "nginx.err"), "-p",
		dir, "-c", config)
	if err := nginx.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nginx.Process.Signal(syscall.SIGTERM) // not SIGKILL, which its worker would outlive
		nginx.Wait()
		if text, _ := os.ReadFile(filepath.Join(dir, "nginx.err")); t.Failed() {
			t.Logf("nginx said:\n%.4000s", text)
		}
	})
	eventually(t, "nginx listens", func() bool { return listens(t.Context(), listen) })
}

// freeAddress returns an address that nobody uses.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// restarts ends the process with SIGTERM, and starts it again.
func (r *recorder) restarts(t *testing.T) {
	t.Helper()
	r.stops(t)
	r.start(t, func(r *recorder) {
		r.process.Dir = r.directory
		r.process.Args[len(r.process.Args)-1] = "1s" // its -drain-delay
	})
	r.ready(t, http.StatusOK, "")
}

// repeatedPosts sends one request after the other through nginx until done is closed, and
// counts what becomes of them.
type repeatedPosts struct {
	answered atomic.Int64
	mu       sync.Mutex // guards the field below
	lost     map[string]int
}

func (p *repeatedPosts) send(t *testing.T, r *recorder, url string, client *http.Client, done <-chan struct{}) {
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	for {
		select {
		case <-done:
			return
		default:
		}
		request, err := r.request(t.Context(), http.MethodPost, url, body,
			[]string{mcp.HeaderProtocolVersion, "2026-07-28", mcp.HeaderMethod, "tools/list"})
		if err != nil {
			t.Error(err)
			return
		}
		response, err := client.Do(request)
		if err != nil {
			p.lose(err.Error())
			continue
		}
		answer, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK {
			p.lose(fmt.Sprint(response.StatusCode, err, " ", strings.TrimSpace(string(answer))))
			continue
		}
		p.answered.Add(1)
	}
}

func (p *repeatedPosts) lose(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost[what]++
}

// TestARolloverLosesNoRequest restarts one of two replicas after the other behind an
// nginx that goes on sending to the one that stops until that refuses a connection. No
// request fails.
func TestARolloverLosesNoRequest(t *testing.T) {
	config := func(listen, operator string) string {
		return strings.Replace(fmt.Sprintf(keyed, listen, operator, ""), "lists: {page_size: 1}\n",
			"log: {level: warn, format: json}\nallowed_hosts: [127.0.0.1]\n", 1)
	}
	a, b := startReplica(t, config), startReplica(t, config)
	for _, r := range []*recorder{a, b} {
		r.restarts(t) // with the delay
	}
	listen := freeAddress(t)
	startNginx(t, listen, a, b)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	t.Cleanup(client.CloseIdleConnections)
	p := &repeatedPosts{lost: make(map[string]int)}
	done := make(chan struct{})
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() { p.send(t, a, "http://"+listen+"/mcp", client, done) })
	}
	restarts := 0
	for p.answered.Load() < *rolloverPosts || restarts < 4 {
		[]*recorder{a, b}[restarts%2].restarts(t)
		restarts++
	}
	close(done)
	all.Wait()
	t.Logf("%d requests answered during %d restarts", p.answered.Load(), restarts)
	for what, n := range p.lost {
		t.Errorf("%d lost: %s", n, what)
	}
}

// TestForwardedStreamsOutliveAStop makes a call at another process than the one that
// leads its session, and stops one of the two while the call waits for a person. The
// client gets the rest on the stream that it has, and its session goes on at the other
// process.
func TestForwardedStreamsOutliveAStop(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(*processes) (stops, stays *recorder){
		"where the call runs":   func(p *processes) (stops, stays *recorder) { return p.a, p.b },
		"where its client came": func(p *processes) (stops, stays *recorder) { return p.b, p.a },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startProcesses(t)
			stops, stays := of(p)
			session := p.a.askable(t)
			lines := p.b.reads(t.Context(), t, http.MethodPost,
				`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"asker__twice","arguments":{}}}`,
				mcp.HeaderSessionID, session)
			question := lineWith(t, lines, `"elicitation/create"`)
			if err := stops.process.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it accepts no connection", func() bool {
				return !listens(t.Context(), stops.address())
			})
			stays.answer(t, session, question, "uno")
			stays.answer(t, session, lineWith(t, lines, `"elicitation/create"`), "due")
			if got := lineWith(t, lines, `"id":7`); !strings.Contains(got, "call 1: uno due") {
				t.Errorf("the stream ends with %s, want the result", got)
			}
			<-stops.ended
			eventually(t, "the session goes on", func() bool {
				return stays.ping(session).status == http.StatusOK
			})
			if calls := p.calls.Load(); calls != 1 {
				t.Errorf("the server was called %d times, want once", calls)
			}
		})
	}
}

// TestAStopWaitsForWhoIsAsked ends a process in which a call is parked, and one of a
// session waits for a person, whose client has its stream at the other process. Both are
// answered there while the first one stops, which waits for that.
func TestAStopWaitsForWhoIsAsked(t *testing.T) {
	t.Parallel()
	p := startProcesses(t)
	asked := p.a.call("asker__twice", "")
	session := p.a.askable(t)
	ctx, leave := context.WithCancel(t.Context())
	lines := p.a.reads(ctx, t, http.MethodPost,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"asker__twice","arguments":{}}}`,
		mcp.HeaderSessionID, session)
	event := lineWith(t, lines, "id: ")
	question := lineWith(t, lines, `"elicitation/create"`)
	leave()
	if err := p.a.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it accepts no connection", func() bool {
		return !listens(t.Context(), p.a.address())
	})
	lines = p.b.reads(t.Context(), t, http.MethodGet, "", mcp.HeaderSessionID, session, mcp.HeaderLastEventID,
		strings.TrimPrefix(event, "id: "))
	if again := lineWith(t, lines, `"elicitation/create"`); again != question {
		t.Errorf("resumed: got %s, want %s", again, question)
	}
	p.b.answer(t, session, question, "uno")
	question = lineWith(t, lines, `"elicitation/create"`)
	asked = p.b.call("asker__twice", repeat(t, asked, "one"))
	p.b.answer(t, session, question, "due")
	if got := lineWith(t, lines, `"id":7`); !strings.Contains(got, "call 2: uno due") {
		t.Errorf("the stream ends with %s, want the result", got)
	}
	wantText(t, "the call that was parked", p.b.call("asker__twice", repeat(t, asked, "two")),
		"call 1: one two")
	<-p.a.ended
	if code := p.a.process.ProcessState.ExitCode(); code != 0 ||
		strings.Contains(p.a.log(), "calls cancelled") {
		t.Errorf("exit code %d, want 0 and no call cancelled", code)
	}
	if calls := p.calls.Load(); calls != 2 {
		t.Errorf("the server was called %d times, want 2", calls)
	}
}
