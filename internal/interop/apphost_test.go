package interop_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"net"
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

// viewReport is what a host of apps tells of the view that it showed.
type viewReport struct {
	Tool, URI, MimeType string
	Digest              string // of the view, SHA-256 in hexadecimal
	First, Second       string // what it shows of the first result, and of the second
	Error               string
}

// TestAppsInABrowser shows the view of an example server of the SDK of apps in a real
// browser, with that SDK's own bridge. The view calls its server's tool by the name that
// the server gave it. It is the view that the server has, it works, and its picture is
// the same as in a host that is connected to the server itself.
func TestAppsInABrowser(t *testing.T) {
	t.Parallel()
	binary, modules := node(t)
	view := exampleView(t, modules)
	hostsApps(t, binary, modules, newStage(t, binary, modules).show, func(where string, got, bare hostResult) {
		if bare.Error != "" || bare.Tool != "get-time" {
			t.Fatalf("%s: without a gateway: told %+v", where, bare.viewReport)
		}
		if got.Error != "" || got.Tool != "clock__get-time" || !strings.HasPrefix(got.URI, "ui://clock/") ||
			got.MimeType != "text/html;profile=mcp-app" || got.Digest != fmt.Sprintf("%x", sha256.Sum256(view)) {
			t.Errorf("%s: told %+v, want the view as the server has it", where, got.viewReport)
		}
	})
}

// TestAppsInTheInspector shows the view in a host that others wrote, the MCP Inspector in
// a real browser: a person opens the app there and presses its button. It works as
// without a gateway, and looks the same.
func TestAppsInTheInspector(t *testing.T) {
	if testing.Short() {
		t.Skip("a host and its browser take long, and TestAppsInABrowser has another: make nightly")
	}
	t.Parallel()
	binary, modules := node(t)
	browser := chromium(t)
	hostsApps(t, binary, modules, func(t *testing.T, origin, token, revision string) hostResult {
		t.Helper()
		era := "legacy"
		if revision == modernRevision {
			era = "modern"
		}
		return inspect(t, browser, binary, modules, origin+"/mcp", token, era)
	}, func(string, hostResult, hostResult) {})
}

// exampleView is the view of the example server.
func exampleView(t *testing.T, modules string) []byte {
	t.Helper()
	view, err := os.ReadFile(filepath.Join(modules, "@modelcontextprotocol/server-basic-vanillajs/dist/mcp-app.html"))
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// hostsApps has a host show the app of the example server, in servers and clients of both
// eras: without a gateway and through one. The view must work, and its picture be the
// same. judge judges what else the host tells of the two.
func hostsApps(t *testing.T, binary, modules string, show func(t *testing.T, origin, token, revision string) hostResult,
	judge func(where string, got, bare hostResult),
) {
	t.Helper()
	modern := httptest.NewServer(newClock(exampleView(t, modules)))
	t.Cleanup(modern.Close)
	for back, own := range map[string]string{
		"legacy": nodeServer(t, binary, modules, "server-basic-vanillajs"), modernRevision: modern.URL,
	} {
		if testing.Short() && back != modernRevision { // each browser takes seconds
			continue
		}
		bare := show(t, own, "", back)
		if n := differing(bare.picture, image.NewUniform(color.White)); n < 1000 { // of 480,000
			t.Fatalf("%s: without a gateway: told %+v, only %d points are not white", back, bare.viewReport, n)
		}
		g := serve(t, fmt.Sprintf(`tenants:
  acme: {servers: [clock, other], rules: [{allow: ["*", "resource:*"]}], limits: %s}
servers:
  clock: %s
  other: %s
`, generous, private(own+"/mcp"), stdio(t, "server-everything", "stdio")))
		for _, front := range []string{"legacy", modernRevision} {
			if testing.Short() && front != modernRevision {
				continue
			}
			got, where := show(t, "http://"+g.addr, g.token(t), front), front+" before "+back
			judge(where, got, bare)
			first, err := time.Parse(time.RFC3339, got.First)
			second, err2 := time.Parse(time.RFC3339, got.Second)
			if err != nil || err2 != nil || !second.After(first) {
				t.Errorf("%s: the view shows %q, and when its button is pressed %q; want two times", where,
					got.First, got.Second)
			}
			if n := differing(got.picture, bare.picture); n != 0 || got.picture.Bounds() != bare.picture.Bounds() {
				t.Errorf("%s: %d points of the picture are others than without a gateway", where, n)
			}
		}
	}
}

// inspect has a person look at the app of what is at an address in the MCP Inspector,
// which speaks the revisions of an era.
func inspect(t *testing.T, browser, binary, modules, address, token, era string) (got hostResult) {
	t.Helper()
	home, port := t.TempDir(), freePort(t)
	arguments := []string{
		filepath.Join(modules, ".bin", "mcp-inspector"), "--web", "--transport", "http", "--server-url", address,
		"--protocol-era", era,
	}
	if token != "" {
		arguments = append(arguments, "--header", "Authorization: Bearer "+token)
	}
	cmd := exec.CommandContext(t.Context(), binary, arguments...)
	cmd.Env = []string{
		"PATH=" + filepath.Dir(binary) + ":" + os.Getenv("PATH"), "HOME=" + home, "MCP_STORAGE_DIR=" + home,
		fmt.Sprint("CLIENT_PORT=", port), fmt.Sprint("MCP_SANDBOX_PORT=", freePort(t)),
		fmt.Sprint("MCP_APP_ORIGIN_PORT=", freePort(t)), "MCP_AUTO_OPEN_ENABLED=false",
		"DANGEROUSLY_OMIT_AUTH=true", "MCP_INSPECTOR_SECRET_STORE=memory",
	}
	inspector := start(t, cmd)
	defer inspector.stop(t)
	eventually(t, "the Inspector serves", func() bool {
		return strings.Contains(inspector.out.String(), "up and running")
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*patient)
	defer cancel()
	file := filepath.Join(t.TempDir(), "view.png")
	person := exec.CommandContext(ctx, binary, "clients/inspected.mjs", browser,
		fmt.Sprintf("http://127.0.0.1:%d", port), file)
	out, err := person.Output()
	if err != nil {
		failed, _ := errors.AsType[*exec.ExitError](err)
		t.Fatalf("%s at %s: %v\n%s", era, address, err, failed.Stderr)
	}
	if err := json.Unmarshal(out, &got.viewReport); err != nil {
		t.Fatal(err)
	}
	got.picture = pictureOf(t, file)
	return got
}

// pictureOf reads a picture.
func pictureOf(t *testing.T, file string) image.Image {
	t.Helper()
	taken, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	picture, err := png.Decode(taken)
	if err != nil {
		t.Fatal(err)
	}
	return picture
}

// differing returns in how many points of one two pictures differ.
func differing(one, other image.Image) (n int) {
	for y := range one.Bounds().Dy() {
		for x := range one.Bounds().Dx() {
			if color.NRGBAModel.Convert(one.At(x, y)) != color.NRGBAModel.Convert(other.At(x, y)) {
				n++
			}
		}
	}
	return n
}

// nodeServer starts an example server over HTTP, on a port of the loopback address, and
// returns where it is.
func nodeServer(t *testing.T, binary, modules, pkg string) string {
	t.Helper()
	port := freePort(t)
	cmd := exec.CommandContext(t.Context(), binary, "--require", "./bind-local.cjs",
		filepath.Join(modules, "@modelcontextprotocol", pkg, "dist", "index.js"))
	cmd.Env = append(os.Environ(), fmt.Sprint("PORT=", port))
	start(t, cmd)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	eventually(t, pkg+" listens", func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return "http://" + address
}

// newClock returns a server of 2026-07-28 with the tool and the view of the example,
// whose SDK speaks older revisions alone.
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

// stage is a browser, and the code of a host of apps for it.
type stage struct {
	browser string
	code    []byte
}

func newStage(t *testing.T, binary, modules string) *stage {
	t.Helper()
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
	return &stage{browser, code}
}

// hostResult is what came of one host.
type hostResult struct {
	viewReport

	picture image.Image // of the page, when the host was done; the time in the view is left out
}

// show has a host of that revision show the view of what is at an address, and returns
// what it tells and the picture of its page. The browser takes it when all of the page
// has come: a picture in the page comes when the host has told.
func (s *stage) show(t *testing.T, address, token, revision string) (got hostResult) {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	answers, done := make(chan []byte, 1), make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle("/mcp", &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		if token != "" {
			r.Out.Header.Set("Authorization", "Bearer "+token)
		}
		r.Out.Header.Del("Origin") // the page stands for a host that is no page
	}})
	mux.HandleFunc("/host.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = w.Write(s.code)
	})
	mux.HandleFunc("/told", func(_ http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil {
			answers <- body
			close(done)
		}
	})
	mux.HandleFunc("/done.png", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-done:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<!doctype html><img src="/done.png" width="1" height="1" alt="">`+
			`<iframe width="600" height="500" sandbox="allow-scripts allow-same-origin"></iframe><script type="module" src="/host.js"></script>`)
	})
	page := httptest.NewServer(mux)
	defer page.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	file := filepath.Join(t.TempDir(), "page.png")
	p := start(t, exec.CommandContext(ctx, s.browser, "--headless=new", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--hide-scrollbars",
		"--window-size=800,600", "--force-device-scale-factor=1", "--user-data-dir="+t.TempDir(),
		"--screenshot="+file, page.URL+"/?revision="+revision))
	defer p.kill()
	select {
	case <-p.done:
	case <-ctx.Done():
		t.Fatal("the browser took no picture in time")
	}
	select {
	case body := <-answers:
		if err := json.Unmarshal(body, &got.viewReport); err != nil {
			t.Fatal(err)
		}
	default:
		t.Fatalf("the host told nothing; the browser ended: %v", p.err)
	}
	got.picture = pictureOf(t, file)
	return got
}
