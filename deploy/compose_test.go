package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestComposeServicesHaveFewRights(t *testing.T) {
	_, rest, _ := strings.Cut(read(t, "../docker-compose.yml"), "\nservices:\n")
	services, _, _ := strings.Cut(rest, "\nnetworks:\n")
	starts := regexp.MustCompile(`(?m)^  ([a-z]+):.*$`).FindAllStringSubmatchIndex(services, -1)
	if len(starts) != 6 {
		t.Fatalf("found %d services, want gateway, nginx, redis, postgres, upstream and prometheus", len(starts))
	}
	published := map[string]string{
		"nginx":      `["127.0.0.1:8080:8080"]`,
		"prometheus": `["127.0.0.1:9091:9090"]`,
	}
	for i, start := range starts {
		end := len(services)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		name, text := services[start[2]:start[3]], services[start[0]:end]
		for _, line := range []string{
			"read_only: true", "cap_drop: [ALL]", "logging: *bounded",
			`security_opt: ["no-new-privileges:true"]`, "mem_limit:",
		} {
			if !strings.Contains(text, line) {
				t.Errorf("service %s lacks %s", name, line)
			}
		}
		ports := ""
		for _, line := range regexp.MustCompile(`(?m)^ +ports:([^#\n]*)`).FindAllStringSubmatch(text, -1) {
			ports += strings.TrimSpace(line[1])
		}
		if name == "gateway" && !strings.Contains(text, "tmpfs: [/tmp]") {
			t.Error("the gateway has no folder where data restore can copy a backup to")
		}
		if ports != published[name] {
			t.Errorf(
				"service %s publishes %q, want %q: clients reach nginx alone, and everything only from this machine", name, ports, published[name])
		}
	}
}

// TestLogPushesNoAuditOut wants a bound on every log of the compose file, and the audit
// elsewhere: what strangers send makes the log grow, and who rotates it throws away what
// lies beside it.
func TestLogPushesNoAuditOut(t *testing.T) {
	compose := read(t, "../docker-compose.yml")
	if !regexp.MustCompile(
		`x-logging: &bounded .*\n  driver: json-file\n  options: \{max-size: 10m, max-file: "5"\}`).MatchString(compose) {
		t.Error("the compose file does not bound the logs")
	}
	file := regexp.MustCompile(
		`(?m)^audit: \{file: "(.*)/\$\{HOSTNAME:-gateway\}\.jsonl"\}`).FindStringSubmatch(read(t,
		"compose/drawbridge.yaml"))
	if file == nil {
		t.Fatal("the audit of the compose file is not a file for each replica")
	}
	if !strings.Contains(compose, "- audit:"+file[1]+"\n") {
		t.Errorf("no volume is mounted at %s, where the audit is", file[1])
	}
	if !strings.Contains(read(t, "../Dockerfile"), "--chown=65532:65532 /out/audit "+file[1]+"\n") {
		t.Errorf("the image does not let its user write to %s, whose owner a new volume takes over", file[1])
	}
}

func TestComposeFileIsValid(t *testing.T) {
	compose, err := exec.LookPath("docker-compose")
	if err != nil {
		t.Skip(
			"skipped: no docker-compose (version 2) here; its config command checks the file without an engine")
	}
	if out, code := run(t.Context(), t, "..", compose, "config", "-q"); code != 0 {
		t.Errorf("docker-compose config: exit %d: %s", code, out)
	}
}

// TestComposeMakesItsSecretsOnce runs the script twice: with other keys, all that the
// first ones sealed and signed would be refused.
func TestComposeMakesItsSecretsOnce(t *testing.T) {
	tool(t, "openssl", "openssl")
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "compose"), os.DirFS("compose")); err != nil {
		t.Fatal(err)
	}
	made := composeSecrets(t, dir)
	if again := composeSecrets(t, dir); !maps.Equal(made, again) {
		t.Errorf("the first run made %q, and then there was %q", made, again)
	}
	compose := read(t, "../docker-compose.yml")
	for name, text := range made {
		if len(text) < 40 || !strings.Contains(compose, name+": {file: ./deploy/secrets/"+name+"}") {
			t.Errorf("%s has %q, want a secret that the compose file mounts", name, text)
		}
	}
	if len(made) != 8 {
		t.Errorf("made %q, want eight secrets", slices.Collect(maps.Keys(made)))
	}
}

// composeSecrets runs the script of a copy of this directory and returns the files that
// there are then.
func composeSecrets(t *testing.T, dir string) map[string]string {
	t.Helper()
	read(t, "compose/secrets")
	if out, code := run(t.Context(), t, dir, "sh", "compose/secrets"); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	made := make(map[string]string)
	files, err := filepath.Glob(filepath.Join(dir, "secrets", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		made[filepath.Base(file)] = read(t, file)
	}
	return made
}

// background runs a program until the test ends, and waits for it then.
func background(t *testing.T, program string, args ...string) {
	t.Helper()
	var output strings.Builder // read only after the process has ended
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // when the test ends
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Wait() // it was ended by us
		if t.Failed() {
			t.Logf("%s said: %s", filepath.Base(program), output.String())
		}
	})
}

// composePostgres runs PostgreSQL as the compose file does, and writes its address into
// its file. secrets is where the script of the secrets has put them.
func composePostgres(t *testing.T, secrets string) {
	t.Helper()
	all, err := filepath.Glob("/usr/lib/postgresql/*/bin") // where Debian has it
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", strings.Join(append(all, os.Getenv("PATH")), ":"))
	tool(t, "initdb", "postgresql")
	dir, err := os.MkdirTemp("", "compose-postgres") //nolint:usetesting // t.TempDir lets no other user in
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // temporary anyway
	command := []string{"sh", filepath.Join(dir, "postgres")}
	write(t, command[1], read(t, "compose/postgres"))
	for _, name := range []string{"postgres.password", "postgres.crt", "postgres.key"} {
		write(t, filepath.Join(dir, name), read(t, filepath.Join(secrets, name)))
	}
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 { // PostgreSQL does not run as root
		command = append([]string{tool(t, "setpriv", "util-linux"), "--reuid=65534", "--regid=65534", "--clear-groups"}, command...)
		if out, code := run(t.Context(), t, dir, "chown", "-R", "65534:65534", dir); code != 0 {
			t.Fatal(out)
		}
	}
	address := freeAddress(t)
	host, port, _ := net.SplitHostPort(address)
	for name, value := range map[string]string{
		"SECRETS": dir, "PGDATA": filepath.Join(dir, "data"), "LISTEN": host, "PGPORT": port,
	} {
		t.Setenv(name, value)
	}
	background(t, command[0], command[1:]...)
	waitFor(t, address)
	dsn := strings.NewReplacer("@postgres:5432/", "@localhost:"+port+"/", "/run/secrets", secrets).Replace(
		read(t, filepath.Join(secrets, "postgres.dsn")))
	write(t, filepath.Join(secrets, "postgres.dsn"), dsn)
}

// TestComposeSharesRedisAndPostgres runs the gateway with the config of the compose file,
// a Redis with its config and rights, and PostgreSQL with its script, as two replicas:
// what these forbid and the gateway needs shows here. An access key that is made beside
// the gateways lets a machine in at both. Redis has as much memory as validate -online
// wants.
func TestComposeSharesRedisAndPostgres(t *testing.T) {
	server := tool(t, "redis-server", "redis-server")
	tool(t, "openssl", "openssl")
	program, dir := drawbridge(t), t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "compose"), os.DirFS("compose")); err != nil {
		t.Fatal(err)
	}
	composeSecrets(t, dir)
	store := freeAddress(t)
	_, port, _ := net.SplitHostPort(store)
	redis := replaced(t, "compose/redis.conf", map[string]string{
		"port 6379": "port " + port, "bind *": "bind 127.0.0.1", "/run/secrets": filepath.Join(dir,
			"secrets"),
	})
	write(t, filepath.Join(dir, "redis.conf"), redis)
	background(t, server, filepath.Join(dir, "redis.conf"))
	waitFor(t, store)
	composePostgres(t, filepath.Join(dir, "secrets"))

	upstream, _, _ := gateway(t,
		func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "down", http.StatusBadGateway) })
	var session, token, key string
	for _, replica := range []string{"first", "second"} {
		listen, operator := freeAddress(t), freeAddress(t)
		config := filepath.Join(dir, replica+".yaml")
		write(t, config, replaced(t, "compose/drawbridge.yaml", map[string]string{
			"0.0.0.0:8080": listen, "0.0.0.0:9090": operator, "acknowledge: [open-operator]": "",
			"redis:6379":         store,
			"http://memory:8080": "http://" + upstream, "/run/secrets": filepath.Join(dir, "secrets"),
			`["localhost:8080"]`:                             `["` + listen + `"]`,
			"/var/lib/drawbridge/${HOSTNAME:-gateway}.jsonl": filepath.Join(dir, replica+".jsonl"),
		}))
		background(t, program, "serve", "-config", config, "-drain-delay", "0s")
		eventually(t, "the replica is ready, with Redis",
			func() error { return answers("http://"+operator+"/readyz", http.StatusOK) })
		if token == "" {
			out, err := exec.CommandContext(t.Context(), program, "token", "-config", config, "-tenant",
				"demo", "-subject", "me").Output()
			if err != nil {
				t.Fatal(err)
			}
			token = strings.TrimSpace(string(out))
			if out, err = exec.CommandContext(t.Context(), program, "keys", "create", "-config", config, "-tenant", "demo",
				"-subject", "ci").Output(); err != nil {
				t.Fatal(err)
			}
			key = strings.TrimSpace(string(out))
			checked, _ := run(t.Context(), t, dir, program, "validate", "-online", "-config", config)
			// the server beside is down, so the exit code says nothing
			if !strings.Contains(checked, "takes writes; ") {
				t.Errorf("validate -online does not like Redis: %s", checked)
			}
		}
		session = callIn(t, "http://"+listen+"/mcp", token, session)
		callIn(t, "http://"+listen+"/key/mcp", key, "")
	}
}

// callIn calls a tool in a session, which it opens when there is none yet, and returns
// the session's id.
func callIn(t *testing.T, url, token, session string) string {
	t.Helper()
	say := func(body string) (http.Header, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			request.Header.Set("Mcp-Session-Id", session)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode/100 != 2 {
			t.Fatalf("%s: %d %s (%v)", body, response.StatusCode, text, err)
		}
		return response.Header, string(text)
	}
	if session == "" {
		header, _ := say(
			`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
		session = header.Get("Mcp-Session-Id")
		say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	_, text := say(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"toolbox__calculate","arguments":{"expression":"6*7"}}}`)
	if !strings.Contains(text, "42") {
		t.Errorf("the call gave %s, want 42", text)
	}
	return session
}

// replaced returns a file's text with all of these replaced, each of which must be there.
func replaced(t *testing.T, file string, replacements map[string]string) string {
	t.Helper()
	text := read(t, file)
	var pairs []string
	for old, replacement := range replacements {
		if !strings.Contains(text, old) {
			t.Fatalf("%s has no %q to replace", file, old)
		}
		pairs = append(pairs, old, replacement)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// answers returns nil when a GET is answered with that status.
func answers(url string, status int) error {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != status {
		body, _ := io.ReadAll(response.Body) // for people
		return fmt.Errorf("status %d: %.500s", response.StatusCode, body)
	}
	return nil
}

// eventually waits until check finds nothing wrong.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.After(2 * time.Minute); ; {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("in vain: %s: %v", what, err)
		}
	}
}

// TestComposeSpreadsRequests runs nginx with the config of the compose file. The name of
// the gateways has two addresses at first, and then one and another: nginx asks all that
// run, and those that came later.
func TestComposeSpreadsRequests(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all of 127.0.0.0/8 on its loopback interface")
	}
	program, listen, names := tool(t, "nginx", "nginx"), freeAddress(t), newNames(t)
	_, port, _ := net.SplitHostPort(freeAddress(t))
	for _, ip := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.4"} {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(ip, port))
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
			_ *http.Request,
		) {
			fmt.Fprint(w, ip)
		}))
		_ = server.Listener.Close() // it listens on a port of its own choice
		server.Listener = listener
		server.Start()
		t.Cleanup(server.Close)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "nginx.conf"), replaced(t, "compose/nginx.conf", map[string]string{
		"listen 8080;": "listen " + listen + ";", "listen 127.0.0.1:8081;": "listen " + freeAddress(t) + ";",
		"127.0.0.11": names.address, "$replicas:8080": "$replicas:" + port, "/tmp/": dir + "/",
	}))
	background(t, program, "-e", "stderr", "-c", filepath.Join(dir, "nginx.conf"))
	waitFor(t, listen)
	for _, ips := range [][]string{{"127.0.0.2", "127.0.0.3"}, {"127.0.0.3", "127.0.0.4"}} {
		names.set(ips)
		seen := make(map[string]int)
		eventually(t, fmt.Sprintf("requests reach %q and no other", ips), func() error {
			seen[asked(t, listen)]++
			if slices.Equal(slices.Sorted(maps.Keys(seen)), ips) && min(seen[ips[0]], seen[ips[1]]) >= 10 {
				return nil
			}
			if !slices.Contains(ips, slices.Sorted(maps.Keys(seen))[0]) {
				clear(seen) // it has not looked the name up again yet
			}
			return errors.New("so far " + fmt.Sprint(seen))
		})
	}
}

// asked sends a request and returns who answered.
func asked(t *testing.T, address string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/mcp",
		strings.NewReader("{}"))
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
