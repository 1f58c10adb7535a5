package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// unlikeConfig is a config of which replicas have different forms for a while. What
// changes of it stands in configChanges.
const unlikeConfig = `listen: %s
operator: %s
sessions: {keys_file: keys12}
replicas: 3
redis: {url: "redis://%s", patience: 5s}
issuers:
  - {issuer: "https://login.example/", hmac_secret_file: one, algorithms: [HS256], audiences: [us], tenant: acme}
  - {issuer: "https://leaving.example/", hmac_secret_file: two, algorithms: [HS256], audiences: [us], tenant: acme}
  - {issuer: "https://rotated.example/", hmac_secret_file: three, algorithms: [HS256], audiences: [us], tenant: acme}
  - {issuer: "https://leaver.example/", hmac_secret_file: five, algorithms: [HS256], audiences: [us], tenant: leaver}
tenants:
  acme:
    servers: [toolbox, low, high, gone, before]
    rules: [{allow: ["*"]}, {deny: [toolbox__current_time]}]
    limits:
      requests: {rate: 100000, burst: 100000}
      calls: {rate: 100000, burst: 100000}
      user_calls: {rate: 100000, burst: 100000}
      tools: {high__calculate: 0, low__calculate: {rate: 100000, burst: 100000}}
  leaver: {servers: [toolbox], rules: [{allow: ["*"]}]}
servers:
  toolbox: {builtin: [calculate, current_time]}
  low: {builtin: [calculate]}
  high: {builtin: [calculate]}
  gone: {builtin: [calculate]}
  before: {builtin: [calculate]}
`

// configChanges returns what may differ between two configs, by name: texts and what
// takes their place.
func configChanges() map[string][]string {
	return map[string][]string{
		"a tenant is added": {
			"tenants:\n", "  - {issuer: \"https://joiner.example/\", hmac_secret_file: six, algorithms: [HS256], audiences: [us], tenant: joiner}\ntenants:\n  joiner: {servers: [toolbox], rules: [{allow: [\"*\"]}]}\n",
		},
		"a tenant is removed": {
			"  - {issuer: \"https://leaver.example/\", hmac_secret_file: five, algorithms: [HS256], audiences: [us], tenant: leaver}\n", "",
			"  leaver: {servers: [toolbox], rules: [{allow: [\"*\"]}]}\n", "",
		},
		"an issuer is removed": {
			"  - {issuer: \"https://leaving.example/\", hmac_secret_file: two, algorithms: [HS256], audiences: [us], tenant: acme}\n", "",
		},
		"the key of an issuer is another": {"hmac_secret_file: three", "hmac_secret_file: four"},
		"a tool is denied": {
			"    rules: [{allow: [\"*\"]}",
			"    rules: [{allow: [\"*\"]}, {deny: [toolbox__calculate]}",
		},
		"a tool is allowed": {", {deny: [toolbox__current_time]}", ""},
		"a limit is lower": {
			"low__calculate: {rate: 100000, burst: 100000}",
			"low__calculate: 0",
		},
		"a limit is higher": {
			"high__calculate: 0",
			"high__calculate: {rate: 100000, burst: 100000}",
		},
		"a server is added": {
			"high, gone", "high, added, gone", "  high: {",
			"  added: {builtin: [calculate]}\n  high: {",
		},
		"a server is removed":  {"gone, ", "", "  gone: {builtin: [calculate]}\n", ""},
		"a server is renamed":  {"before]", "after]", "  before: {", "  after: {"},
		"the keys have turned": {"keys12", "keys21"},
	}
}

// unlikes are replicas whose configs differ.
type unlikes struct {
	replicas []*recorder
	base     []string            // their configs without a change
	has      []map[string]bool   // the changes that each has
	tokens   map[string]string   // by who has it
	sessions map[string][]string // what a request of a session has in its headers, by revision
	leads    map[string]int      // the replica that leads it, by revision
}

// secretOf returns a secret that is as good as random.
func secretOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

func startUnlikes(t *testing.T) *unlikes {
	t.Helper()
	server := redistest.Start(t)
	u := &unlikes{
		tokens: make(map[string]string), sessions: make(map[string][]string),
		leads: make(map[string]int),
	}
	for range 3 {
		r := startReplica(t, func(listen,
			operator string,
		) string {
			return fmt.Sprintf(keyed, listen, operator, "")
		})
		r.stops(t)
		for _, name := range []string{"one", "two", "three", "four", "five", "six"} {
			r.save(t, name, secretOf(name))
		}
		for name, fills := range map[string][]byte{"keys12": {1, 2}, "keys21": {2, 1}} {
			text, _ := keyLines(t, fills...)
			r.save(t, name, text)
		}
		text := fmt.Sprintf(unlikeConfig, r.address(),
			r.operator, server.Address)
		r.save(t, "drawbridge.yaml", text)
		r.begin(t)
		u.replicas, u.base, u.has = append(u.replicas, r), append(u.base, text), append(u.has, nil)
	}
	u.sign(t)
	for i, revision := range []string{"2025-11-25", "2025-06-18", "2025-03-26"} {
		r := u.replicas[i]
		r.token = u.tokens["login"]
		opened := r.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` +
			revision + `","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
		if opened.status != http.StatusOK {
			t.Fatalf("initialize: %v", opened)
		}
		u.leads[revision] = i
		u.sessions[revision] = []string{mcp.HeaderSessionID, opened.body, mcp.HeaderProtocolVersion, revision}
	}
	return u
}

// sign makes a token of each issuer, by the first part of its name; "renewed" is of the
// one whose key will be another.
func (u *unlikes) sign(t *testing.T) {
	t.Helper()
	r := &recorder{directory: t.TempDir()}
	for name, of := range map[string][3]string{
		"login": {"login", "one", "acme"}, "leaving": {"leaving", "two", "acme"}, "rotated": {
			"rotated",
			"three", "acme",
		},
		"renewed": {"rotated", "four", "acme"}, "leaver": {"leaver", "five", "leaver"}, "joiner": {
			"joiner",
			"six", "joiner",
		},
	} {
		r.save(t, "secret", secretOf(of[1]))
		text := strings.ReplaceAll(fmt.Sprintf(keyed, "127.0.0.1:1", "127.0.0.1:2", ""),
			"https://login.example/", "https://"+of[0]+".example/")
		text = strings.NewReplacer("sessions: {keys_file: keys}\n", "", "tenant: acme", "tenant: "+of[2],
			"  acme: {", "  "+of[2]+": {").Replace(text)
		r.save(t, "drawbridge.yaml", text)
		u.tokens[name] = r.signFor(t, of[2])
	}
}

// give gives a replica the config with these changes, and waits until it answers by that,
// and by nothing else.
func (u *unlikes) give(t *testing.T, i int, changes ...string) {
	t.Helper()
	text := u.base[i]
	u.has[i] = make(map[string]bool)
	for _, name := range changes {
		u.has[i][name] = true
		pairs := configChanges()[name]
		for n := 0; n < len(pairs); n += 2 {
			if strings.Count(text, pairs[n]) != 1 {
				t.Fatalf("%s: %q is not once in the config", name, pairs[n])
			}
			text = strings.Replace(text, pairs[n], pairs[n+1], 1)
		}
	}
	r := u.replicas[i]
	name := filepath.Join(r.directory, "next")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name, r.path("drawbridge.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := r.process.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	wrong := "it was not asked"
	defer func() {
		if t.Failed() {
			t.Logf("replica %d with %v: %s", i, changes, wrong)
		}
	}()
	eventually(t, "the replica answers by its config", func() bool { wrong = u.wrong(i); return wrong == "" })
}

// answersOf returns how the tools answer by a config with these changes: by tool the code
// of the refusal, "" for none.
func answersOf(has map[string]bool) map[string]string {
	return map[string]string{
		"toolbox__calculate":    unless(has["a tool is denied"], "DB-TOOL"),
		"toolbox__current_time": unless(!has["a tool is allowed"], "DB-TOOL"),
		"low__calculate":        unless(has["a limit is lower"], "DB-LIMIT-TOOL"),
		"high__calculate":       unless(!has["a limit is higher"], "DB-LIMIT-TOOL"),
		"added__calculate":      unless(!has["a server is added"], "DB-TOOL"),
		"gone__calculate":       unless(has["a server is removed"], "DB-TOOL"),
		"before__calculate":     unless(has["a server is renamed"], "DB-TOOL"),
		"after__calculate":      unless(!has["a server is renamed"], "DB-TOOL"),
	}
}

// wrong asks a replica for everything, and returns the first answer that is not as its
// own config says, "" if all are. In a session that of the primary says it.
func (u *unlikes) wrong(i int) string {
	r, has := u.replicas[i], u.has[i]
	r.token = u.tokens["login"]
	for tool, want := range answersOf(has) {
		params := `"name":"` + tool + `","arguments":{"expression":"6*7"}`
		if strings.HasSuffix(tool, "time") {
			params = `"name":"` + tool + `","arguments":{}`
		}
		got := r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+params+
			`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
			mcp.HeaderProtocolVersion, "2026-07-28", mcp.HeaderMethod, "tools/call", mcp.HeaderName, tool)
		if !isAs(got, want) {
			return fmt.Sprintf("%s: got %v, want %q", tool, got, want)
		}
		for revision, headers := range u.sessions {
			// each session is used, and one of them for all
			if tool != "toolbox__calculate" && revision != "2025-11-25" {
				continue
			}
			want := answersOf(u.has[u.leads[revision]])[tool]
			if got := r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+params+`}}`,
				headers...); !isAs(got, want) || got.status == http.StatusNotFound {
				return fmt.Sprintf("%s in a session of %s: got %v, want %q", tool, revision, got, want)
			}
		}
	}
	for who, want := range map[string]string{
		"leaving": unless(has["an issuer is removed"], "DB-AUTH-TOKEN"),
		"rotated": unless(has["the key of an issuer is another"], "DB-AUTH-TOKEN"),
		"renewed": unless(!has["the key of an issuer is another"], "DB-AUTH-TOKEN"),
		"leaver":  unless(has["a tenant is removed"], "DB-AUTH-TOKEN"),
		"joiner":  unless(!has["a tenant is added"], "DB-AUTH-TOKEN"),
	} {
		r.token = u.tokens[who]
		if got := r.list(""); !isAs(got, want) {
			return fmt.Sprintf("a token of %s: got %v, want %q", who, got, want)
		}
	}
	r.token = u.tokens["login"]
	return ""
}

// unless returns what a caller is refused with, if it is; "" is a result.
func unless(refused bool, code string) string {
	if !refused {
		return ""
	}
	return code
}

// isAs tells whether an answer is a result, or an error with that code.
func isAs(got outcome, code string) bool {
	if code == "" {
		return strings.Contains(got.body, `"result"`)
	}
	return strings.Contains(got.body, `"`+code+`"`) && !strings.Contains(got.body, `"result"`)
}

// TestConfigsChangeInAnyOrder gives three replicas new configs one after the other. For
// each two changes there is a time at which the first replica has one of them, the second
// the other, and the third both. Clients of all eras use all replicas at each step: each
// answers by its own config and by no other, sessions by that of their primary, and none
// is lost.
func TestConfigsChangeInAnyOrder(t *testing.T) {
	t.Parallel()
	u := startUnlikes(t)
	names := slices.Sorted(maps.Keys(configChanges()))
	pairs, most := 0, len(names)
	if testing.Short() {
		most = 2 // each change with the next one; make nightly tries all pairs
	}
	listen := u.replicas[1].reads(t.Context(), t, http.MethodPost,
		`{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{`+
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, mcp.HeaderProtocolVersion, "2026-07-28", mcp.HeaderMethod, "subscriptions/listen")
	lineWith(t, listen, "acknowledged")
	get := u.replicas[2].reads(t.Context(), t, http.MethodGet, "", u.sessions["2025-11-25"]...)
	for i, x := range names {
		for _, y := range names[i+1 : min(i+most, len(names))] {
			u.give(t, 0, x)
			u.give(t, 1, y)
			u.give(t, 2, x, y)
			for i := range 2 { // the third has just been asked
				if wrong := u.wrong(i); wrong != "" {
					t.Fatalf("%q first at one replica, %q at another: replica %d: %s", x, y, i, wrong)
				}
			}
			pairs++
		}
	}
	want := len(names) * (len(names) - 1) / 2
	if testing.Short() {
		want = len(names) - 1
	}
	if pairs != want || len(names) != 12 {
		t.Errorf("%d pairs of %d changes were tried, want %d of 12", pairs, len(names), want)
	}
	lineWith(t, listen, "notifications/tools/list_changed")
	lineWith(t, get, "notifications/tools/list_changed")
}
