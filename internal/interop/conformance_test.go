package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// leg is one run of the official suite's server scenarios through the gateway.
type leg struct {
	front  string // the revision that the suite asks in; its frozen set of scenarios is run
	modern bool   // the upstream
	// file below testdata/conformance of the failures that cannot be otherwise, with
	// their reasons
	expected string
	passed   int // checks that succeed in all, at least
	// checks that succeed in each scenario, at least: the suite ticks a scenario in which
	// nothing was checked
	least map[string]int
}

// legacyChecks and modernChecks are what the Go SDK's server of the same era passes by
// itself.
var (
	legacyChecks = map[string]int{
		"server-initialize": 3, "logging-set-level": 2, "ping": 2, "completion-complete": 2, "tools-list": 3,
		"tools-call-simple-text": 2,
		"tools-call-image":       2, "tools-call-audio": 2, "tools-call-embedded-resource": 2,
		"tools-call-mixed-content": 2,
		"tools-call-with-logging":  2, "tools-call-error": 2, "tools-call-with-progress": 2,
		"tools-call-sampling":    2,
		"tools-call-elicitation": 2, "elicitation-sep1034-defaults": 6, "server-sse-multiple-streams": 2,
		"elicitation-sep1330-enums": 6,
		"resources-list":            2, "resources-read-text": 2, "resources-read-binary": 2,
		"resources-templates-read": 2,
		"resources-subscribe":      2, "resources-unsubscribe": 2, "prompts-list": 2, "prompts-get-simple": 2,
		"prompts-get-with-args":         2,
		"prompts-get-embedded-resource": 2, "prompts-get-with-image": 2, "dns-rebinding-protection": 2,
		"server-session-lifecycle": 3,
		"json-schema-2020-12":      8, "server-sse-polling": 1,
	}
	modernChecks = map[string]int{
		"server-stateless": 30, "completion-complete": 2, "tools-list": 4, "tools-call-simple-text": 2,
		"tools-call-image": 2,
		"tools-call-audio": 2, "tools-call-embedded-resource": 2, "tools-call-mixed-content": 2,
		"tools-call-error":         2,
		"tools-call-with-progress": 2, "server-sse-multiple-streams": 2, "resources-list": 2,
		"resources-read-text":   2,
		"resources-read-binary": 2, "resources-templates-read": 2, "sep-2164-resource-not-found": 4,
		"prompts-list":       2,
		"prompts-get-simple": 2, "prompts-get-with-args": 2, "prompts-get-embedded-resource": 2,
		"prompts-get-with-image":   2,
		"dns-rebinding-protection": 2, "caching": 8, "input-required-result-basic-elicitation": 3,
		"input-required-result-basic-sampling": 3, "input-required-result-basic-list-roots": 3,
		"input-required-result-request-state":           3,
		"input-required-result-multiple-input-requests": 3, "input-required-result-multi-round": 4,
		"input-required-result-missing-input-response": 2, "input-required-result-non-tool-request": 3,
		"input-required-result-result-type": 2, "input-required-result-unsupported-methods": 2,
		"input-required-result-tampered-state":   2,
		"input-required-result-capability-check": 2, "input-required-result-ignore-extra-params": 2,
		"input-required-result-validate-input": 3, "json-schema-2020-12": 8, "http-header-validation": 14,
		"http-custom-header-server-validation": 10,
	}
)

func TestConformanceServer(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		for name, l := range map[string]leg{
			"legacy before legacy": {
				front: "2025-11-25", expected: "same-era.yml", passed: 82,
				least: legacyChecks,
			},
			"modern before modern": {
				front: modernRevision, modern: true, expected: "same-era.yml",
				passed: 165, least: modernChecks,
			},
			"legacy before modern": {
				front: "2025-11-25", modern: true, expected: "legacy-before-modern.yml",
				passed: 70, least: legacyChecks,
			},
			"modern before legacy": {
				front: modernRevision, expected: "modern-before-legacy.yml", passed: 160,
				least: modernChecks,
			},
		} {
			t.Run(form.name+", "+name, func(t *testing.T) {
				t.Parallel()
				if testing.Short() && form.name != forms[0].name && l.expected == "same-era.yml" {
					t.Skip("the same suite before one gateway and before a fleet: make nightly")
				}
				l.run(t, form.settle)
			})
		}
	}
}

// run puts a gateway, or a fleet, before the Go SDK's server and lets the suite test it.
func (l leg) run(t *testing.T, settle func(testing.TB) *gateway) {
	t.Helper()
	g := serveAt(t, settle(t), fmt.Sprintf(`tenants:
  acme: {servers: [go], rules: [{allow: ["*", "prompt:*", "resource:*"]}], limits: %s}
servers:
  go: {url: %q, prefix: "", private_addresses: true}
`, generous, goUpstream(t, l.modern)))
	t.Cleanup(g.crash) // others look at how it stops
	out, failures := t.TempDir(), expectedFailures(t, l.expected, "server")
	err := suite(t, 2*patient, "server", "--url", tokenProxy(t, g)+"/mcp", "--requirements", l.front, "-o",
		out, "--expected-failures", filepath.Join("testdata", "conformance", l.expected))
	if err != nil {
		t.Error(err)
	}
	l.judge(t, readChecks(t, out, "server-"), failures)
	g.unhurt(t)
}

// judge counts the checks that passed. The suite itself fails for a scenario that fails
// and for an expected failure that did not come.
func (l leg) judge(t *testing.T, got map[string][]check, expected map[string]string) {
	t.Helper()
	excused := make(map[string]bool)
	for entry := range expected {
		scenario, _, _ := strings.Cut(entry, ":")
		excused[scenario] = true
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(got)) {
		passed, failed := count(got[name])
		total += passed
		for id, message := range failed {
			extension := strings.HasPrefix(name, "tasks-") // the upstream does not have it either
			if !extension && expected[name] == "" && expected[name+":"+id] == "" {
				t.Errorf("%s: check %s failed: %s", name, id, message)
			}
		}
		t.Logf("%s: %d checks passed, %d failed", name, passed, len(failed))
		if want := l.least[name]; !excused[name] && passed < want {
			t.Errorf("%s: %d checks passed, want at least %d", name, passed, want)
		}
	}
	for name := range l.least {
		if got[name] == nil {
			t.Errorf("the suite did not run %s", name)
		}
	}
	t.Logf("%d checks passed in all, at least %d wanted", total, l.passed)
	if total < l.passed {
		t.Errorf("%d checks passed in all, want at least %d", total, l.passed)
	}
}

type check struct {
	ID, Name, Status, ErrorMessage string
}

// count returns how many checks passed, and what those that did not said.
func count(checks []check) (passed int, failed map[string]string) {
	failed = make(map[string]string)
	for _, c := range checks {
		switch c.Status {
		case "SUCCESS":
			passed++
		case "FAILURE":
			failed[c.ID] = c.ErrorMessage
		}
	}
	return passed, failed
}

// suite runs the official conformance suite and returns what it says when it is not
// content.
func suite(t *testing.T, within time.Duration, arguments ...string) error {
	t.Helper()
	binary, modules := node(t)
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append([]string{
		"--require", "./bind-local.cjs", filepath.Join(modules,
			"@modelcontextprotocol/conformance/dist/index.js"),
	}, arguments...)...)
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	cmd.WaitDelay = 5 * time.Second
	printed, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("conformance %s: %w\n%s", arguments[0], err, tail(string(printed), 6000))
	}
	return nil
}

// readChecks returns the checks of each scenario below the folder that the suite wrote.
// The names of the folders of the server side begin with a prefix of their own.
func readChecks(t *testing.T, dir, prefix string) map[string][]check {
	t.Helper()
	all := make(map[string][]check)
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.Name() != "checks.json" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var checks []check
		if err := json.Unmarshal(data, &checks); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		relative, err := filepath.Rel(dir, filepath.Dir(path))
		if err != nil {
			return err
		}
		all[scenarioOf(strings.TrimPrefix(relative, prefix))] = checks
		return nil
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("no checks below %s (%v)", dir, err)
	}
	return all
}

// scenarioOf takes the time of day from the name of a folder,
// ping-2026-11-21T22-31-59-608Z.
func scenarioOf(folder string) string {
	return folder[:max(0, len(folder)-len("-2026-11-21T22-31-59-608Z"))]
}

// expectedFailures reads the entries of one leg and their reasons from a file of the
// suite's own form:
//
//	server:
//	  - scenario  # reason
//	  - scenario:check  # reason
func expectedFailures(t *testing.T, file, side string) map[string]string {
	t.Helper()
	entries := make(map[string]string)
	data, err := os.ReadFile(filepath.Join("testdata", "conformance", file))
	if err != nil {
		t.Fatal(err)
	}
	now := ""
	for line := range strings.Lines(string(data)) {
		entry, reason, _ := strings.Cut(strings.TrimSpace(line), "#")
		entry, reason = strings.TrimSpace(entry), strings.TrimSpace(reason)
		switch name, listed := strings.CutPrefix(entry, "- "); {
		case entry == "":
		case !listed:
			now = strings.TrimSuffix(entry, ":")
		case reason == "":
			t.Errorf("%s: %s has no reason", file, name)
		case now == side:
			entries[name] = reason
		}
	}
	return entries
}

// tokenProxy stands before the gateway and adds a token to each request, because the
// suite cannot send one. Host and Origin stay as they came, but for the port, which is
// the gateway's.
func tokenProxy(t *testing.T, g *gateway) string {
	t.Helper()
	target := &url.URL{Scheme: "http", Host: g.addr}
	token := g.token(t)
	var own string // the port of the proxy
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
		// A streamed request body races with the server's own reading of it once the
		// response starts.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	_, own, _ = net.SplitHostPort(server.Listener.Addr().String()) // a listener has a port
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}
