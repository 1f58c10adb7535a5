package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// TestPatternsOfAnAPIAreJudgedWithoutConnecting: its document says what there is, which a
// connection says of others.
func TestPatternsOfAnAPIAreJudgedWithoutConnecting(t *testing.T) {
	document, err := filepath.Abs("internal/config/testdata/issues.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]string{
		"api__list": "", "api__*": "", "files__anything": "", "*": "",
		"api__lsit": "api__list", "api__create": "-", "prompt:api__x": "-",
	} {
		text := strings.Replace(minimal, "servers: [files]",
			fmt.Sprintf("servers: [files, api], rules: [{deny: [%q]}]", pattern), 1)
		cfg := parse(t, fmt.Sprintf("%s  api: {openapi: %q, base_url: \"https://api.example.com\"}\n", text,
			document))
		found := findings{}
		found.judge(t.Context(), cfg, false)
		got := ""
		for _, w := range found.Warnings {
			if w.Code == gateway.CodeNoMatch {
				got = w.Hint
				if got == "" {
					got = "-"
				}
			}
		}
		if got != want {
			t.Errorf("%s: got a warning with %q, want %q", pattern, got, want)
		}
	}
}

func TestValidateNamesWhatIsLeftOut(t *testing.T) {
	found := findings{OK: true, File: "x.yaml", Notes: []string{"server api: no"}}
	if got := found.text("1 server"); got != "note: server api: no\nx.yaml: ok (1 server)\n" {
		t.Errorf("got %q", got)
	}
	if got := asJSON(&found); !strings.Contains(got, `"notes": [`) {
		t.Errorf("got %s", got)
	}
}

// TestOnlineSaysWhatIsWrongWithADefinition has names and texts that a server chose.
func TestOnlineSaysWhatIsWrongWithADefinition(t *testing.T) {
	t.Parallel()
	wrong := registry.Refusal{
		Kind: registry.KindTool, Item: "a\x1b\nb", Reason: "schema", Err: errors.New("inputSchema: no type"),
	}
	hidden := registry.Refusal{
		Kind: registry.KindTool, Item: "c", Reason: registry.ReasonQuarantined, Err: errors.New("a note says it"),
	}
	list := registry.Refusal{
		Kind: registry.KindTemplate, Reason: "list", Err: errors.New("no array of resourceTemplates"),
	}
	for want, all := range map[string][]registry.Refusal{
		"all templates, no array of resourceTemplates":    {list},
		"tool a\ufffd b: schema, inputSchema: no type":    {wrong},
		"tool a\ufffd b: schema, inputSchema: no type, …": {wrong, hidden},
		"tool c: quarantined":                             {hidden},
	} {
		if got := refusals(all); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestEachEntryOfAnIssuerIsTriedAtItsPlace has two entries of one issuer whose keys are
// not there.
func TestEachEntryOfAnIssuerIsTriedAtItsPlace(t *testing.T) {
	t.Parallel()
	const entry = `
  - {issuer: "https://login.example/", jwks_url: "http://127.0.0.1:1/keys", private_addresses: true, algorithms: [RS256], audiences: [%s], tenant: acme}`
	cfg := parse(t, "issuers:"+fmt.Sprintf(entry, "one")+fmt.Sprintf(entry, "two")+`
tenants:
  acme: {servers: [toolbox]}
servers:
  toolbox: {builtin: [calculate]}
`)
	var lines []int
	for _, c := range tryAll(t.Context(), cfg, triesBeside(cfg)) {
		lines = append(lines, c.Line)
	}
	if want := []int{2, 3}; !slices.Equal(lines, want) {
		t.Errorf("got failures on the lines %v, want %v", lines, want)
	}
	web := newLoginServer(t, "", oneKey)
	for i := range cfg.Issuers {
		iss := &cfg.Issuers[i]
		iss.JWKSURL, iss.Algorithms, iss.PrivateAddresses = web.URL+"/keys", []string{"EdDSA"}, i == 0
	}
	if got := failed(tryAll(t.Context(), cfg, triesBeside(cfg))); len(got) > 0 {
		t.Errorf("where one entry has private_addresses, which goes for the key set of both: got %+v", got)
	}
}
