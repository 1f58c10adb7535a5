package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
)

// lab is all parts, running.
type lab struct {
	dir      string
	running  []*exec.Cmd
	upstream string // addresses
	proxy    string
	gateway  string
	token    string
	pid      int // of the gateway
}

const gatewayConfig = `listen: %s
operator: %s
public_url: http://%s
issuers:
  - {issuer: "https://bench.test/", hmac_secret_file: secret, algorithms: [HS256], tenant: bench}
tenants:
  bench:
    servers: [echo]
    rules: [{allow: ["echo__*"]}, {deny: ["*__delete_*"]}]
    limits: {requests: {rate: 1e9, burst: 1000000000}, calls: {rate: 1e9, burst: 1000000000}, user_calls: {rate: 1e9, burst: 1000000000}, tools: {"echo__*": {rate: 1e9, burst: 1000000000}}, concurrency: 1000, streams: 20000, sessions: 100000, user_sessions: 100000}
servers:
  echo: {url: "http://%s/mcp", private_addresses: true}
audit: {file: audit.jsonl, sync: interval}
log: {level: info, format: json}
`

// newLab builds the gateway and starts all parts. Everything it makes lies in a temporary folder.
func newLab(ctx context.Context) (*lab, error) {
	dir, err := os.MkdirTemp("", "drawbridge-bench-")
	if err != nil {
		return nil, err
	}
	l := &lab{dir: dir}
	if err := l.begin(ctx); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *lab) begin(ctx context.Context) error {
	binary := filepath.Join(l.dir, "drawbridge")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/drawbridge-mcp/drawbridge/cmd/drawbridge").CombinedOutput(); err != nil { //nolint:gosec // our own program
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
	l.upstream, l.proxy, l.gateway = addrs[0], addrs[1], addrs[2]
	config := fmt.Sprintf(gatewayConfig, l.gateway, addrs[3], l.gateway, l.upstream)
	if err := errors.Join(
		os.WriteFile(filepath.Join(l.dir, "drawbridge.yaml"), []byte(config), 0o600),
		os.WriteFile(filepath.Join(l.dir, "secret"), []byte("bench-83c1f0a7d94e26b5-hmac-secret\n"), 0o600),
	); err != nil {
		return err
	}
	path := filepath.Join(l.dir, "drawbridge.yaml")
	token, err := exec.CommandContext(ctx, binary, "token", "-config", path, "-tenant", "bench", "-subject", "load").Output() //nolint:gosec // our own program
	if err != nil {
		return fmt.Errorf("sign a token: %w", err)
	}
	l.token = strings.TrimSpace(string(token))
	if err := l.start(ctx, l.upstream, self, "upstream", l.upstream); err != nil {
		return err
	}
	if err := l.start(ctx, l.proxy, self, "proxy", l.proxy, "http://"+l.upstream); err != nil {
		return err
	}
	if err := l.start(ctx, l.gateway, binary, "serve", "-config", path); err != nil {
		return err
	}
	l.pid = l.running[len(l.running)-1].Process.Pid
	return l.ready(ctx)
}

// startTime is how long a part may take until it listens: one with thousands of tenants, on a busy machine.
const startTime = 2 * time.Minute

// start runs one part and waits until it listens.
func (l *lab) start(ctx context.Context, addr, binary string, args ...string) error {
	cmd := exec.CommandContext(ctx, binary, args...) //nolint:gosec // our own programs
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	logs, err := os.Create(filepath.Join(l.dir, filepath.Base(binary)+strconv.Itoa(len(l.running))+".log"))
	if err != nil {
		return err
	}
	defer func() { _ = logs.Close() }() // the child has a descriptor of its own
	cmd.Stdout, cmd.Stderr = logs, logs
	if err := cmd.Start(); err != nil {
		return err
	}
	l.running = append(l.running, cmd)
	return within(ctx, startTime, addr+" listens", func() bool {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return false
		}
		_ = conn.Close()
		return true
	})
}

// ready waits until the gateway has the upstream's tool.
func (l *lab) ready(ctx context.Context) error {
	t := l.targets(false)[2]
	return within(ctx, 20*time.Second, "the gateway serves the tool", func() bool {
		c, err := t.connect(ctx)
		if err != nil {
			return false
		}
		defer c.close()
		if _, err := c.conn.Write(c.request); err != nil {
			return false
		}
		return c.readAnswer() == nil
	})
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
			return fmt.Errorf("waited in vain: %s", what)
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

// targets returns the direct way, the proxy and the gateway, in one era.
func (l *lab) targets(legacy bool) []*target {
	revision := "2026-07-28"
	if legacy {
		revision = "2025-11-25"
	}
	return []*target{
		{name: "direct", addr: l.upstream, tool: "echo", handshake: legacy, revision: revision},
		{name: "ReverseProxy", addr: l.proxy, tool: "echo", handshake: legacy, revision: revision},
		{name: "drawbridge", addr: l.gateway, tool: "echo__echo", token: l.token, handshake: legacy, revision: revision},
	}
}

// result is what all targets showed in one era at one count of connections.
type result struct {
	era         string
	connections int
	rate        map[string]float64       // calls per second, the median of the rounds
	latency     map[string]time.Duration // the median of the rounds' medians
}

// measure runs all targets in turn, round after round, so that what disturbs the machine disturbs all of them.
func (l *lab) measure(ctx context.Context, took time.Duration, rounds int, progress io.Writer) ([]result, error) {
	var results []result
	for _, legacy := range []bool{true, false} {
		targets := l.targets(legacy)
		for _, connections := range []int{1, 16, 64} {
			rates, latencies := make(map[string][]float64), make(map[string][]time.Duration)
			for round := range rounds {
				for _, t := range targets {
					s, err := t.load(ctx, connections, took)
					if err != nil {
						return nil, err
					}
					rates[t.name] = append(rates[t.name], s.perSecond())
					latencies[t.name] = append(latencies[t.name], s.median())
					_, _ = fmt.Fprintf(progress, "%s, %d connections, round %d: %-12s %8.0f calls/s, median %v\n",
						t.revision, connections, round+1, t.name, s.perSecond(), s.median())
				}
			}
			r := result{targets[0].revision, connections, make(map[string]float64), make(map[string]time.Duration)}
			for _, t := range targets {
				r.rate[t.name], r.latency[t.name] = middle(rates[t.name]), middle(latencies[t.name])
			}
			results = append(results, r)
		}
	}
	return results, nil
}

func middle[T float64 | time.Duration](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}

// memory opens idle event streams and returns the gateway's resident memory with them, in bytes.
func (l *lab) memory(ctx context.Context, streams int) (int64, error) {
	t := l.targets(true)[2]
	for range streams {
		c, err := t.connect(ctx)
		if err != nil {
			return 0, err
		}
		defer c.close()
		session, err := t.openSession(c)
		if err != nil {
			return 0, err
		}
		get := fmt.Sprintf("GET /mcp HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\nAuthorization: Bearer %s\r\nMcp-Session-Id: %s\r\nMCP-Protocol-Version: %s\r\n\r\n",
			t.addr, t.token, session, t.revision)
		if _, err := c.conn.Write([]byte(get)); err != nil {
			return 0, err
		}
		line, err := c.in.ReadString('\n')
		if err != nil || !strings.Contains(line, " 200 ") {
			return 0, fmt.Errorf("open a stream: %q (%w)", line, err)
		}
	}
	runtime.Gosched()
	return resident(l.pid)
}

// resident returns the resident memory of a process, in bytes.
func resident(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmRSS:")); ok {
			kib, err := strconv.ParseInt(string(bytes.Fields(rest)[0]), 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("no VmRSS")
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
