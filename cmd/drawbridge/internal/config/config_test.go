package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// testEnvironment is what the configs of testdata may expand.
func testEnvironment(name string) (string, bool) {
	value, ok := map[string]string{
		"EMPTY": "", "STRUCTURE": "{level: debug}", "SECRET": "hunter2-hunter2", "LEVEL": "debug", "INPUT_LEVEL": "info",
	}[name]
	return value, ok
}

// TestFaultsAreFoundWithTheirPlace reads testdata/bad/*.yaml: each is named after its fault and ends in what must be said about it.
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
	return newReader(path, data, nil, env).parse(data)
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

func TestWhatAFileLeavesOutHasDocumentedDefaults(t *testing.T) {
	cfg := parse(t, minimal)
	if cfg.Listen != "127.0.0.1:8080" || cfg.Operator != "127.0.0.1:9090" || !cfg.LegacySSE || cfg.LogFormat != "json" {
		t.Errorf("got %+v", cfg)
	}
	if got, want := cfg.Issuers[0].Audiences, []string{"http://127.0.0.1:8080/mcp", "http://127.0.0.1:8080/t/acme/mcp"}; !cmp.Equal(got, want) {
		t.Errorf("audiences: got %v, want %v", got, want)
	}
	if got, want := cfg.Audit.File, filepath.Join("testdata", "audit.jsonl"); got != want {
		t.Errorf("audit file: got %q, want %q", got, want)
	}
	if got := cfg.Tenants[0].Limits; got.Calls != nil || got.Concurrency != nil || got.Sessions != nil || got.UserSessions != nil {
		t.Errorf("limits that the file leaves out: got %+v, want nil", got)
	}
	if got := cfg.Servers[0].Prefix; got != "files" {
		t.Errorf("prefix: got %q, want the server's name", got)
	}
}

func TestAudienceFollowsPublicURL(t *testing.T) {
	cfg := parse(t, "public_url: https://mcp.example.com/\n"+minimal)
	if got, want := cfg.Issuers[0].Audiences, []string{"https://mcp.example.com/mcp", "https://mcp.example.com/t/acme/mcp"}; !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestZeroLimitLetsNothingThrough(t *testing.T) {
	cfg := parse(t, strings.Replace(minimal, "servers: [files]", "servers: [files], limits: {calls: 0, user_calls: {rate: 1.5, burst: 3}, concurrency: 0, sessions: 0, user_sessions: 0}", 1))
	got, none := cfg.Tenants[0].Limits, 0
	want := gateway.Limits{Calls: &ratelimit.Limit{}, UserCalls: &ratelimit.Limit{Rate: 1.5, Burst: 3}, Concurrency: &none, Sessions: &none, UserSessions: &none}
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

func TestVariablesExpandInsideValuesOnly(t *testing.T) {
	tests := []struct{ text, want string }{
		{"plain", "plain"},
		{"${LEVEL}", "debug"},
		{"a ${LEVEL} b ${LEVEL}", "a debug b debug"},
		{"${UNSET:-x}", "x"},
		{"${UNSET:-}", ""},
		{"${EMPTY:-x}", "x"},
		{"${EMPTY}", ""},
		{"$LEVEL", "$LEVEL"},
		{"${STRUCTURE}", "{level: debug}"},
	}
	for _, test := range tests {
		got, _, err := expand(test.text, testEnvironment)
		if err != nil || got != test.want {
			t.Errorf("expand(%q): got %q, %v, want %q", test.text, got, err, test.want)
		}
	}
	if got, _, err := expand("${OUTER}", func(string) (string, bool) { return "${LEVEL}", true }); err != nil || got != "${LEVEL}" {
		t.Errorf("a value was expanded again: got %q, %v", got, err)
	}
}

// TestT19SecretsAreNotInProblems puts a secret wherever one may stand and something wrong beside it.
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
		`listen: "${SECRET}"` + "\n" + `public_url: "${SECRET}"` + "\n" + `allowed_hosts: ["${SECRET} "]` + "\n" + minimal,
		`trusted_proxies: ["${SECRET}"]` + "\n" + `limits: {max_body: "${SECRET}", max_calls: "${SECRET}"}` + "\n" + `log: {level: "${SECRET}"}` + "\n" + minimal,
		strings.Replace(minimal, "[HS256]", `["${SECRET}"]`, 1),
		strings.Replace(minimal, "tenant: acme", `tenant: "${SECRET}"`, 1),
		strings.Replace(minimal, "[files]", `["${SECRET}"]`, 1),
		strings.Replace(minimal, "servers: [files]", `servers: [files], rules: [{allow: ["${SECRET}:x", "${SECRET}__*"], subjects: ["${SECRET}"]}]`, 1),
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

// TestT19SecretsAreNotInWarnings does the same with warnings.
func TestT19SecretsAreNotInWarnings(t *testing.T) {
	cfg := parse(t, `audit: {file: "${SECRET}/audit.jsonl"}`+"\n"+strings.Replace(minimal, "servers: [files]", `servers: [files], rules: [{deny: ["files__${SECRET}"]}]`, 1)+`
  a: {command: "${SECRET}"}
  b: {url: "http://mcp.example.com/?token=${SECRET}"}
  c: {url: "http://mcp.example.com/", headers: {X-Key: "${SECRET}"}}
`)
	var all strings.Builder
	for _, w := range append(cfg.Warnings, unmatched(cfg, registry.New())...) {
		fmt.Fprintln(&all, w)
	}
	for _, code := range []string{codeNoAudit, codeNoCommand, codePlainHTTP, codeUnused} {
		if !strings.Contains(all.String(), "["+code+"]") {
			t.Errorf("no warning %s in %s", code, all.String())
		}
	}
	if strings.Contains(all.String(), "hunter2") {
		t.Errorf("the secret is in %s", all.String())
	}
}

// TestCredentialsOverPlainHTTP shows where they are warned of: where the internet is between.
func TestCredentialsOverPlainHTTP(t *testing.T) {
	for server, want := range map[string]bool{
		`{url: "http://mcp.example.com/mcp", headers: {Authorization: x}}`:                                 true,
		`{url: "http://8.8.8.8/mcp", headers: {X-Api-Key: x}, private_addresses: true}`:                    true,
		`{url: "http://mcp.example.com/mcp?access_token=x"}`:                                               true,
		`{openapi: issues.yaml, base_url: "http://api.example.com", headers: {Cookie: x}}`:                 true,
		`{url: "https://mcp.example.com/mcp", headers: {Authorization: x}}`:                                false,
		`{url: "http://mcp.example.com/mcp", headers: {X-Client: x}}`:                                      false,
		`{url: "http://mcp.example.com/mcp"}`:                                                              false,
		`{url: "http://127.0.0.1/mcp", headers: {Authorization: x}, private_addresses: true}`:              false,
		`{url: "http://mcp.internal.example/mcp", headers: {Authorization: x}, private_addresses: true}`:   false,
		`{url: "http://mcp.example.com/mcp", headers: {Authorization: x}, acknowledge: [plain-http]}`:      false,
		`{url: "http://mcp.example.com/mcp", headers: {Authorization: x}, acknowledge: [unserved-tenant]}`: true,
	} {
		cfg := parse(t, strings.Replace(minimal, "[files]", "[files, web]", 1)+"  web: "+server+"\n")
		got := slices.ContainsFunc(cfg.Warnings, func(w Warning) bool { return w.Code == codePlainHTTP })
		if got != want {
			t.Errorf("%s: warned %v, want %v", server, got, want)
		}
	}
}

func TestOperatorOnAllAddressesIsWarnedOf(t *testing.T) {
	for address, want := range map[string]bool{
		"0.0.0.0:9090": true, "[::]:9090": true, "[::ffff:0.0.0.0]:9090": true, "127.0.0.1:9090": false, "localhost:9090": false, "10.0.0.1:9090": false,
	} {
		cfg := parse(t, "operator: '"+address+"'\n"+minimal)
		if got := slices.ContainsFunc(cfg.Warnings, func(w Warning) bool { return w.Code == codeOpenOperator }); got != want {
			t.Errorf("%s: warned %v, want %v", address, got, want)
		}
	}
	if _, err := parseConfig("x.yaml", []byte("operator: ':9090'\n"+minimal), testEnvironment); err == nil {
		t.Error("an operator's address without a host was taken")
	}
}

func TestLargeFileIsRefusedUnread(t *testing.T) {
	_, err := parseConfig("big.yaml", bytes.Repeat([]byte("# x\n"), maxConfigBytes/4+1), testEnvironment)
	if got, want := errorText(err), "big.yaml:1:1: the file is larger than 16 MiB"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDeepNestingIsRefusedQuickly(t *testing.T) {
	var steps strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&steps, "%*sa:\n", i, "")
	}
	for _, text := range []string{
		strings.Repeat("[", 1<<16), strings.Repeat("{a: ", 1<<16), strings.Repeat("- ", 1<<16), strings.Repeat("? ", 1<<16), strings.Repeat("!a ", 1<<16),
		steps.String(), strings.ReplaceAll(steps.String(), "a:", "- "), "[" + strings.Repeat("a: ", 1<<17), "[" + strings.Repeat("\na: b", 1<<17), "a: " + strings.Repeat("a: ", 1<<17),
		"{" + strings.Repeat("a, ", 1<<17) + "}", "{" + strings.Repeat("a:, ", 1<<17) + "}", strings.Repeat("-\n", 1<<17), "a: \"" + strings.Repeat("\t", 1<<17), strings.Repeat("@ ", 1<<17),
	} {
		if _, err := parseConfig("deep.yaml", []byte(text), testEnvironment); err == nil {
			t.Errorf("%.10q… accepted", text)
		}
	}
}

// TestNestingIsCountedInLevels: a long line is not deep, and 32 levels are not too many.
func TestNestingIsCountedInLevels(t *testing.T) {
	var list, steps strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&list, "x%d.example, ", i)
	}
	cfg := parse(t, "allowed_hosts: ["+list.String()+"]\n"+minimal)
	if got := len(cfg.AllowedHosts); got != 10_000 {
		t.Errorf("a list on one long line: got %d hosts, want 10,000", got)
	}
	for levels := range 40 {
		fmt.Fprintf(&steps, "%*sa:\n", 10*levels, "")
		_, err := parseConfig("steps.yaml", []byte(steps.String()), testEnvironment)
		if got, want := strings.Contains(err.Error(), "levels deep"), levels >= maxConfigDepth; got != want {
			t.Errorf("%d levels of indentation: too deep %t, want %t", levels+1, got, want)
		}
	}
}

// TestPiecesSayWhatTheWholeSays: a file that is divided among several runs of the parser is read as by one.
func TestPiecesSayWhatTheWholeSays(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "testdata/good.yaml", "testdata/full.yaml", "testdata/issues.yaml") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		read := func(most int) (*node, []Problem) {
			r := newReader(file, data, nil, testEnvironment)
			tokens, err := scan(string(data))
			if err != nil {
				t.Fatal(err)
			}
			if !r.checkTokens(tokens) || len(r.oneDocument(tokens)) == 0 {
				return nil, nil
			}
			return r.block(r.oneDocument(tokens), most), r.problems
		}
		pieces, found := read(1)
		whole, want := read(len(data))
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("%s: problems (-whole +pieces):\n%s", file, diff)
		}
		if diff := cmp.Diff(whole, pieces, cmp.AllowUnexported(node{}, member{})); diff != "" && len(want) == 0 {
			t.Errorf("%s: nodes (-whole +pieces):\n%s", file, diff)
		}
	}
}

// TestPiecesAreNoMoreLenientThanTheWhole: what the parser refuses in a small file is refused in a large one.
func TestPiecesAreNoMoreLenientThanTheWhole(t *testing.T) {
	for _, text := range []string{"ten\rants:\n  a: {b: 1}\n", "tenants\n:\n  a: {b: 1}\n", "tenants:\n{\n a: 1\n}\n"} {
		for _, most := range []int{1, len(text)} {
			r := newReader("pieces.yaml", nil, nil, testEnvironment)
			tokens, err := scan(text)
			if err != nil {
				t.Fatal(err)
			}
			if r.checkTokens(tokens) {
				r.block(tokens, most)
			}
			if len(r.problems) == 0 {
				t.Errorf("%q in pieces of %d: no problem", text, most)
			}
		}
	}
}

// TestTabsAreNotLostFromTexts: the library leaves them out of a text without quotes, and "read<tab>_all" was read_all.
func TestTabsAreNotLostFromTexts(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"a: read\t_all\n", "tabs.yaml:1:4: a tab in a text without quotes; write a space, or \\t in double quotes"},
		{"ten\tants: {}\n", "tabs.yaml:1:1: a tab in a text without quotes; write a space, or \\t in double quotes"},
		{"a: [1\t2]\n", "tabs.yaml:1:5: a tab in a text without quotes; write a space, or \\t in double quotes"},
		{"a: x\t# a comment\t\n", ""},
		{"a:\tx\t\n", ""},
		{"a: [x\t,\ty\t]\n", ""},
		{"a: \"x\ty\"\n", ""},
		{"a: |\n  x\ty\n", ""},
	} {
		r := newReader("tabs.yaml", nil, nil, testEnvironment)
		r.parseYAML([]byte(test.text))
		if got := errorText(RefusedError(r.problems)); len(r.problems) > 0 && got != test.want || len(r.problems) == 0 && test.want != "" {
			t.Errorf("%q: got %q, want %q", test.text, got, test.want)
		}
	}
}

// TestLineBreaksOfWindowsMeanTheSame: the scanner keeps those in a text in quotes that are a space or nothing.
func TestLineBreaksOfWindowsMeanTheSame(t *testing.T) {
	const text = "a: \"x\n  y\"\nb: 'x\n\n  y'\nc: x\n  y\nd: |\n  x\n  y\ne: >-\n  x\n  y\nf: [\"x\n  y\", {z: \"x\n  y\"}]\n"
	read := func(text string) *node {
		r := newReader("lines.yaml", nil, nil, testEnvironment)
		n := r.parseYAML([]byte(text))
		if len(r.problems) > 0 {
			t.Fatal(r.problems)
		}
		return n
	}
	if diff := cmp.Diff(read(text), read(strings.ReplaceAll(text, "\n", "\r\n")), cmp.AllowUnexported(node{}, member{})); diff != "" {
		t.Errorf("-LF +CRLF:\n%s", diff)
	}
}

// TestManyKeysAreReadInTimeAndStack reads what would take the parser alone minutes, or overflow its stack.
func TestManyKeysAreReadInTimeAndStack(t *testing.T) {
	const many = 50_000
	var text strings.Builder
	text.WriteString("a:\n  - b:\n")
	for i := range many {
		fmt.Fprintf(&text, "      k%d:\n", i)
	}
	r := newReader("many.yaml", nil, nil, testEnvironment)
	root := r.parseYAML([]byte(text.String()))
	if root == nil {
		t.Fatal(r.problems)
	}
	if got := len(root.member("a").items[0].member("b").members); got != many {
		t.Errorf("got %d keys, want %d", got, many)
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

// FuzzPieces reads texts in the smallest pieces and as a whole: both are refused, or both are the same.
func FuzzPieces(f *testing.F) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, "testdata/full.yaml") {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Add("a:\n- |\n  # b\n  c: d\n- \"e\n  f: g\"\n- h\n  i # j\n- [k,\n  {l: m}]\nn:\n  - - o: p\n      q:\n  -\n    r\n")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 16<<10 {
			return // the parser alone would take too long
		}
		read := func(most int) (*node, bool) {
			r := newReader("fuzz.yaml", nil, nil, testEnvironment)
			tokens, err := scan(text)
			if err != nil || !r.checkTokens(tokens) {
				return nil, false
			}
			if tokens = r.oneDocument(tokens); len(tokens) == 0 {
				return nil, false
			}
			n := r.block(tokens, most)
			return n, n != nil && len(r.problems) == 0
		}
		whole, taken := read(len(text))
		pieces, inPieces := read(1)
		if taken != inPieces {
			t.Fatalf("taken as a whole: %t, in pieces: %t", taken, inPieces)
		}
		missing := cmp.FilterValues(func(a, b *node) bool { return a != nil && b != nil && a.kind == null && b.kind == null }, cmp.Ignore()) // it has no place of its own
		if !taken {
			return
		}
		if diff := cmp.Diff(whole, pieces, cmp.AllowUnexported(node{}, member{}), missing); diff != "" {
			t.Fatalf("-whole +pieces:\n%s", diff)
		}
	})
}

// FuzzConfig: whatever the file holds, reading it ends, and says either a config or problems that each have a place.
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
	for value, want := range map[string]bool{"": false, ", inline_refs: true": true, ", inline_refs: false": false} {
		cfg := parse(t, strings.Replace(minimal, "servers: [files]", "servers: [files]"+value, 1))
		if got := cfg.Tenants[0].InlineRefs; got != want {
			t.Errorf("%q: got %v, want %v", value, got, want)
		}
	}
}

// TestPatternsThatSomePrefixFitsAreTaken shows that only a pattern which can never match is refused: the names of tools
// begin with a prefix, which need not be the server's name and may be empty.
func TestPatternsThatSomePrefixFitsAreTaken(t *testing.T) {
	for server, patterns := range map[string][]string{
		`{command: x}`:                              {"other__x", "other__*", "o*", "*x", "*__x", "prompt:other__x", "resource:other:file:///*", "resource:o*"},
		`{command: x, prefix: "tools"}`:             {"tools__calcluate", "t*", "prompt:tools__x", "resource:other:*"},
		`{command: x, prefix: ""}`:                  {"toolbox__calcluate", "delete", "delete_*", "prompt:x", "resource:other:*"},
		`{builtin: [calculate]}`:                    {"other__calculate", "other__current_time", "other__run_*"},
		`{builtin: [calculate], prefix: tools}`:     {"tools__calculate"},
		`{url: "https://example.com", prefix: web}`: {"web__x", "resource:other:x"},
	} {
		for _, pattern := range patterns {
			rules := fmt.Sprintf("servers: [files, other], rules: [{deny: [%q]}]", pattern)
			parse(t, strings.Replace(minimal, "servers: [files]", rules, 1)+"  other: "+server+"\n")
		}
	}
}

func TestSubjectsOfKnownIssuersAreTaken(t *testing.T) {
	text := strings.Replace(minimal, `"https://login.example/"`, `"https://login.example/#x"`, 1)
	for _, subject := range []string{"https://login.example/#x#alice", "https://login.example/#x#a#b"} {
		parse(t, strings.Replace(text, "servers: [files]", fmt.Sprintf("servers: [files], rules: [{subjects: [%q], deny: ['*']}]", subject), 1))
	}
}

// TestCommandsRunWhereTheConfigSays: cwd is relative to the config file, and a command with a path is looked for there.
func TestCommandsRunWhereTheConfigSays(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "server"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "drawbridge.yaml")
	for cwd, want := range map[string]string{"": "", ", cwd: .": dir, ", cwd: " + dir: dir} {
		text := strings.Replace(minimal, "bad/secret", "secret", 1)
		text = strings.Replace(text, "{command: mcp-files}", "{command: ./server"+cwd+"}", 1)
		if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99"), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := parseConfig(file, []byte(text), testEnvironment)
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.Servers[0].Dir; got != want {
			t.Errorf("%q: runs in %q, want %q", cwd, got, want)
		}
		missing := slices.ContainsFunc(cfg.Warnings, func(w Warning) bool { return w.Code == codeNoCommand })
		if found := want != ""; missing == found {
			t.Errorf("%q: warned of a missing program: %t, want %t", cwd, missing, !found)
		}
	}
}
