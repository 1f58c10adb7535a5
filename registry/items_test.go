package registry_test

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// everything returns a source with two items of every kind.
func everything(name, prefix string) registry.Source {
	s := library(name, prefix, []string{"file:///b", "file:///a"}, []string{"t:{b}", "t:{a}"})
	s.Tools = source(name, prefix, "b", "a").Tools
	s.Prompts = []mcp.Object{described("name", "b"), described("name", "a")}
	return s
}

func names(v *registry.View) []string {
	list := exposed(v)
	for _, p := range v.Prompts {
		list = append(list, string(p.Kind)+" "+p.Server+" "+p.Exposed+" "+p.Definition.Text("name"))
	}
	for _, r := range v.Resources {
		list = append(list, string(r.Kind)+" "+r.Server+" "+r.Exposed+" "+r.Definition.Text("uri"))
	}
	for _, t := range v.Templates {
		list = append(list, string(t.Kind)+" "+t.Server+" "+t.Exposed+" "+t.Definition.Text("uriTemplate"))
	}
	return list
}

func TestEveryKindIsListedInOrder(t *testing.T) {
	r := registry.New()
	mustReplace(t, r, everything("x", "x"))
	mustReplace(t, r, everything("y", ""))
	got := names(r.Catalogue().View([]string{"y", "x"}))
	want := []string{
		"y:a", "y:b", "x:x__a", "x:x__b",
		"prompt y a a", "prompt y b b", "prompt x x__a x__a", "prompt x x__b x__b",
		"resource y file:///a file:///a", "resource y file:///b file:///b",
		"resource x mcp.x+file:///a mcp.x+file:///a", "resource x mcp.x+file:///b mcp.x+file:///b",
		"template y t:{a} t:{a}", "template y t:{b} t:{b}", "template x mcp.x+t:{a} mcp.x+t:{a}",
		"template x mcp.x+t:{b} mcp.x+t:{b}",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	view := r.Catalogue().View([]string{"y", "x"})
	for _, p := range view.Prompts {
		if found, err := view.Prompt(p.Exposed); found != p || err != nil || p.PolicyName() != p.Exposed {
			t.Errorf("%s: got %v, %v, %s", p.Exposed, found, err, p.PolicyName())
		}
	}
	for _, one := range view.Templates {
		if found, err := view.Template(one.Exposed); found != one || err != nil ||
			one.PolicyName() != one.Server+":"+one.Name {
			t.Errorf("%s: got %v, %v, %s", one.Exposed, found, err, one.PolicyName())
		}
	}
	if p, err := view.Prompt("none"); err == nil {
		t.Errorf("got %v", p)
	}
	if one, err := view.Template("none"); err == nil {
		t.Errorf("got %v", one)
	}
}

func TestCollisionsOfEveryKind(t *testing.T) {
	r := registry.New()
	mustReplace(t, r, everything("x", ""))
	mustReplace(t, r, everything("y", ""))
	view := r.Catalogue().View([]string{"x", "y"})
	kinds := map[registry.Kind]int{}
	for _, c := range view.Collisions {
		kinds[c.Kind]++
		if c.Winner != "x" || c.Dropped != "y" {
			t.Errorf("got %+v", c)
		}
	}
	want := map[registry.Kind]int{
		registry.KindTool: 2, registry.KindPrompt: 2, registry.KindResource: 2,
		registry.KindTemplate: 2,
	}
	if diff := cmp.Diff(want, kinds); diff != "" || len(names(view)) != 8 {
		t.Error(diff, names(view))
	}
}

func TestUnchangedItemsAreReused(t *testing.T) {
	r := registry.New()
	mustReplace(t, r, everything("s", "s"))
	before, changed := r.Catalogue(), r.Changed()
	view := before.View([]string{"s"})
	again := everything("s", "s")
	again.Use = answer("newer")
	mustReplace(t, r, again)
	if r.Catalogue() != before {
		t.Error("another catalogue, though nothing differs")
	}
	unlisted, err := view.Resource("mcp.s+x:y")
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []*registry.Item{
		view.Prompts[0], view.Resources[0],
		view.Templates[0], unlisted,
	} {
		if result, err := i.Call(t.Context(), &registry.Call{}); err != nil || result.Text("by") != "newer" {
			t.Errorf("%s: got %s, %v; want the newer Use", i.Kind, result.JSON(), err)
		}
	}
	again.Prompts[0] = again.Prompts[0].With("title", mcp.String("new"))
	mustReplace(t, r, again)
	select {
	case <-changed:
	default:
		t.Error("not woken by a change")
	}
	after := r.Catalogue().View([]string{"s"})
	if after.Prompts[0] != view.Prompts[0] || after.Prompts[1] == view.Prompts[1] ||
		after.Resources[0] != view.Resources[0] ||
		after.Templates[0] != view.Templates[0] || after.Tools[0] != view.Tools[0] {
		t.Error("want a new prompt for the definition that changed, and all else as it was")
	}
}

func TestWhatElseMakesAnotherCatalogue(t *testing.T) {
	for name, change := range map[string]func(*registry.Source){
		"timeout":   func(s *registry.Source) { s.Timeout = time.Minute },
		"completes": func(s *registry.Source) { s.Completes = true },
		"no use":    func(s *registry.Source) { s.Use = nil },
		"prefix":    func(s *registry.Source) { s.Prefix = "p" },
		"one less":  func(s *registry.Source) { s.Templates = s.Templates[:1] },
	} {
		r := registry.New()
		mustReplace(t, r, everything("s", "s"))
		before, changed := r.Catalogue(), r.Changed()
		s := everything("s", "s")
		change(&s)
		mustReplace(t, r, s)
		select {
		case <-changed:
		default:
			t.Errorf("%s: not woken", name)
		}
		if r.Catalogue() == before {
			t.Errorf("%s: the same catalogue", name)
		}
	}
	r := registry.New()
	mustReplace(t, r, library("s", "s", nil, nil))
	if _, err := r.Catalogue().View([]string{"s"}).Resource("mcp.s+x:y"); err != nil {
		t.Errorf("a server with resources that lists none: %v", err)
	}
	s := library("s", "s", nil, nil)
	s.Reads = false
	mustReplace(t, r, s)
	if _, err := r.Catalogue().View([]string{"s"}).Resource("mcp.s+x:y"); err == nil {
		t.Error("a server without resources still has them")
	}
}

func TestTimeoutOfItems(t *testing.T) {
	r := registry.New()
	s := everything("s", "s")
	for _, want := range []time.Duration{30 * time.Second, time.Minute} {
		mustReplace(t, r, s)
		view := r.Catalogue().View([]string{"s"})
		unlisted, err := view.Resource("mcp.s+x:y")
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []time.Duration{
			view.Prompts[0].Timeout, view.Resources[0].Timeout,
			view.Templates[0].Timeout, unlisted.Timeout,
		} {
			if got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		}
		s.Timeout = time.Minute
	}
}

// numbered returns n texts with their numbers in the place of %, with commas between.
func numbered(format string, n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = strings.ReplaceAll(format, "%", strconv.Itoa(i))
	}
	return strings.Join(parts, ",")
}

func TestOneBadDefinitionOfAnyKindDropsThatOneAlone(t *testing.T) {
	long := strings.Repeat("x", 2048)
	for _, test := range []struct{ name, kind, definition, reason string }{
		{"no name", "prompt", `{"title":"x"}`, "name"},
		{"line break", "prompt", `{"name":"a\nb"}`, "name"},
		{"hidden character", "prompt", `{"name":"a\u200bb"}`, "name"},
		{"filler", "prompt", `{"name":"a\u3164"}`, "name"},
		{"direction", "prompt", `{"name":"a\u202eb"}`, "name"},
		{"space at the end", "prompt", `{"name":"a "}`, "name"},
		{"two spaces", "prompt", `{"name":"a  b"}`, "name"},
		{"129 characters", "prompt", `{"name":"` + long[:129] + `"}`, "name"},
		{"name no text", "prompt", `{"name":7}`, "name"},
		{"duplicate", "prompt", `{"name":"GOOD"}`, "duplicate"},
		{"large", "prompt", `{"name":"x","description":"` + strings.Repeat("x", 129<<10) + `"}`, "size"},
		{"description no text", "prompt", `{"name":"x","description":7}`, "schema"},
		{"arguments no list", "prompt", `{"name":"x","arguments":{}}`, "schema"},
		{"argument no object", "prompt", `{"name":"x","arguments":["a"]}`, "schema"},
		{"argument without name", "prompt", `{"name":"x","arguments":[{"required":true}]}`, "schema"},
		{"argument twice", "prompt", `{"name":"x","arguments":[{"name":"a"},{"name":"a"}]}`, "schema"},
		{
			"required no boolean", "prompt", `{"name":"x","arguments":[{"name":"a","required":"yes"}]}`,
			"schema",
		},
		{"too many arguments", "prompt", `{"name":"x","arguments":[` + numbered(`{"name":"a%"}`, 2_001) +
			`]}`, "schema"},
		{"no URI", "resource", `{"name":"x"}`, "uri"},
		{"relative", "resource", `{"name":"x","uri":"a/b"}`, "uri"},
		{"space", "resource", `{"name":"x","uri":"a:b c"}`, "uri"},
		{"control", "resource", `{"name":"x","uri":"a:b\u0000"}`, "uri"},
		{"hidden character in it", "resource", `{"name":"x","uri":"a:b\u200b"}`, "uri"},
		{"2049 bytes", "resource", `{"name":"x","uri":"a:` + long[:2047] + `"}`, "uri"},
		{"no name", "resource", `{"uri":"a:b"}`, "name"},
		{"size no number", "resource", `{"name":"x","uri":"a:b","size":"7"}`, "schema"},
		{"annotations no object", "resource", `{"name":"x","uri":"a:b","annotations":[]}`, "schema"},
		{"priority no number", "resource", `{"name":"x","uri":"a:b","annotations":{"priority":"1"}}`, "schema"},
		{"duplicate", "resource", `{"name":"x","uri":"good:a"}`, "duplicate"},
		{"no template", "template", `{"name":"x"}`, "uri"},
		{"open", "template", `{"name":"x","uriTemplate":"a:{b"}`, "uri"},
		{"closed", "template", `{"name":"x","uriTemplate":"a:b}"}`, "uri"},
		{"empty expression", "template", `{"name":"x","uriTemplate":"a:{}"}`, "uri"},
		{"operator alone", "template", `{"name":"x","uriTemplate":"a:{+}"}`, "uri"},
		{"reserved operator", "template", `{"name":"x","uriTemplate":"a:{|b}"}`, "uri"},
		{"nested", "template", `{"name":"x","uriTemplate":"a:{b{c}}"}`, "uri"},
		{"space in a name", "template", `{"name":"x","uriTemplate":"a:{b c}"}`, "uri"},
		{"long prefix", "template", `{"name":"x","uriTemplate":"a:{b:10000}"}`, "uri"},
		{"empty prefix", "template", `{"name":"x","uriTemplate":"a:{b:}"}`, "uri"},
		{"two modifiers", "template", `{"name":"x","uriTemplate":"a:{b:1*}"}`, "uri"},
		{"relative", "template", `{"name":"x","uriTemplate":"a/{b}"}`, "uri"},
		{"operator at the beginning", "template", `{"name":"x","uriTemplate":"{/b}"}`, "uri"},
		{
			"65 expressions", "template", `{"name":"x","uriTemplate":"a:` + strings.Repeat("{b}", 65) + `"}`,
			"uri",
		},
		{"no name", "template", `{"uriTemplate":"a:{b}"}`, "name"},
		{"duplicate", "template", `{"name":"x","uriTemplate":"good:{a}"}`, "duplicate"},
	} {
		t.Run(test.kind+" "+test.name, func(t *testing.T) {
			bad := parse(t, test.definition)
			s := registry.Source{
				Name: "s", Prefix: "s", Use: answer("s"), Prompts: []mcp.Object{described("name", "good")},
				Resources: []mcp.Object{described("uri", "good:a")},
				Templates: []mcp.Object{described("uriTemplate", "good:{a}")},
			}
			switch test.kind {
			case "prompt":
				s.Prompts = append(s.Prompts, bad, described("name", "last"))
			case "resource":
				s.Resources = append(s.Resources, bad, described("uri", "last:a"))
			case "template":
				s.Templates = append(s.Templates, bad, described("uriTemplate", "last:{a}"))
			}
			r := registry.New()
			refused := r.Replace(s)
			if len(refused) != 1 || refused[0].Reason != test.reason ||
				string(refused[0].Kind) != test.kind || refused[0].Err == nil ||
				len(refused[0].Item) > 140 {
				t.Errorf("got %+v, want one refusal for %s", refused, test.reason)
			}
			if got := names(r.Catalogue().View([]string{"s"})); len(got) != 4 {
				t.Errorf("got %v, want all but one", got)
			}
		})
	}
}

func TestNullIsAbsent(t *testing.T) {
	r := registry.New()
	mustReplace(t, r, registry.Source{
		Name: "s", Use: answer("s"),
		Tools: []registry.Offer{{Timeout: time.Second, Definition: parse(t, `{"name":"t","title":null,`+
			`"description":null,"inputSchema":{"type":"object"},"annotations":{"title":null,"readOnlyHint":true},`+
			`"_meta":null,"icons":[{"src":"https://x.test/i.png","sizes":null}],"execution":null}`)}},
		Prompts: []mcp.Object{
			parse(t, `{"name":"x","title":null,"arguments":null,"z":1.0}`),
			parse(t, `{"name":"y","arguments":[{"name":"a","required":null},{"name":"b", "z":1.0}]}`),
		},
		Resources: []mcp.Object{
			parse(t, `{"name":"r","uri":"a:b","size":null,"annotations":{"audience":null,"priority":null}}`),
		},
	})
	view := r.Catalogue().View([]string{"s"})
	for want, got := range map[string]mcp.RawJSON{
		`{"name":"t","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"icons":[{"src":"https://x.test/i.png"}]}`: view.Tools[0].Raw,
		`{"name":"x","z":1.0}`: view.Prompts[0].Raw,
		`{"name":"y","arguments":[{"name":"a"},{"name":"b","z":1.0}]}`: view.Prompts[1].Raw,
		`{"name":"r","uri":"a:b","annotations":{}}`:                    view.Resources[0].Raw,
	} {
		if string(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestManyMembersThatAreNullCostLittle takes what is absent out of a definition in one
// go: a copy for each would cost gigabytes.
func TestManyMembersThatAreNullCostLittle(t *testing.T) {
	var nulls strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&nulls, `"n%d":null,`, i)
	}
	r, s := registry.New(), source("x", "x", "tool")
	s.Tools[0].Definition = parse(t, `{`+nulls.String()+`"name":"tool","inputSchema":{"type":"object"}}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	mustReplace(t, r, s)
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 100 {
		t.Errorf("it took %d MiB", took)
	}
	if tool, err := r.Catalogue().View([]string{"x"}).Lookup("x__tool"); err != nil || tool.Definition.Has("n1") {
		t.Errorf("got %v, want a tool without the members", err)
	}
}

// TestMembersThatAreNotOfTheProtocolAreNotJudged has them where the protocol has others
// of their names.
func TestMembersThatAreNotOfTheProtocolAreNotJudged(t *testing.T) {
	tool := `{"name":"t","inputSchema":{"type":"object"},"size":"large","priority":"high","arguments":{"title":5}}`
	resource := `{"name":"r","uri":"a:b","lastModified":1700000000000,"audience":"staff"}`
	r := registry.New()
	mustReplace(t, r, registry.Source{
		Name: "s", Use: answer("s"), Resources: []mcp.Object{parse(t, resource)},
		Tools: []registry.Offer{{Timeout: time.Second, Definition: parse(t, tool)}},
	})
	view := r.Catalogue().View([]string{"s"})
	if got := string(view.Tools[0].Raw); got != tool {
		t.Errorf("got %s, want %s", got, tool)
	}
	if got := string(view.Resources[0].Raw); got != resource {
		t.Errorf("got %s, want %s", got, resource)
	}
}

// TestASizeIsAnyNumber: that of an empty file is zero.
func TestASizeIsAnyNumber(t *testing.T) {
	for _, size := range []string{"0", "9", "12.5", "-1"} {
		r := registry.New()
		definition := `{"name":"x","uri":"a:b","size":` + size + `}`
		mustReplace(t, r, registry.Source{
			Name: "s", Use: answer("s"), Resources: []mcp.Object{parse(t, definition)},
		})
		if got := string(r.Catalogue().View([]string{"s"}).Resources[0].Raw); got != definition {
			t.Errorf("got %s, want %s", got, definition)
		}
	}
}

func TestItemsBeyondTheLimitAreLeftOut(t *testing.T) {
	s := registry.Source{Name: "s", Prefix: "s", Use: answer("s")}
	for i := range 5_002 {
		s.Prompts = append(s.Prompts, described("name", fmt.Sprint("p", i)))
		s.Resources = append(s.Resources, described("uri", fmt.Sprint("r:", i)))
		s.Templates = append(s.Templates, described("uriTemplate", fmt.Sprint("t:", i, "{x}")))
	}
	r := registry.New()
	refused := r.Replace(s)
	var got []string
	for _, one := range refused {
		got = append(got, string(one.Kind)+" "+one.Item+" "+one.Reason)
	}
	if diff := cmp.Diff([]string{"prompt p5000 size", "resource r:5000 size", "template t:5000{x} size"},
		got); diff != "" {
		t.Error(diff)
	}
	if got := r.Catalogue().Offered("s"); got.Prompts != 5_000 || got.Resources != 5_000 ||
		got.Templates != 5_000 {
		t.Errorf("got %+v, want 5000 of each", got)
	}
	v := r.Catalogue().View([]string{"s"})
	if len(v.Prompts) != 5_000 || len(v.Resources) != 5_000 || len(v.Templates) != 5_000 {
		t.Errorf("got %d, %d and %d, want 5000 of each", len(v.Prompts), len(v.Resources), len(v.Templates))
	}
}

func TestDefinitionsOfAllKindsShareTheirBytes(t *testing.T) {
	s := registry.Source{Name: "s", Use: answer("s")}
	large := mcp.String(strings.Repeat("x", 120<<10))
	for i := range 100 {
		s.Prompts = append(s.Prompts, described("name", fmt.Sprint("p", i)).With("description", large))
		s.Resources = append(s.Resources, described("uri", fmt.Sprint("r:", i)).With("description", large))
	}
	r := registry.New()
	refused := r.Replace(s)
	v := r.Catalogue().View([]string{"s"})
	if len(v.Prompts) != 100 || len(v.Resources) != 36 || len(refused) != 64 || refused[0].Reason != "size" {
		t.Errorf("got %d prompts, %d resources, %d refusals", len(v.Prompts), len(v.Resources), len(refused))
	}
}

// Prompts' names are exposed like tools', but may be in any language.
func TestTrap28_ExposedNamesFitClients(t *testing.T) {
	for _, test := range []struct{ prefix, name, want string }{
		{"box", "review code", "box__review code"},
		{"", "a/b:c", "a/b:c"},
		{"box", "über-prüfung", "box__über-prüfung"},
		{"box", strings.Repeat("é", 40), "box__" + strings.Repeat("é", 17) + "-"},
		{"box", strings.Repeat("x", 128), "box__" + strings.Repeat("x", 35) + "-"},
		{"", strings.Repeat("é", 128), strings.Repeat("é", 128)},
	} {
		r := registry.New()
		mustReplace(t, r, registry.Source{
			Name: "s", Prefix: test.prefix, Use: answer("s"),
			Prompts: []mcp.Object{described("name", test.name)},
		})
		got := r.Catalogue().View([]string{"s"}).Prompts[0]
		if !strings.HasPrefix(got.Exposed, test.want) || test.prefix != "" && len(got.Exposed) > 47 ||
			got.Name != test.name {
			t.Errorf("%s, %s: got %s, want %s…", test.prefix, test.name, got.Exposed, test.want)
		}
	}
	r := registry.New()
	mustReplace(t, r, source("s", "abcdefghijklmnop", strings.Repeat("A.b-C_9", 18)))
	name := r.Catalogue().View([]string{"s"}).Tools[0].Exposed
	if len(name) > 47 || strings.Trim(name,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "" {
		t.Errorf("got %s, want at most 47 characters of tools' names", name)
	}
}

func TestPromptArguments(t *testing.T) {
	definition := parse(
		t, `{"name":"x","arguments":[{"name":"city","required":true},{"name":"units","description":"d","required":false},{"name":"at","required":true}]}`)
	r := registry.New()
	mustReplace(t, r, registry.Source{
		Name: "s", Use: answer("s"),
		Prompts: []mcp.Object{definition, described("name", "plain")},
	})
	prompt, err := r.Catalogue().View([]string{"s"}).Prompt("x")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ arguments, want string }{
		{`{"city":"secret","at":""}`, ""},
		{`{"city":"secret","at":"","units":"x","more":"y"}`, ""},
		{``, "city: is required; at: is required"},
		{`{"city":"secret"}`, "at: is required"},
		{`{"city":7,"at":""}`, "city: must be a string, got an integer"},
		{`{"city":null,"at":""}`, "city: must be a string, got null"},
		{`{"city":"","at":"","more":["secret"]}`, "more: must be a string, got an array"},
		{`["secret"]`, "arguments: must be an object, got an array"},
		{`"secret"`, "arguments: must be an object, got a string"},
		{
			`{"city":"","City":"","at":""}`,
			"arguments: must not have both City and city, whose names differ only in form",
		},
	} {
		var arguments mcp.RawJSON
		if test.arguments != "" {
			arguments = mcp.RawJSON(test.arguments)
		}
		got := ""
		if err := prompt.ValidateWithin(arguments, nil); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", test.arguments, got, test.want)
		}
	}
	plain, _ := r.Catalogue().View([]string{"s"}).Prompt("plain")
	if err := plain.ValidateWithin(nil, nil); err != nil {
		t.Error(err)
	}
}

func TestAnnouncementsAreOfOneKind(t *testing.T) {
	r := registry.New()
	mustReplace(t, r, library("box", "box", []string{"a:b"}, nil))
	for i, kind := range []registry.Kind{
		registry.KindTool, registry.KindPrompt, registry.KindResource,
		registry.KindTemplate,
	} {
		changed := r.Changed()
		r.Announce("box", kind)
		select {
		case <-changed:
		default:
			t.Error("woke nobody")
		}
		view := r.Catalogue().View([]string{"box"})
		got := []uint64{
			view.Announced("box", registry.KindTool), view.Announced("box", registry.KindPrompt),
			view.Announced("box", registry.KindResource), view.Announced("box", registry.KindTemplate),
		}
		want := [][]uint64{{1, 0, 0, 0}, {1, 1, 0, 0}, {1, 1, 1, 1}, {1, 1, 2, 2}}[i]
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", kind, diff)
		}
	}
	mustReplace(t, r, library("box", "box", []string{"c:d"}, nil))
	if got := r.Catalogue().View([]string{"box"}).Announced("box", registry.KindTool); got != 1 {
		t.Errorf("got %d after a change, want what was told before", got)
	}
}

// fifty returns a registry with 5,000 tools from 50 sources, and their names.
func fifty(t testing.TB) (*registry.Registry, []string) {
	r := registry.New()
	var servers []string
	for i := range 50 {
		name := fmt.Sprintf("s%02d", i)
		servers = append(servers, name)
		var tools []string
		for j := range 100 {
			tools = append(tools, fmt.Sprint("tool", j))
		}
		if refused := r.Replace(source(name, name, tools...)); len(refused) > 0 {
			t.Fatal(refused)
		}
	}
	return r, servers
}

func TestFiveThousandToolsOfFiftySources(t *testing.T) {
	r, servers := fifty(t)
	view := r.Catalogue().View(servers)
	if len(view.Tools) != 5_000 || len(view.Collisions) != 0 {
		t.Fatalf("got %d tools, %d collisions", len(view.Tools), len(view.Collisions))
	}
	for _, tool := range view.Tools {
		if found, err := view.Lookup(tool.Exposed); found != tool || err != nil {
			t.Fatalf("%s: got %v, %v", tool.Exposed, found, err)
		}
	}
	again, _ := fifty(t)
	if diff := cmp.Diff(exposed(view), exposed(again.Catalogue().View(servers))); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkViewOfFiveThousandTools(b *testing.B) {
	r, servers := fifty(b)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		r.Announce("s00", registry.KindTool)
		catalogue := r.Catalogue()
		b.StartTimer()
		if got := len(catalogue.View(servers).Tools); got != 5_000 {
			b.Fatal(got)
		}
	}
}
