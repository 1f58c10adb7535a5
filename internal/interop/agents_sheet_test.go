package interop_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// agentFeatures are what each agent is tried with, in the order of the page.
var agentFeatures = []struct{ name, title string }{
	{"connect", "connects as [clients](../clients.md) says"},
	{"revision", "speaks a revision"},
	{"list", "lists tools"},
	{"call", "calls a tool"},
	{"error", "tells an error"},
	{"picture", "shows a picture"},
	{"change", "sees a list change while it runs"},
	{"ask", "asks its user for a server"},
	{"expired", "says that its token expired"},
	{"expires", "says so when that happens while it runs"},
	{"down", "says that a server is down"},
	{"away", "says that the gateway is down"},
	{"back", "goes on when the gateway is back"},
}

// agentSheet is what was seen of one agent. It is safe for concurrent use.
type agentSheet struct {
	mu    sync.Mutex // guards cells
	cells map[string]string
}

// note keeps whether a feature works, and how or what is read of it.
func (s *agentSheet) note(feature string, works bool, format string, arguments ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cells == nil {
		s.cells = make(map[string]string)
	}
	verdict := "no"
	if works {
		verdict = "yes"
	}
	s.cells[feature] = verdict + " | " + fmt.Sprintf(format, arguments...)
}

// keep compares the sheet with its part of docs/evidence/compatibility.md, or writes it
// there. A test that failed has nothing to compare, nor has one that was run in part
// only; but what -short leaves out is as the page has it.
func (s *agentSheet) keep(t testing.TB, part, title string) {
	t.Helper()
	if t.Failed() {
		return
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\n### %s\n\n| | | how, or what is read of it |\n|---|---|---|\n", title)
	for _, feature := range agentFeatures {
		cell, tried := s.cells[feature.name]
		if !tried && testing.Short() {
			cell, tried = cellOf(t, part, feature.title)
		}
		if !tried {
			t.Logf("%s was not tried: the page is neither compared nor written", feature.name)
			return
		}
		fmt.Fprintf(&text, "| %s | %s |\n", feature.title, cell)
	}
	keepCompat(t, part, text.String())
}

// cellOf returns what a part of docs/evidence/compatibility.md says of a feature.
func cellOf(t testing.TB, part, title string) (cell string, found bool) {
	t.Helper()
	_, old, _ := compatPart(t, part)
	_, after, found := strings.Cut(old, "\n| "+title+" | ")
	cell, _, _ = strings.Cut(after, " |\n")
	return cell, found
}

// volatile are the parts of what people read that differ from run to run, and what the
// page has in their place.
var volatile = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`"requestId":"[^"]*"`), `"requestId":"…"`},
	{regexp.MustCompile(`"id":\d+`), `"id":…`},
	{regexp.MustCompile(`since \S+ \(\S+ ago\)`), "since … (… ago)"},
	{regexp.MustCompile(`\s+`), " "},
	{regexp.MustCompile(`\|`), `\|`},
}

// read returns words as the page has them.
func (g *gateway) read(words string) string {
	words = strings.ReplaceAll(strings.TrimSpace(words), g.addr, "127.0.0.1:8080")
	for _, v := range volatile {
		words = v.pattern.ReplaceAllString(words, v.instead)
	}
	return "“" + words + "”"
}

// agentVersion is the pinned version of an agent.
func agentVersion(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("agents", "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct{ Dependencies map[string]string }
	if err := json.Unmarshal(data, &manifest); err != nil {
		t.Fatal(err)
	}
	return manifest.Dependencies[name]
}

// agentSections is the config that agents meet: built-in tools, and the server of the Go
// SDK at an address. Later is a server whose tools the tenant does not have at first.
func agentSections(upstream string, servers ...string) string {
	return fmt.Sprintf(`tenants:
  acme: {servers: [toolbox, go%s], rules: [{allow: ["*"]}], limits: %s}
servers:
  toolbox: {builtin: [calculate]}
  later: {builtin: [current_time]}
  go: {url: %q, private_addresses: true, grace: 1h}
`, strings.Join(append([]string{""}, servers...), ", "), generous, upstream)
}

// spoken says in which era the clients of this gateway talked to it. They must have
// called a tool: the log has lines later than what they tell of.
func (g *gateway) spoken(t *testing.T) string {
	t.Helper()
	eventually(t, "a call in the log",
		func() bool { return strings.Contains(g.out.String(), `"method":"tools/call"`) })
	if strings.Contains(g.out.String(), `"method":"initialize"`) {
		return "an older revision, in a session"
	}
	return modernRevision + ", without a session"
}

// expired waits until the gateway refuses a token that was good.
func (g *gateway) expired(t testing.TB, token string) {
	t.Helper()
	eventually(t, "the token expires", func() bool {
		return post(t, g.url, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Authorization",
			"Bearer "+token).status == 401
	})
}

// upstreamDown waits until the gateway has seen that the Go SDK's server is gone.
func (g *gateway) upstreamDown(t testing.TB) {
	t.Helper()
	eventually(t, "the gateway sees that the server is down", func() bool {
		return strings.Contains(fetch(t, g.operator+"/readyz"), "server go is down")
	})
}
