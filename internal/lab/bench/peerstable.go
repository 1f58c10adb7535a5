package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
)

// peer is one program that can stand between clients and a server. What a table of
// figures cannot show stands beside it: how it was set up, and what it does not do for
// its costs.
type peer struct {
	name     string
	parcel   parcel
	start    func(place) launch // nil: this program has never started it
	settings string
	lacks    string
	refused  string // why it is not even installed; "" for all but a few
	passes   bool   // it passes HTTP on as it is, so it serves what the server behind it serves
	sessions int    // how many sessions are opened where memory is measured; 0: as many as for all
}

// place is what a peer is told when it starts.
type place struct {
	binary   string
	self     string // this program
	dir      string // for its files, empty at first
	addr     string // to listen on
	operator string // a second one
	upstream string // address of the server behind it
}

func (p place) port() string {
	_, port, _ := net.SplitHostPort(p.addr) // it was made of a port
	return port
}

// stdio returns the command that runs the server behind it over standard input and
// output.
func (p place) stdio() []string { return []string{p.self, "peers-stdio"} }

// launch is how a peer starts.
type launch struct {
	argv  []string
	env   []string
	files map[string]string // by their names in the place's folder
	path  string            // under which it serves MCP
}

// Names of peers that others are compared with.
const (
	peerDirect     = "direct"
	peerDrawbridge = "drawbridge"
)

// peers are all of them. Each stands for itself on loopback, with one server behind it,
// and is set up as its own documentation says, with telemetry and looks for updates off.
var peers = []peer{
	{
		name:   peerDrawbridge,
		parcel: parcel{fromHere, "drawbridge", "", "github.com/drawbridge-mcp/drawbridge/cmd/drawbridge"},
		start:  startDrawbridge,
		settings: "token, tenant, rules, limits, schema of arguments, cleaning of results, audit " +
			"with `sync: interval`, request log, metrics",
		lacks: "–",
	},
	{
		name:   "ReverseProxy",
		passes: true, parcel: parcel{fromHere, "ReverseProxy", "", ""},
		start: func(p place) launch {
			return launch{argv: []string{p.binary, "proxy", p.addr, "http://" + p.upstream}, path: "/mcp"}
		},
		settings: "Go's httputil.ReverseProxy, with as many idle connections as there are calls at " +
			"once",
		lacks: "passes bytes on: knows nothing of MCP, no token, no log",
	},
	{
		name:   "nginx",
		passes: true, parcel: parcel{fromDebian, "nginx-light", "", "nginx"},
		start: startNginx,
		settings: "a worker for each processor, kept connections to the server, no buffering of " +
			"answers, no access log",
		lacks: "passes bytes on: knows nothing of MCP, no token, no log",
	},
	{
		name:   "HAProxy",
		passes: true,
		parcel: parcel{fromDebian, "haproxy", "", "haproxy"},
		start:  startHAProxy,
		settings: "a thread for each processor, `http-reuse always`, `option http-no-delay`, " +
			"without which it holds each event back for 200 ms, no log",
		lacks: "passes bytes on: knows nothing of MCP, no token, no log",
	},
	{
		name:     "TBXark mcp-proxy",
		parcel:   parcel{fromGo, "github.com/tbxark/mcp-proxy", "v0.43.2", "github.com/tbxark/mcp-proxy"},
		start:    startTBXark,
		settings: "`type: streamable-http`, no tokens, no log of requests",
		lacks: "here without its fixed tokens; no rules by user, no check of arguments, no " +
			"limits, no audit",
	},
	{
		name:   "mcp-proxy (npm)",
		parcel: parcel{fromNPM, "mcp-proxy", "6.7.19", "mcp-proxy"},
		start:  startNPMProxy,
		settings: "`--server stream`; the server behind it is a child that speaks over stdio, which " +
			"saves it a connection",
		lacks: "here without its one key; one server, no tokens of users, no rules, no limits, " +
			"no audit",
	},
	{
		name:   "supergateway",
		parcel: parcel{fromNPM, "supergateway", "4.0.0", "supergateway"},
		start:  startSupergateway, sessions: 100,
		settings: "`--stateful --outputTransport streamableHttp --logLevel none`; starts the server " +
			"anew for each session, over stdio, so memory is measured with 100 sessions",
		lacks: "one server, no tokens of users, no rules, no limits, no audit",
	},
	{
		name:     "ToolHive vMCP",
		parcel:   parcel{fromGo, "github.com/stacklok/toolhive", "v0.47.0", "github.com/stacklok/toolhive/cmd/vmcp"},
		start:    startToolHive,
		settings: "one static backend, incoming requests anonymous, audit and telemetry off",
		lacks: "here without tokens, rules, limits and audit, which it has; holds at most 1,000 " +
			"sessions",
	},
	{
		name:    "Unla",
		parcel:  parcel{fromGo, "github.com/amoylab/unla", "v0.9.2", ""},
		refused: "it listens on every address of the machine, which no setting changes",
	},
	{
		name:   "MCPJungle",
		parcel: parcel{fromGo, "github.com/mcpjungle/mcpjungle", "v0.1.10", "github.com/mcpjungle/mcpjungle"},
	},
	{
		name:   "mcpproxy-go",
		parcel: parcel{fromGo, "github.com/smart-mcp-proxy/mcpproxy-go", "v0.60.0", "github.com/smart-mcp-proxy/mcpproxy-go/cmd/mcpproxy"},
	},
	{
		name:   "mcphub",
		parcel: parcel{fromNPM, "@samanhappy/mcphub", "latest", "mcphub"},
	},
	{
		name:   "1mcp",
		parcel: parcel{fromNPM, "@1mcp/agent", "0.35.0", "1mcp"},
	},
}

const drawbridgeBesidePeers = configHead + `    servers: [echo]
    rules: [{allow: ["echo__*"]}, {deny: ["*__delete_*"]}]
    limits: ` + wideLimits + `
servers:
  echo: {url: "http://%[3]s/mcp", private_addresses: true}
lists: {page_size: 1000}
audit: {file: audit.jsonl, sync: interval}
log: {level: info, format: json}
`

func startDrawbridge(p place) launch {
	return launch{
		argv: []string{p.binary, "serve", "-config", filepath.Join(p.dir, "drawbridge.yaml")},
		path: "/mcp",
		files: map[string]string{
			"secret":          hmacSecret,
			"drawbridge.yaml": fmt.Sprintf(drawbridgeBesidePeers, p.addr, p.operator, p.upstream),
		},
	}
}

const nginxBesidePeers = `%[3]sdaemon off;
worker_processes auto;
pid nginx.pid;
error_log stderr warn;
events { worker_connections 8192; }
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  keepalive_requests 1000000000;
  upstream server { server %[2]s; keepalive 128; keepalive_requests 1000000000; }
  server {
    listen %[1]s;
    location / {
      proxy_pass http://server;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 1h;
    }
  }
}
`

func startNginx(p place) launch {
	user := page.Either(os.Getuid() == 0, "user root;\n", "") // or its workers could not write into the folder
	return launch{
		argv:  []string{p.binary, "-p", p.dir, "-e", "stderr", "-c", filepath.Join(p.dir, "nginx.conf")},
		path:  "/mcp",
		files: map[string]string{"nginx.conf": fmt.Sprintf(nginxBesidePeers, p.addr, p.upstream, user)},
	}
}

const haproxyConfig = `global
  maxconn 8000
defaults
  mode http
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  http-reuse always
  option http-no-delay
frontend clients
  bind %s
  default_backend servers
backend servers
  server upstream %s
`

func startHAProxy(p place) launch {
	return launch{
		argv:  []string{p.binary, "-db", "-f", filepath.Join(p.dir, "haproxy.cfg")},
		path:  "/mcp",
		files: map[string]string{"haproxy.cfg": fmt.Sprintf(haproxyConfig, p.addr, p.upstream)},
	}
}

const tbxarkConfig = `{
  "mcpProxy": {"baseURL": "http://%[1]s", "addr": "%[1]s", "name": "bench", "version": "1", "type": "streamable-http", "options": {"panicIfInvalid": true, "logEnabled": false}},
  "mcpServers": {"echo": {"transportType": "streamable-http", "url": "http://%[2]s/mcp"}}
}
`

func startTBXark(p place) launch {
	return launch{
		argv:  []string{p.binary, "-config", filepath.Join(p.dir, "config.json")},
		path:  "/echo/",
		files: map[string]string{"config.json": fmt.Sprintf(tbxarkConfig, p.addr, p.upstream)},
	}
}

func startNPMProxy(p place) launch {
	return launch{
		argv: append([]string{p.binary, "--host", "127.0.0.1", "--port", p.port(), "--server", "stream", "--"}, p.stdio()...),
		path: "/mcp",
	}
}

// loopbackOnly makes a program of Node.js that would listen on every address listen on
// loopback.
const loopbackOnly = `const net = require('net');
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  const options = typeof port === 'object' ? { ...port, host: '127.0.0.1' } : { port: Number(port), host: '127.0.0.1' };
  return listen.call(this, options, ...rest.filter((each) => typeof each === 'function'));
};
`

func startSupergateway(p place) launch {
	return launch{
		argv: []string{
			p.binary, "--stdio", fmt.Sprintf("%q %s", p.self, "peers-stdio"), "--outputTransport", "streamableHttp",
			"--stateful", "--port", p.port(), "--logLevel", "none",
		},
		env:   []string{"NODE_OPTIONS=--require=" + filepath.Join(p.dir, "loopback.cjs")},
		path:  "/mcp",
		files: map[string]string{"loopback.cjs": loopbackOnly},
	}
}

const toolhiveConfig = `name: bench
groupRef: bench
incomingAuth: {type: anonymous}
outgoingAuth: {source: inline, default: {type: unauthenticated}}
aggregation: {conflictResolution: prefix, conflictResolutionConfig: {prefixFormat: "{workload}_"}}
backends:
  - {name: echo, url: "http://%s/mcp", transport: streamable-http}
`

func startToolHive(p place) launch {
	return launch{
		argv:  []string{p.binary, "serve", "--host", "127.0.0.1", "--port", p.port(), "--config", filepath.Join(p.dir, "vmcp.yaml")},
		path:  "/mcp",
		files: map[string]string{"vmcp.yaml": fmt.Sprintf(toolhiveConfig, p.upstream)},
	}
}
