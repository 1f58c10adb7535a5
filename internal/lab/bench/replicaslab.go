package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/netfault"
)

// replicasLab has several fleets before one upstream, all running.
type replicasLab struct {
	*lab

	fleets []*fleet // in the order of the report: three that share nothing, replicas, and those with a far Redis
}

// fleet numbers those that share a Redis that is near.
func (l *replicasLab) fleet(replicas int) *fleet { return l.fleets[replicas] }

// fleet is gateways behind nginx. Either they are replicas that share a Redis of their
// own, and nginx gives each request to the next of them in turn. Or they share nothing,
// and nginx has a door for each, by which a part of the clients comes.
type fleet struct {
	fleetPlan

	replicas []part
	nginx    part
	doors    []string        // addresses of nginx, besides the first; nil: there is one
	redis    part            // the zero part: none
	far      *netfault.Proxy // before Redis; nil: it is near
}

// fleetPlan is what a fleet is to be.
type fleetPlan struct {
	name   string
	size   int
	shares bool
	away   time.Duration // by which answers of Redis come later
}

// fleetConfig is the config of each replica; the last line says what it shares.
const fleetConfig = `listen: %[1]s
operator: %[2]s
public_url: http://%[3]s
trusted_proxies: [127.0.0.1/32]
issuers:
  - {issuer: "https://bench.test/", hmac_secret_file: ../secret, algorithms: [HS256], tenant: bench}
tenants:
  bench:
    servers: [echo, kinds]
    rules: [{allow: ["*"]}, {deny: ["*__delete_*"]}]
    limits: ` + wideLimits + `
servers:
  echo: {url: "http://%[4]s/mcp", private_addresses: true}
  kinds: {url: "http://%[4]s/kinds", private_addresses: true}
audit: {file: audit.jsonl, sync: interval}
log: {level: info, format: json}
%[5]s`

// fleetShares has more patience than the default, because all parts of the lab wait for
// the same processors.
const fleetShares = `redis: {url: "redis://%s", patience: 1s}
sessions: {keys_file: ../session.keys}
replicas: %d
`

// fleetNginx is nginx with one worker, so that turns are exact.
const fleetNginx = `daemon off;
worker_processes 1;
pid %[1]s/nginx.pid;
error_log %[1]s/nginx.err;
events { worker_connections 8192; }
http {
  access_log off;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  keepalive_requests 1000000000;
%[2]s}
`

// fleetDoor gives requests to some gateways in turn, without affinity.
const fleetDoor = `  upstream door%[3]d { %[2]s keepalive 128; keepalive_requests 1000000000; }
  server {
    listen %[1]s;
    location / {
      proxy_pass http://door%[3]d;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_buffering off;
      proxy_read_timeout 10m;
      proxy_next_upstream off;
    }
  }
`

// farAway is by how much later a Redis that is far away answers.
const farAway = 20 * time.Millisecond

// beginFleets starts three gateways that share nothing, and fleets of one, two and three
// replicas, the last also with a Redis that is far away.
func (l *replicasLab) beginFleets(ctx context.Context) {
	l.beginScale(ctx)
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	l.Write(map[string]string{"session.keys": base64.StdEncoding.EncodeToString(key) + "\n"})
	for _, plan := range []fleetPlan{
		{name: "3 that share nothing", size: 3},
		{name: "1", size: 1, shares: true},
		{name: "2", size: 2, shares: true},
		{name: "3", size: 3, shares: true},
		{name: fmt.Sprintf("3, Redis %v away", farAway), size: 3, shares: true, away: farAway},
	} {
		f := &fleet{fleetPlan: plan}
		l.fleets = append(l.fleets, f)
		l.startFleet(ctx, f)
	}
}

func (l *replicasLab) startFleet(ctx context.Context, f *fleet) {
	addrs := world.Addresses(1 + 3*f.size)
	store, doors, places := addrs[0], addrs[1:1+f.size], addrs[1+f.size:]
	shared := ""
	if f.shares {
		shared = l.startStore(ctx, f, store)
	}
	folder := filepath.Join(l.Dir, "fleet-"+strings.ReplaceAll(doors[0], ":", "-"))
	servers := make([]string, f.size)
	for n := range f.size {
		listen, operator, dir := places[2*n], places[2*n+1], fmt.Sprintf("%s-%d", folder, n)
		must.OK(os.Mkdir(dir, 0o700))
		world.WriteFiles(dir, map[string]string{
			"drawbridge.yaml": fmt.Sprintf(fleetConfig, listen, operator, doors[0], l.upstream, shared),
		})
		f.replicas = append(f.replicas, l.serveConfig(ctx, listen, l.Program, dir+"/drawbridge.yaml"))
		servers[n] = fmt.Sprintf("server %s max_fails=0;", listen)
		l.isReady(ctx, operator)
	}
	text := fmt.Sprintf(fleetDoor, doors[0], strings.Join(servers, " "), 0)
	if !f.shares {
		text, f.doors = "", doors
		for n, door := range doors {
			text += fmt.Sprintf(fleetDoor, door, servers[n], n)
		}
	}
	f.nginx = l.runNginx(ctx, folder, doors[0], fmt.Sprintf(fleetNginx, folder, text), 1)
	must.Be(f.nginx.pids != nil, "nginx has no worker")
}

// startStore starts the Redis of a fleet, and returns what replicas are told of it.
func (l *replicasLab) startStore(ctx context.Context, f *fleet, addr string) (config string) {
	_, port, _ := strings.Cut(addr, ":")
	f.redis = l.start(ctx, addr, "redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "",
		"--appendonly", "no", "--dir", l.Dir)
	if f.away > 0 {
		f.far = must.Have(netfault.Start(addr))
		f.far.Delay(f.away)
		addr = f.far.Address
	}
	return fmt.Sprintf(fleetShares, addr, f.size)
}

// Close ends all fleets and what is behind them.
func (l *replicasLab) Close() {
	for _, f := range l.fleets {
		if f.far != nil {
			f.far.Close()
		}
	}
	l.lab.Close()
}

// target returns how to call a tool of a fleet. The processor time of all replicas
// counts.
func (f *fleet) target(l *replicasLab, tool string, era mcp.Era) *target {
	t := l.target(f.name, f.nginx, tool, era)
	t.token, t.doors, t.pids = sign(t.addr), f.doors, nil
	for _, one := range f.replicas {
		t.pids = append(t.pids, one.pids...)
	}
	return t
}
