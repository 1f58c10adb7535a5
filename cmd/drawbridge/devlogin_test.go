package main

import (
	"bufio"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// devRun is a `drawbridge dev -login` that runs.
type devRun struct {
	origin  string // of the gateway
	toy     string // the login's
	printed string
}

// startDevLogin starts dev -login, and waits until it has told what to do.
func startDevLogin(t *testing.T) devRun {
	t.Helper()
	dev := exec.CommandContext(t.Context(), "drawbridge", "dev", "-login", "-listen", "127.0.0.1:0", "-operator",
		"127.0.0.1:0")
	dev.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	out, err := dev.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := dev.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = dev.Process.Kill() // it has ended by itself
		_ = dev.Wait()         // the same
	})
	var run devRun
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "Stop with Ctrl-C." {
		run.printed += lines.Text() + "\n"
	}
	for row, to := range map[string]*string{"endpoint": &run.origin, "login": &run.toy} {
		found := regexp.MustCompile(`(?m)^ +` + row + ` +(http://127\.0\.0\.1:\d+)`).FindStringSubmatch(run.printed)
		if found == nil {
			t.Fatalf("no %s in what dev printed:\n%s", row, run.printed)
		}
		*to = found[1]
	}
	return run
}

const (
	listTools = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":` + modernMeta + `}}`
	six7      = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"toolbox__calculate",` +
		`"arguments":{"expression":"6*7"},"_meta":` + modernMeta + `}}`
	modernMeta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
)

// TestDevLoginShowsASignIn goes the way of a newcomer: from the address that dev -login
// prints, by the toy login and the consent, to an answer of a tool. What is there depends
// on who the person chose to be, and who is in no team gets no further.
func TestDevLoginShowsASignIn(t *testing.T) {
	t.Parallel()
	run := startDevLogin(t)
	if !strings.Contains(run.printed, "TOY LOGIN: nobody is checked") || strings.Contains(run.printed, "Bearer") {
		t.Errorf("dev printed\n%s\nwant the login marked as a toy, and no token", run.printed)
	}
	for person, tools := range map[string]int{"Ann": 4, "Bob": 2} {
		w := &browserClient{t: t, cookies: map[string]string{}, person: person}
		tokens, _, _ := w.signIn(run.origin + "/mcp")
		modern := []string{
			"Accept", aMessage, "MCP-Protocol-Version", "2026-07-28",
			"Authorization", "Bearer " + tokens["access_token"].(string),
		}
		_, listed := w.ask("POST", run.origin+"/mcp", jsonKind, listTools, append(modern, "Mcp-Method", "tools/list")...)
		if got := strings.Count(listed, `"name":"toolbox__`); got != tools {
			t.Errorf("%s sees %d tools, want %d: %s", person, got, tools, listed)
		}
		_, answer := w.ask("POST", run.origin+"/mcp", jsonKind, six7,
			append(modern, "Mcp-Method", "tools/call", "Mcp-Name", "toolbox__calculate")...)
		if !strings.Contains(answer, "42") {
			t.Errorf("%s got %s, want 42", person, answer)
		}
	}
	eve := &browserClient{t: t, cookies: map[string]string{}, person: "Eve"}
	address, _, _ := eve.begin(run.origin + "/mcp")
	if page := eve.browse(address, run.origin); !strings.Contains(page, "has no access here") {
		t.Errorf("Eve sees %s; want that she has no access", page)
	}
}

// TestToyLoginIsForThisMachine shows that a name which leads here from elsewhere and a
// sign-in that nobody began get nothing, and that nothing in the address of the page
// becomes markup, or a way to somebody else.
func TestToyLoginIsForThisMachine(t *testing.T) {
	t.Parallel()
	run := startDevLogin(t)
	for _, bad := range []struct {
		address, host string
		status        int
	}{
		{run.toy + "/?state=s", "evil.example", http.StatusMisdirectedRequest},
		{run.toy + "/elsewhere", "", http.StatusNotFound},
		{run.origin + "/callback/toy?code=ann&state=guessed", "", http.StatusBadRequest},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, bad.address, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = bad.host
		answer, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != bad.status {
			t.Errorf("%s as %q: status %d, want %d", bad.address, bad.host, answer.StatusCode, bad.status)
		}
	}
	w := &browserClient{t: t, cookies: map[string]string{}, person: "Ann"}
	_, page := w.ask("GET", run.toy+"/?redirect_uri=http://evil.example/&state="+url.QueryEscape(`"><b>`), "", "")
	want := run.origin + "/callback/toy?code=ann&state=" + url.QueryEscape(`"><b>`)
	if got := w.visitor(page); got != want || strings.Contains(page, "evil") {
		t.Errorf("Ann is led to %q, want %q, by\n%s", got, want, page)
	}
}
