package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// scenario is one scenario of the official suite and what it must show. The suite ticks a scenario in which nothing
// was checked, so the count of passed checks is what is asked for.
type scenario struct {
	name   string
	passed int // at least so many checks succeed, and none fails
}

var legacyScenarios = []scenario{
	{name: "server-initialize", passed: 3},
	{name: "server-session-lifecycle", passed: 3},
	{name: "ping", passed: 2},
	{name: "tools-list", passed: 3},
	{name: "tools-call-simple-text", passed: 2},
	{name: "tools-call-image", passed: 2},
	{name: "tools-call-audio", passed: 2},
	{name: "tools-call-embedded-resource", passed: 2},
	{name: "tools-call-mixed-content", passed: 2},
	{name: "tools-call-error", passed: 2},
	{name: "tools-call-with-progress", passed: 2},
	{name: "server-sse-multiple-streams", passed: 2},
	{name: "server-sse-polling", passed: 1},
	{name: "dns-rebinding-protection", passed: 2},
	{name: "json-schema-2020-12", passed: 8},
}

var modernScenarios = []scenario{
	{name: "tools-list", passed: 4},
	{name: "tools-call-simple-text", passed: 2},
	{name: "tools-call-image", passed: 2},
	{name: "tools-call-audio", passed: 2},
	{name: "tools-call-embedded-resource", passed: 2},
	{name: "tools-call-mixed-content", passed: 2},
	{name: "tools-call-error", passed: 2},
	{name: "tools-call-with-progress", passed: 2},
	{name: "server-sse-multiple-streams", passed: 2},
	{name: "http-header-validation", passed: 14},
	{name: "http-custom-header-server-validation", passed: 10},
	{name: "dns-rebinding-protection", passed: 2},
	{name: "json-schema-2020-12", passed: 8},
	// The suite has one check more, of a changed list of prompts, which are not served.
	{name: "server-stateless", passed: 29},
}

func TestConformance20251125BeforeTheStatefulGoServer(t *testing.T) {
	conform(t, false, "2025-11-25", legacyScenarios)
}

func TestConformance20260728BeforeTheStatelessGoServer(t *testing.T) {
	conform(t, true, "2026-07-28", modernScenarios)
}

func conform(t *testing.T, modern bool, revision string, scenarios []scenario) {
	binary, modules := node(t)
	upstream := goUpstream(t, modern)
	g := serve(t, fmt.Sprintf(`tenants:
  acme: {servers: [go], rules: [{allow: ["*"]}], limits: %s}
servers:
  go: {url: %q, prefix: "", private_addresses: true}
`, generous, upstream))
	front := tokenProxy(t, g)
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			out := t.TempDir()
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, binary, filepath.Join(modules, "@modelcontextprotocol/conformance/dist/index.js"),
				"server", "--url", front+"/mcp", "--scenario", s.name, "--spec-version", revision, "-o", out)
			printed, err := cmd.CombinedOutput()
			checks := readChecks(t, out)
			judge(t, s, checks)
			if t.Failed() {
				t.Logf("%v\n%s", err, tail(string(printed), 5000))
			}
		})
	}
}

type check struct {
	ID, Name, Status, ErrorMessage string
}

func readChecks(t *testing.T, dir string) []check {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("want one checks.json below %s, got %v (%v)", dir, files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var checks []check
	if err := json.Unmarshal(data, &checks); err != nil {
		t.Fatal(err)
	}
	return checks
}

func judge(t *testing.T, s scenario, checks []check) {
	t.Helper()
	passed := 0
	for _, c := range checks {
		switch c.Status {
		case "SUCCESS":
			passed++
		case "FAILURE":
			t.Errorf("check %s failed: %s", c.ID, c.ErrorMessage)
		}
	}
	t.Logf("%d checks passed, at least %d wanted", passed, s.passed)
	if passed < s.passed {
		t.Errorf("%d checks passed, want at least %d", passed, s.passed)
	}
}

// tokenProxy stands before the gateway and adds a token to each request, because the suite cannot send one. Host and
// Origin stay as they came, but for the port, which is the gateway's.
func tokenProxy(t *testing.T, g *gateway) string {
	t.Helper()
	target := &url.URL{Scheme: "http", Host: g.addr}
	token := g.token(t)
	own := strconv.Itoa(freePort(t))
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
		gatewayPort := target.Port()
		r.Out.Host = strings.Replace(r.In.Host, ":"+own, ":"+gatewayPort, 1)
		if origin := r.In.Header.Get("Origin"); origin != "" {
			r.Out.Header.Set("Origin", strings.Replace(origin, ":"+own, ":"+gatewayPort, 1))
		}
		r.Out.Header.Set("Authorization", "Bearer "+token)
	}}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A streamed request body races with the server's own reading of it once the response starts.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:"+own)
	if err != nil {
		t.Fatal(err)
	}
	_ = server.Listener.Close() // it listens on a port of its own choice
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}
