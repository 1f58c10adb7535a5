package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// TestTheGatewayDecidesWhatExplainSays asks explain and a gateway that runs about the
// same requests, of generated configs. Some of the time explain does not know what the
// server github offers. What each rule says is compared with a judge that is as simple as
// can be.
func TestTheGatewayDecidesWhatExplainSays(t *testing.T) {
	t.Parallel()
	configs := 1000 // with ten requests each
	if testing.Short() {
		configs = 50
	}
	dir := t.TempDir()
	record := filepath.Join(dir, "audit.jsonl")
	log, err := audit.Open(audit.Config{File: record})
	if err != nil {
		t.Fatal(err)
	}
	var cases []*decided
	for seed := range configs {
		cases = append(cases, decideAll(t, filepath.Join(dir, fmt.Sprint(seed)), uint64(seed), log)...)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	byID := map[string]*entry{}
	written := auditFile{name: record}
	if err := written.read(func(e *entry) { byID[e.RequestID] = e }); written.unread > 0 || err != nil {
		t.Fatalf("%d lines of the audit file are no records, %v", written.unread, err)
	}
	endings := map[string]int{}
	for _, c := range cases {
		if e := byID[c.id]; e != nil {
			c.outcome, c.reason = e.Outcome, e.Reason
		}
		if wrong := c.wrong(); wrong != "" {
			t.Fatalf("%s: %s\n%s\n%s\nthe gateway: %s, %s, %v", c.id, wrong, c.config, c.said, c.outcome,
				c.reason, c.told)
		}
		endings[strings.Trim(c.outcome+", "+c.reason, ", ")]++
	}
	for _, ending := range []string{
		"ok", "unknown", "invalid_arguments", "invalid_request, DB-PARAMS", "limited, DB-LIMIT-TENANT",
		"limited, DB-LIMIT-TOOL", "limited, DB-LIMIT-CONCURRENCY",
		"forbidden, denied", "forbidden, no_rule", "forbidden, missing_scope", "forbidden, scope",
	} {
		if endings[ending] < configs/50 {
			t.Errorf("%d of %d requests ended so: %s; the generator has to make more of them: %v",
				endings[ending], len(cases), ending, endings)
		}
	}
}

// TestExplainSaysWhatOnlyHostsOfAppsMayUse asks about a tool that is for the views of
// apps alone, and about one for everybody.
func TestExplainSaysWhatOnlyHostsOfAppsMayUse(t *testing.T) {
	cfg, all := parse(t, strings.Replace(minimal, "[files]", `[files], rules: [{allow: ["*"]}]`, 1)), registry.New()
	var offers []registry.Offer
	for name, meta := range map[string]string{"refresh": `{"ui":{"visibility":["app"]}}`, "read": "{}"} {
		definition, err := mcp.ParseObject([]byte(`{"name":"` + name + `","inputSchema":{"type":"object"},"_meta":` +
			meta + `}`))
		if err != nil {
			t.Fatal(err)
		}
		offers = append(offers, registry.Offer{Definition: definition, Timeout: time.Minute})
	}
	if left := all.Replace(registry.Source{Name: "files", Prefix: "files", Tools: offers}); len(left) > 0 {
		t.Fatalf("left out: %+v", left)
	}
	for tool, want := range map[string]bool{"files__refresh": true, "files__read": false} {
		w := &walk{cfg: cfg, asked: asked{tenant: "acme", subject: "alice", tool: tool, arguments: "{}"}}
		p, _, err := w.principal(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		request, err := w.gatewayRequest()
		if err != nil {
			t.Fatal(err)
		}
		allowed, err := w.judge(t.Context(), p, request, deskOf(cfg, all))
		said := strings.Contains(w.out.String(), "\nclient    only one that hosts apps may use it")
		if err != nil || !allowed || said != want {
			t.Errorf("%s: got %v, allowed %t and\n%s", tool, err, allowed, w.out.String())
		}
	}
}

// decided is one request of a caller, and what became of it.
type decided struct {
	id, config, said string
	method           string
	allowed          bool // explain says that it is let through
	there            bool // a server of the tenant has the item
	rules            []string
	pattern          string // that names the item alone
	by               string // the rule that decides, by the judge of this test
	toolLimit        string // as that of the scenario
	never            map[string]bool

	outcome, reason string
	told            *mcp.Error
	text            string // of the result
}

// wrong says in what explain differs from the gateway.
func (c *decided) wrong() string {
	conclusion, rest, _ := strings.Cut(c.said, "\n")
	want := "let through"
	if c.outcome != "ok" {
		want = "refused: " + c.outcome
		if c.reason != "" && !strings.HasPrefix(c.reason, "DB-") {
			want += ", " + c.reason
		}
		if c.outcome == "forbidden" && c.by != "" {
			want += ", by " + c.by
		}
		if c.told != nil {
			want += " (the client reads " + c.told.StableCode() + ")"
		}
	}
	conclusion, guessed := strings.CutSuffix(conclusion, ", if the server github has it")
	for _, limit := range []string{"requests", "calls", "user_calls", "concurrency"} {
		if says := strings.Contains(rest, "limit     "+limit+": lets nothing through\n"); says != c.never[limit] {
			return fmt.Sprintf("want of limits.%s that it lets nothing through: %t", limit, c.never[limit])
		}
	}
	badArguments := c.outcome == "invalid_arguments" || c.reason == "DB-PARAMS"
	switch {
	case guessed && !c.there:
		if c.outcome != "unknown" {
			return "the server has no such item, so the gateway should say that it is unknown"
		}
		return ""
	case guessed && badArguments && conclusion == "let through": // as the walk says
	case conclusion != want:
		return "want " + want
	case c.told != nil && gateway.CodeOf(c.outcome, c.reason, c.method) != c.told.StableCode():
		return "want in the vocabulary the code " + c.told.StableCode()
	case c.allowed != (c.outcome == "ok"):
		return fmt.Sprintf("allowed is %t", c.allowed)
	case c.outcome == "invalid_arguments" && !strings.Contains(rest, "arguments do not fit the schema: "+
		c.text+"\n"):
		return "want that the arguments do not fit: " + c.text
	case c.reason == "DB-PARAMS" && !strings.Contains(rest, "arguments are refused: "+c.told.Message+"\n"):
		return "want what the client reads of its arguments: " + c.told.Message
	}
	advice := `- {allow: ["` + c.pattern + `"]}`
	if c.there && c.reason == "no_rule" && !strings.Contains(rest, advice) {
		return "want the advice " + advice
	}
	if c.outcome == outcomeLimited && !strings.Contains(rest, "change    the limit ") {
		return "want the advice to change a limit: waiting does not help"
	}
	if c.reason == "DB-LIMIT-TOOL" && !strings.Contains(rest, "change    "+c.toolLimit) {
		return "want the advice " + c.toolLimit
	}
	for limit := range c.never {
		advice := "the limit " + limit + ": lets nothing through"
		if c.outcome == "limited" && !strings.Contains(rest, advice) {
			return "want the advice " + advice
		}
	}
	if !strings.Contains(rest, "\nrule ") {
		return "" // refused before the rules were asked
	}
	for _, rule := range c.rules {
		if c.there && !strings.Contains(rest, "rule      "+rule) {
			return "want rule " + rule
		}
	}
	return ""
}

// scenario is a config, and what its servers offer.
type scenario struct {
	*rand.Rand

	text    strings.Builder
	line    int
	servers []string
	rules   []genRule
	people  []string        // that rules name
	never   map[string]bool // limits that let nothing through

	file      string // that it stands in
	toolLimit string // advice where the limit of a tool lets nothing through
}

// genRule is one rule of the tenant.
type genRule struct {
	line                    int
	scopes, subjects        []string
	allow, deny             []string
	announce                bool
	lacks                   []string // of the caller who asks
	others, denies, permits bool
	by                      string // the pattern that names the item
}

const issuerOfTests = "https://login.acme.example/"

func (s *scenario) write(format string, args ...any) {
	fmt.Fprintf(&s.text, format+"\n", args...)
	s.line++
}

// some returns some of the words, at least least of them.
func (s *scenario) some(least int, words ...string) []string {
	words = slices.Clone(words)
	s.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	return words[:least+s.IntN(len(words)-least+1)]
}

func (s *scenario) one(words ...string) string { return words[s.IntN(len(words))] }

// patterns are what rules are made of, for each server.
func patternsOf(server string) []string {
	if server == "bare" {
		return []string{"status", "st*", "prompt:report", "resource:bare:note:*"}
	}
	return []string{
		server + "__*", server + "__issue", server + "__*e", "prompt:" + server + "__*", "prompt:" + server +
			"__triage",
		"resource:" + server + ":file:///*", "resource:" + server + ":file:///a*",
	}
}

// config writes a config with one tenant.
func (s *scenario) config() {
	s.write("audit: {file: audit.jsonl}")
	s.write("issuers:")
	s.write("  - {issuer: %q, hmac_secret_file: secret, algorithms: [HS256], tenant: acme}", issuerOfTests)
	s.write("servers:")
	s.write("  github: {url: \"https://mcp.github.example/mcp\"}")
	s.write("  files: {url: \"https://mcp.files.example/mcp\"}")
	s.write("  bare: {url: \"https://mcp.bare.example/mcp\", prefix: \"\"}")
	s.write("tenants:")
	s.servers = s.some(1, "github", "files", "bare")
	s.write("  acme:")
	s.write("    servers: [%s]", strings.Join(s.servers, ", "))
	var patterns []string
	for _, server := range s.servers {
		patterns = append(patterns, patternsOf(server)...)
	}
	if n := s.IntN(8); n > 0 {
		s.write("    rules:")
		for range n {
			s.rule(patterns)
		}
	}
	s.limits(patterns)
}

func (s *scenario) rule(patterns []string) {
	r := genRule{line: s.line + 1}
	var parts []string
	list := func(name string, items []string) {
		if len(items) > 0 {
			parts = append(parts, fmt.Sprintf("%s: [\"%s\"]", name, strings.Join(items, `", "`)))
		}
	}
	if s.IntN(2) == 0 {
		r.scopes = s.some(1, "read", "write")
		r.announce = s.IntN(3) == 0
	}
	if s.IntN(4) == 0 {
		r.subjects = s.some(1, s.people...)
	}
	if deny := s.IntN(5); deny == 0 {
		r.deny = s.some(1, patterns...)[:1]
	}
	if len(r.deny) == 0 || s.IntN(2) == 0 {
		some := s.some(1, patterns...)
		r.allow = some[:min(len(some), 3)]
	}
	r.announce = r.announce && len(r.allow) > 0
	list("scopes", r.scopes)
	list("subjects", r.subjects)
	list("allow", r.allow)
	list("deny", r.deny)
	if r.announce {
		parts = append(parts, "announce: true")
	}
	s.write("      - {%s}", strings.Join(parts, ", "))
	s.rules = append(s.rules, r)
}

// limits writes limits that let everything through, or nothing.
func (s *scenario) limits(patterns []string) {
	const all = "{rate: 100000, burst: 1000000}"
	s.never = map[string]bool{}
	s.write("    limits:")
	for _, name := range []string{"requests", "calls", "user_calls"} {
		if s.IntN(30) == 0 {
			s.write("      %s: 0", name)
			s.never[name] = true
		} else {
			s.write("      %s: %s", name, all)
		}
	}
	if s.IntN(12) == 0 {
		s.write("      concurrency: 0")
		s.never["concurrency"] = true
	}
	tools := slices.DeleteFunc(slices.Clone(patterns),
		func(p string) bool { return strings.Contains(p, ":") })
	if s.IntN(3) == 0 && len(tools) > 0 {
		pattern := s.one(tools...)
		s.write("      tools: {%q: 0}", pattern)
		s.toolLimit = fmt.Sprintf("the limit tools %s: lets nothing through (%s:%d)", pattern, s.file, s.line)
	}
}

// catalogue has what the servers offer.
func catalogue(t *testing.T, cfg *config.Config) *registry.Registry {
	t.Helper()
	all := registry.New()
	offer(t, all, cfg)
	return all
}

// offer adds what the servers offer to a catalogue.
func offer(t *testing.T, all *registry.Registry, cfg *config.Config) {
	t.Helper()
	object := func(text string) mcp.Object {
		o, err := mcp.ParseObject([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	for i := range cfg.Servers {
		s := &cfg.Servers[i]
		tools, prompt, uri := []string{"issue", "merge"}, "triage", "file:///a.txt"
		if s.Name == "bare" {
			tools, prompt, uri = []string{"status"}, "report", "note:motd"
		}
		source := registry.Source{
			Name: s.Name, Prefix: s.Prefix, Reads: true,
			Prompts: []mcp.Object{object(`{"name":"` + prompt +
				`","arguments":[{"name":"topic","required":true}]}`)},
			Resources: []mcp.Object{object(`{"name":"a","uri":"` + uri + `"}`)},
			Use: func(_ context.Context, c *registry.Call) (mcp.Object, error) {
				if c.Method == mcp.MethodPromptsGet {
					return object(`{"messages":[]}`), nil
				}
				return object(`{"contents":[{"uri":"file:///a.txt","text":"a"}]}`), nil
			},
		}
		for _, tool := range tools {
			source.Tools = append(source.Tools, registry.Offer{
				Definition: object(`{"name":"` + tool +
					`","inputSchema":{"type":"object","properties":{"title":{"type":"string"}},"required":["title"]}}`),
				Timeout: time.Minute,
				Call: func(context.Context, *registry.Call) (mcp.Object, error) {
					return object(`{"content":[]}`), nil
				},
			})
		}
		for _, refusal := range all.Replace(source) {
			t.Fatalf("%+v", refusal)
		}
	}
}

// decideAll makes a config and ten requests, and has them decided and explained.
func decideAll(t *testing.T, dir string, seed uint64, log *audit.Log) []*decided {
	t.Helper()
	s := &scenario{
		Rand: rand.New(rand.NewPCG(seed, 30)), people: []string{issuerOfTests + "#alice", issuerOfTests + "#bob"},
	}
	file := filepath.Join(dir, "drawbridge.yaml")
	s.file = file
	s.config()
	for name, text := range map[string]string{
		file:                         s.text.String(),
		filepath.Join(dir, "secret"): "f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99",
	} {
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(file, config.ProcessEnvironment())
	if err != nil {
		t.Fatalf("%v\n%s", err, s.text.String())
	}
	offered := catalogue(t, cfg)
	running := gateway.New(gateway.Config{
		Registry: offered, Limiter: ratelimit.NewMemory(0), Audit: log, Seal: seal.RandomRing(),
		Metrics: metrics.New(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler),
	})
	running.SetPolicy(cfg.Digest, cfg.Tenants)
	known := offered
	if seed%2 == 0 {
		known = catalogue(t, cfg)
		known.Remove("github")
		known.Lose("github", "github")
	}
	cases := make([]*decided, 0, 10)
	for i := range 10 {
		c := &decided{id: fmt.Sprintf("%d-%d", seed, i), config: s.text.String(), never: s.never, toolLimit: s.toolLimit}
		s.ask(t, c, cfg, running, known)
		cases = append(cases, c)
	}
	return cases
}

// ask makes one request.
func (s *scenario) ask(t *testing.T, c *decided, cfg *config.Config, running *gateway.Gateway,
	known *registry.Registry,
) {
	t.Helper()
	w := &walk{cfg: cfg, asked: asked{
		tenant: "acme", subject: s.one("alice", "bob", "carol"),
		scopes: strings.Join(s.some(0, "read", "write"), ","),
	}}
	c.pattern = s.item(w, c)
	s.judged(w, c)
	p, refused, err := w.principal(t.Context())
	if err != nil || refused != nil {
		t.Fatal(err, refused)
	}
	request, err := w.gatewayRequest()
	if err != nil {
		t.Fatal(err)
	}
	if c.allowed, err = w.judge(t.Context(), p, request, deskOf(cfg, known)); err != nil {
		t.Fatal(err)
	}
	c.said = w.out.String()
	request.ID, c.method = c.id, request.Method
	caller, err := running.Admit(t.Context(), p, 1)
	var result mcp.Object
	if c.outcome = "limited"; err == nil { // otherwise the door has it on record
		c.outcome = ""
		result, err = running.Handle(t.Context(), caller, request)
	}
	c.told, _ = errors.AsType[*mcp.Error](err)
	if c.outcome == "limited" {
		c.reason = c.told.StableCode()
	}
	if parts, ok := result.Value("content").Elements(); ok && len(parts) > 0 {
		c.text, _ = parts[0].Member("text").Text()
	}
}

// item chooses what is asked for, and returns its name as patterns of its kind have it.
func (s *scenario) item(w *walk, c *decided) (pattern string) {
	server := s.one(append([]string{"github", "files", "bare"}, append(s.servers, s.servers...)...)...)
	prefix := server + "__"
	tools, prompts, uris := []string{"issue", "merge"}, []string{"triage"}, []string{"file:///a.txt"}
	if server == "bare" {
		prefix, tools, prompts, uris = "", []string{"status"}, []string{"report"}, []string{"note:motd"}
	}
	c.there = slices.Contains(s.servers, server)
	if s.IntN(8) == 0 {
		c.there, tools, prompts = false, []string{"missing"}, []string{"missing"}
	}
	switch s.IntN(4) {
	case 0:
		w.prompt, w.arguments = prefix+s.one(prompts...), s.one(``, `{"topic":"x"}`, `{"topic":7}`)
		return "prompt:" + w.prompt
	case 1:
		uri := s.one(uris...)
		if w.resource = uri; server != "bare" {
			w.resource = "mcp." + server + "+" + uri
		}
		c.there = slices.Contains(s.servers, server)
		return "resource:" + server + ":" + uri
	}
	w.tool = prefix + s.one(tools...)
	w.arguments = s.one(``, `{"title":"x"}`, `{"title":"x"}`, `{"title":7}`, `{"title":"x"}`, `[]`)
	return w.tool
}

// judged notes what each rule says of the item, and which decides.
func (s *scenario) judged(w *walk, c *decided) {
	has := strings.Split(w.scopes, ",")
	rules := slices.Clone(s.rules)
	deciding := func(which func(r *genRule) bool) {
		if i := slices.IndexFunc(rules, func(r genRule) bool { return which(&r) }); i >= 0 && c.by == "" {
			c.by = w.cfg.Tenants[0].Position.File + fmt.Sprintf(":%d", rules[i].line)
		}
	}
	for i := range rules {
		r := &rules[i]
		names := func(pattern string) bool {
			shape := "^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$"
			return regexp.MustCompile(shape).MatchString(c.pattern)
		}
		r.lacks = slices.DeleteFunc(slices.Clone(r.scopes),
			func(scope string) bool { return slices.Contains(has, scope) })
		r.others = len(r.subjects) > 0 && !slices.Contains(r.subjects, issuerOfTests+"#"+w.subject)
		first := func(patterns []string) bool {
			i := slices.IndexFunc(patterns, names)
			if i >= 0 {
				r.by = patterns[i]
			}
			return i >= 0
		}
		r.denies = first(r.deny)
		r.permits = !r.denies && first(r.allow)
		c.rules = append(c.rules, fmt.Sprintf("%s:%d %s", w.cfg.Tenants[0].Position.File, r.line,
			r.says(w.subject)))
	}
	applies := func(r *genRule) bool { return !r.others && len(r.lacks) == 0 }
	deciding(func(r *genRule) bool { return applies(r) && r.denies })
	deciding(func(r *genRule) bool { return applies(r) && r.permits })
	permits := func(r *genRule) bool { return !r.others && r.permits }
	deciding(func(r *genRule) bool { return permits(r) && r.announce })
	deciding(permits)
}

// says is what explain should say of the rule.
func (r *genRule) says(subject string) string {
	says := "names other items"
	switch {
	case r.denies:
		says = fmt.Sprintf("denies it by %q", r.by)
	case r.permits:
		says = fmt.Sprintf("allows it by %q", r.by)
	}
	switch {
	case r.others:
		return "does not apply, it is for other subjects than " + issuerOfTests + "#" + subject + "; it " +
			says
	case len(r.lacks) > 0:
		return "does not apply, the token lacks " + strings.Join(r.lacks, " ") + "; it " + says
	}
	return says + "\n"
}
