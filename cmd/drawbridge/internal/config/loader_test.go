package config

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
)

// twoTenants is a good config with an included file.
const twoTenants = `include: [more.yaml]
issuers:
  - {issuer: "https://login.example/", hmac_secret_file: secret, algorithms: [HS256], tenants: {claim: org}, tenants_allowed: [acme, globex, initech]}
tenants:
  acme:
    servers: [files]
    rules: [{allow: ["files__*"], subjects: ["https://login.example/#ann"]}]
  globex:
    servers: [files, time]
    rules: [{allow: ["files__${NAME:-read}", "time__now"]}]
servers:
  files: {command: mcp-files, acknowledge: [no-command]}
  time: {command: mcp-time, acknowledge: [no-command]}
`

// TestALoaderNoticesWhateverAFreshLoadWould changes a config in every way that a tenant
// may depend on, without a change of the tenant's own text, and in its text.
func TestALoaderNoticesWhateverAFreshLoadWould(t *testing.T) {
	dir := t.TempDir()
	file, more := filepath.Join(dir, "drawbridge.yaml"), filepath.Join(dir, "more.yaml")
	write(t, filepath.Join(dir, "secret"), "f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99")
	name := "read"
	env := func(string) (string, bool) { return name, true }
	loader := NewLoader(file, env)
	text := map[string]string{file: twoTenants, more: "tenants:\n  initech: {servers: [time]}\n"}
	replaced := func(in, old, with string) func() {
		return func() {
			if !strings.Contains(text[in], old) {
				t.Fatalf("nothing to replace: %s", old)
			}
			text[in] = strings.Replace(text[in], old, with, 1)
		}
	}
	for _, step := range []struct {
		name    string
		change  func()
		refused bool
	}{
		{name: "first", change: func() {}},
		{name: "again", change: func() {}},
		{name: "a rule", change: replaced(file, "files__*", "files__r*")},
		{name: "a rule in an included file", change: replaced(more, "[time]", "[time, files]")},
		{name: "lines before", change: replaced(file, "tenants:", "\n\ntenants:")},
		{name: "a variable", change: func() { name = "list" }},
		{name: "a variable in escapes", change: replaced(file, "${NAME:-read}", `\x24{NAME:-read}`)},
		{name: "a variable in escapes changes", change: func() { name = "read" }},
		{name: "a variable as it was", change: replaced(file, `\x24{NAME`, "${NAME")},
		{name: "a prefix", change: replaced(file, "mcp-files,", "mcp-files, prefix: papers,"), refused: true},
		{name: "a prefix, followed", change: replaced(file, "files__r*", "papers__r*"), refused: true},
		{name: "a prefix, followed by both", change: replaced(file, "files__${", "papers__${")},
		{name: "an issuer", change: replaced(file, "issuer: \"https://login.example/\"",
			"issuer: \"https://login2.example/\""), refused: true},
		{name: "an issuer, followed", change: replaced(file, "login.example/#ann", "login2.example/#ann")},
		{name: "not served", change: replaced(file, "acme, globex, initech]", "acme, globex]")},
		{name: "a second issuer", change: replaced(file, "tenants:\n", "\ntenants:\n")},
		{name: "acknowledged", change: replaced(file, "include:",
			"acknowledge: [no-match, unserved-tenant]\ninclude:")},
		{name: "served again", change: replaced(file, "acme, globex]", "acme, globex, initech]")},
		{name: "a server less", change: replaced(file,
			"  time: {command: mcp-time, acknowledge: [no-command]}\n", ""), refused: true},
		{name: "a server again", change: replaced(file, "servers:\n  files",
			"servers:\n  time: {command: mcp-time2, acknowledge: [no-command]}\n  files")},
		{name: "built in", change: replaced(file, "command: mcp-time2, acknowledge: [no-command]",
			"builtin: {get_weather: {weather_url: \"https://weather.example/\", geocoding_url: \"https://places.example/\"}}"), refused: true},
		{name: "built in, followed", change: replaced(file, "time__now", "time__get_weather")},
		{name: "a tenant twice", change: replaced(more, "initech:", "acme:"), refused: true},
		{name: "a tenant renamed", change: replaced(more, "acme:", "initech: {servers: [files]}\n  hooli:")},
		{name: "a slip", change: replaced(file, "rules: [{allow: [\"papers__r*\"]",
			"rules: [{allow: [\"papers__r*\""), refused: true},
		{name: "mended", change: replaced(file, "rules: [{allow: [\"papers__r*\"",
			"rules: [{allow: [\"papers__r*\"]")},
		{name: "a tenant with a card", change: replaced(more, "hooli:",
			"pied: {servers: [files], card: true}\n  hooli:"), refused: true},
		{name: "the card", change: replaced(file, "include:", "card: {name: example/gateway, description: tools}\ninclude:")},
		{name: "no card", change: replaced(file, "card: {name: example/gateway, description: tools}\n", ""), refused: true},
	} {
		step.change()
		for path, content := range text {
			write(t, path, content)
		}
		want, wantRead, wantErr := (&Loader{path: file, env: env}).Load()
		got, read, err := loader.Load()
		if errorText(err) != errorText(wantErr) || (err != nil) != step.refused {
			t.Errorf("%s: got error %v, want %v (refused %t)", step.name, err, wantErr, step.refused)
		}
		if !reflect.DeepEqual(read, wantRead) {
			t.Errorf("%s: got sources %+v, want %+v", step.name, read, wantRead)
		}
		if want != nil {
			// for validate alone
			want.patterns, want.idle = map[gateway.PatternPosition]awaited{}, got.idle
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", step.name, got, want)
		}
	}
}

// TestARefusedConfigLosesNoTenant has tenants move between files after a config that was
// refused. What was found in it must not be taken for something of these tenants at a
// later load.
func TestARefusedConfigLosesNoTenant(t *testing.T) {
	dir := t.TempDir()
	file, some, more := filepath.Join(dir, "drawbridge.yaml"), filepath.Join(dir, "a.yaml"),
		filepath.Join(dir, "b.yaml")
	write(t, filepath.Join(dir, "secret"), "f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99")
	write(t, file, `include: [a.yaml, b.yaml]
issuers:
  - {issuer: "https://login.example/", hmac_secret_file: secret, algorithms: [HS256], tenants: {claim: org}, tenants_allowed: [one, two, three]}
servers:
  files: {command: mcp-files, acknowledge: [no-command]}
`)
	const one, two, three = "  one: {servers: [files]}\n", "  two: {servers: [files]}\n",
		"  three: {servers: [files]}\n"
	write(t, some, "tenants:\n"+one+two)
	write(t, more, "tenants:\n  three: {servers: [nowhere]}\n")
	loader := NewLoader(file, testEnvironment)
	if _, _, err := loader.Load(); err == nil {
		t.Fatal("a server that is not there is no problem")
	}
	write(t, some, "tenants:\n"+two)
	write(t, more, "tenants:\n"+three+one)
	if _, _, err := loader.Load(); err != nil {
		t.Fatal(err)
	}
	write(t, some, "tenants:\n"+one+two)
	write(t, more, "tenants:\n"+three)
	cfg, _, err := loader.Load()
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.TenantIDs(); !slices.Equal(got, []string{"one", "two", "three"}) {
		t.Errorf("got the tenants %v, want one, two and three", got)
	}
}

// TestTenantsThatDidNotChangeAreNotReadAgain: with very many tenants, that is what a
// reload would take long for.
func TestTenantsThatDidNotChangeAreNotReadAgain(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "drawbridge.yaml")
	write(t, filepath.Join(dir, "secret"), "f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99")
	text := "issuers: [{issuer: \"https://login.example/\", hmac_secret_file: secret, algorithms: [HS256], tenant: acme}]\n" +
		"servers:\n  files: {command: mcp-files}\nacknowledge: [unserved-tenant]\ntenants:\n  acme: {servers: [files]}\n" +
		"include: [more-*.yaml]\n"
	write(t, file, text)
	more := func(from int) (string, string) {
		var b strings.Builder
		b.WriteString("tenants:\n")
		for i := from; i < from+10; i++ {
			fmt.Fprintf(
				&b, "  t%d:\n    servers: [files]\n    rules:\n      - {allow: [\"files__a%d\"]}\n      - {deny: [\"files__b%d\"]}\n", i, i, i)
		}
		return filepath.Join(dir, fmt.Sprintf("more-%03d.yaml", from)), b.String()
	}
	for from := 0; from < 500; from += 10 {
		write(t, first(more(from)), second(more(from)))
	}
	loader := NewLoader(file, testEnvironment)
	load := func() *Config {
		cfg, _, err := loader.Load()
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	fresh := testing.AllocsPerRun(1, func() {
		loader = NewLoader(file, testEnvironment)
		load()
	})
	before := load()
	part, content := more(0)
	write(t, part, strings.Replace(content, "files__a7\"", "files__c7\"", 1))
	after := load()
	for i := range before.Tenants {
		if len(before.Tenants[i].Rules) == 0 {
			continue
		}
		if same, want := &before.Tenants[i].Rules[0] == &after.Tenants[i].Rules[0],
			before.Tenants[i].ID != "t7"; same != want {
			t.Errorf("tenant %s is the same: %t, want %t", before.Tenants[i].ID, same, want)
		}
	}
	if again := testing.AllocsPerRun(1, func() { load() }); again > fresh/5 {
		t.Errorf("got %.0f allocations, want less than a fifth of the first time's %.0f", again, fresh)
	}
	// Another server changes what every tenant depends on, but not what they say.
	write(t, file, strings.Replace(text, "servers:\n",
		"servers:\n  more: {command: mcp-more, acknowledge: [unused-server]}\n", 1))
	if last := load(); &last.Tenants[9].Rules[0] != &before.Tenants[9].Rules[0] {
		t.Error("a tenant that was read again and is equal takes memory of its own")
	}
}

func first(a, _ string) string  { return a }
func second(_, b string) string { return b }

// TestTheTenantsOfOneFileAreInMemoryAtATime: nodes take many times what their text does.
func TestTheTenantsOfOneFileAreInMemoryAtATime(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "drawbridge.yaml")
	write(t, file, "issuers: []\nservers: {}\ntenants: {}\ninclude: [more-*.yaml]\n")
	for i := range 3 {
		write(t, filepath.Join(dir, fmt.Sprintf("more-%d.yaml", i)),
			fmt.Sprintf("tenants:\n  a%d: {servers: [x]}\n  b%d: {servers: [y]}\n", i, i))
	}
	data, _, err := readFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := newReader(file, data, nil, testEnvironment)
	r.root = r.parseYAML(file, data)
	if !r.includes(r.root, fields{}) {
		t.Fatal(r.problems)
	}
	for i, m := range r.root.child("tenants").members {
		if m.value.kind != unread || len(m.value.members) > 0 {
			t.Errorf("tenant %s is read, want it to wait", m.name)
		}
		value := r.open(m)
		if got, want := value.child("servers").items[0].text, []string{"x", "y"}[i%2]; got != want ||
			value.line != i%2+2 {
			t.Errorf("tenant %s: got server %s on line %d, want %s on line %d", m.name, got, value.line, want,
				i%2+2)
		}
		if r.opened.part != m.value.part {
			t.Errorf("tenant %s: its file is not the one that is in memory", m.name)
		}
	}
}

func TestAFileThatIsTooLargeIsRefusedWithAWordOnInclude(t *testing.T) {
	file := filepath.Join(t.TempDir(), "drawbridge.yaml")
	write(t, file, strings.Repeat("# a comment\n", maxPartBytes/12+1))
	_, err := Load(file, testEnvironment)
	want := file + ":1:1: the file is larger than 1 MiB; put tenants into other files, and name these under include"
	if errorText(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestAnotherListenKeepsTheAddressThatRuns reloads a config whose listen a restart alone
// would bring into force.
func TestAnotherListenKeepsTheAddressThatRuns(t *testing.T) {
	const told = minimal + "  told: {url: \"https://told.example/mcp\", auth: {identity: {audience: told}}}\n"
	const written = "http://127.0.0.1:8081/mcp"
	named := strings.Replace(minimal, "tenant: acme", "tenant: acme, audiences: [\""+written+"\"]", 1)
	cfg, _, err := load("testdata/inline.yaml", []byte("listen: 127.0.0.1:8081\n"+named), testEnvironment,
		&memory{lasting: true, listen: "127.0.0.1:8080"})
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.Issuers[0].Audiences; !slices.Equal(got, []string{written}) {
		t.Errorf("got the audiences %q, want what the file says", got)
	}
	for _, started := range []string{told, "public_url: https://mcp.example.com\n" + told} {
		known := memory{lasting: true}
		for _, text := range []string{started, "listen: 127.0.0.1:8081\n" + told} {
			cfg, _, err := load("testdata/inline.yaml", []byte(text), testEnvironment, &known)
			if err != nil {
				t.Fatal(err)
			}
			address := "http://127.0.0.1:8080"
			if text == started {
				address = cfg.PublicAddress()
			}
			want := []string{address + "/mcp", address + "/t/acme/mcp"}
			if got := cfg.Issuers[0].Audiences; !slices.Equal(got, want) {
				t.Errorf("after\n%s\ngot the audiences %q, want %q", started, got, want)
			}
			if got := cfg.Servers[1].Auth.Issuer; got != address {
				t.Errorf("after\n%s\ngot identities of %q, want %q", started, got, address)
			}
		}
	}
}

// TestWarningsBeyondTheBoundComeWithALaterLoad has more warnings of tenants than are
// kept, and mends some: the others are there at the reload, as in a load of its own.
func TestWarningsBeyondTheBoundComeWithALaterLoad(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "drawbridge.yaml")
	write(t, filepath.Join(dir, "secret"), "f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99")
	served := func(tenants int) string {
		names := []string{"acme"}
		for i := range tenants {
			names = append(names, fmt.Sprintf("t%03d", i))
		}
		return "issuers: [{issuer: \"https://login.example/\", hmac_secret_file: secret, algorithms: [HS256], " +
			"tenants: {claim: org}, tenants_allowed: [" + strings.Join(names, ", ") + "]}]\n" +
			"servers:\n  files: {builtin: [calculate]}\ntenants:\n  acme: {servers: [files], rules: [{allow: [\"*\"]}]}\n" +
			"include: [more-*.yaml]\n"
	}
	for i := range maxProblems + 20 {
		write(t, filepath.Join(dir, fmt.Sprintf("more-%03d.yaml", i)),
			fmt.Sprintf("tenants:\n  t%03d: {servers: [files], rules: [{allow: [\"*\"]}]}\n", i))
	}
	loader := NewLoader(file, testEnvironment)
	for tenants, want := range []int{maxProblems, 20} {
		write(t, file, served(tenants*maxProblems))
		cfg, _, err := loader.Load()
		if err != nil {
			t.Fatal(err)
		}
		if got := len(cfg.Warnings); got != want {
			t.Errorf("with %d tenants served: got %d warnings, want %d", tenants*maxProblems, got, want)
		}
	}
}
