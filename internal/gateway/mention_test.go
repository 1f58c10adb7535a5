package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/metrics/metricstest"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

const secretText = "the contents of a secret"

func embedded(uri string) string {
	return fmt.Sprintf(`{"type":"resource","resource":{"uri":%s,"mimeType":"text/plain","text":%q}}`,
		quote(uri), secretText)
}

func link(uri string) string {
	return fmt.Sprintf(`{"type":"resource_link","uri":%s,"name":"n","description":%q}`, quote(uri),
		secretText)
}

// mentions are the places in which a result can have a content block.
var mentions = []struct {
	name, method, params string
	answer               func(block string) string
}{
	{"a tool's content", mcp.MethodToolsCall, `{"name":"lib__ask"}`, func(block string) string {
		return `{"content":[{"type":"text","text":"before"},` + block + `,{"type":"text","text":"after"}]}`
	}},
	{"a prompt's message", mcp.MethodPromptsGet, `{"name":"lib__part"}`, func(block string) string {
		return `{"messages":[{"role":"user","content":` + block + `}]}`
	}},
	{"a prompt's list", mcp.MethodPromptsGet, `{"name":"lib__part"}`, func(block string) string {
		return `{"messages":[{"role":"user","content":{"type":"text","text":"x"}},{"role":"user","content":[` + block + `]}]}`
	}},
	{"a question", mcp.MethodToolsCall, `{"name":"lib__ask"}`, func(block string) string {
		return `{"resultType":"input_required","inputRequests":{"q":{"method":"sampling/createMessage","params":{"maxTokens":1,"messages":[{"role":"user","content":` +
			block + `}]}}}}`
	}},
	{"what a tool told a model", mcp.MethodToolsCall, `{"name":"lib__ask"}`, func(block string) string {
		return `{"resultType":"input_required","inputRequests":{"q":{"method":"sampling/createMessage","params":{"maxTokens":1,"messages":[{"role":"user","content":[` +
			`{"type":"tool_result","toolUseId":"1","content":[` + block + `]}]}]}}}}`
	}},
}

// restricted is a tenant that may read everything but what the rule denies.
func restricted(deny ...string) TenantConfig {
	tenant := everything()
	tenant.Rules = append(tenant.Rules, Rule{Deny: deny})
	plenty := ratelimit.Limit{Rate: 1e6, Burst: 1e6}
	tenant.Limits.Requests, tenant.Limits.Calls, tenant.Limits.UserCalls = &plenty, &plenty, &plenty
	return tenant
}

// spelled returns URIs that programs take for file:///secret/a or http://intra/x.
func spelled() []string {
	all := []string{
		"secret/a", "/secret/a", "FILE:///secret/a", "file:/secret/a", "file:////secret/a",
		"HTTP://intra/x", "http:intra/x", `http:\\intra\x`, "http://intra", "http://intra?x",
	}
	for _, host := range []string{"localhost", "127.0.0.1", "[::1]", "x"} {
		all = append(all, "file://"+host+"/secret/a")
	}
	for _, path := range []string{
		"a", "%61", "a?q", "a#f", "a/", "./a", "x/../a", "%2e/a", "/a", "a;p",
		"a%20", `\a`, "\u200ba", "a b",
	} {
		all = append(all, "file:///secret/"+path, "file:///./secret/"+path, "file:///x/../secret/"+path,
			"file:///%73ecret/"+path, "file:///%2573ecret/"+path)
	}
	for _, host := range []string{
		"intra", "INTRA", "\uff49ntra", "intra.", "%69ntra", "in\u00adtra",
		"u@intra", "xn--intra-",
	} {
		for _, port := range []string{"", ":", ":80", ":080"} {
			all = append(all, "http://"+host+port+"/x")
		}
	}
	return all
}

// A result could carry what the rules deny its reader: the embedded contents of a denied
// resource, or a link to one.
func TestDeniedResourceWithinAResult(t *testing.T) {
	b, l := newLibrary(t, restricted("resource:lib:file:///secret/*", "resource:lib:http://intra/*"))
	left := 0
	for _, place := range mentions {
		for _, uri := range spelled() {
			for _, block := range []string{embedded(uri), link(uri)} {
				if strings.Contains(block, "link") && !strings.HasPrefix(strings.ToLower(uri), "file:") {
					continue // the client does not read it here, see below
				}
				l.says(place.answer(block))
				result, failure := b.handle(t, ask(place.method, place.params))
				got := string(result.JSON())
				if failure != nil || strings.Contains(got, secretText) || strings.Contains(got, uri) ||
					!strings.Contains(got, `{"type":"text","text":"[left out: `) {
					t.Errorf("%s: %s: got %s, %v; want a note in its place", place.name, block, got, failure)
				}
				left++
			}
		}
	}
	if got := metricstest.Sum(t, b.metrics, "drawbridge_output_repairs_total"); got != float64(left) {
		t.Errorf("%v repairs are counted, want %d", got, left)
	}
	if records := b.records(t); strings.Count(records, `"repairs":1`) != left {
		t.Errorf("%d records of one repair, want %d", strings.Count(records, `"repairs":1`), left)
	}
}

// TestARuleOfAReloadHoldsForResultsThatAreHeld has the rules change while a result waits
// for its client as that of a task.
func TestARuleOfAReloadHoldsForResultsThatAreHeld(t *testing.T) {
	for _, test := range []struct{ uri, denied, want string }{
		{"file:///secret/a", "resource:lib:file:///secret/*", "DB-TASK"},
		{"file:///a", "resource:lib:file:///secret/*", ""},
	} {
		b, l := newTasks(t, mcp.TasksGiven)
		b.tasks.memory = share.New(1 << 20)
		l.says(`{"content":[` + embedded(test.uri) + `]}`)
		made, failure := b.handle(t, knowing(mcp.TasksAsked, mcp.MethodToolsCall, `{"name":"lib__ask","task":{}}`))
		if failure != nil || !made.Has("task") {
			t.Fatalf("got %s, %v, want a task", made.JSON(), failure)
		}
		for _, rules := range []struct {
			tenant TenantConfig
			want   string
		}{{b.tenants.Load().byID["acme"].config, ""}, {restricted(test.denied), test.want}} {
			b.SetPolicy("", []TenantConfig{rules.tenant})
			result, failure := b.handle(t, about(mcp.TasksAsked, mcp.MethodTasksResult,
				made.Object("task").Text("taskId"), ""))
			if stable(failure) != rules.want || strings.Contains(string(result.JSON()), secretText) != (rules.want == "") {
				t.Errorf("%s: got %s, %v, want %q", test.uri, result.JSON(), failure, rules.want)
			}
		}
	}
}

// TestARuleOfAReloadHoldsForResultsOfCallsInWork has the rules change while a server
// works.
func TestARuleOfAReloadHoldsForResultsOfCallsInWork(t *testing.T) {
	b, l := newLibrary(t)
	l.reply = func(context.Context, *registry.Call) (mcp.Object, error) {
		b.SetPolicy("", []TenantConfig{restricted("resource:lib:file:///secret/*")})
		return object(mentions[0].answer(embedded("file:///secret/a"))), nil
	}
	result, failure := b.handle(t, ask(mentions[0].method, mentions[0].params))
	if got := string(result.JSON()); failure != nil || strings.Contains(got, secretText) {
		t.Errorf("got %s, %v; want a note in place of what is denied by now", got, failure)
	}
}

func TestWhichMentionsOfResourcesAreShown(t *testing.T) {
	toolsOnly := everything()
	toolsOnly.Rules = []Rule{{Allow: []string{"*", "prompt:*"}}}
	some := everything()
	some.Rules = []Rule{{Allow: []string{"*", "prompt:*", "resource:lib:file:///a*"}}}
	denying, otherwise := restricted("resource:lib:file:///secret/*", "resource:lib:https://intra/*"),
		restricted("resource:oth*:*")
	scoped := everything()
	scoped.Rules = append(scoped.Rules, Rule{Scopes: []string{"nobody"}, Deny: []string{"resource:*"}})
	for _, test := range []struct {
		name   string
		tenant TenantConfig
		block  string
		shown  bool
	}{
		{"made up by an allowed tool", toolsOnly, embedded("made://up"), true},
		{"made up oddly", toolsOnly, embedded("no URI at all"), true},
		{"linked, and not to be read", toolsOnly, link("file:///a.txt"), false},
		{"linked, and to be read", some, link("file:///a.txt"), true},
		{"linked, and not in the pattern", some, link("file:///b.txt"), false},
		{"linked to the web", toolsOnly, link("https://Web.example"), true},
		{"linked to the web, where others are denied", denying, link("https://Web.example"), true},
		{"linked to the web, denied", denying, link("https://intra/x"), false},
		{"linked to the web, denied in capitals", denying, link("https://INTRA?x"), false},
		{"linked to the web, denied with its port", denying, link("https://intra:443/x"), false},
		{"linked to the web, of a user", denying, link("https://u@intra/x"), false},
		{"linked to the web, with a strange port", denying, link("https://intra:0443/x"), false},
		{"linked to the web, in wide letters", denying, link("https://\uff49ntra/x"), false},
		{"linked to the web, with two readings", denying, link("https://public/../x"), false},
		{"linked to the web without slashes", denying, link("HTTPS:intra/x"), false},
		{
			"linked to the web, where only files are denied", restricted("resource:lib:file:///secret/*"),
			link("https://\uff49ntra/../x"), true,
		},
		{"linked to data", denying, link("data:text/plain,a b"), true},
		{"linked to no URI", denying, link("read me.md"), true},
		{"not denied", denying, embedded("file:///public/a"), true},
		{"not denied, linked", denying, link("file:///public/a"), true},
		{"of a host of the server's own", denying, embedded("memo://Insights"), true},
		{"with two readings, but listed", denying, embedded("file://localhost/listed"), true},
		{"with two readings, but listed, linked", denying, link("file://localhost/listed"), true},
		{"with two readings", denying, embedded("file://localhost/other"), false},
		{"with two readings, linked", denying, link("file://localhost/other"), false},
		{"another server's rule", otherwise, embedded("file://localhost/other"), true},
		{"another caller's rule", scoped, embedded("file:///a.txt"), true},
		{"without a URI", denying, `{"type":"resource","resource":{"text":"` + secretText + `"}}`, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, prefix := range []string{"lib", ""} {
				b, l := newLibrary(t, test.tenant)
				source := l.source("lib")
				source.Prefix = prefix
				source.Resources = append(source.Resources,
					object(`{"name":"l","uri":"file://localhost/listed"}`))
				b.replace(t, source)
				l.says(`{"content":[` + test.block + `],"structuredContent":{"content":[` + test.block +
					`]}}`)
				params := `{"name":"` + strings.TrimPrefix(prefix+"__ask", "__") + `"}`
				result, failure := b.handle(t, ask(mcp.MethodToolsCall, params))
				content := string(result.Value("content"))
				if failure != nil || strings.Contains(content, secretText) != test.shown ||
					strings.Contains(content, "[left out: ") == test.shown {
					t.Errorf("prefix %q: got %s, %v; want it shown: %v", prefix, result.JSON(), failure,
						test.shown)
				}
				if !strings.Contains(string(result.Value("structuredContent")), secretText) {
					t.Errorf("prefix %q: structured content has become %s", prefix,
						result.Value("structuredContent"))
				}
			}
		})
	}
}

// A server may answer a resources/read with other resources than the one that was asked
// for.
func TestReadAnsweredWithADeniedResource(t *testing.T) {
	b, l := newLibrary(t, restricted("resource:lib:file:///secret/*"))
	l.says(`{"contents":[{"uri":"file:///a.txt","text":"one"},{"uri":"file:///secret/a","text":"` +
		secretText + `"},{"uri":"file:///secret/../secret/a","blob":"c2VjcmV0"}]}`)
	result, failure := b.handle(t, ask(mcp.MethodResourcesRead, `{"uri":"mcp.lib+file:///a.txt"}`))
	const note = `{"uri":"mcp.lib+file:///a.txt","mimeType":"text/plain","text":"[left out: a resource that the rules of this gateway do not let you read]"}`
	const want = `[{"uri":"mcp.lib+file:///a.txt","text":"one"},` + note + `,` + note + `]`
	if got := string(result.Value("contents")); failure != nil || got != want {
		t.Errorf("got  %s, %v\nwant %s", got, failure, want)
	}
}

// The result of a task is judged as that of a call.
func TestTaskThatEndsWithADeniedResource(t *testing.T) {
	for _, form := range []mcp.Tasks{mcp.TasksGiven, mcp.TasksAsked} {
		b, l := newTasks(t, form, restricted("resource:lib:file:///secret/*"))
		id := made(t, b, l, form)
		method, answer := mcp.MethodTasksGet,
			`{"taskId":"own-1","status":"completed","result":{"content":[%s,%s]}}`
		if form == mcp.TasksAsked {
			method, answer = mcp.MethodTasksResult, `{"content":[%s,%s]}`
		}
		l.says(fmt.Sprintf(answer, embedded("file:///secret/a"), link("file:///secret/a")))
		result, failure := b.handle(t, about(form, method, id, ""))
		if got := string(result.JSON()); failure != nil || strings.Contains(got, secretText) ||
			strings.Count(got, "[left out: ") != 2 {
			t.Errorf("%v: got %s, %v; want two notes", form, got, failure)
		}
	}
}

// A change of a part of a resource is told by the part's URI, which may be denied.
func TestChangeOfADeniedPart(t *testing.T) {
	b, _ := newLibrary(t, restricted("resource:lib:file:///a.txt/secret*"))
	c := b.caller(t, alice)
	for uri, want := range map[string]bool{
		"mcp.lib+file:///a.txt": true, "mcp.lib+file:///a.txt/part": true,
		"mcp.lib+file:///a.txt/secret": false, "mcp.lib+file://localhost/a.txt/part": false,
	} {
		if got := b.Reads(c, uri); got != want {
			t.Errorf("%s is told: %v, want %v", uri, got, want)
		}
	}
}

// A server could keep a processor busy with many links that many patterns are tried on.
func TestJudgingOfMentionsIsBounded(t *testing.T) {
	tenant := everything()
	deny := make([]string, 500)
	for i := range deny {
		deny[i] = fmt.Sprintf("resource:lib:*a*a*%d*b", i)
	}
	tenant.Rules = append(tenant.Rules, Rule{Deny: deny})
	b, l := newLibrary(t, tenant)
	many := strings.Repeat(link("file:///"+strings.Repeat("a", 2000))+",", 5_000)
	l.says(`{"content":[` + link("file:///first") + `,` + many + link("file:///last") + `]}`)
	began := time.Now()
	result, failure := b.handle(t, ask(mcp.MethodToolsCall, `{"name":"lib__ask"}`))
	if took := time.Since(began); took > time.Minute {
		t.Errorf("took %v", took)
	}
	got := string(result.Value("content"))
	if failure != nil || !strings.Contains(got, "file:///first") || strings.Contains(got, "file:///last") {
		t.Errorf("%v: the first link must be shown, and the last one must not, because nobody judged it",
			failure)
	}
}
