package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// The ways that a call can take, by the names that they have in the report.
const (
	wayDirect     = "direct"
	wayNginx      = "nginx"
	wayProxy      = "ReverseProxy"
	wayDrawbridge = "drawbridge"
	wayThrifty    = "ReverseProxy, GOGC=400" // with the collector's setting that the gateway gives itself
	wayProxyTwo   = "ReverseProxy, HTTP/2"
	wayProxyOne   = "ReverseProxy, HTTP/1.1"
)

// lab is all parts, running.
type lab struct {
	*world.Lab
	page.Report

	started  int             // processes, each with a log of its own
	upstream string          // its address
	parts    map[string]part // by the way that leads through it
}

// part is one process that listens on an address.
type part struct {
	*world.Process

	addr string
	pids []int // of what counts: the process without the servers that it starts, and workers of nginx
}

// hmacSecret signs the tokens of all gateways.
const hmacSecret = "bench-83c1f0a7d94e26b5-hmac-secret" //nolint:gosec // of gateways that live for minutes, on loopback

// configHead begins the configs of gateways with one tenant: their addresses, who may
// call, and the tenant's name.
const configHead = `listen: %[1]s
operator: %[2]s
public_url: http://%[1]s
issuers:
  - {issuer: "https://bench.test/", hmac_secret_file: secret, algorithms: [HS256], tenant: bench}
tenants:
  bench:
`

// wideLimits are those of a tenant that is near none.
const wideLimits = `{` + world.AnyRates + `, tools: {"echo__*": ` + world.AnyRate + `}, concurrency: 1000, ` +
	`streams: 20000, sessions: 100000, user_sessions: 100000}`

const gatewayConfig = configHead + `    servers: [echo, tls, kinds, stdio, toolbox]
    rules: [{allow: ["*"]}, {deny: ["*__delete_*"]}]
    limits: ` + wideLimits + `
    output: {max_text: 4MiB}
servers:
  echo: {url: "http://%[3]s/mcp", private_addresses: true}
  tls: {url: "https://%[4]s/mcp", private_addresses: true}
  kinds: {url: "http://%[3]s/kinds", private_addresses: true}
  stdio: {command: "%[5]s", args: [stdio], shared: true}
  toolbox: {builtin: [calculate]}
audit: {file: audit.jsonl, sync: interval}
log: {level: info, format: json}
`

// emptyLab returns a lab in which nothing runs.
func emptyLab(name string, r page.Report) *lab {
	return &lab{Lab: world.NewLab(name), Report: r, parts: make(map[string]part)}
}

// begin builds the gateway and starts all parts. Everything that it makes lies in a
// temporary folder.
func (l *lab) begin(ctx context.Context) {
	l.build(ctx)
	addrs := world.Addresses(8)
	gateway, secure := addrs[0], addrs[2]
	redistest.Certificates(must.TB{}, l.Dir)
	trust := "SSL_CERT_FILE=" + l.certificate()
	l.parts[wayDirect] = l.startUpstream(ctx, "upstream")
	l.start(ctx, secure, l.Self, "upstream", secure, l.certificate(), l.key())
	l.Write(map[string]string{
		"drawbridge.yaml": fmt.Sprintf(gatewayConfig, gateway, addrs[1], l.upstream, secure, l.Self),
	})
	for _, p := range []struct {
		way, addr string
		env       []string
		args      []string
	}{
		{wayProxy, addrs[3], nil, []string{l.Self, "proxy", addrs[3], "http://" + l.upstream}},
		{wayThrifty, addrs[4], []string{"GOGC=400"}, []string{l.Self, "proxy", addrs[4], "http://" + l.upstream}},
		{wayProxyTwo, addrs[5], []string{trust}, []string{l.Self, "proxy", addrs[5], "https://" + secure}},
		{
			wayProxyOne, addrs[6],
			[]string{trust, "GODEBUG=http2client=0"},
			[]string{l.Self, "proxy", addrs[6], "https://" + secure},
		},
		{wayDrawbridge, gateway, []string{trust}, []string{l.Program, "serve", "-config", "drawbridge.yaml"}},
	} {
		l.parts[p.way] = l.startWith(ctx, p.env, p.addr, p.args...)
	}
	l.startNginx(ctx, addrs[7])
	for _, tool := range []string{"echo__echo", "tls__echo", "kinds__echo", "stdio__echo"} {
		l.serves(ctx, l.target(wayDrawbridge, l.parts[wayDrawbridge], tool, mcp.Modern))
	}
}

// build builds the gateway and writes the secret that tokens are signed with.
func (l *lab) build(ctx context.Context) {
	l.Build(ctx)
	l.Write(map[string]string{"secret": hmacSecret})
}

// certificate is the file with the one of the upstream that speaks TLS, for which it
// vouches itself.
func (l *lab) certificate() string { return filepath.Join(l.Dir, "cert.pem") }

func (l *lab) key() string { return filepath.Join(l.Dir, "key.pem") }

// sign returns a token for the gateway that clients know under an address.
func sign(public string) string {
	return world.Token(hmacSecret, "https://bench.test/", "http://"+public+"/mcp", "load", nil)
}

// startUpstream starts this program in a role of the upstream.
func (l *lab) startUpstream(ctx context.Context, role string) part {
	l.upstream = world.Addresses(1)[0]
	return l.start(ctx, l.upstream, l.Self, role, l.upstream)
}

// startTime is how long a part may take until it listens: one with thousands of tenants,
// on a busy machine.
const startTime = 2 * time.Minute

// start runs one part and waits until it listens.
func (l *lab) start(ctx context.Context, addr string, command ...string) part {
	return l.startWith(ctx, nil, addr, command...)
}

// serveConfig starts a gateway, and waits until it listens. The name of its config is
// whole, or one in the folder of the lab.
func (l *lab) serveConfig(ctx context.Context, addr, program, config string) part {
	return l.start(ctx, addr, program, "serve", "-config", config)
}

// startWith is start with variables added to the environment. Those that change Go's
// collector or scheduler are taken out of it, so that each part has what it would have in
// production.
func (l *lab) startWith(ctx context.Context, env []string, addr string, command ...string) (p part) {
	own := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG"}, name)
	})
	l.started++
	p.addr = addr
	p.Process = l.Start(world.Order{
		Dir: l.Dir, Log: fmt.Sprintf("log%d", l.started), Command: command, Env: append(own, env...), Bare: true,
	})
	p.Listens(ctx, addr, startTime)
	p.pids = []int{p.PID()}
	return p
}

// serves waits until the tool of a target is served: until one call is answered as it
// should be.
func (l *lab) serves(ctx context.Context, t *target) {
	must.OK(world.Within(ctx, 20*time.Second, "the gateway serves "+t.tool, func() bool {
		return must.Try(func() {
			c := t.connect(ctx)
			defer c.close()
			c.call()
		}) == nil
	}))
}

// particulars are what calls of some tools have otherwise than those of echo.
var particulars = map[string]target{
	"stream":       {meta: `"progressToken":"p"`, before: 3},
	"ask":          {capabilities: client.Able, before: 1},
	"calculate":    {arguments: `{"expression":"6*7"}`, want: `42`},
	"text_1024":    {arguments: "{}"},
	"text_65536":   {arguments: "{}"},
	"text_1048576": {arguments: "{}"},
}

// target returns how to call a tool, by the name that the upstream gives it, or the
// gateway.
func (l *lab) target(way string, p part, tool string, era mcp.Era) *target {
	_, name, exposed := strings.Cut(tool, "__")
	t := particulars[page.Either(exposed, name, tool)]
	t.name, t.addr, t.pids, t.tool = way, p.addr, p.pids, tool
	t.token = page.Either(way == wayDrawbridge, sign(p.addr), "")
	return t.in(era)
}

// targets returns those of some ways to a tool echo that there are, by the name that the
// gateway gives the tool.
func (l *lab) targets(era mcp.Era, tool string, ways ...string) (all []*target) {
	for _, way := range ways {
		if p, found := l.parts[way]; found {
			all = append(all, l.target(way, p, page.Either(way == wayDrawbridge, tool, "echo"), era))
		}
	}
	return all
}
