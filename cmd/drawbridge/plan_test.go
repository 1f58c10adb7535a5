package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/provider"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/server/admin"
)

// configOfPlan writes a config whose tenant has these rules, and loads it.
func configOfPlan(t *testing.T, rules string) *planned {
	t.Helper()
	return plannedOf(t, `issuers:
  - {issuer: "https://login.acme.example/", hmac_secret_file: secret, algorithms: [HS256], tenant: acme}
tenants:
  acme: {servers: [toolbox], rules: [`+rules+`]}
servers:
  toolbox: {builtin: [calculate, current_time]}
`)
}

// plannedOf writes a config, and loads it.
func plannedOf(t *testing.T, text string) *planned {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "drawbridge.yaml")
	secret := "f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99"
	for name, content := range map[string]string{file: text, filepath.Join(dir, "secret"): secret} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(file, config.ProcessEnvironment())
	if err != nil {
		t.Fatal(err)
	}
	p := newPlanned(t.Context(), cfg, false)
	t.Cleanup(p.fleet.close)
	return p
}

// TestPlanAsksTheServersOfBothConfigsAtOnce has a server of each that answers only when
// both are asked: one that hangs costs a plan its time but once.
func TestPlanAsksTheServersOfBothConfigsAtOnce(t *testing.T) {
	t.Parallel()
	var asked sync.WaitGroup
	asked.Add(2)
	var files []string
	for range 2 {
		first := sync.OnceFunc(asked.Done)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			first()
			asked.Wait()
			w.WriteHeader(http.StatusTeapot)
		}))
		t.Cleanup(server.Close)
		file := keepingConfig(t, "")
		text := strings.Replace(keepingText, "  tools: {",
			fmt.Sprintf("  far: {url: %q, private_addresses: true}\n  tools: {", server.URL), 1)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	_, said := operate(t, "plan", "-online", files[0], files[1])
	if strings.Count(said, "418") != 2 {
		t.Errorf("got %s, want the answers of both servers", said)
	}
}

// TestPlanJudgesNoCallWhoseScopesAreNotOnRecord shows when the scopes that a line has are
// enough: those that rules of its config named are all there, and of others nothing is
// known.
func TestPlanJudgesNoCallWhoseScopesAreNotOnRecord(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, before, after string
		scopes, missing     []string
		other               bool // the line was written under another config than OLD
		want                string
	}{
		{"no scope decides", `{allow: ["*"]}`, `{deny: ["*"]}`, nil, nil, true, "refused"},
		{
			"it has the scope", `{allow: ["*"], scopes: [a]}`, `{allow: ["*"], scopes: [a]}`,
			[]string{"a"},
			nil, true, "let",
		},
		{
			"it has it not", `{allow: ["*"]}, {allow: ["toolbox__current_time"], scopes: [a]}`,
			`{allow: ["*"], scopes: [a]}`, nil, nil, false, "refused",
		},
		{"both refuse", `{deny: ["*"]}`, `{deny: ["*"]}`, nil, nil, true, "let"},
		{
			"who knows? both decide alike", `{allow: ["*"], scopes: [a]}`,
			`{allow: ["*"], scopes: [a]}, {allow: ["toolbox__current_time"]}`, nil, nil, true, "let",
		},
		{
			"the scope is on record as missing", `{allow: ["*"], scopes: [a]}`,
			`{allow: ["*"], scopes: [a]}, {deny: ["toolbox__calculate"], scopes: [a]}`, nil,
			[]string{"a"},
			true,
			"let",
		},
		{"a new scope", `{allow: ["*"]}`, `{allow: ["*"], scopes: [b]}`, nil, nil, false, "open"},
		{
			"a scope that denies", `{allow: ["*"]}`, `{allow: ["*"]}, {deny: ["*"], scopes: [b]}`, nil, nil, false,
			"open",
		},
		{
			"a denial whatever it has", `{allow: ["*"]}`, `{allow: ["*"], scopes: [b]}, {deny: ["*"]}`, nil, nil,
			false, "refused",
		},
		{
			"one scope opens, another one shuts", `{allow: ["*"]}`,
			`{allow: ["*"], scopes: [b]}, {deny: ["*"], scopes: [c]}`, nil, nil, false, "open",
		},
		{
			"more scopes than are tried", `{allow: ["*"]}`,
			`{allow: ["*"], scopes: [b, c, d, e, f, g, h]}`, nil, nil, false, "open",
		},
	}
	for _, test := range tests {
		before, after := configOfPlan(t, test.before), configOfPlan(t, test.after)
		j := newCallsJudged(before, after)
		e := entry{
			Tenant: "acme", Issuer: "https://login.acme.example/", Subject: "alice", Method: "tools/call",
			Item: "toolbox__calculate", Outcome: "ok", Scopes: test.scopes,
			Missing: test.missing, Config: before.cfg.Digest,
		}
		if test.other {
			e.Config = "00000000"
		}
		j.add(t.Context(), &e)
		got := "let"
		switch {
		case j.calls[becomesOpen] > 0:
			got = "open"
		case j.calls[becomesRefused] > 0:
			got = "refused"
		}
		if got != test.want {
			t.Errorf("%s: got %s, want %s; %v", test.name, got, test.want, j.rows)
		}
	}
}

// TestPlanJudgesNoCallWhoseTokensMayChange has people who sign in at GitHub, which is no
// issuer of tokens, and a client that has tokens of its own.
func TestPlanJudgesNoCallWhoseTokensMayChange(t *testing.T) {
	t.Parallel()
	const text = `public_url: https://mcp.example.com
data: {dir: kept}
issuers:
  - github: {client_id: gw, client_secret_file: secret, title: %s, tenants: {claim: orgs, map: {acme: acme}}, scopes: {claims: [org_ids], map: {%s: ops}}}
clients:
  - {client_id: ci, client_secret_file: secret, grants: [client_credentials], tenant: acme, scopes: [%s]}
tenants:
  acme: {servers: [toolbox], rules: [{allow: ["*"], scopes: [ops]}]}
servers:
  toolbox: {builtin: [calculate]}
`
	before := plannedOf(t, fmt.Sprintf(text, "GitHub", "acme/ops", "ops"))
	for _, test := range []struct {
		title, team, scope string
		open               []string
	}{
		{title: "Code", team: "acme/ops", scope: "ops"},
		{
			title: "GitHub", team: "acme/admins", scope: "ops",
			open: []string{"the issuer " + provider.GitHubIssuer},
		},
		{title: "GitHub", team: "acme/ops", scope: "other", open: []string{"the client ci"}},
	} {
		j := newCallsJudged(before, plannedOf(t, fmt.Sprintf(text, test.title, test.team, test.scope)))
		for subject, issuer := range map[string]string{
			"ann": provider.GitHubIssuer, "ci": "https://mcp.example.com",
		} {
			j.add(t.Context(), &entry{
				Tenant: "acme", Issuer: issuer, Subject: subject, Method: "tools/call",
				Item: "toolbox__calculate", Outcome: "ok", Scopes: []string{"ops"},
			})
		}
		var open []string
		for row := range j.rows {
			who, _, _ := strings.Cut(row.why, " changes, and its tokens may say something else")
			open = append(open, who)
		}
		if !slices.Equal(open, test.open) || j.judged != 2-len(test.open) {
			t.Errorf("%+v: got %d calls judged, not those of %q", test, j.judged, open)
		}
	}
}

// TestPlanKnowsWhatIsListedToSomeClientsAlone judges calls of tools that a server lists
// only to hosts of apps, and only to others.
func TestPlanKnowsWhatIsListedToSomeClientsAlone(t *testing.T) {
	apps := mcp.ExtensionsNamed(mcp.ExtensionApps)
	offer := func(name string) []registry.Offer {
		definition, err := mcp.ParseObject([]byte(`{"name":"` + name + `","inputSchema":{"type":"object"}}`))
		if err != nil {
			t.Fatal(err)
		}
		return []registry.Offer{{Definition: definition, Timeout: time.Minute}}
	}
	var sides []*planned
	for _, rules := range []string{`{allow: ["*"]}`, `{allow: ["*"]}, {deny: ["mod__draw", "mod__describe"]}`} {
		p := plannedOf(t, `issuers:
  - {issuer: "https://login.acme.example/", hmac_secret_file: secret, algorithms: [HS256], tenant: acme}
tenants:
  acme: {servers: [mod], rules: [`+rules+`]}
servers:
  mod: {url: "https://mod.example/mcp"}
`)
		p.fleet.catalogue.Replace(registry.Source{
			Name: "mod", Prefix: "mod", Extensions: apps, Varying: apps, Base: apps, Tools: offer("draw"),
			Variants: []registry.Variant{{Tools: offer("describe")}},
		})
		sides = append(sides, p)
	}
	j := newCallsJudged(sides[0], sides[1])
	for _, item := range []string{"mod__draw", "mod__describe", "mod__none"} {
		j.add(t.Context(), &entry{
			Tenant: "acme", Issuer: "https://login.acme.example/", Subject: "ann", Method: "tools/call",
			Item: item, Outcome: "ok", Config: sides[0].cfg.Digest,
		})
	}
	if got := j.calls[becomesRefused]; got != 2 || j.judged != 3 {
		t.Errorf("%d of %d calls would be refused, want 2 of 3: %v", got, j.judged, j.rows)
	}
}

// TestPlanTriesNoMoreScopesThanDecide judges calls of which it is not known whether their
// tokens had several scopes. It does not try those that change nothing any more, and none
// where they are too many: an audit file has many such calls.
func TestPlanTriesNoMoreScopesThanDecide(t *testing.T) {
	rules := func(scopes ...string) string {
		var all []string
		for _, scope := range scopes {
			all = append(all, `{allow: ["*"], scopes: [`+scope+`]}`)
		}
		return strings.Join(all, ", ")
	}
	for _, test := range []struct {
		before, after string
		most          float64 // times what it costs to find out which scopes those are
	}{
		{rules("a", "b", "c"), rules("d", "e", "f"), 20},
		{rules("a", "b", "c"), rules("d", "e", "f", "g"), 2},
	} {
		j := newCallsJudged(configOfPlan(t, test.before), configOfPlan(t, test.after))
		call := &judgedCall{
			tenant: "acme", issuer: "https://login.acme.example/", subject: "ann",
			method: "tools/call", item: "toolbox__calculate",
		}
		finds := testing.AllocsPerRun(10, func() { j.perhaps(t.Context(), call) })
		judges := testing.AllocsPerRun(10, func() {
			if got := j.judge(t.Context(), call); got[0].open == "" || got[1].open == "" {
				t.Fatalf("got %+v, want that nobody knows", got)
			}
		})
		if judges > test.most*finds {
			t.Errorf("%s to %s: got %v allocations, want at most %v times the %v to find the scopes",
				test.before, test.after, judges, test.most, finds)
		}
	}
}

// TestPlanLooksUpOnceWhoSpeaks compares configs of many tenants with access keys, and
// judges a call: neither finds out anew for each tenant, or for each call, who speaks for
// all of them.
func TestPlanLooksUpOnceWhoSpeaks(t *testing.T) {
	const tenants = 1000
	var text strings.Builder
	text.WriteString(`access_keys: on
data: {dir: data}
issuers:
  - {issuer: "https://login.acme.example/", hmac_secret_file: secret, algorithms: [HS256], tenant: t0}
servers: {toolbox: {builtin: [calculate]}}
tenants:
`)
	for n := range tenants {
		fmt.Fprintf(&text, "  t%d: {servers: [toolbox]}\n", n)
	}
	before, after := plannedOf(t, text.String()), plannedOf(t, text.String()+"  new: {servers: [toolbox]}\n")
	speaks := testing.AllocsPerRun(1, func() { before.cfg.Speakers() })
	var j *callsJudged
	if made := testing.AllocsPerRun(1, func() { j = newCallsJudged(before, after) }); made > tenants/2*speaks {
		t.Errorf("got %v allocations to compare %d tenants, want no more than %v", made, tenants,
			tenants/2*speaks)
	}
	call := &judgedCall{
		tenant: "t1", issuer: before.cfg.PublicAddress(), subject: "ci", method: "tools/call",
		item: "toolbox__calculate",
	}
	if asks := testing.AllocsPerRun(1, func() { j.beforeRules(call, j.after) }); asks >= speaks {
		t.Errorf("got %v allocations to ask whether a caller's issuer serves the tenant, want fewer than the "+
			"%v to find all who speak", asks, speaks)
	}
	if !j.touched["new"] || j.touched["t1"] {
		t.Errorf("got %v as the tenants that are touched, want that which is new alone", j.touched)
	}
}

// TestALargeReloadIsTwentyLinesOfTheLog takes what they had from thirty tenants, in two
// reloads of which the log hears at once.
func TestALargeReloadIsTwentyLinesOfTheLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	catalogue := registry.New()
	catalogue.Lose("away", "away")
	g := gateway.New(gateway.Config{Registry: catalogue})
	policy := func(rule gateway.Rule) {
		var tenants []gateway.TenantConfig
		for i := range 30 {
			tenants = append(tenants, gateway.TenantConfig{
				ID: fmt.Sprintf("t%02d", i), Servers: []string{"away"}, Rules: []gateway.Rule{rule},
			})
		}
		g.SetPolicy("", tenants)
	}
	a := newAccessLog(g, slog.New(slog.NewTextHandler(&out, nil)))
	policy(gateway.Rule{Allow: []string{"away__one", "away__two"}})
	for _, rule := range []gateway.Rule{
		{Allow: []string{"away__one"}},
		{Deny: []string{"away__two"}, Allow: []string{"away__one"}},
	} {
		before := g.Access()
		policy(rule)
		a.reloaded(before)
	}
	access := <-a.reloads
	a.tell(t.Context(), access[0], access[1])
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 20 || !strings.Contains(lines[0],
		`tenant t00: everyone: no rule allows \"away__two\" now`) ||
		!strings.Contains(lines[1], `tenant t00: everyone: a rule denies \"away__two\" now`) ||
		!strings.Contains(lines[19], "41 more changes: drawbridge plan shows them all") {
		t.Errorf("got %d lines:\n%s", len(lines), out.String())
	}
}

// TestPlanJudgesNoNameThatWasCut judges the line of a call whose item has a name that was
// cut before half a character: which rules are about the whole name is not known.
func TestPlanJudgesNoNameThatWasCut(t *testing.T) {
	t.Parallel()
	after := configOfPlan(t, `{allow: ["*", "resource:*"]}, {deny: ["resource:*secret"]}`)
	j := newCallsJudged(configOfPlan(t, `{allow: ["*", "resource:*"]}`), after)
	j.add(t.Context(), &entry{
		Tenant: "acme", Issuer: "https://login.acme.example/", Subject: "ann", Method: "resources/read",
		Item: "mcp.toolbox+" + strings.Repeat("x", 241), Outcome: "ok",
	})
	if j.calls[becomesOpen] != 1 || j.judged != 0 {
		t.Errorf("got %d calls judged and %d not, want one that is not: %v", j.judged, j.calls[becomesOpen], j.rows)
	}
}

// TestNoNameBeginsALine has commands write names with line breaks, as the subject of a
// token, the name of a client and what a server says may have them, and signs that a
// terminal obeys.
func TestNoNameBeginsALine(t *testing.T) {
	t.Parallel()
	const name = "ann\nrule      forged\x1b[2J"
	after := configOfPlan(t, `{deny: ["*"]}`)
	e := entry{
		Tenant: "acme", Issuer: "https://login.acme.example/", Subject: name, Method: "tools/call",
		Item: "toolbox__calculate", Outcome: "ok", Client: name, RequestID: "r1",
	}
	var judged bytes.Buffer
	j := newCallsJudged(configOfPlan(t, `{allow: ["*"]}`), after)
	j.add(t.Context(), &e)
	j.print(streams{&judged, &judged})
	w := &walk{cfg: after.cfg}
	if _, _, err := w.caller(&spoken{principal: auth.Principal{TenantID: "acme", Subject: name}}); err != nil {
		t.Fatal(err)
	}
	var health bytes.Buffer
	down := admin.View{Warnings: []string{"server files is down: " + name}}
	if err := reportHealth(http.StatusOK, down, streams{&health, &health}); err != nil {
		t.Fatal(err)
	}
	for command, text := range map[string]string{
		"healthcheck":         health.String(),
		"plan -audit":         judged.String(),
		"explain -request":    happened(&e, nil, "drawbridge.yaml"),
		"explain -token-file": w.out.String(),
	} {
		if !strings.Contains(text, "ann\uFFFDrule") || strings.Contains(text, "\nrule") ||
			strings.Contains(text, "\x1b") {
			t.Errorf("%s: got %q, want each name in its line", command, text)
		}
	}
}
