package config

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
)

// testEnvironment is what the configs of testdata may expand.
func testEnvironment(name string) (string, bool) {
	value, ok := map[string]string{
		"EMPTY": "", "STRUCTURE": "{level: debug}", "SECRET": "hunter2-hunter2", "LEVEL": "debug",
		"INPUT_LEVEL": "info", "ANN": "https://login.example/#ann\n",
	}[name]
	return value, ok
}

// TestFaultsAreFoundWithTheirPlace reads testdata/bad/*.yaml: each is named after its
// fault and ends in what must be said about it.
func TestFaultsAreFoundWithTheirPlace(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 80 {
		t.Fatalf("got %d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for line := range strings.SplitSeq(string(data), "\n") {
				if text, ok := strings.CutPrefix(line, "# want: "); ok {
					want = append(want, file+":"+text)
				}
			}
			_, err = Load(file, testEnvironment)
			var got RefusedError
			if !errors.As(err, &got) {
				t.Fatalf("got error %v, want a RefusedError", err)
			}
			if diff := cmp.Diff(strings.Join(want, "\n"), got.Error()); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// parseConfig checks the text of a config file.
func parseConfig(path string, data []byte, env Environment) (*Config, error) {
	cfg, _, err := load(path, data, env, &memory{})
	return cfg, err
}

// minimal is a good config, to be completed by a test.
const minimal = `issuers:
  - {issuer: "https://login.example/", hmac_secret_file: bad/secret, algorithms: [HS256], tenant: acme}
tenants:
  acme: {servers: [files]}
servers:
  files: {command: mcp-files}
`

func parse(t *testing.T, text string) *Config {
	t.Helper()
	cfg, err := parseConfig("testdata/inline.yaml", []byte(text), testEnvironment)
	if err != nil {
		t.Fatalf("config refused: %v\n%s", err, text)
	}
	return cfg
}

// TestOnAndOffAreTrueAndFalseToo has them as programs pass them on that read YAML by its
// older version.
func TestOnAndOffAreTrueAndFalseToo(t *testing.T) {
	for text, want := range map[string]bool{"on": true, "true": true, "off": false, "false": false} {
		if cfg := parse(t, "data: {dir: kept}\naccess_keys: "+text+"\n"+minimal); cfg.AccessKeys != want {
			t.Errorf("access_keys: %s: got %v, want %v", text, cfg.AccessKeys, want)
		}
	}
	for _, text := range []string{"off", "false"} {
		output := "[files], output: {secrets: " + text + ", hidden_text: " + text + "}"
		cfg := parse(t, strings.Replace(minimal, "[files]", output, 1))
		if got := cfg.Tenants[0].Output; got.Secrets != sanitize.Off || got.HiddenText != sanitize.Off {
			t.Errorf("%s: got %+v, want that both are off", output, got)
		}
	}
}

func TestWhatAFileLeavesOutHasDocumentedDefaults(t *testing.T) {
	cfg := parse(t, minimal)
	if cfg.Listen != "127.0.0.1:8080" || cfg.Operator != "127.0.0.1:9090" || !cfg.LegacySSE ||
		cfg.LogFormat != "json" {
		t.Errorf("got %+v", cfg)
	}
	if got, want := cfg.Issuers[0].Audiences, []string{
		"http://127.0.0.1:8080/mcp",
		"http://127.0.0.1:8080/t/acme/mcp",
	}; !cmp.Equal(got, want) {
		t.Errorf("audiences: got %v, want %v", got, want)
	}
	if got, want := cfg.Audit.File, filepath.Join("testdata", "audit.jsonl"); got != want {
		t.Errorf("audit file: got %q, want %q", got, want)
	}
	if got := cfg.Tenants[0].Limits; got.Calls != nil || got.Concurrency != nil || got.Sessions != nil ||
		got.UserSessions != nil {
		t.Errorf("limits that the file leaves out: got %+v, want nil", got)
	}
	if got := cfg.Servers[0].Prefix; got != "files" {
		t.Errorf("prefix: got %q, want the server's name", got)
	}
}

// TestListenersAreApart: the second could not listen, and whoever starts the gateway
// would look for another program that has its address.
func TestListenersAreApart(t *testing.T) {
	for _, test := range []struct {
		listen, operator string
		same             bool
	}{
		{"127.0.0.1:8080", "localhost:8080", true},
		{"0.0.0.0:8080", "127.0.0.1:8080", true},
		{"127.0.0.1:8080", "0.0.0.0:8080", true},
		{"\"[::]:8080\"", "10.0.0.5:8080", true},
		{"0.0.0.0:8080", "\"[::1]:8080\"", false},
		{"127.0.0.1:8080", "127.0.0.2:8080", false},
		{"127.0.0.1:8080", "127.0.0.1:8081", false},
		{"127.0.0.1:0", "localhost:0", false},
	} {
		text := "public_url: https://mcp.example.com\nlisten: " + test.listen + "\noperator: " + test.operator +
			"\n" + minimal
		_, err := parseConfig("testdata/inline.yaml", []byte(text), testEnvironment)
		if got := strings.Contains(errorText(err), "are the same address"); got != test.same {
			t.Errorf("%s and %s: got %v, want that they are refused: %t", test.listen, test.operator, err, test.same)
		}
	}
}

func TestAudienceFollowsPublicURL(t *testing.T) {
	cfg := parse(t, "public_url: https://mcp.example.com/\n"+minimal)
	if got, want := cfg.Issuers[0].Audiences, []string{
		"https://mcp.example.com/mcp",
		"https://mcp.example.com/t/acme/mcp",
	}; !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestPublicURLHasSmallLetters: programs compare addresses of metadata and tokens byte
// for byte with what they have made of the address that a person typed, in small letters.
func TestPublicURLHasSmallLetters(t *testing.T) {
	_, err := parseConfig("testdata/inline.yaml", []byte("public_url: https://MCP.example.com\n"+minimal), testEnvironment)
	if !strings.Contains(errorText(err), "capital letters") {
		t.Errorf("got %v, want it refused", err)
	}
}

func TestZeroLimitLetsNothingThrough(t *testing.T) {
	cfg := parse(t, strings.Replace(minimal, "servers: [files]",
		"servers: [files], limits: {calls: 0, user_calls: {rate: 1.5, burst: 3}, concurrency: 0, sessions: 0, user_sessions: 0}", 1))
	got, none := cfg.Tenants[0].Limits, 0
	want := gateway.Limits{
		Calls: &ratelimit.Limit{}, UserCalls: &ratelimit.Limit{Rate: 1.5, Burst: 3},
		Concurrency: &none, Sessions: &none, UserSessions: &none,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

func TestEmptyPrefixIsKept(t *testing.T) {
	cfg := parse(t, minimal+"  web: {url: \"https://example.com/mcp\", prefix: \"\", timeout: 1m30s}\n")
	if got := cfg.Servers[1]; got.Prefix != "" || got.Timeout != 90*time.Second {
		t.Errorf("got %+v", got)
	}
}

// TestT19SecretsAreNotInProblems puts a secret wherever one may stand and something wrong
// beside it.
func TestT19SecretsAreNotInProblems(t *testing.T) {
	const canary = "hunter2"
	texts := []string{
		minimal + `  web: {url: "${SECRET}"}`,
		minimal + `  web: {url: "https://u:hunter2@example.com/"}`,
		minimal + `  web: {url: "https://example.com/", headers: {"X Key": "hunter2", Host: hunter2, X-Y: [hunter2], X-Z: "hunter2\n"}}`,
		minimal + `  web: {command: x, env: {"A B": hunter2, C: "hunter2\0"}, type: "${SECRET}", timeout: "${SECRET}"}`,
		minimal + `  web: {command: x, env: {A: "hunter2`,
		minimal + `  web: {command: x, env: {A: hunter2: b}}`,
		minimal + `  web: {command: x, env: [hunter2, {a: hunter2}]}`,
		`redis: {url: "redis://:hunter2@127.0.0.1"}` + "\n" + minimal,
		`listen: "${SECRET}"` + "\n" + `public_url: "${SECRET}"` + "\n" + `allowed_hosts: ["${SECRET} "]` +
			"\n" + minimal,
		`trusted_proxies: ["${SECRET}"]` + "\n" + `limits: {max_body: "${SECRET}", max_requests: "${SECRET}"}` +
			"\n" + `log: {level: "${SECRET}"}` + "\n" + minimal,
		strings.Replace(minimal, "bad/secret", `"${SECRET}"`, 1),
		`data: {postgres_file: "postgres://u:hunter2@127.0.0.1/db"}` + "\n" + minimal,
		strings.Replace(minimal, "[HS256]", `["${SECRET}"]`, 1),
		strings.Replace(minimal, "tenant: acme", `tenant: "${SECRET}"`, 1),
		strings.Replace(minimal, "[files]", `["${SECRET}"]`, 1),
		strings.Replace(minimal, "servers: [files]",
			`servers: [files], rules: [{allow: ["${SECRET}:x", "${SECRET}__*"], subjects: ["${SECRET}"]}]`,
			1),
	}
	for _, text := range texts {
		_, err := parseConfig("inline.yaml", []byte(text), testEnvironment)
		if err == nil {
			t.Errorf("accepted:\n%s", text)
		} else if strings.Contains(err.Error(), canary) {
			t.Errorf("the secret is in %q", err)
		}
	}
}

func TestSlipsFindTheNearestWord(t *testing.T) {
	known := []string{"listen", "limits", "log", "servers"}
	tests := []struct{ word, want string }{
		{"listn", "listen"},
		{"lisetn", "listen"},
		{"LIMITS", "limits"},
		{"server", "servers"},
		{"elephant", ""},
		{"", ""},
		{strings.Repeat("listen", 100), ""},
	}
	for _, test := range tests {
		if got := nearest(test.word, known); got != test.want {
			t.Errorf("nearest(%.10q): got %q, want %q", test.word, got, test.want)
		}
	}
}

var placed = regexp.MustCompile(`^.+\.yaml:[1-9][0-9]*:[1-9][0-9]*: .+`)

// FuzzConfig: whatever the file holds, reading it ends, and says either a config or
// problems that each have a place.
func FuzzConfig(f *testing.F) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, "testdata/good.yaml", "testdata/full.yaml") {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("include: [testdata/good.yaml, testdata/bad/*.yaml]\n" + minimal))
	f.Add([]byte("include: ['[', '', nothing*, testdata]\n" + minimal))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := parseConfig("fuzz.yaml", data, testEnvironment)
		if (cfg == nil) == (err == nil) {
			t.Fatalf("got config %v and error %v", cfg, err)
		}
		if err == nil {
			for _, w := range cfg.Warnings {
				if !placed.MatchString(w.String()) {
					t.Fatalf("a warning without a place: %q", w)
				}
			}
			return
		}
		var found RefusedError
		if !errors.As(err, &found) {
			t.Fatalf("got %T, want a RefusedError", err)
		}
		for _, p := range found {
			if !placed.MatchString(strings.ReplaceAll(p.String(), "\n", " ")) {
				t.Fatalf("a problem without a place: %q", p)
			}
		}
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestReferencesAreInlinedOnlyWhereAsked(t *testing.T) {
	for value, want := range map[string]bool{
		"": false, ", inline_refs: true": true,
		", inline_refs: false": false,
	} {
		cfg := parse(t, strings.Replace(minimal, "servers: [files]", "servers: [files]"+value, 1))
		if got := cfg.Tenants[0].InlineRefs; got != want {
			t.Errorf("%q: got %v, want %v", value, got, want)
		}
	}
}
