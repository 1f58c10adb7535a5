package interop_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// A fleet is three gateways that share one Redis, behind nginx:
//
//	client ──▶ nginx ──▶ replica 0 ─┐
//	             ├─────▶ replica 1 ─┼──▶ Redis
//	             └─────▶ replica 2 ─┘
//
// nginx gives each request to the next of them in turn, whatever token, session or
// connection it came with, so that two requests in a row never reach the same replica. A
// request that fails is not sent again: where a replica is wrong, the test sees it.
const fleetSize = 3

// forms are what a test runs before that must hold for one gateway and for several
// replicas alike.
var forms = []struct {
	name   string
	settle func(testing.TB) *gateway
}{
	{"one gateway", settle},
	{"fleet of three", settleFleet},
}

// settleFleet is settle for a fleet: it starts Redis, and finds nginx and the replicas
// their directories, addresses and the keys that they share.
func settleFleet(t testing.TB) *gateway {
	t.Helper()
	nginx(t)
	fleet := settle(t)
	fleet.operator = ""
	fleet.redis = redistest.Start(t).URL()
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	if err := os.WriteFile(fleet.keys(), []byte(base64.StdEncoding.EncodeToString(key)+"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for range fleetSize {
		one := settle(t)
		one.behind, one.url = fleet, fleet.url
		fleet.replicas = append(fleet.replicas, one)
	}
	return fleet
}

// keys is the file of the keys that seal session ids.
func (g *gateway) keys() string { return filepath.Join(g.dir, "keys") }

// members returns the replicas of a fleet, or the one gateway that it is.
func (g *gateway) members() []*gateway {
	if g.replicas != nil {
		return g.replicas
	}
	return []*gateway{g}
}

// shared is the part of the config that is the same for all of a fleet. Its patience with
// Redis is that of a machine on which other tests run at the same time.
func (g *gateway) shared() string {
	return fmt.Sprintf(`public_url: http://%s
trusted_proxies: [127.0.0.1/32]
redis: {url: %q, patience: 10s}
sessions: {keys_file: %q}
replicas: %d
`, g.addr, g.redis, g.keys(), fleetSize)
}

// crash ends the gateway, or all of a fleet, at once.
func (g *gateway) crash() {
	for _, one := range g.replicas {
		one.kill()
	}
	g.kill()
}

// nginx returns the path of the program, which CI has.
func nginx(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("nginx is missing; .ci/setup installs it")
	}
	t.Skip("nginx is not installed; .ci/setup installs it")
	return ""
}

// spread starts nginx before the replicas. With a single process of it the turns are
// exact.
func (g *gateway) spread(t testing.TB) {
	t.Helper()
	var servers, folders strings.Builder
	for _, one := range g.replicas {
		fmt.Fprintf(&servers, "    server %s max_fails=0;\n", one.addr)
	}
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&folders, "  %s_temp_path %s/%s;\n", kind, g.dir, kind)
	}
	config := filepath.Join(g.dir, "nginx.conf")
	text := fmt.Sprintf(`daemon off;
master_process off;
pid %[1]s/nginx.pid;
events { worker_connections 4096; }
http {
  access_log off;
%[2]s  upstream fleet {
%[3]s    keepalive 64;
  }
  server {
    listen %[4]s;
    client_max_body_size 16m;
    large_client_header_buffers 4 64k;
    ignore_invalid_headers off;
    location / {
      proxy_pass http://fleet;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_buffering off;
      proxy_read_timeout 10m;
      proxy_next_upstream off;
    }
  }
}
`, g.dir, &folders, &servers, g.addr)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g.process = start(t, exec.CommandContext(context.Background(), nginx(t), "-e", "stderr", "-p", g.dir,
		"-c", config))
	eventually(t, "nginx listens", func() bool { return listening(g.addr) })
}
