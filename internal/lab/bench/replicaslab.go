package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// replicasLab has fleets of several sizes before one upstream, all running.
type replicasLab struct {
	*scaleLab

	fleets []*fleet // the first shares nothing
}

// fleet is replicas of one gateway behind nginx, which gives each request to the next of
// them in turn. They share a Redis of their own, or are one gateway that shares nothing.
type fleet struct {
	name     string
	replicas []part
	nginx    part
	redis    part     // the zero part: none
	counter  *counter // of what Redis does; nil without it
	token    string   // for its address
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
    limits: {requests: {rate: 1e9, burst: 1000000000}, calls: {rate: 1e9, burst: 1000000000}, user_calls: {rate: 1e9, burst: 1000000000}, tools: {"echo__*": {rate: 1e9, burst: 1000000000}}, concurrency: 1000, streams: 20000, sessions: 100000, user_sessions: 100000}
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

// fleetNginx gives requests to all replicas in turn, without affinity. With one worker
// the turns are exact.
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
  upstream fleet { %[3]s keepalive 128; keepalive_requests 1000000000; }
  server {
    listen %[2]s;
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
`

func newReplicasLab(ctx context.Context) (*replicasLab, error) {
	scale, err := newScaleLab(ctx)
	if err != nil {
		return nil, err
	}
	l := &replicasLab{scaleLab: scale}
	return world.Begun(l, l.Close, l.beginFleets(ctx))
}

// beginFleets starts one gateway that shares nothing, and fleets of one, two and three
// replicas.
func (l *replicasLab) beginFleets(ctx context.Context) error {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	if err := l.Write(map[string]string{
		"session.keys": base64.StdEncoding.EncodeToString(key) + "\n",
	}); err != nil {
		return err
	}
	for _, f := range []struct {
		name   string
		size   int
		shares bool
	}{{"1, shares nothing", 1, false}, {"1", 1, true}, {"2", 2, true}, {"3", 3, true}} {
		started, err := l.startFleet(ctx, f.name, f.size, f.shares)
		if err != nil {
			return fmt.Errorf("fleet of %s: %w", f.name, err)
		}
		l.fleets = append(l.fleets, started)
	}
	return nil
}

func (l *replicasLab) startFleet(ctx context.Context, name string, size int, shares bool) (*fleet, error) {
	f := &fleet{name: name}
	addrs, err := world.Addresses(2 + 2*size)
	if err != nil {
		return nil, err
	}
	public, store := addrs[0], addrs[1]
	f.token = sign(public)
	shared := ""
	if shares {
		shared = fmt.Sprintf(fleetShares, store, size)
		_, port, _ := strings.Cut(store, ":")
		if f.redis, err = l.start(ctx, store, "redis-server", "--bind", "127.0.0.1", "--port", port, "--save",
			"", "--appendonly", "no", "--dir", l.Dir); err != nil {
			return nil, err
		}
		if f.counter, err = newCounter(ctx, store); err != nil {
			return nil, err
		}
	}
	folder := filepath.Join(l.Dir, fmt.Sprintf("fleet%d", len(l.fleets)))
	var servers strings.Builder
	for n := range size {
		listen, operator := addrs[2+2*n], addrs[3+2*n]
		dir := fmt.Sprintf("%s-%d", folder, n)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
		if err := world.WriteFiles(dir, map[string]string{
			"drawbridge.yaml": fmt.Sprintf(fleetConfig, listen, operator, public, l.upstream, shared),
		}); err != nil {
			return nil, err
		}
		one, err := l.serveConfig(ctx, listen, l.Program, dir+"/drawbridge.yaml")
		if err != nil {
			return nil, err
		}
		f.replicas = append(f.replicas, one)
		_, _ = fmt.Fprintf(&servers, "server %s max_fails=0; ", listen) // a Builder has no errors
		if err := world.Within(ctx, startTime, "the replica is ready",
			func() bool { return l.isReady(ctx, operator) }); err != nil {
			return nil, err
		}
	}
	f.nginx, err = l.runNginx(ctx, folder, public, fmt.Sprintf(fleetNginx, folder, public, servers.String()),
		1)
	if err == nil && f.nginx.pids == nil {
		err = errors.New("nginx has no worker")
	}
	return f, err
}

// Close ends all fleets and what is behind them.
func (l *replicasLab) Close() {
	for _, f := range l.fleets {
		f.counter.close()
	}
	l.scaleLab.Close()
}

// target returns how to call a tool of a fleet. The processor time of all replicas
// counts.
func (f *fleet) target(l *replicasLab, tool string, era mcp.Era) *target {
	t := l.target(f.name, f.nginx, tool, era)
	t.token, t.pids = f.token, nil
	for _, one := range f.replicas {
		t.pids = append(t.pids, one.pids...)
	}
	return t
}

// costs is the processor time of what is beside the replicas, so far.
type costs struct{ redis, nginx time.Duration }

func (f *fleet) costs() (c costs, err error) {
	if c.redis, err = world.Busy(f.redis.pids...); err != nil {
		return c, err
	}
	c.nginx, err = world.Busy(f.nginx.pids...)
	return c, err
}
