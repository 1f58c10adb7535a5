package deploy_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// replicaConfig is the config of each gateway, behind a load balancer on this machine.
// Its tool is an HTTP API, which can count what it was really asked.
const replicaConfig = `listen: %[1]s
operator: %[2]s
public_url: https://mcp.example.com:8443
trusted_proxies: [127.0.0.1/32]
redis: {url: "redis://%[3]s", patience: 5s}
sessions: {keys_file: session.keys}
replicas: 2
issuers: [{issuer: test, hmac_secret_file: secret, algorithms: [HS256], tenant: acme}]
tenants:
  acme:
    servers: [api]
    rules: [{allow: ["*"]}]
    limits: {requests: {rate: 1e6, burst: 1000000}, calls: {rate: 1e6, burst: 1000000}, user_calls: {rate: 1e6, burst: 1000000}, concurrency: 1000}
servers:
  api: {openapi: api.yaml, base_url: "http://%[4]s", private_addresses: true, include: [touch]}
audit: {file: %[5]s.jsonl}
log: {level: warn}
`

const touchDocument = `openapi: 3.1.0
info: {title: Touch, version: "1"}
paths:
  /touch/{nonce}:
    post:
      operationId: touch
      summary: Count that it was asked
      parameters: [{name: nonce, in: path, required: true, schema: {type: string}}]
      responses: {"200": {description: Counted}}
`

// pair is two real gateways that share Redis, and the API behind them.
type pair struct {
	test                *testing.T // that has it
	dir, program, token string
	gateways            [2]balancedGateway
	running             [2]*exec.Cmd

	mu      sync.Mutex     // guards touched
	touched map[string]int // how often the API was asked for each nonce
}

// newPair starts both.
func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{test: t, dir: t.TempDir(), program: drawbridge(t), touched: make(map[string]int)}
	store := freeAddress(t)
	_, port, _ := net.SplitHostPort(store)
	background(t, tool(t, "redis-server", "redis-server"), "--bind", "127.0.0.1", "--port", port, "--save",
		"", "--dir", p.dir)
	waitFor(t, store)
	api, _, _ := gateway(t, func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		nonce := strings.TrimPrefix(r.URL.Path, "/touch/")
		p.touched[nonce]++
		fmt.Fprint(w, nonce)
	})
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	for name, text := range map[string]string{
		"session.keys": base64.StdEncoding.EncodeToString(key) + "\n",
		"secret":       rand.Text() + rand.Text(), "api.yaml": touchDocument,
	} {
		write(t, filepath.Join(p.dir, name), text)
	}
	for i := range p.gateways {
		p.gateways[i] = balancedGateway{freeAddress(t), freeAddress(t)}
		write(t, p.config(i), fmt.Sprintf(replicaConfig, p.gateways[i].address, p.gateways[i].operator, store,
			api, fmt.Sprint("audit", i)))
		p.start(i)
	}
	out, err := exec.CommandContext(t.Context(), p.program, "token", "-config", p.config(0), "-tenant",
		"acme", "-subject", "me").Output()
	if err != nil {
		t.Fatal(err)
	}
	p.token = strings.TrimSpace(string(out))
	return p
}

func (p *pair) config(i int) string { return filepath.Join(p.dir, fmt.Sprintf("gateway%d.yaml", i)) }

// start starts a gateway and waits until it is ready. It runs until it is ended, or until
// the whole test ends.
func (p *pair) start(i int) {
	t := p.test
	t.Helper()
	// end ends it
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), p.program, "serve", "-config", p.config(i))
	// read only after the process has ended
	var output strings.Builder
	cmd.Stderr = &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.running[i] = cmd
	t.Cleanup(func() {
		p.end(i, syscall.SIGKILL)
		if t.Failed() {
			t.Logf("gateway %d said: %.3000s", i, output.String())
		}
	})
	eventually(t, "the gateway is ready",
		func() error { return answers("http://"+p.gateways[i].operator+"/readyz", http.StatusOK) })
}

// end sends a signal to a gateway that runs, waits for it and returns its exit code.
func (p *pair) end(i int, signal syscall.Signal) int {
	cmd := p.running[i]
	if cmd == nil {
		return 0
	}
	p.running[i] = nil
	if err := cmd.Process.Signal(signal); err != nil {
		p.test.Error(err)
	}
	_ = cmd.Wait() // the code says it
	return cmd.ProcessState.ExitCode()
}

// times returns how often the API was asked for a nonce.
func (p *pair) times(nonce string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.touched[nonce]
}

// touch calls the tool with a nonce, and tells whether the answer is that of this call.
func (p *pair) touch(ctx context.Context, b *balancer, nonce string) error {
	body := fmt.Sprintf(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"api__touch","arguments":{"nonce":%q},`+
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, nonce)
	status, answer, err := b.send(ctx, p.token, body, http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"api__touch"},
	})
	if err != nil {
		return err
	}
	var result struct {
		Result struct {
			Content []struct{ Text string }
		}
	}
	if err := json.Unmarshal([]byte(answer), &result); err != nil || status != http.StatusOK ||
		len(result.Result.Content) != 1 || result.Result.Content[0].Text != nonce {
		return fmt.Errorf("status %d: %.300s", status, answer)
	}
	return nil
}

// call is what became of one call.
type call struct {
	nonce string
	err   error
}

// crowd calls with eight clients until both stop was called and least calls were made.
// Then stop returns what became of them. It returns when a tenth of these were made.
func (p *pair) crowd(t *testing.T, b *balancer, name string, least int64) (stop func() []call) {
	t.Helper()
	var number atomic.Int64
	var enough atomic.Bool
	var clients sync.WaitGroup
	var mu sync.Mutex // guards calls
	var calls []call
	begun := make(chan struct{})
	for range 8 {
		clients.Go(func() {
			for {
				n := number.Add(1)
				if n > least && enough.Load() {
					return
				}
				if n == least/10 {
					close(begun)
				}
				nonce := fmt.Sprint(name, "-", n)
				err := p.touch(t.Context(), b, nonce)
				mu.Lock()
				calls = append(calls, call{nonce, err})
				mu.Unlock()
			}
		})
	}
	<-begun
	return func() []call {
		enough.Store(true)
		clients.Wait()
		return calls
	}
}

// TestBalancerLosesNothingWhenGatewaysRestart restarts both gateways, one after the
// other, under load. Each call must be made once and answered.
func TestBalancerLosesNothingWhenGatewaysRestart(t *testing.T) {
	gateways := newPair(t)
	withEach(t, func(t *testing.T, program program) {
		b := balance(t, program, gateways.gateways)
		stop := gateways.crowd(t, b, program.name, 3000)
		for i := range gateways.gateways {
			if code := gateways.end(i, syscall.SIGTERM); code != 0 {
				t.Errorf("gateway %d: exit %d", i, code)
			}
			gateways.start(i)
		}
		calls := stop()
		for _, c := range calls {
			if c.err != nil || gateways.times(c.nonce) != 1 {
				t.Errorf("call %s of %d: made %d times, %v", c.nonce, len(calls), gateways.times(c.nonce),
					c.err)
			}
		}
		t.Logf("%d calls", len(calls))
	})
}

// TestBalancerRepeatsNoCallOfAKilledGateway kills one under load. Whoever waits for it
// there learns that the call broke off; nobody is told of a call that was not made, no
// call is made twice, and those that come later reach the other gateway.
func TestBalancerRepeatsNoCallOfAKilledGateway(t *testing.T) {
	gateways := newPair(t)
	withEach(t, func(t *testing.T, program program) {
		b := balance(t, program, gateways.gateways)
		stop := gateways.crowd(t, b, program.name, 2000)
		gateways.end(0, syscall.SIGKILL)
		calls, broken := stop(), 0
		for _, c := range calls {
			times := gateways.times(c.nonce)
			if c.err != nil {
				broken++
			}
			if times > 1 || times == 0 && c.err == nil {
				t.Errorf("call %s: made %d times, %v", c.nonce, times, c.err)
			}
		}
		if most := 100; broken > most {
			t.Errorf("%d of %d calls broke off, want at most %d: those at the gateway that died", broken,
				len(calls), most)
		}
		t.Logf("%d of %d calls broke off", broken, len(calls))
		gateways.start(0)
		eventually(t, "calls are spread over both again", func() error { return gateways.spread(t, b) })
	})
}

// spread calls both gateways through the load balancer, and returns an error if one was
// not asked.
func (p *pair) spread(t *testing.T, b *balancer) error {
	t.Helper()
	before := [2]string{p.counted(t, 0), p.counted(t, 1)}
	for i := range 4 {
		if err := p.touch(t.Context(), b, fmt.Sprint("spread-", time.Now().UnixNano(), i)); err != nil {
			return err
		}
	}
	for i := range before {
		if after := p.counted(t, i); after == before[i] {
			return fmt.Errorf("gateway %d was not asked: %q", i, after)
		}
	}
	return nil
}

// counted returns what the metrics of a gateway say of calls.
func (p *pair) counted(t *testing.T, i int) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.gateways[i].operator+
		"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^drawbridge_calls_total\{.*$`).FindString(string(text))
}
