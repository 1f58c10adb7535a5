package world

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
)

// balancer is nginx or HAProxy before all replicas that may ever be. Both give each
// request to the next replica in turn, and try another one only where no connection was
// made, as the configs of deploy/loadbalancer do.
type balancer struct {
	child *Process
	dir   string
	// host:port where HAProxy says whom it believes to be well; empty: nginx, which
	// believes nothing
	stats string
}

// nginxConfig tries as many replicas as there may be, because several in a row may be
// gone: those of the room that was never used are.
const nginxConfig = `daemon off;
master_process off;
pid %[1]s/pid;
error_log %[1]s/errors;
events { worker_connections 8192; }
http {
  access_log off;
  client_body_temp_path %[1]s/client_body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  keepalive_requests 1000000000;
  upstream drawbridge {
%[3]s    keepalive 64;
    keepalive_timeout 60s;
    keepalive_requests 1000000000;
  }
  server {
    listen %[2]s;
    client_max_body_size 5m;
    large_client_header_buffers 4 16k;
    ignore_invalid_headers off;
    location / {
      proxy_pass http://drawbridge;
      proxy_bind %[4]s;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host %[6]s;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_buffering off;
      proxy_cache off;
      gzip off;
      proxy_read_timeout 5m;
      proxy_send_timeout 60s;
      proxy_connect_timeout 2s;
      proxy_next_upstream error timeout%[7]s;
      proxy_next_upstream_tries %[5]d;
    }
  }
}
`

const haproxyConfig = `global
    maxconn 8000
    tune.bufsize 32768
    tune.maxrewrite 1024

defaults
    mode http
    timeout connect 2s
    timeout http-request 10s
    timeout http-keep-alive 60s
    timeout client 5m
    timeout server 5m
    timeout check 1s
    option http-no-delay
    option abortonclose

frontend stats
    bind %[3]s
    stats enable
    stats uri /

frontend clients
    bind %[1]s
    http-request set-header X-Forwarded-For %%[src]
    http-request set-header Host %[5]s
    default_backend drawbridge

backend drawbridge
    balance roundrobin
    retries 3
    retry-on conn-failure%[6]s
    option redispatch 1
    option httpchk GET /readyz
    http-check expect status 200
    source %[4]s
    default-server inter 200ms fall 2 rise 1
%[2]s`

// startBalancer starts the load balancer at an address, with a folder of its own.
func (w *World) startBalancer(name, address string) *balancer {
	b := &balancer{dir: filepath.Join(w.config.Dir, name)}
	must.OK(os.MkdirAll(b.dir, 0o700))
	isHAProxy := w.config.Balancer == "haproxy"
	servers := page.Rows(w.slots, func(r *Replica) string {
		to := r.Address
		if r.Balancer != nil {
			to = r.Balancer.Address
		}
		host, port := split(r.Operator)
		return page.Either(isHAProxy,
			fmt.Sprintf("    server %s %s check addr %s port %s\n", r.Name, to, host, port),
			fmt.Sprintf("    server %s max_fails=0;\n", to))
	})
	path := LookUp(w.config.Balancer)
	again := page.Either(name == partCareless,
		map[string]string{"nginx": " non_idempotent", "haproxy": " empty-response"}, nil)
	file, host := filepath.Join(b.dir, "config"), strings.TrimPrefix(w.URL, "http://")
	text := fmt.Sprintf(nginxConfig, b.dir, address, servers, w.network.balancer, Room, host,
		again["nginx"])
	command := []string{path, "-e", filepath.Join(b.dir, "errors"), "-p", b.dir, "-c", file}
	if isHAProxy {
		b.stats = must.Have(freeport.Address())
		text = fmt.Sprintf(haproxyConfig, address, servers, b.stats, w.network.balancer, host,
			again["haproxy"])
		command = []string{path, "-W", "-db", "-f", file}
	}
	must.OK(os.WriteFile(file, []byte(text), 0o600))
	b.child = w.Start(Order{Dir: b.dir, Command: command})
	return b
}

// ReloadHAProxy has HAProxy read its config again: another process takes its place, and
// the old one ends with its last connection. nginx is one process here, which cannot.
func (w *World) ReloadHAProxy() {
	must.OK(w.balancer.child.Signal(syscall.SIGUSR2))
}

// Careless starts another load balancer of the same kind before the replicas. It sends
// again what a replica has not answered, as no load balancer may.
func (w *World) Careless(ctx context.Context, address string) *Process {
	b := w.startBalancer(partCareless, address)
	b.child.Listens(ctx, address, commandTime)
	return b.child
}

// LookUp finds a program, also where only root's path leads.
func LookUp(name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + name)
	}
	must.Be(err == nil, "%s is not installed; .ci/setup installs it: %w", name, err)
	return path
}

// isReady panics unless the balancer sends requests to all replicas that run, and to no
// others. HAProxy takes all for well at its start.
func (b *balancer) isReady(ctx context.Context, w *World) {
	must.Be(b.child.Runs(), "%s: %w: %s", w.config.Balancer, errNotRunning, b.child.Words())
	status, _ := w.ask(ctx, w.URL+"/.well-known/oauth-protected-resource")
	must.Be(status == http.StatusOK, "%s answers %d", w.config.Balancer, status)
	if b.stats == "" {
		return
	}
	_, table := w.ask(ctx, "http://"+b.stats+"/;csv")
	for _, r := range w.slots {
		said := opinion(string(table), r.Name)
		must.Be(r.Runs() && said == "UP" || !r.Runs() && !strings.HasPrefix(said, "UP"),
			"haproxy says %q of %s, which runs: %t", said, r.Name, r.Runs())
	}
}

// opinion returns what HAProxy says of a server in its table of all, "UP" or "UP 1/2" for
// example.
func opinion(table, server string) string {
	for line := range strings.Lines(table) {
		fields := strings.Split(line, ",")
		if len(fields) > 17 && fields[1] == server {
			return fields[17]
		}
	}
	return ""
}

// Ready waits until Redis is up, all replicas that run are ready and use Redis and all
// upstreams, and the balancer sends requests to them. When ctx ends before that, the
// error says what is not ready and why.
func (w *World) Ready(ctx context.Context) {
	Until(ctx, func() {
		w.Redis.isReady(ctx)
		for _, r := range w.Replicas {
			if r.Runs() {
				r.isReady(ctx)
				r.reaches(ctx)
			}
		}
		w.balancer.isReady(ctx, w)
	})
}
