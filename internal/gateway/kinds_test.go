package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/metrics/metricstest"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// lists are the lists of items other than tools: how to ask for them, and what names an
// item.
var lists = []struct{ method, member, name string }{
	{mcp.MethodToolsList, "tools", "name"},
	{mcp.MethodPromptsList, "prompts", "name"},
	{mcp.MethodResourcesList, "resources", "uri"},
	{mcp.MethodTemplatesList, "resourceTemplates", "uriTemplate"},
}

// listed returns what a caller sees in all pages of all lists.
func listed(t *testing.T, b *bench, c Caller) []string {
	t.Helper()
	var all []string
	for _, list := range lists {
		params := mcp.Object{}
		for pages := 0; ; pages++ {
			result, failure := b.handleAs(t, c, &Request{Method: list.method, Params: params})
			if failure != nil || pages > 100 {
				t.Fatalf("%s: %v after %d pages", list.method, failure, pages)
			}
			items, _ := result.Value(list.member).Elements()
			for _, raw := range items {
				item, _ := mcp.ObjectOf(raw)
				all = append(all, item.Text(list.name))
			}
			next := result.Value("nextCursor")
			if next == nil {
				break
			}
			params = mcp.NewObject(mcp.Member{Name: "cursor", Value: next})
		}
	}
	return all
}

// requests returns a use of each item of a library, by its exposed name, and of URIs that
// only a template names.
func requests() map[string]*Request {
	completion := func(kind, member, name string) string {
		return `{"ref":{"type":"` + kind + `","` + member + `":"` + name +
			`"},"argument":{"name":"x","value":"y"}}`
	}
	uses := map[string]*Request{
		"lib__ask":   ask(mcp.MethodToolsCall, `{"name":"lib__ask"}`),
		"lib__other": ask(mcp.MethodToolsCall, `{"name":"lib__other"}`),
	}
	for _, name := range []string{"lib__greet", "lib__part"} {
		uses[name] = ask(mcp.MethodPromptsGet, `{"name":"`+name+`","arguments":{"who":"you"}}`)
		uses["complete "+name] = ask(mcp.MethodComplete, completion("ref/prompt", "name", name))
	}
	for _, uri := range []string{"a.txt", "b.txt", "logs/1", "notes/1"} {
		uses[exposedURI(uri)] = ask(mcp.MethodResourcesRead, `{"uri":"`+exposedURI(uri)+`"}`)
	}
	for _, uri := range []string{"logs/{day}", "notes/{day}"} {
		uses["complete "+exposedURI(uri)] = ask(mcp.MethodComplete,
			completion("ref/resource", "uri", exposedURI(uri)))
	}
	return uses
}

func exposedURI(path string) string { return "mcp.lib+file:///" + path }

// answers makes a library answer each method in its form.
func (l *library) answers() {
	l.reply = func(_ context.Context, c *registry.Call) (mcp.Object, error) {
		for _, s := range subjects {
			if s.method == c.Method {
				return object(s.answer("fine")), nil
			}
		}
		return mcp.Object{}, errors.New("no such method")
	}
}

// TestOneDecisionForListAndUse shows that what a policy lists is what it lets be used,
// for each kind of item.
func TestOneDecisionForListAndUse(t *testing.T) {
	tests := []struct {
		name  string
		rules []Rule
		lists []string
		uses  []string // beside those listed and the completion of prompts and templates listed
	}{
		{"nothing by default", nil, nil, nil},
		{
			"a bare pattern is for tools alone",
			[]Rule{{Allow: []string{"*"}}},
			[]string{"lib__ask", "lib__other"},
			nil,
		},
		{"prompts by exposed name", []Rule{{Allow: []string{"prompt:lib__g*"}}}, []string{"lib__greet"}, nil},
		{
			"deny of a prompt",
			[]Rule{{Allow: []string{"prompt:*"}, Deny: []string{"prompt:*part"}}},
			[]string{"lib__greet"},
			nil,
		},
		{
			"resources by server and own URI",
			[]Rule{{Allow: []string{"resource:lib:file:///a*"}}},
			[]string{exposedURI("a.txt")},
			nil,
		},
		{"resources of another server", []Rule{{Allow: []string{"resource:other:*"}}}, nil, nil},
		{"not by exposed URI", []Rule{{Allow: []string{"resource:mcp.lib+file:///a.txt"}}}, nil, nil},
		{
			"templates by their text",
			[]Rule{{Allow: []string{"resource:lib:file:///logs/{day}"}}},
			[]string{exposedURI("logs/{day}")},
			nil,
		},
		{
			"a URI of a template by its own text",
			[]Rule{{Allow: []string{"resource:lib:*"}, Deny: []string{
				"resource:lib:file:///logs/1",
				"resource:lib:*{day}", "resource:lib:*.txt",
			}}},
			nil,
			[]string{exposedURI("notes/1")},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b, l := newLibrary(t, TenantConfig{ID: "acme", Servers: []string{"lib"}, Rules: test.rules})
			l.answers()
			caller := b.caller(t, alice)
			if got := listed(t, b, caller); !slices.Equal(got, test.lists) {
				t.Errorf("listed %v, want %v", got, test.lists)
			}
			for name, r := range requests() {
				item, completes := strings.CutPrefix(name, "complete ")
				want := slices.Contains(test.lists, item) || !completes && slices.Contains(test.uses, item)
				if _, failure := b.handleAs(t, caller, r); (failure == nil) != want {
					t.Errorf("%s: %v, want it used: %v", name, failure, want)
				}
				if r.Method == mcp.MethodResourcesRead && b.Reads(caller, item) != want {
					t.Errorf("Reads(%s) = %v, want %v", item, !want, want)
				}
			}
		})
	}
}

func TestUnknownAndForbiddenLookTheSame(t *testing.T) {
	tests := []struct{ method, hidden, absent string }{
		{mcp.MethodPromptsGet, `{"name":"lib__greet"}`, `{"name":"lib__xxxxx"}`},
		{mcp.MethodResourcesRead, `{"uri":"mcp.lib+file:///a.txt"}`, `{"uri":"mcp.xxx+file:///a.txt"}`},
		{
			mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"lib__greet"}}`,
			`{"ref":{"type":"ref/prompt","name":"lib__xxxxx"}}`,
		},
		{
			mcp.MethodComplete, `{"ref":{"type":"ref/resource","uri":"mcp.lib+file:///logs/{day}"}}`,
			`{"ref":{"type":"ref/resource","uri":"mcp.xxx+file:///logs/{day}"}}`,
		},
	}
	for _, test := range tests {
		b, l := newLibrary(t, TenantConfig{
			ID: "acme", Servers: []string{"lib"},
			Rules: []Rule{{Scopes: []string{"admin"}, Allow: []string{"prompt:*", "resource:*"}}},
		})
		_, forbidden := b.handle(t, ask(test.method, test.hidden))
		_, unknown := b.handle(t, ask(test.method, test.absent))
		if forbidden == nil || unknown == nil || len(l.uses) > 0 {
			t.Fatalf("%s: %v, %v; %d uses", test.hidden, forbidden, unknown, len(l.uses))
		}
		blind := strings.NewReplacer("lib__greet", "lib__xxxxx", "mcp.lib", "mcp.xxx")
		if got, want := blind.Replace(string(forbidden.Object().JSON())),
			string(unknown.Object().JSON()); got != want {
			t.Errorf("forbidden = %s, unknown = %s; want the same", got, want)
		}
		if records := b.records(t); !strings.Contains(records, `"outcome":"forbidden"`) ||
			!strings.Contains(records, `"outcome":"unknown"`) {
			t.Errorf("audit = %s, want both told apart", records)
		}
	}
}

func TestAnnouncedScopesOfEachKind(t *testing.T) {
	b, _ := newLibrary(t, TenantConfig{ID: "acme", Servers: []string{"lib"}, Rules: []Rule{
		{Scopes: []string{"admin"}, Allow: []string{"*", "prompt:*", "resource:*"}, Announce: true},
	}})
	for _, s := range subjects {
		_, failure := b.handle(t, ask(s.method, s.params))
		if failure == nil || failure.Code != mcp.CodeForbidden || !strings.Contains(string(failure.Data),
			`"scope":"admin"`) {
			t.Errorf("%s: %v, want the scope", s.method, failure)
		}
		if _, failure = b.handle(t, ask(s.method, s.unknown)); failure == nil ||
			failure.Code != mcp.CodeInvalidParams {
			t.Errorf("%s of nothing: %v, want it unknown", s.method, failure)
		}
	}
}

func TestListsOfEachKindPage(t *testing.T) {
	b, _ := newLibrary(t)
	b.config.PageSize = 1
	want := []string{
		"lib__ask", "lib__other", "lib__greet", "lib__part", exposedURI("a.txt"), exposedURI("b.txt"),
		exposedURI("logs/{day}"), exposedURI("notes/{day}"),
	}
	for range 2 {
		if got := listed(t, b, b.caller(t, alice)); !slices.Equal(got, want) {
			t.Errorf("listed %v, want %v", got, want)
		}
	}
}

// TestTrap24_CursorServesTheUserOfItsList shows whom a cursor serves: the user of the
// list it was made for. One that is empty, which the gateway never gives, or null is the
// first page's.
func TestTrap24_CursorServesTheUserOfItsList(t *testing.T) {
	b, _ := newLibrary(t, everything(), TenantConfig{
		ID: "globex", Servers: []string{"lib"},
		Rules: everything().Rules,
	})
	b.config.PageSize = 1
	bob, carol := alice, alice
	bob.Subject, carol.TenantID = "bob", "globex"
	for i, list := range lists {
		first, failure := b.handle(t, &Request{Method: list.method})
		if failure != nil || first.Text("cacheScope") != "private" || string(first.Value("ttlMs")) != "0" {
			t.Fatalf("%s: %v, %s", list.method, failure, first.JSON())
		}
		cursor := string(first.Value("nextCursor"))
		for name, test := range map[string]struct {
			who            auth.Principal
			method, cursor string
			good           bool
		}{
			"its own":        {alice, list.method, cursor, true},
			"another user":   {bob, list.method, cursor, false},
			"another tenant": {carol, list.method, cursor, false},
			"another list":   {alice, lists[(i+1)%len(lists)].method, cursor, false},
			"empty":          {alice, list.method, `""`, true},
			"null":           {alice, list.method, `null`, true},
			"a number":       {alice, list.method, `7`, false},
			"cut":            {alice, list.method, cursor[:len(cursor)-2] + `"`, false},
		} {
			page, failure := b.handleAs(t, b.caller(t, test.who),
				&Request{Method: test.method, Params: object(`{"cursor":` + test.cursor + `}`)})
			isFirst := string(page.Value(list.member)) == string(first.Value(list.member))
			if isFirst != (name == "empty" || name == "null") {
				t.Errorf("%s, %s: got %s, the first page: %v", list.method, name, page.JSON(), isFirst)
			}
			if (failure == nil) != test.good || failure != nil && (failure.Code != mcp.CodeInvalidParams ||
				failure.StableCode() != "DB-CURSOR") {
				t.Errorf("%s, %s: %v, want it good: %v", list.method, name, failure, test.good)
			}
		}
	}
}

func TestCursorOutlivesAChangeOfTheList(t *testing.T) {
	b, l := newLibrary(t)
	b.config.PageSize = 1
	first, _ := b.handle(t, &Request{Method: mcp.MethodResourcesList})
	next := mcp.NewObject(mcp.Member{Name: "cursor", Value: first.Value("nextCursor")})
	changed := l.source("lib")
	changed.Resources = append(changed.Resources, object(`{"name":"0","uri":"file:///0.txt"}`))
	b.replace(t, changed)
	result, failure := b.handle(t, &Request{Method: mcp.MethodResourcesList, Params: next})
	if failure != nil || !strings.Contains(string(result.JSON()), "b.txt") {
		t.Errorf("after a resource came before it: %s, %v; want what followed", result.JSON(), failure)
	}
	changed.Resources = changed.Resources[1:]
	b.replace(t, changed)
	if _, failure = b.handle(t, &Request{
		Method: mcp.MethodResourcesList,
		Params: next,
	}); stable(failure) != "DB-CURSOR" {
		t.Errorf("after its resource went: %v, want an invalid cursor", failure)
	}
}

func TestDigestsTellTheKindsApart(t *testing.T) {
	b, l := newLibrary(t)
	c := b.caller(t, alice)
	tests := []struct {
		name    string
		change  func(s *registry.Source)
		changed string // the letters of the digests that change
	}{
		{"nothing", func(*registry.Source) {}, ""},
		{"tools", func(s *registry.Source) { s.Tools = s.Tools[:1] }, "t"},
		{"prompts", func(s *registry.Source) { s.Prompts = s.Prompts[:1] }, "p"},
		{"resources", func(s *registry.Source) { s.Resources = s.Resources[:1] }, "r"},
		{"templates", func(s *registry.Source) { s.Templates = s.Templates[:1] }, "r"},
	}
	before := b.Lists(c)
	for _, test := range tests {
		s := l.source("lib")
		test.change(&s)
		b.replace(t, s)
		got, after := "", b.Lists(c)
		for _, one := range []struct {
			letter string
			differ bool
		}{
			{"t", before[digestOfTools] != after[digestOfTools]},
			{"p", before[digestOfPrompts] != after[digestOfPrompts]},
			{"r", before[digestOfResources] != after[digestOfResources]},
		} {
			if one.differ {
				got += one.letter
			}
		}
		if got != test.changed {
			t.Errorf("%s: digests %q changed, want %q", test.name, got, test.changed)
		}
		b.replace(t, l.source("lib"))
	}
}

func TestDiscoverDeclaresEverything(t *testing.T) {
	b := newBench(t)
	result, _ := b.handle(t, &Request{Method: mcp.MethodDiscover})
	want := `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	if got := string(result.Value("capabilities")); got != want {
		t.Errorf("capabilities = %s, want %s", got, want)
	}
}

// TestTrap19_ResourceNotFound shows that there is one form for a resource that is not
// there, under the client's URI.
func TestTrap19_ResourceNotFound(t *testing.T) {
	b, l := newLibrary(t)
	params := `{"uri":"mcp.lib+file:///a.txt"}`
	for name, reply := range map[string]func(){
		"the old code": func() {
			l.fails(&mcp.Error{Code: mcp.CodeResourceNotFound, Message: "gone from 10.1.2.3"})
		},
		"the new code": func() {
			l.fails(&mcp.Error{
				Code: mcp.CodeInvalidParams, Message: "gone",
				Data: mcp.RawJSON(`{"uri":"file:///a.txt"}`),
			})
		},
		"contents are empty": func() { l.says(`{"contents":[]}`) },
	} {
		reply()
		_, failure := b.handle(t, ask(mcp.MethodResourcesRead, params))
		if failure == nil || failure.Code != mcp.CodeInvalidParams ||
			string(failure.Data) != `{"code":"DB-RESOURCE","uri":"mcp.lib+file:///a.txt"}` {
			t.Errorf("%s: %v %s, want not found under the exposed URI", name, failure, failure.Data)
		}
	}
	l.fails(mcp.Errorf(mcp.CodeInvalidParams, "uri is too long"))
	if _, failure := b.handle(t, ask(mcp.MethodResourcesRead, params)); failure == nil ||
		failure.Message != "uri is too long" {
		t.Errorf("another error: %v, want the server's words", failure)
	}
}

// TestTrap13_OnlyTheCallerKeepsContents shows what clients may keep of what they read,
// and how long.
func TestTrap13_OnlyTheCallerKeepsContents(t *testing.T) {
	b, l := newLibrary(t)
	tests := []struct{ hints, params, want string }{
		{``, ``, "0"},
		{`,"ttlMs":5000,"cacheScope":"public"`, ``, "5000"},
		{`,"ttlMs":-1`, ``, "0"},
		{`,"ttlMs":"long"`, ``, "0"},
		{`,"ttlMs":5000`, `,"inputResponses":{}`, "0"},
	}
	for _, test := range tests {
		l.says(`{"contents":[{"uri":"file:///a.txt","text":"a"}]` + test.hints + `}`)
		result, failure := b.handle(t, ask(mcp.MethodResourcesRead, `{"uri":"mcp.lib+file:///a.txt"`+
			test.params+`}`))
		if failure != nil || string(result.Value("ttlMs")) != test.want ||
			result.Text("cacheScope") != "private" {
			t.Errorf("%s %s: %s, %v; want ttlMs %s, private", test.hints, test.params, result.JSON(), failure,
				test.want)
		}
	}
}

func TestResultsThatNobodyCanUse(t *testing.T) {
	tests := []struct{ method, result string }{
		{mcp.MethodPromptsGet, `{}`},
		{mcp.MethodPromptsGet, `{"messages":{}}`},
		{mcp.MethodPromptsGet, `{"toolResult":"x"}`},
		{mcp.MethodResourcesRead, `{}`},
		{mcp.MethodResourcesRead, `{"content":[]}`},
		{mcp.MethodResourcesRead, `{"contents":null}`},
		{mcp.MethodComplete, `{}`},
		{mcp.MethodComplete, `{"completion":{}}`},
		{mcp.MethodComplete, `{"completion":{"values":[5]}}`},
		{mcp.MethodComplete, `{"resultType":"input_required","requestState":"s"}`},
		{mcp.MethodToolsCall, `{"resultType":"task"}`},
		{mcp.MethodToolsCall, `{"resultType":5}`},
	}
	for _, test := range tests {
		b, l := newLibrary(t)
		l.says(test.result)
		for _, s := range subjects {
			if s.method != test.method {
				continue
			}
			if _, failure := b.handle(t, ask(s.method, s.params)); stable(failure) != "DB-UPSTREAM-PROTOCOL" {
				t.Errorf("%s: %s passes: %v", test.method, test.result, failure)
			}
		}
	}
}

func TestBadParams(t *testing.T) {
	tests := []struct{ method, params string }{
		{mcp.MethodToolsCall, `{}`},
		{mcp.MethodToolsCall, `{"name":"lib__ask","arguments":[]}`},
		{mcp.MethodPromptsGet, `{"name":5}`},
		{mcp.MethodPromptsGet, `{"name":"lib__greet","arguments":"x"}`},
		{mcp.MethodPromptsGet, `{"name":"lib__greet","arguments":{"who":5}}`},
		{mcp.MethodResourcesRead, `{"uri":["file:///a.txt"]}`},
		{mcp.MethodComplete, `{}`},
		{mcp.MethodComplete, `{"ref":{"type":"ref/tool","name":"lib__ask"}}`},
		{mcp.MethodComplete, `{"ref":{"type":"ref/prompt"}}`},
		{mcp.MethodComplete, `{"ref":{"type":"ref/resource"}}`},
		{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"lib__greet"},"argument":{"name":"who","value":5}}`},
		{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"lib__greet"},"argument":{"name":"who","value":""},"context":5}`},
	}
	for _, test := range tests {
		b, l := newLibrary(t)
		_, failure := b.handle(t, ask(test.method, test.params))
		if failure == nil || failure.Code != mcp.CodeInvalidParams || failure.StableCode() != "DB-PARAMS" ||
			len(l.uses) > 0 {
			t.Errorf("%s %s: %v and %d uses, want invalid params", test.method, test.params, failure,
				len(l.uses))
		}
	}
}

func TestCompletionIsBounded(t *testing.T) {
	b, l := newLibrary(t)
	values := func(n, size int) string {
		return `{"completion":{"total":1000,"values":[` +
			strings.TrimSuffix(strings.Repeat(quote(strings.Repeat("v", size))+",", n), ",") + `]}}`
	}
	tests := []struct {
		name, reply string
		values      int
		more        bool
	}{
		{"none", values(0, 0), 0, false},
		{"as many as allowed", values(maxCompletions, 1), maxCompletions, false},
		{"too many", values(maxCompletions+1, 1), maxCompletions, true},
		{"too large", values(3, maxCompletionBytes/2-10), 2, true},
	}
	for _, test := range tests {
		l.says(test.reply)
		result, failure := b.handle(t, ask(mcp.MethodComplete, subjects[3].params))
		got, _ := result.Object("completion").Value("values").Elements()
		more := string(result.Object("completion").Value("hasMore")) == "true"
		if failure != nil || len(got) != test.values || more != test.more ||
			string(result.Object("completion").Value("total")) != "1000" {
			t.Errorf("%s: %d values, more %v, %v; want %d, %v", test.name, len(got), more, failure,
				test.values, test.more)
		}
	}
}

func TestCompletionOfServersThatDoNotComplete(t *testing.T) {
	b, l := newLibrary(t)
	l.fails(mcp.Errorf(mcp.CodeMethodNotFound, "Method not found"))
	result, failure := b.handle(t, ask(mcp.MethodComplete, subjects[3].params))
	if failure != nil || string(result.Value("completion")) != `{"values":[]}` {
		t.Errorf("a server that does not know the method: %s, %v; want no values", result.JSON(), failure)
	}
	silent := l.source("lib")
	silent.Completes = false
	b.replace(t, silent)
	l.uses = nil
	result, failure = b.handle(t, ask(mcp.MethodComplete, subjects[3].params))
	if failure != nil || string(result.Value("completion")) != `{"values":[]}` || len(l.uses) > 0 {
		t.Errorf("a server without completion: %s, %v, %d uses; want no values", result.JSON(), failure,
			len(l.uses))
	}
}

// TestAReferenceMayNameAResource completes for a resource, as the protocol has it beside
// templates, under the rules for resources.
func TestAReferenceMayNameAResource(t *testing.T) {
	b, l := newLibrary(t)
	l.says(`{"completion":{"values":[]}}`)
	r := ask(mcp.MethodComplete, `{"ref":{"type":"ref/resource","uri":"`+exposedURI("a.txt")+
		`"},"argument":{"name":"x","value":"y"}}`)
	result, failure := b.handle(t, r)
	if failure != nil || !result.Has("completion") || len(l.uses) != 1 || l.uses[0].Target != "file:///a.txt" {
		t.Errorf("%s, %v, asked %+v; want what the server says", result.JSON(), failure, l.uses)
	}
	denied := everything()
	denied.Rules = []Rule{{Allow: []string{"*", "prompt:*"}}}
	b.SetPolicy("", []TenantConfig{denied})
	if _, failure = b.handle(t, r); failure == nil || len(l.uses) != 1 {
		t.Errorf("%v and %d uses, want it refused without a right to the resource", failure, len(l.uses))
	}
}

func TestCallReachesItsSourceWhole(t *testing.T) {
	b, l := newLibrary(t)
	l.answers()
	r := ask(mcp.MethodComplete,
		`{"ref":{"type":"ref/prompt","name":"lib__greet"},"argument":{"name":"who","value":"y"},"context":{"arguments":{"a":"b"}}}`)
	r.LogLevel = 3
	r.Refusals = map[string]*mcp.Error{"q": mcp.Errorf(-1, "no")}
	if _, failure := b.handle(t, r); failure != nil {
		t.Fatal(failure)
	}
	c := l.uses[0]
	if c.Method != mcp.MethodComplete || c.Principal.TenantID != "acme" || c.Principal.Subject != "alice" ||
		c.LogLevel != 3 || c.Refusals["q"] == nil ||
		!c.Capabilities.Has("roots") || c.Params.Object("context").Object("arguments").Text("a") != "b" ||
		c.Hold != nil {
		t.Errorf("the source got %+v", c)
	}
}

// TestTrap27_OnlyWhatTheClientAskedFor shows that an upstream decides nothing about what
// a client is told on the way.
func TestTrap27_OnlyWhatTheClientAskedFor(t *testing.T) {
	b, l := newLibrary(t)
	l.reply = func(ctx context.Context, c *registry.Call) (mcp.Object, error) {
		for _, n := range []mcp.Notification{
			{Method: mcp.NotifyMessage, Params: object(`{"level":"info","data":"info"}`)},
			{Method: mcp.NotifyMessage, Params: object(`{"level":"error","data":"error"}`)},
			{Method: mcp.NotifyMessage, Params: object(`{"level":"loud","data":"loud"}`)},
			{Method: mcp.NotifyMessage, Params: object(`{"data":"none"}`)},
			{Method: mcp.NotifyProgress, Params: object(`{"progressToken":7,"progress":1,"data":"mine"}`)},
			{
				Method: mcp.NotifyProgress,
				Params: object(`{"progressToken":"7","progress":1,"data":"theirs"}`),
			},
			{Method: mcp.NotifyToolsChanged, Params: object(`{"data":"change"}`)},
		} {
			if err := c.Notify(ctx, n); err != nil {
				return mcp.Object{}, err
			}
		}
		return object(`{"content":[]}`), nil
	}
	warning, _ := mcp.LevelOf("warning")
	debug, _ := mcp.LevelOf("debug")
	tests := []struct {
		level mcp.Level
		meta  string
		want  string
	}{
		{0, `{}`, "[]"},
		{0, `{"progressToken":7}`, "[mine]"},
		{warning, `{}`, "[error]"},
		{debug, `{"progressToken":"7"}`, "[info error theirs]"},
	}
	for _, test := range tests {
		r := ask(mcp.MethodToolsCall, `{"name":"lib__other","_meta":`+test.meta+`}`)
		r.LogLevel = test.level
		told := []string{}
		r.Notify = func(_ context.Context, n mcp.Notification) error {
			told = append(told, n.Params.Text("data"))
			return nil
		}
		if _, failure := b.handle(t, r); failure != nil {
			t.Fatal(failure)
		}
		if got := fmt.Sprint(told); got != test.want {
			t.Errorf("level %q, %s: told %s, want %s", test.level, test.meta, got, test.want)
		}
	}
}

func TestLogMessagesOfACallAreBounded(t *testing.T) {
	b, l := newLibrary(t)
	tests := []struct {
		name    string
		sent    int
		text    string
		told    int
		dropped float64
		last    string // progress that is sent after them, and told
	}{
		{"as many as allowed", maxLogs, "x", maxLogs, 0, ""},
		{"too many", maxLogs + 3, "x", maxLogs, 3, ""},
		{"too large together", 5, strings.Repeat("x", maxLogBytes/4), 3, 2, ""},
		{"progress goes on", maxLogs + 1, "x", maxLogs + 1, 1, `{"progressToken":7,"progress":1}`},
	}
	for _, test := range tests {
		l.reply = func(ctx context.Context, c *registry.Call) (mcp.Object, error) {
			params := mcp.NewObject(mcp.Member{Name: "level", Value: mcp.String("info")},
				mcp.Member{Name: "data", Value: mcp.String(test.text)})
			for range test.sent {
				if err := c.Notify(ctx, mcp.Notification{
					Method: mcp.NotifyMessage,
					Params: params,
				}); err != nil {
					return mcp.Object{}, err
				}
			}
			if test.last != "" {
				return object(`{"content":[]}`),
					c.Notify(ctx, mcp.Notification{Method: mcp.NotifyProgress, Params: object(test.last)})
			}
			return object(`{"content":[]}`), nil
		}
		r := ask(mcp.MethodToolsCall, `{"name":"lib__other","_meta":{"progressToken":7}}`)
		r.LogLevel, _ = mcp.LevelOf("debug")
		told := 0
		r.Notify = func(context.Context, mcp.Notification) error { told++; return nil }
		before := metricstest.Sum(t, b.metrics, "drawbridge_upstream_anomalies_total")
		if _, failure := b.handle(t, r); failure != nil {
			t.Fatal(failure)
		}
		dropped := metricstest.Sum(t, b.metrics, "drawbridge_upstream_anomalies_total") - before
		if told != test.told || dropped != test.dropped {
			t.Errorf("%s: told %d and counted %v as dropped, want %d and %v", test.name, told, dropped,
				test.told, test.dropped)
		}
	}
}

func TestURIsAreNoLabels(t *testing.T) {
	b, l := newLibrary(t)
	l.answers()
	for i := range 5 {
		if _, failure := b.handle(t, ask(mcp.MethodResourcesRead,
			`{"uri":"`+exposedURI(fmt.Sprintf("logs/%d", i))+`"}`)); failure != nil {
			t.Fatal(failure)
		}
	}
	if got := seriesOf(t, b.metrics, "drawbridge_calls_total"); got != 1 {
		t.Errorf("five URIs made %d series, want 1", got)
	}
}

func TestToolThatNeedsATaskIsLeftOut(t *testing.T) {
	b, l := newLibrary(t, TenantConfig{
		ID: "acme", Servers: []string{"lib"},
		Rules: []Rule{
			{Scopes: []string{"admin"}, Allow: []string{"*"}, Announce: true},
			{Allow: []string{"*other"}},
		},
	})
	s := l.source("lib")
	s.Tools[0].Definition = s.Tools[0].Definition.With("execution", mcp.RawJSON(`{"taskSupport":"required"}`))
	s.Tools[1].Definition = s.Tools[1].Definition.With("execution", mcp.RawJSON(`{"taskSupport":"optional"}`))
	b.replace(t, s)
	if got := listed(t, b, b.caller(t, alice)); !slices.Equal(got, []string{"lib__other"}) {
		t.Errorf("listed %v, want lib__other alone", got)
	}
	if _, failure := b.handle(t,
		ask(mcp.MethodToolsCall, `{"name":"lib__ask"}`)); stable(failure) != "DB-TOOL" {
		t.Errorf("called: %v, want an unknown tool", failure)
	}
	if warnings := strings.Join(b.Warnings(), "\n"); !strings.Contains(warnings, "lib__ask") ||
		strings.Contains(warnings, "lib__other") || !strings.Contains(warnings, "task") {
		t.Errorf("warnings = %q, want one of lib__ask", warnings)
	}
}

func TestCollisionsOfEveryKindAreWarnedOf(t *testing.T) {
	b, l := newLibrary(t, TenantConfig{
		ID: "acme", Servers: []string{"lib", "twin"},
		Rules: everything().Rules,
	})
	b.replace(t, l.source("twin")) // with the same prefix
	warnings := strings.Join(b.Warnings(), "\n")
	for _, want := range []string{`tool "lib__ask" of server twin`, `prompt "lib__greet" of server twin`} {
		if !strings.Contains(warnings, want) {
			t.Errorf("warnings = %q, want %s in them", warnings, want)
		}
	}
}

func TestWarningsAreSaidOnceAndBounded(t *testing.T) {
	acme, globex := everything(), everything()
	globex.ID = "globex"
	b, l := newLibrary(t, acme, globex)
	s := l.source("lib")
	s.Tools[0].Definition = s.Tools[0].Definition.With("execution", mcp.RawJSON(`{"taskSupport":"required"}`))
	b.replace(t, s)
	if got := b.Warnings(); len(got) != 1 {
		t.Errorf("one tool that two tenants see: warnings = %q, want one", got)
	}
	for i := range maxWarnings + 1 {
		s.Tools = append(s.Tools, s.Tools[0])
		s.Tools[len(s.Tools)-1].Definition = s.Tools[0].Definition.With("name",
			mcp.String(fmt.Sprint("t", i)))
	}
	b.replace(t, s)
	if got := b.Warnings(); len(got) != maxWarnings+1 || got[maxWarnings] != "2 more of such warnings" {
		t.Errorf("got %d warnings, the last %q", len(got), got[len(got)-1])
	}
}

// TestWarningsAreWorkedOutOnce asks twice, as load balancers do, and again after changes.
func TestWarningsAreWorkedOutOnce(t *testing.T) {
	b, l := newLibrary(t, TenantConfig{ID: "acme", Servers: []string{"lib", "twin"}, Rules: everything().Rules})
	b.replace(t, l.source("twin")) // with the same prefix
	first, again := b.Warnings(), b.Warnings()
	if len(first) == 0 || &first[0] != &again[0] {
		t.Errorf("got %d warnings, and others when asked again", len(first))
	}
	b.SetPolicy("", []TenantConfig{everything()})
	if got := b.Warnings(); len(got) > 0 {
		t.Errorf("without the second server: got %q", got)
	}
	b.SetPolicy("", []TenantConfig{{ID: "acme", Servers: []string{"lib", "twin"}, Rules: everything().Rules}})
	b.registry.Remove("twin")
	if got := b.Warnings(); len(got) > 0 {
		t.Errorf("after the server went: got %q", got)
	}
}

func TestInlineRefs(t *testing.T) {
	tenant := everything()
	b, l := newLibrary(t, tenant)
	s := l.source("lib")
	s.Tools[0].Definition = object(
		`{"name":"ask","inputSchema":{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"integer"}}}}`)
	b.replace(t, s)
	for _, inline := range []bool{false, true} {
		tenant.InlineRefs = inline
		b.SetPolicy("", []TenantConfig{tenant})
		result, _ := b.handle(t, &Request{Method: mcp.MethodToolsList})
		if got := strings.Contains(string(result.JSON()), "$ref"); got == inline {
			t.Errorf("inline_refs %v: %s", inline, result.JSON())
		}
	}
}

// TestUsableIsWhatACallerCanCall has rules that name half of what there is, and a tool
// that nobody can call.
func TestUsableIsWhatACallerCanCall(t *testing.T) {
	b, l := newLibrary(t, TenantConfig{ID: "acme", Servers: []string{"lib"}, Rules: []Rule{
		{Allow: []string{"*", "prompt:*", "resource:*"}}, {Deny: []string{"prompt:lib__part", "resource:*/b.txt"}},
	}})
	s := l.source("lib")
	s.Tools[0].Definition = s.Tools[0].Definition.With("execution", mcp.RawJSON(`{"taskSupport":"required"}`))
	b.replace(t, s)
	items, err := b.Usable(alice)
	var got []string
	for _, item := range items {
		got = append(got, item.Exposed)
	}
	want := []string{
		"lib__other", "lib__greet", exposedURI("a.txt"), exposedURI("logs/{day}"), exposedURI("notes/{day}"),
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if items, err := b.Usable(auth.Principal{TenantID: "nobody"}); err == nil {
		t.Errorf("a tenant that is not served: got %v, want an error", items)
	}
}

// TestInlineRefsOfAnnouncedTools lists tools that the caller may not use.
func TestInlineRefsOfAnnouncedTools(t *testing.T) {
	b, _ := newLibrary(t, TenantConfig{
		ID: "acme", Servers: []string{"lib"}, InlineRefs: true,
		Rules: []Rule{
			{Allow: []string{"lib__other"}},
			{Scopes: []string{"admin"}, Allow: []string{"*"}, Announce: true},
		},
	})
	if got := listed(t, b, b.caller(t, alice)); !slices.Equal(got, []string{"lib__ask", "lib__other"}) {
		t.Errorf("listed %v, want both tools", got)
	}
}

func TestSubscribe(t *testing.T) {
	tenant := everything()
	tenant.Limits.UserCalls = &ratelimit.Limit{Rate: 0.001, Burst: 2}
	b, l := newLibrary(t, tenant)
	c := b.caller(t, alice)
	var told []string
	ctx, cancel := context.WithCancel(t.Context())
	from := From{Remote: "192.0.2.1", Session: "p1-abc", Name: "inspector", Version: "2"}
	opened, err := b.Subscribe(ctx, c, &Request{ID: "r1", From: from}, exposedURI("a.txt"),
		func(uri string) { told = append(told, uri) })
	if err != nil {
		t.Fatal(err)
	}
	cancel() // the request is over, the subscription is not
	if err := l.lives["file:///a.txt"].Err(); err != nil {
		t.Fatalf("the subscription ended with the request that opened it: %v", err)
	}
	if _, timed := l.lives["file:///a.txt"].Deadline(); timed {
		t.Error("the subscription ends with the time of a call")
	}
	l.updated["file:///a.txt"]("file:///a.txt#part")
	if !slices.Equal(told, []string{exposedURI("a.txt#part")}) {
		t.Errorf("told %v, want the exposed URI", told)
	}
	if records := b.records(t); !strings.Contains(records,
		`"client":"inspector","client_version":"2","remote":"192.0.2.1","session":"p1-abc",`+
			`"method":"resources/subscribe","server":"lib","item":"mcp.lib+file:///a.txt","outcome":"ok"`) {
		t.Errorf("audit = %s, want the subscription", records)
	}
	if got := b.subscriptions.InUse(); got != 1 {
		t.Errorf("%d places taken, want 1", got)
	}
	if held := b.config.Memory.InUse(); held < subscriptionCost {
		t.Errorf("%d bytes are held for a subscription, want %d and more", held, subscriptionCost)
	}
	opened.Stop()
	opened.Stop()
	if held := b.config.Memory.InUse(); held != 0 {
		t.Errorf("%d bytes are held after the end of the subscription", held)
	}
	if got := b.subscriptions.InUse(); got != 0 || l.lives["file:///a.txt"].Err() == nil {
		t.Errorf("stopped: %d places taken, context %v; want none and ended", got,
			l.lives["file:///a.txt"].Err())
	}
	if _, err := b.Subscribe(t.Context(), c, &Request{ID: "r2"}, "mcp.none+file:///a.txt",
		func(string) {}); stable(asError(t, err)) != "DB-RESOURCE" {
		t.Errorf("unknown resource: %v", err)
	}
	if _, err := b.Subscribe(t.Context(), c, &Request{ID: "r3"}, exposedURI("a.txt"),
		func(string) {}); stable(asError(t, err)) != "DB-LIMIT-USER" {
		t.Errorf("the third of two calls: %v", err)
	}
}

func asError(t *testing.T, err error) *mcp.Error {
	t.Helper()
	failure, ok := errors.AsType[*mcp.Error](err)
	if !ok {
		t.Errorf("error %v of type %T, want *mcp.Error", err, err)
	}
	return failure
}

func TestSubscriptionsThatDoNotOpenTakeNoPlace(t *testing.T) {
	tests := []struct {
		name, stable string
		spoil        func(b *bench, l *library)
	}{
		{
			"the server refuses", "DB-UPSTREAM-ERROR",
			func(_ *bench, l *library) { l.refuses = mcp.Errorf(-32001, "no") },
		},
		{"the server does not tell", "DB-SUBSCRIBE", func(b *bench, l *library) {
			s := l.source("lib")
			s.Subscribe = nil
			b.registry.Replace(s)
		}},
		{"there is no memory", "DB-LIMIT-MEMORY", func(b *bench, _ *library) {
			for size := b.config.Memory.Total(); size > 0; size /= 2 {
				for b.config.Memory.Take(share.User(alice.User()), size) == nil {
				}
			}
		}},
		{"it panics", "DB-INTERNAL", func(_ *bench, l *library) { l.panicked = true }},
		{
			"it cannot be recorded", "DB-AUDIT-FULL",
			func(b *bench, _ *library) { b.config.Audit = closedLog(t, nil) },
		},
		{"too many are open", "DB-LIMIT-SUBSCRIPTIONS", func(b *bench, _ *library) {
			for range maxSubscriptions / 2 {
				if err := take(b.subscriptions, share.User(alice.User()), maxSubscriptions,
					maxSubscriptions); err != nil {
					t.Fatal(err)
				}
			}
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b, l := newLibrary(t)
			c := b.caller(t, alice)
			test.spoil(b, l)
			before, held := b.subscriptions.InUse(), b.config.Memory.InUse()
			_, err := b.Subscribe(t.Context(), c, &Request{ID: "r1"}, exposedURI("a.txt"), func(string) {})
			if got := stable(asError(t, err)); got != test.stable {
				t.Errorf("got %v, want %s", err, test.stable)
			}
			if got := b.subscriptions.InUse() - before; got != 0 {
				t.Errorf("%d places taken, want none", got)
			}
			if got := b.config.Memory.InUse(); got != held {
				t.Errorf("%d bytes are held, %d before", got, held)
			}
			if life := l.lives["file:///a.txt"]; life != nil && life.Err() == nil {
				t.Error("the subscription goes on")
			}
		})
	}
}

// TestRefusalToFollowSaysWhichBound has a server follow as many resources as it may for a
// user, a tenant, and all.
func TestRefusalToFollowSaysWhichBound(t *testing.T) {
	for bound, want := range map[error]string{
		share.ErrUser:   "You follow as many resources of the server lib",
		share.ErrTenant: "This tenant follows as many resources of the server lib",
		share.ErrTotal:  "All tenants together follow as many resources of the server lib",
	} {
		b, l := newLibrary(t)
		s := l.source("lib")
		s.Subscribe = func(context.Context, share.User, string, func(string), func()) error {
			return &registry.SubscribedError{Server: "lib", Err: bound}
		}
		b.replace(t, s)
		_, err := b.Subscribe(t.Context(), b.caller(t, alice), &Request{ID: "r1"}, exposedURI("a.txt"),
			func(string) {})
		failure := asError(t, err)
		if stable(failure) != "DB-LIMIT-SUBSCRIPTIONS" || !strings.HasPrefix(failure.Message, want) ||
			failure.RetryAfter <= 0 {
			t.Errorf("%v: got %v, want %s", bound, failure, want)
		}
	}
}

func TestSubscriptionEndsWithTheRequestThatStillOpensIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newLibrary(t)
		s := l.source("lib")
		s.Subscribe = func(ctx context.Context, _ share.User, _ string, _ func(string), _ func()) error {
			<-ctx.Done()
			return nil // too late
		}
		b.replace(t, s)
		_, err := b.Subscribe(t.Context(), b.caller(t, alice), &Request{ID: "r1"}, exposedURI("a.txt"),
			func(string) {})
		if stable(asError(t, err)) != "DB-TIMEOUT" || b.subscriptions.InUse() != 0 {
			t.Errorf("got %v and %d places taken, want a timeout", err, b.subscriptions.InUse())
		}
	})
}

// TestNullArgumentsAreNone sends arguments that are null, as some clients do that have
// none.
func TestNullArgumentsAreNone(t *testing.T) {
	for method, names := range map[string][2]string{
		mcp.MethodToolsCall:  {"lib__other", "lib__ask"},
		mcp.MethodPromptsGet: {"lib__part", "lib__greet"},
	} {
		b, l := newLibrary(t)
		l.answers()
		for _, arguments := range []string{``, `,"arguments":null`} {
			_, failure := b.handle(t, ask(method, `{"name":"`+names[0]+`"`+arguments+`}`))
			if failure != nil {
				t.Errorf("%s with %q: %v", method, arguments, failure)
			}
		}
		if len(l.uses) != 2 || l.uses[1].Params.Has("arguments") {
			t.Errorf("%s: the server got %d uses, the last of %v; want no arguments", method, len(l.uses),
				l.uses)
		}
		if records := b.records(t); strings.Contains(records, `"arguments"`) {
			t.Errorf("%s: audit = %s, want no digest of arguments", method, records)
		}
		for _, arguments := range []string{`5`, `[]`, `"{}"`, `[null]`} {
			if _, failure := b.handle(t, ask(method, `{"name":"`+names[0]+`","arguments":`+arguments+
				`}`)); stable(failure) != "DB-PARAMS" {
				t.Errorf("%s with %s: got %v, want DB-PARAMS", method, arguments, failure)
			}
		}
	}
	b, l := newLibrary(t)
	l.answers()
	result, failure := b.handle(t, ask(mcp.MethodPromptsGet, `{"name":"lib__greet","arguments":null}`))
	if stable(failure) != "DB-PARAMS" || len(l.uses) > 0 {
		t.Errorf("a prompt that requires an argument: got %s, %v; want DB-PARAMS", result.JSON(), failure)
	}
	if _, failure := b.handle(t,
		ask(mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"lib__greet"},"argument":null}`)); stable(
		failure) != "DB-PARAMS" {
		t.Errorf("a completion without its argument: got %v, want DB-PARAMS", failure)
	}
}

// TestARepeatMayDropItsNullArguments repeats a call with null arguments without any, and
// the other way round.
func TestARepeatMayDropItsNullArguments(t *testing.T) {
	for _, forms := range [][2]string{
		{`{"name":"lib__other","arguments":null}`, `{"name":"lib__other"}`},
		{`{"name":"lib__other"}`, `{"name":"lib__other","arguments":null}`},
	} {
		b, l := newLibrary(t)
		l.asksOnce(subjects[0])
		result := b.asked(t, ask(mcp.MethodToolsCall, forms[0]))
		if _, failure := b.handle(t, repeat(ask(mcp.MethodToolsCall, forms[1]), result)); failure != nil {
			t.Errorf("%s after %s: %v", forms[1], forms[0], failure)
		}
	}
}

// TestASubscriptionSaysWhoMayHaveIt asks an open subscription after each change of rules.
func TestASubscriptionSaysWhoMayHaveIt(t *testing.T) {
	for _, revoked := range revocations() {
		b, _ := newLibrary(t, everything(), elsewhere())
		opened, err := b.Subscribe(t.Context(), b.caller(t, alice), &Request{ID: "r1"}, exposedURI("a.txt"),
			func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		if !opened.Allows(b.caller(t, alice)) {
			t.Error("refused before anything changed")
		}
		b.revoke(t, revoked)
		if now, err := b.Resolve(alice); err == nil && opened.Allows(now) != revoked.refused {
			t.Errorf("%s: allowed %v", revoked.name, !revoked.refused)
		}
		opened.Stop()
	}
}
