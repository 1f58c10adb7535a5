package interop_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// chromium returns the browser of the distribution. Without it a test fails in CI and is
// skipped elsewhere.
func chromium(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("chromium is missing: run make setup, which installs it")
		}
		t.Skip("chromium is not there; make setup installs it")
	}
	return path
}

// hosted is what a host of apps tells of the view that it showed.
type hosted struct {
	Tool, URI, MimeType string
	Digest              string // of the view, SHA-256 in hexadecimal
	First, Second       string // what it shows of the first result, and of the second
	Error               string
}

// TestAppsInABrowser shows the view of an example server of the SDK of apps in a real
// browser, with that SDK's own bridge. The view calls its server's tool by the name that
// the server gave it. It is the view that the server has, and works as without a gateway.
func TestAppsInABrowser(t *testing.T) {
	t.Parallel()
	if testing.Short() { // make nightly runs it: a browser takes the time of many tests
		t.Skip("a browser is started only by the whole of the tests")
	}
	binary, modules := node(t)
	browser := chromium(t)
	script := filepath.Join(t.TempDir(), "apphost.js")
	bundle := exec.CommandContext(t.Context(), binary, filepath.Join(modules, ".bin/rolldown"), "clients/apphost.mjs",
		"--file", script, "--format", "esm", "--platform", "browser")
	if out, err := bundle.CombinedOutput(); err != nil {
		t.Fatalf("bundle the host: %v\n%s", err, out)
	}
	code, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	view, err := os.ReadFile(filepath.Join(modules, "@modelcontextprotocol/server-basic-vanillajs/dist/mcp-app.html"))
	if err != nil {
		t.Fatal(err)
	}
	modern := httptest.NewServer(newClock(view))
	t.Cleanup(modern.Close)
	for back, clock := range map[string]string{
		"2025-11-25": stdio(t, "server-basic-vanillajs", "--stdio"), modernRevision: private(modern.URL),
	} {
		g := serve(t, fmt.Sprintf(`tenants:
  acme: {servers: [clock, other], rules: [{allow: ["*", "resource:*"]}], limits: %s}
servers:
  clock: %s
  other: %s
`, generous, clock, stdio(t, "server-everything", "stdio")))
		for _, front := range []string{"legacy", modernRevision} {
			told := show(t, browser, code, g, front)
			if told.Error != "" || told.Tool != "clock__get-time" || !strings.HasPrefix(told.URI, "ui://clock/") ||
				told.MimeType != "text/html;profile=mcp-app" || told.Digest != fmt.Sprintf("%x", sha256.Sum256(view)) {
				t.Errorf("%s before %s: told %+v, want the view as the server has it", front, back, told)
			}
			first, err := time.Parse(time.RFC3339, told.First)
			second, err2 := time.Parse(time.RFC3339, told.Second)
			if err != nil || err2 != nil || !second.After(first) {
				t.Errorf("%s before %s: the view shows %q, and when its button is pressed %q; want two times", front,
					back, told.First, told.Second)
			}
		}
	}
}

// newClock returns a server of 2026-07-28 with the tool and the view of the example, whose
// SDK speaks older revisions alone.
func newClock(view []byte) http.Handler {
	const uri = "ui://get-time/mcp-app.html"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m message
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		result := `"ttlMs":0,"cacheScope":"private",`
		switch m.Method {
		case "server/discover":
			result += `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{},"extensions":{"io.modelcontextprotocol/ui":{}}}`
		case "tools/list":
			result += `"tools":[{"name":"get-time","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"` + uri + `"}}}]`
		case "resources/list":
			result += `"resources":[]`
		case "resources/templates/list":
			result += `"resourceTemplates":[]`
		case "resources/read":
			text, _ := json.Marshal(string(view))
			result += fmt.Sprintf(`"contents":[{"uri":%q,"mimeType":"text/html;profile=mcp-app","text":%s}]`, uri, text)
		case "tools/call":
			now := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
			result += fmt.Sprintf(`"content":[{"type":"text","text":%q}],"structuredContent":{"time":%q}`, now, now)
		default:
			fail(w, m.ID, -32601)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete",%s}}`, m.ID, result)
	})
}

// show has a host of that revision show the view in a browser, and returns what it tells.
func show(t *testing.T, browser string, code []byte, g *gateway, revision string) (told hosted) {
	t.Helper()
	to, err := url.Parse("http://" + g.addr)
	if err != nil {
		t.Fatal(err)
	}
	token, answers := g.token(t), make(chan []byte, 1)
	mux := http.NewServeMux()
	mux.Handle("/mcp", &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Header.Set("Authorization", "Bearer "+token)
		r.Out.Header.Del("Origin") // the page stands for a host that is no page
	}})
	mux.HandleFunc("/host.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = w.Write(code)
	})
	mux.HandleFunc("/told", func(_ http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil {
			answers <- body
		}
	})
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<!doctype html><iframe sandbox="allow-scripts allow-same-origin"></iframe><script type="module" src="/host.js"></script>`)
	})
	page := httptest.NewServer(mux)
	defer page.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-background-networking", "--user-data-dir="+t.TempDir(),
		"--remote-debugging-port=0", page.URL+"/?revision="+revision)
	p := start(t, cmd)
	defer p.kill()
	select {
	case body := <-answers:
		if err := json.Unmarshal(body, &told); err != nil {
			t.Fatal(err)
		}
	case <-p.done:
		t.Fatalf("the browser ended: %v", p.err)
	case <-ctx.Done():
		t.Fatal("the host told nothing in time")
	}
	return told
}
