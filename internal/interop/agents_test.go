package interop_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// agentPackage returns the folder of a pinned package of agents/package.json with a
// program of its own. Without it a test fails in CI and is skipped elsewhere, and
// everywhere where there is no such package for the machine.
func agentPackage(t testing.TB, folder string) string {
	t.Helper()
	if _, made := readLock(t, "agents")["node_modules/"+filepath.ToSlash(folder)]; !made {
		t.Skipf("%s is not to be had for this machine", folder)
	}
	path, err := filepath.Abs(filepath.Join("agents", "node_modules", folder))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is missing: run .ci/setup, which fetches the pinned agents", path)
		}
		t.Skip("the pinned agents are not there; .ci/setup fetches them")
	}
	return path
}

// nodeAgent is agentPackage for an agent that runs with Node.js. It returns where the
// programs of the agents are, and the pinned Node.js.
func nodeAgent(t testing.TB, folder string) (path string) {
	t.Helper()
	agentPackage(t, folder)
	programs, err := filepath.Abs(filepath.Join("agents", "node_modules", ".bin"))
	if err != nil {
		t.Fatal(err)
	}
	binary, _ := node(t)
	return programs + ":" + filepath.Dir(binary)
}

// platform is this machine as npm names it.
func platform() string {
	cpu := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if cpu == "" {
		cpu = runtime.GOARCH
	}
	return runtime.GOOS + "-" + cpu
}

// agentHome is where an agent runs: with a home directory and an environment of its own,
// and no way out of the machine.
type agentHome struct {
	dir string   // HOME, and the working directory
	env []string // of every program that runs there

	mu   sync.Mutex // guards left
	left []string   // requests that would have left the machine
}

// newAgentHome makes a home whose programs find the given folder first on their PATH. The
// test fails if any of them tries to reach more than loopback.
func newAgentHome(t testing.TB, bin string, env ...string) *agentHome {
	t.Helper()
	h := &agentHome{dir: t.TempDir()}
	guard := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.left = append(h.left, r.Method+" "+r.Host)
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(func() {
		guard.Close()
		if left := h.leavings(); len(left) > 0 {
			t.Errorf("the agent tried to leave the machine: %q", left)
		}
	})
	h.env = append([]string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + h.dir, "TMPDIR=" + h.dir, "TERM=dumb", "CI=true",
		"HTTP_PROXY=" + guard.URL, "HTTPS_PROXY=" + guard.URL, "ALL_PROXY=" + guard.URL,
		"NO_PROXY=127.0.0.1,localhost",
		"http_proxy=" + guard.URL, "https_proxy=" + guard.URL, "all_proxy=" + guard.URL,
		"no_proxy=127.0.0.1,localhost",
	}, env...)
	return h
}

// leavings returns the requests that would have left the machine since it was last
// called.
func (h *agentHome) leavings() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := h.left
	h.left = nil
	return left
}

// command prepares a program to run there, in a process group of its own that ends with
// ctx.
func (h *agentHome) command(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", `exec "$0" "$@"`, name},
		arguments...)...)
	cmd.Dir, cmd.Env = h.dir, h.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// write writes a file of the home.
func (h *agentHome) write(t testing.TB, name, text string) {
	t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs a program to its end and returns what it printed and its exit status.
func (h *agentHome) run(t testing.TB, name string, arguments ...string) (stdout, stderr string, exit int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patient)
	defer cancel()
	cmd := h.command(ctx, name, arguments...)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	var status *exec.ExitError
	if err := cmd.Run(); err != nil && (!errors.As(err, &status) || ctx.Err() != nil) {
		t.Fatalf("%s %q: %v\n%s", name, arguments, err, complaints.String())
	}
	return out.String(), complaints.String(), cmd.ProcessState.ExitCode()
}

// documentedAddress is the endpoint in the snippets of docs/clients.md.
const documentedAddress = "http://127.0.0.1:8080/mcp"

// snippet returns the code of docs/clients.md for a client, with the address of this
// gateway in it. Where the README has code for the client too, it must be the same.
func snippet(t testing.TB, client string, g *gateway) string {
	t.Helper()
	code := codeFor(t, "docs/clients.md", client)
	if !strings.Contains(code, documentedAddress) {
		t.Fatalf("docs/clients.md has no code for %s with the address %s", client, documentedAddress)
	}
	if inReadme := codeFor(t, "README.md", client); inReadme != "" && inReadme != code {
		t.Fatalf("README.md has %q for %s, and docs/clients.md %q", inReadme, client, code)
	}
	return strings.ReplaceAll(code, documentedAddress, g.url)
}

// codeFor returns the first code below a client's name in a page, "" if the page does not
// have the client.
func codeFor(t testing.TB, page, client string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\n**"+client+"**")
	_, after, _ = strings.Cut(after, "\n```")
	_, after, _ = strings.Cut(after, "\n") // the name of the language
	code, _, _ := strings.Cut(after, "\n```")
	return code
}
