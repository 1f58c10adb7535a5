package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// scaleLab is a lab whose gateway is started anew for each size.
type scaleLab struct {
	*lab
	client   *http.Client
	binary   string
	operator string
	proxyPID int
}

// world is what a gateway has to hold.
type world struct {
	tenants int
	servers int  // in all; a tenant has two of them, or the only one
	tools   int  // of each server
	rules   int  // of each tenant
	changed bool // the first tenant has one rule more
}

// signed is how many tenants send requests: signing a token for one reads the whole config.
const signed = 10

// gatewayProcess is a gateway that is running.
type gatewayProcess struct {
	pid    int
	took   time.Duration // from its start until all servers were there
	log    string
	tokens []string
}

func (g *gatewayProcess) token(tenant int) string { return g.tokens[tenant] }

// reload asks for a reload, and reloads returns how many are done.
func (g *gatewayProcess) reload() error { return syscall.Kill(g.pid, syscall.SIGHUP) }

func (g *gatewayProcess) reloads() int {
	text, _ := os.ReadFile(g.log) // while there is none, nothing was reloaded
	return strings.Count(string(text), "config reloaded")
}

func newScaleLab(ctx context.Context) (*scaleLab, error) {
	dir, err := os.MkdirTemp("", "drawbridge-scale-")
	if err != nil {
		return nil, err
	}
	l := &scaleLab{lab: &lab{dir: dir}, binary: filepath.Join(dir, "drawbridge"), client: &http.Client{
		Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 16, DisableCompression: true},
	}}
	if err := l.begin(ctx); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// begin starts all but the gateway.
func (l *scaleLab) begin(ctx context.Context) error {
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", l.binary, "github.com/drawbridge-mcp/drawbridge/cmd/drawbridge").CombinedOutput(); err != nil { //nolint:gosec // our own program
		return fmt.Errorf("build the gateway: %w\n%s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	addrs, err := freeAddrs(4)
	if err != nil {
		return err
	}
	l.upstream, l.proxy, l.gateway, l.operator = addrs[0], addrs[1], addrs[2], addrs[3]
	if err := os.WriteFile(filepath.Join(l.dir, "secret"), []byte("bench-83c1f0a7d94e26b5-hmac-secret\n"), 0o600); err != nil {
		return err
	}
	if err := l.start(ctx, l.upstream, self, "upstream", l.upstream); err != nil {
		return err
	}
	if err := l.start(ctx, l.proxy, self, "proxy", l.proxy, "http://"+l.upstream); err != nil {
		return err
	}
	l.proxyPID = l.running[len(l.running)-1].Process.Pid
	return nil
}

// with runs a gateway of that size until measure returns. It is running when all its servers are there.
func (l *scaleLab) with(ctx context.Context, w world, measure func(*gatewayProcess) error) error {
	if err := l.write(w); err != nil {
		return err
	}
	g := &gatewayProcess{log: filepath.Join(l.dir, "drawbridge"+fmt.Sprint(len(l.running))+".log")}
	started := time.Now()
	if err := l.start(ctx, l.gateway, l.binary, "serve", "-config", l.config()); err != nil {
		return err
	}
	cmd := l.running[len(l.running)-1]
	g.pid = cmd.Process.Pid
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may be gone
		_ = cmd.Wait()                       // how it ended does not matter here
		l.running = l.running[:len(l.running)-1]
	}()
	if err := within(ctx, time.Minute, "all servers are there", func() bool { return l.isReady(ctx) }); err != nil {
		return err
	}
	g.took = time.Since(started)
	for n := range min(w.tenants, signed) {
		token, err := exec.CommandContext(ctx, l.binary, "token", "-config", l.config(), "-tenant", tenantName(n), "-subject", "load").Output() //nolint:gosec // our own program
		if err != nil {
			return fmt.Errorf("sign a token: %w", err)
		}
		g.tokens = append(g.tokens, strings.TrimSpace(string(token)))
	}
	return measure(g)
}

func (l *scaleLab) config() string { return filepath.Join(l.dir, "drawbridge.yaml") }

// isReady tells whether every server was reached.
func (l *scaleLab) isReady(ctx context.Context) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.operator+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	response, err := l.client.Do(r)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }() // only the status counts
	return response.StatusCode == http.StatusOK
}

func tenantName(n int) string { return fmt.Sprintf("tenant-%d", n) }

// write writes the config of a world.
func (l *scaleLab) write(w world) error {
	var b strings.Builder
	fmt.Fprintf(&b, "listen: %s\noperator: %s\npublic_url: http://%s\nlists: {page_size: 10000}\n", l.gateway, l.operator, l.gateway)
	b.WriteString("audit: {file: audit.jsonl, sync: interval}\nlog: {level: info, format: json}\n")
	b.WriteString("issuers:\n  - {issuer: \"https://bench.test/\", hmac_secret_file: secret, algorithms: [HS256], tenant_claim: org, tenants_allowed: [")
	for n := range w.tenants {
		b.WriteString(tenantName(n) + ", ")
	}
	b.WriteString("]}\nservers:\n")
	for n := range w.servers {
		fmt.Fprintf(&b, "  s%d: {url: \"http://%s/tools/%d\", private_addresses: true}\n", n, l.upstream, w.tools)
	}
	b.WriteString("tenants:\n")
	for n := range w.tenants {
		rules := w.rules
		if n == 0 && w.changed {
			rules++
		}
		writeTenant(&b, n, w.servers, w.tools, rules)
	}
	return os.WriteFile(l.config(), []byte(b.String()), 0o600)
}

// writeTenant writes one tenant. Its last rule allows everything, and each before that one tool.
func writeTenant(b *strings.Builder, n, servers, tools, rules int) {
	fmt.Fprintf(b, "  %s:\n    servers: [s0", tenantName(n))
	if servers > 1 {
		fmt.Fprintf(b, ", s%d", 1+n%(servers-1))
	}
	b.WriteString("]\n    limits: {requests: {rate: 1e9, burst: 1000000000}, calls: {rate: 1e9, burst: 1000000000}, user_calls: {rate: 1e9, burst: 1000000000}, concurrency: 1000, sessions: 200000, user_sessions: 200000}\n")
	b.WriteString("    rules:\n")
	for rule := range rules - 1 {
		fmt.Fprintf(b, "      - {allow: [\"s0__tool_%04d\"]}\n", rule%(tools-1))
	}
	b.WriteString("      - {allow: [\"*\"]}\n")
}

// asks returns requests in the newest revision or, to open a session, in the newest of those that have sessions.
func (l *scaleLab) asks(url, token, method, tool string) func(ctx context.Context, n int) (*http.Request, error) {
	t := &target{tool: tool, revision: mcp.LatestModern}
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + mcp.LatestModern + `","io.modelcontextprotocol/clientCapabilities":{}}`
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + meta + `}}`
	switch method {
	case mcp.MethodToolsCall:
		body = t.callBody()
	case mcp.MethodInitialize:
		t.revision = mcp.LatestLegacy
		body = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + t.revision + `","capabilities":{}}}`
	}
	return func(ctx context.Context, _ int) (*http.Request, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set(mcp.HeaderProtocolVersion, t.revision)
		if method != mcp.MethodInitialize {
			r.Header.Set(mcp.HeaderMethod, method)
		}
		if tool != "" {
			r.Header.Set(mcp.HeaderName, tool)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		return r, nil
	}
}
