package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// plainNginx is nginx as a plain proxy that keeps its connections to the upstream.
// Nothing is logged.
const plainNginx = `daemon off;
worker_processes %[4]d;
pid %[1]s/nginx.pid;
error_log %[1]s/nginx.err;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  keepalive_requests 1000000000;
  upstream bench { server %[3]s; keepalive 128; keepalive_requests 1000000000; }
  server {
    listen %[2]s;
    client_body_buffer_size 1m;
    location / {
      proxy_pass http://bench;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
    }
  }
}
`

// startNginx starts nginx before the upstream. Where it is not installed there is no such
// way.
func (l *lab) startNginx(ctx context.Context, addr string) {
	if _, err := exec.LookPath("nginx"); err == nil { // else the report says so
		l.parts[wayNginx] = l.runNginx(ctx, l.Dir, addr,
			fmt.Sprintf(plainNginx, l.Dir, addr, l.upstream, runtime.NumCPU()), runtime.NumCPU())
	}
}

// runNginx starts nginx in a folder, with a config that gives it so many workers. It
// listens before they run, and all of them count. If not all begin, its work is done
// where it cannot be counted.
func (l *lab) runNginx(ctx context.Context, dir, addr, text string, workers int) part {
	config := filepath.Join(dir, "nginx.conf")
	must.OK(errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(config, []byte(text), 0o600)))
	p := l.start(ctx, addr, "nginx", "-p", dir, "-c", config)
	if world.Within(ctx, 10*time.Second, "nginx has workers", func() (all bool) {
		p.pids = world.Tree(p.PID())
		return len(p.pids) == 1+workers
	}) != nil {
		p.pids = nil
	}
	return p
}

// nginxVersion says what nginx calls itself, or that there is none.
func nginxVersion(ctx context.Context) string {
	out, err := must.Got(func() string { return world.Run(ctx, "", "nginx", "-v") })
	return page.Either(err == nil, strings.TrimPrefix(out, "nginx version: "),
		"nginx was not measured, because it is not installed here")
}
