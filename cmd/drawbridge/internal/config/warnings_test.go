package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

// TestT19SecretsAreNotInWarnings does the same with warnings.
func TestT19SecretsAreNotInWarnings(t *testing.T) {
	cfg := parse(t, `audit: {file: "${SECRET}/audit.jsonl"}`+"\n"+strings.Replace(minimal, "servers: [files]", `servers: [files], rules: [{deny: ["files__${SECRET}"]}]`, 1)+`
  a: {command: "${SECRET}"}
  b: {url: "http://mcp.example.com/?token=${SECRET}"}
  c: {url: "http://mcp.example.com/", headers: {X-Key: "${SECRET}"}}
`)
	var all strings.Builder
	warnings, _ := cfg.Judge(registry.New(), false, nil)
	for _, w := range warnings {
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

// TestCredentialsOverPlainHTTP shows where they are warned of: where the internet is
// between.
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

// TestTenantsInWhichNothingIsAllowedAreWarnedOf has none or only such rules as deny.
func TestTenantsInWhichNothingIsAllowedAreWarnedOf(t *testing.T) {
	for rules, want := range map[string]bool{
		"": true, ", rules: []": true, `, rules: [{deny: ["files__write"]}]`: true,
		`, rules: [{deny: ["files__write"]}, {scopes: [a], allow: ["*"]}]`: false,
		", acknowledge: [nothing-allowed]":                                 false,
	} {
		cfg := parse(t, strings.Replace(minimal, "servers: [files]", "servers: [files]"+rules, 1))
		got := slices.ContainsFunc(cfg.Warnings, func(w Warning) bool { return w.Code == codeNothing })
		if got != want {
			t.Errorf("%q: warned %v, want %v", rules, got, want)
		}
	}
}

// TestAuditFileThatIsADirectoryIsWarnedOf says what is to be named.
func TestAuditFileThatIsADirectoryIsWarnedOf(t *testing.T) {
	cfg := parse(t, "audit: {file: "+t.TempDir()+"}\nacknowledge: [nothing-allowed, no-command]\n"+minimal)
	if len(cfg.Warnings) != 1 || !strings.HasSuffix(cfg.Warnings[0].Text, "is a directory: name the file in it") {
		t.Errorf("got %v", cfg.Warnings)
	}
}

// TestNoCommandSaysWhy a program cannot be started, as far as that is known.
func TestNoCommandSaysWhy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.py")
	if err := os.WriteFile(file, []byte("#!/usr/bin/python3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{
		file:              "the file may not be executed; chmod +x allows it",
		file + "x":        "no program is there",
		"no-such-program": "it is not in PATH",
		"npx server":      "no shell splits it, so all but the program belongs in args",
	} {
		cfg := parse(t, "acknowledge: [nothing-allowed]\n"+strings.Replace(minimal, "mcp-files", command, 1))
		if len(cfg.Warnings) != 1 || !strings.HasSuffix(cfg.Warnings[0].Text, "started here: "+want) {
			t.Errorf("%s: got %v, want %q", command, cfg.Warnings, want)
		}
	}
}

// TestFilesOfTheConfigAmongDataAreWarnedOf shows when: whoever may use analyze_csv reads
// the first line of each file there, which of a key is all.
func TestFilesOfTheConfigAmongDataAreWarnedOf(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"data", "data/keys"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"secret", "data/keys/secret"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		root, secret, exposed string
	}{
		{"data", "secret", ""},
		{".", "secret", "drawbridge.yaml"},
		{"data", "data/keys/secret", "data/keys/secret"},
		{"data, acknowledge: [exposed-file]", "data/keys/secret", ""},
		{"data/../.", "secret", "drawbridge.yaml"},
	} {
		root, rest, _ := strings.Cut(test.root, ",")
		text := strings.Replace(minimal, "bad/secret", test.secret, 1)
		text = strings.Replace(text, "{command: mcp-files}",
			"{builtin: {analyze_csv: {csv_root: "+root+"}},"+rest+"}", 1)
		cfg, err := parseConfig(filepath.Join(dir, "drawbridge.yaml"), []byte(text), testEnvironment)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(cfg.Warnings, func(w Warning) bool { return w.Code == codeExposed })
		if (i >= 0) != (test.exposed != "") ||
			i >= 0 && !strings.Contains(cfg.Warnings[i].Text, filepath.Join(dir, test.exposed)+",") {
			t.Errorf("%s: got %v, want a warning of %q", test.root, cfg.Warnings, test.exposed)
		}
	}
}

func TestOperatorOnAllAddressesIsWarnedOf(t *testing.T) {
	for address, want := range map[string]bool{
		"0.0.0.0:9090": true, "[::]:9090": true, "[::ffff:0.0.0.0]:9090": true, "127.0.0.1:9090": false,
		"localhost:9090": false, "10.0.0.1:9090": false,
	} {
		cfg := parse(t, "operator: '"+address+"'\n"+minimal)
		if got := slices.ContainsFunc(cfg.Warnings,
			func(w Warning) bool { return w.Code == codeOpenOperator }); got != want {
			t.Errorf("%s: warned %v, want %v", address, got, want)
		}
	}
	if _, err := parseConfig("x.yaml", []byte("operator: ':9090'\n"+minimal), testEnvironment); err == nil {
		t.Error("an operator's address without a host was taken")
	}
}

// TestCommandsRunWhereTheConfigSays: cwd is relative to the config file, and a command
// with a path is looked for there.
func TestCommandsRunWhereTheConfigSays(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "server"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "drawbridge.yaml")
	for cwd, want := range map[string]string{"": "", ", cwd: .": dir, ", cwd: " + dir: dir} {
		text := strings.Replace(minimal, "bad/secret", "secret", 1)
		text = strings.Replace(text, "{command: mcp-files}", "{command: ./server"+cwd+"}", 1)
		if err := os.WriteFile(filepath.Join(dir, "secret"),
			[]byte("f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99"), 0o600); err != nil {
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

// TestNamesOfToolsThatMeanNothingAreWarnedOf has names as clients see them where a
// server's own stand, and the other way round.
func TestNamesOfToolsThatMeanNothingAreWarnedOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, server, audit string
		want                []string
	}{
		{
			"as they are meant", `tool_timeouts: {search: 2m}, idempotent: [search, "get_*", "*__x"]`,
			`{"files__*": [path], "*": [path], "prompt:files__p": [path], "f*": [path]}`, nil,
		},
		{
			"the other way round", `tool_timeouts: {files__search: 2m}, idempotent: ["files__*", get]`,
			`{search: [path], "prompt:p__*": [path], "files": [path]}`,
			[]string{"7:47", "7:80", "8:21", "8:37", "8:60"},
		},
		{
			"meant", `tool_timeouts: {files__search: 2m}, acknowledge: [wrong-prefix]`,
			`{"*": [path]}`, nil,
		},
		{
			"without a prefix", `prefix: "", tool_timeouts: {files__search: 2m}, idempotent: [files__x]`,
			`{search: [path]}`, nil,
		},
	} {
		cfg := parse(t, `issuers:
  - {issuer: "https://login.example/", jwks_url: "https://login.example/keys", algorithms: [RS256], tenant: acme}
tenants:
  acme: {servers: [files], rules: [{allow: ["*"]}]}
acknowledge: [no-command]
servers:
  files: {command: mcp-files, `+test.server+`}
audit: {arguments: `+test.audit+`}
`)
		var got []string
		for _, w := range cfg.Warnings {
			if w.Code == codeWrongPrefix {
				got = append(got, fmt.Sprintf("%d:%d", w.Line, w.Column))
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: warnings of names (-want +got):\n%s", test.name, diff)
		}
	}
}

// TestReplicasThatDoNotKnowHowManyTheyAre shows when that is warned of, where they share
// limits, and that replicas without anything in common are.
func TestReplicasThatDoNotKnowHowManyTheyAre(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte(strings.Repeat("QUJD", 10)+"QUI=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for settings, want := range map[string]string{
		"":                                     "",
		"redis: {url: redis://a}":              codeNoReplicas,
		"redis: {url: redis://a}\nreplicas: 3": "",
		"redis: {url: redis://a}\nreplicas: 1": "",
		"redis: {url: redis://a}\nacknowledge: [no-replicas]": "",
		"replicas: 1":                          "",
		"replicas: 3":                          codeNoRedis,
		"replicas: 3\nacknowledge: [no-redis]": "",
	} {
		cfg := parse(t, "sessions: {keys_file: "+keys+"}\n"+settings+"\n"+minimal)
		got := ""
		for _, w := range cfg.Warnings {
			if w.Code == codeNoReplicas || w.Code == codeNoRedis {
				got += w.Code
			}
		}
		if got != want {
			t.Errorf("%q: warned of %q, want %q", settings, got, want)
		}
	}
}

// TestAnAcknowledgementIsNoChangeOfServersItIsNotAbout: what differs is started again.
func TestAnAcknowledgementIsNoChangeOfServersItIsNotAbout(t *testing.T) {
	without, with := parse(t, minimal), parse(t, "acknowledge: [unused-release]\n"+minimal)
	if diff := cmp.Diff(without.Servers, with.Servers, cmp.AllowUnexported(API{})); diff != "" {
		t.Errorf("servers (-without +with):\n%s", diff)
	}
}
