package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
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
	dir       string
	running   []*exec.Cmd
	upstream  string // addresses
	proxy     string
	gateway   string
	token     string
	parts     map[string]part // by the way that leads through it
	secure    map[string]part // the same before the upstream that speaks TLS
	program   string          // the gateway's
	self      string          // this program
	authority string          // file with the certificate that vouches for the upstream that speaks TLS
}

// part is one process and what it started, if it listens on an address.
type part struct {
	addr string
	pids []int
}

// hmacSecret signs the tokens of all gateways.
const hmacSecret = "bench-83c1f0a7d94e26b5-hmac-secret" //nolint:gosec // of gateways that live for minutes, on loopback

// configHead begins the configs of gateways with one tenant: their addresses, who may call, and the tenant's name.
const configHead = `listen: %[1]s
operator: %[2]s
public_url: http://%[1]s
issuers:
  - {issuer: "https://bench.test/", hmac_secret_file: secret, algorithms: [HS256], tenant: bench}
tenants:
  bench:
`

const gatewayConfig = configHead + `    servers: [echo, tls, kinds, stdio, toolbox]
    rules: [{allow: ["*"]}, {deny: ["*__delete_*"]}]
    limits: {requests: {rate: 1e9, burst: 1000000000}, calls: {rate: 1e9, burst: 1000000000}, user_calls: {rate: 1e9, burst: 1000000000}, tools: {"echo__*": {rate: 1e9, burst: 1000000000}}, concurrency: 1000, streams: 20000, sessions: 100000, user_sessions: 100000}
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

// newLab builds the gateway and starts all parts. Everything it makes lies in a temporary folder.
func newLab(ctx context.Context) (*lab, error) {
	dir, err := os.MkdirTemp("", "drawbridge-bench-")
	if err != nil {
		return nil, err
	}
	l := &lab{dir: dir, parts: make(map[string]part), secure: make(map[string]part)}
	if err := l.begin(ctx); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *lab) begin(ctx context.Context) error {
	if err := l.build(ctx); err != nil {
		return err
	}
	addrs, err := freeAddrs(9)
	if err != nil {
		return err
	}
	l.upstream, l.proxy, l.gateway = addrs[0], addrs[1], addrs[2]
	secure := addrs[3]
	l.authority = filepath.Join(l.dir, "authority.pem")
	if err := writeCertificates(l.authority, l.certificate(), l.key()); err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	trust := "SSL_CERT_FILE=" + l.authority
	config := filepath.Join(l.dir, "drawbridge.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, gatewayConfig, l.gateway, addrs[4], l.upstream, secure, l.self), 0o600); err != nil {
		return err
	}
	if l.token, err = l.sign(ctx, config); err != nil {
		return err
	}
	for _, p := range []struct {
		into      map[string]part
		way, addr string
		env       []string
		args      []string
	}{
		{l.parts, wayDirect, l.upstream, nil, []string{l.self, "upstream", l.upstream}},
		{l.secure, wayDirect, secure, nil, []string{l.self, "upstream", secure, l.certificate(), l.key()}},
		{l.parts, wayProxy, l.proxy, nil, []string{l.self, "proxy", l.proxy, "http://" + l.upstream}},
		{l.parts, wayThrifty, addrs[5], []string{"GOGC=400"}, []string{l.self, "proxy", addrs[5], "http://" + l.upstream}},
		{l.secure, wayProxyTwo, addrs[6], []string{trust}, []string{l.self, "proxy", addrs[6], "https://" + secure}},
		{l.secure, wayProxyOne, addrs[7], []string{trust, "GODEBUG=http2client=0"}, []string{l.self, "proxy", addrs[7], "https://" + secure}},
		{l.parts, wayDrawbridge, l.gateway, []string{trust}, []string{l.program, "serve", "-config", config}},
	} {
		if p.into[p.way], err = l.startWith(ctx, p.env, p.addr, p.args[0], p.args[1:]...); err != nil {
			return err
		}
	}
	l.secure[wayDrawbridge] = l.parts[wayDrawbridge]
	if err := l.startNginx(ctx, addrs[8]); err != nil {
		return err
	}
	return l.ready(ctx)
}

// build builds the gateway and writes the secret that tokens are signed with.
func (l *lab) build(ctx context.Context) error {
	var err error
	if l.self, err = os.Executable(); err != nil {
		return err
	}
	l.program = filepath.Join(l.dir, "drawbridge")
	if err := world.Build(ctx, l.program); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(l.dir, "secret"), []byte(hmacSecret+"\n"), 0o600)
}

func (l *lab) certificate() string { return filepath.Join(l.dir, "upstream.pem") }

func (l *lab) key() string { return filepath.Join(l.dir, "upstream.key") }

// sign returns a token for the tenant bench of a config.
func (l *lab) sign(ctx context.Context, config string) (string, error) {
	token, err := exec.CommandContext(ctx, l.program, "token", "-config", config, "-tenant", "bench", "-subject", "load").Output() //nolint:gosec // our own program
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return strings.TrimSpace(string(token)), nil
}

// startTime is how long a part may take until it listens: one with thousands of tenants, on a busy machine.
const startTime = 2 * time.Minute

// start runs one part and waits until it listens.
func (l *lab) start(ctx context.Context, addr, binary string, args ...string) error {
	_, err := l.startWith(ctx, nil, addr, binary, args...)
	return err
}

// startWith is start with variables added to the environment. Those that change Go's collector or scheduler are taken
// out of it, so that each part has what it would have in production.
func (l *lab) startWith(ctx context.Context, env []string, addr, binary string, args ...string) (part, error) {
	cmd := exec.CommandContext(ctx, binary, args...) //nolint:gosec // our own programs, and nginx
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG"}, name)
	}), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	path := filepath.Join(l.dir, filepath.Base(binary)+strconv.Itoa(len(l.running))+".log")
	logs, err := os.Create(path) //nolint:gosec // in a folder of our own
	if err != nil {
		return part{}, err
	}
	defer func() { _ = logs.Close() }() // the child has a descriptor of its own
	cmd.Stdout, cmd.Stderr = logs, logs
	if err := cmd.Start(); err != nil {
		return part{}, err
	}
	l.running = append(l.running, cmd)
	if err := within(ctx, startTime, addr+" listens", func() bool { return isListening(ctx, addr) }); err != nil {
		said, _ := os.ReadFile(path) //nolint:gosec // as above; empty says that it said nothing
		return part{}, fmt.Errorf("%w; %s said: %s", err, filepath.Base(binary), said[max(0, len(said)-500):])
	}
	pids, err := processTree(cmd.Process.Pid)
	return part{addr: addr, pids: pids}, err
}

// ready waits until the gateway has every server's tools.
func (l *lab) ready(ctx context.Context) error {
	for _, tool := range []string{"echo__echo", "tls__echo", "kinds__echo", "stdio__echo"} {
		t := l.target(wayDrawbridge, l.parts[wayDrawbridge], tool, mcp.Modern)
		if err := within(ctx, 20*time.Second, "the gateway serves "+tool, func() bool { return t.answers(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

// answers tells whether one call is answered as it should be.
func (t *target) answers(ctx context.Context) bool {
	c, err := t.connect(ctx)
	if err != nil {
		return false
	}
	defer c.close()
	return c.plain() == nil
}

func within(ctx context.Context, limit time.Duration, what string, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.New("waited in vain: " + what)
		}
	}
	return nil
}

// close ends all parts and removes their files.
func (l *lab) close() {
	for _, cmd := range slices.Backward(l.running) {
		_ = cmd.Process.Signal(os.Interrupt) // it may be gone
		_ = cmd.Wait()                       // how it ended does not matter here
	}
	_ = os.RemoveAll(l.dir) // temporary anyway
}

// target returns how to call a tool, by the name that the upstream gives it, or the gateway.
func (l *lab) target(way string, p part, tool string, era mcp.Era) *target {
	t := &target{name: way, addr: p.addr, pids: p.pids, tool: tool, revision: mcp.LatestModern}
	if era == mcp.Legacy {
		t.handshake, t.revision = true, mcp.LatestLegacy
	}
	if way == wayDrawbridge {
		t.token = l.token
	}
	return t
}

// targets returns all ways to the tool echo, those that are compared beside each other.
func (l *lab) targets(era mcp.Era) []*target {
	var all []*target
	for _, way := range []string{wayDirect, wayNginx, wayProxy, wayDrawbridge, wayThrifty} {
		if p, found := l.parts[way]; found {
			all = append(all, l.target(way, p, map[bool]string{true: "echo__echo", false: "echo"}[way == wayDrawbridge], era))
		}
	}
	return all
}

// secureTargets returns the ways to the same tool of the upstream that speaks TLS.
func (l *lab) secureTargets(era mcp.Era) []*target {
	var all []*target
	for _, way := range []string{wayProxyTwo, wayDrawbridge, wayProxyOne} {
		all = append(all, l.target(way, l.secure[way], map[bool]string{true: "tls__echo", false: "echo"}[way == wayDrawbridge], era))
	}
	return all
}

func freeAddrs(n int) ([]string, error) {
	addrs := make([]string, n)
	for i := range addrs {
		var err error
		if addrs[i], err = freeport.Address(); err != nil {
			return nil, err
		}
	}
	return addrs, nil
}
