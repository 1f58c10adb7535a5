// Package deploy_test shows that the files an operator starts from work: configs, alert
// rules, image, compose file and load balancer.
package deploy_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/sources"
)

// tool returns the path of a program that a test needs. With CI=true it must be there.
func tool(t *testing.T, name, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	missing := fmt.Sprintf("%s is missing; on Debian: apt-get install --no-install-recommends %s", name,
		debianPackage)
	if os.Getenv("CI") == "true" {
		t.Fatal(missing)
	}
	t.Skip("skipped: " + missing)
	return ""
}

// run runs a program in a directory and returns what it printed and its exit code.
func run(ctx context.Context, t *testing.T, dir, program string, args ...string) (output string, code int) {
	t.Helper()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", program, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// read returns a file's text. Opening it here makes the test run again when it changes.
func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// compiled is where the program is that drawbridge has built.
var compiled struct {
	dir string
	mu  sync.Mutex
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "drawbridge-deploy-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	compiled.dir = dir
	code := m.Run()
	_ = os.RemoveAll(dir) // a leftover in the temporary directory harms nobody
	os.Exit(code)
}

// drawbridge builds the program, once for all tests, and returns its path.
func drawbridge(t *testing.T) string {
	t.Helper()
	compiled.mu.Lock()
	defer compiled.mu.Unlock()
	binary := filepath.Join(compiled.dir, "drawbridge")
	if _, err := os.Stat(binary); err == nil {
		return binary
	}
	gocommand := tool(t, "go", "golang")
	if err := sources.Open(t.Context(), "../cmd/drawbridge"); err != nil {
		t.Fatal(err)
	}
	if out, code := run(t.Context(), t, "..", gocommand, "build", "-ldflags=-w", "-o", binary,
		"./cmd/drawbridge"); code != 0 {
		t.Fatalf("build: %s", out)
	}
	return binary
}

// copied returns a copy of this directory's configs with all the secrets that their heads
// tell the operator to make.
func copied(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"config", "compose"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(name)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "drawbridge.container.yaml"), read(t, "drawbridge.container.yaml"))
	if err := os.Mkdir(filepath.Join(dir, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range secrets(t) {
		write(t, filepath.Join(dir, "secrets", name), text)
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func secrets(t *testing.T) map[string]string {
	t.Helper()
	random := make([]byte, 32)
	rand.Read(random)
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := pair.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	coordinate := base64.RawURLEncoding.EncodeToString
	return map[string]string{
		"gateway.key":    hex.EncodeToString(random) + "\n",
		"session.keys":   base64.StdEncoding.EncodeToString(random) + "\n",
		"redis.password": hex.EncodeToString(random) + "\n",
		"gateway-client": hex.EncodeToString(random) + "\n",
		"postgres.dsn":   "postgres://drawbridge:" + hex.EncodeToString(random) + "@postgres:5432/drawbridge?sslmode=verify-full\n",
		"old-api":        hex.EncodeToString(random) + "\n",
		"ci.secret":      base64.StdEncoding.EncodeToString(random) + "\n",
		"entra.secret":   hex.EncodeToString(random) + "\n",
		"github.secret":  hex.EncodeToString(random) + "\n",
		"robot.pem":      string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
		"partner.json": fmt.Sprintf(
			`{"keys":[{"kty":"EC","crv":"P-256","kid":"1","alg":"ES256","use":"sig","x":%q,"y":%q}]}`,
			coordinate(point[1:33]), coordinate(point[33:])),
	}
}

func TestExampleConfigsAreGood(t *testing.T) {
	program, dir := drawbridge(t), copied(t)
	withPrograms(t, "npx")
	mounted := strings.NewReplacer(
		"/run/secrets/drawbridge.key", filepath.Join(dir, "secrets", "gateway.key"), "/run/secrets/",
		filepath.Join(dir, "secrets")+"/", "/var/lib/drawbridge/", dir+"/")
	configs, err := filepath.Glob(filepath.Join(dir, "*", "*.yaml"))
	if err != nil || len(configs) != 9 {
		t.Fatalf("found %q, %v; want 8 examples and the one of the compose file", configs, err)
	}
	for _, config := range append(configs, filepath.Join(dir, "drawbridge.container.yaml")) {
		write(t, config, mounted.Replace(read(t, config)))
		out, code := run(t.Context(), t, dir, program, "validate", "-strict", "-config", config)
		if code != 0 || !strings.Contains(out, "ok (") {
			t.Errorf("%s: exit %d: %s", filepath.Base(config), code, out)
		}
	}
}

func TestConfigInTheREADMEIsGood(t *testing.T) {
	_, text, found := strings.Cut(read(t, "../README.md"), "```yaml\nlisten:")
	text, _, closed := strings.Cut(text, "```")
	if !found || !closed {
		t.Fatal("the README shows no config that begins with listen")
	}
	config := filepath.Join(t.TempDir(), "drawbridge.yaml")
	write(t, config, "listen:"+strings.ReplaceAll(text, "${GITHUB_TOKEN}", "example"))
	program := drawbridge(t)
	withPrograms(t, "npx")
	if out, code := run(t.Context(), t, ".", program, "validate", "-strict", "-config", config); code != 0 {
		t.Errorf("exit %d: %s", code, out)
	}
}

// withPrograms puts empty programs of these names into PATH, so that it does not matter
// what is installed here.
func withPrograms(t *testing.T, names ...string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		write(t, filepath.Join(dir, name), "#!/bin/sh\n")
		if err := os.Chmod(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// A key that everybody knows would let everybody in, so there is none.
func TestT4NothingStartsWithoutAKey(t *testing.T) {
	program := drawbridge(t)
	for config, key := range map[string]string{
		"drawbridge.container.yaml": "/run/secrets/drawbridge.key",
		"compose/drawbridge.yaml":   "/run/secrets/gateway.key",
	} {
		out, code := run(t.Context(), t, ".", program, "serve", "-config", config)
		place := regexp.MustCompile(regexp.QuoteMeta(config) + `:\d+:\d+: .*` + regexp.QuoteMeta(key))
		if code != 2 || !place.MatchString(out) {
			t.Errorf("%s: exit %d, want 2 and a message with place and file: %s", config, code, out)
		}
	}
}

func TestTheCheckOfConfigsCanFail(t *testing.T) {
	program, dir := drawbridge(t), copied(t)
	config := filepath.Join(dir, "config", "minimal.yaml")
	write(t, config, strings.Replace(read(t, config), "tenant: home", "tenant: hoem", 1))
	if out, code := run(t.Context(), t, dir, program, "validate", "-config", config); code != 1 {
		t.Errorf("exit %d, want 1: %s", code, out)
	}
}
