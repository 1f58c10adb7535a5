package gateway

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// appHost is what a client declares that shows apps.
var appHost, _ = (*mcp.ExtensionTable)(nil).OfClient(
	mcp.RawJSON(`{"` + mcp.ExtensionApps + `":{"mimeTypes":["` + mcp.MediaApp + `"]}}`))

// appServer offers a tool with a view, one for views alone, one for models alone, and a
// view that it lists.
func appServer(name string, seen *[]*registry.Call) registry.Source {
	var use registry.Func = func(_ context.Context, c *registry.Call) (mcp.Object, error) {
		*seen = append(*seen, c)
		if c.Method == mcp.MethodResourcesRead {
			return object(`{"contents":[{"uri":"` + c.Target + `","mimeType":"` + mcp.MediaApp +
				`","text":"<p>view</p>"}]}`), nil
		}
		return object(`{"content":[{"type":"resource_link","uri":"ui://chart/view.html","name":"v"}],` +
				`"_meta":{"ui":{"resourceUri":"ui://chart/view.html"},"ui/resourceUri":"ui://chart/view.html"}}`),
			nil
	}
	tool := func(definition string) registry.Offer {
		return registry.Offer{Definition: object(definition), Timeout: libraryTime, Call: use}
	}
	return registry.Source{
		Name: name, Prefix: name, Use: use, Reads: true,
		Tools: []registry.Offer{
			tool(
				`{"name":"draw","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://chart/view.html"},"ui/resourceUri":"ui://chart/view.html","x":1}}`),
			tool(`{"name":"refresh","inputSchema":{"type":"object"},"_meta":{"ui":{"visibility":["app"]}}}`),
			tool(`{"name":"think","inputSchema":{"type":"object"},"_meta":{"ui":{"visibility":["model"]}}}`),
		},
		Resources: []mcp.Object{
			object(`{"uri":"ui://chart/view.html","name":"view","mimeType":"` + mcp.MediaApp + `"}`),
			object(`{"uri":"ui://mod/own.html","name":"own"}`),
		},
	}
}

func newAppBench(t *testing.T, rules []Rule, servers ...string) (*bench, *[]*registry.Call) {
	t.Helper()
	b := newBench(t, TenantConfig{ID: "acme", Servers: append(servers, "box"), Rules: rules})
	seen := &[]*registry.Call{}
	for _, name := range servers {
		b.replace(t, appServer(name, seen))
	}
	return b, seen
}

var everyItem = []Rule{{Allow: []string{"*", "resource:*"}}}

// toolsFor returns what a client with these extensions sees listed, with the visibility
// and view of each.
func toolsFor(t *testing.T, b *bench, extensions mcp.Extensions) (all []string) {
	t.Helper()
	r := ask(mcp.MethodToolsList, `{}`)
	r.Extensions = extensions
	result, failure := b.handle(t, r)
	if failure != nil {
		t.Fatal(failure)
	}
	tools, _ := result.Value("tools").Elements()
	for _, raw := range tools {
		tool, _ := mcp.ObjectOf(raw)
		meta := tool.Object("_meta")
		line := []string{tool.Text("name")}
		if visible := meta.Object("ui").Value("visibility"); visible != nil {
			line = append(line, string(visible))
		}
		for _, uri := range []string{meta.Object("ui").Text("resourceUri"), meta.Text("ui/resourceUri")} {
			if uri != "" {
				line = append(line, uri)
			}
		}
		all = append(all, strings.Join(line, " "))
	}
	return all
}

func TestToolsOfAppsAreListedToWhoCanShowThem(t *testing.T) {
	b, _ := newAppBench(t, everyItem, "mod")
	got := slices.DeleteFunc(toolsFor(t, b, appHost), func(line string) bool {
		return strings.HasPrefix(line, "box__") && strings.HasSuffix(line, ` ["model"]`)
	})
	want := []string{
		"mod__draw ui://mod/chart/view.html ui://mod/chart/view.html", `mod__refresh ["app"]`,
		`mod__think ["model"]`,
		`draw ["app"]`, `refresh ["app"]`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("to a host of apps: got %q, want %q", got, want)
	}
	got = slices.DeleteFunc(toolsFor(t, b, mcp.Extensions{}),
		func(line string) bool { return strings.HasPrefix(line, "box__") })
	if want := []string{
		"mod__draw ui://mod/chart/view.html ui://mod/chart/view.html",
		`mod__think ["model"]`,
	}; !slices.Equal(got, want) {
		t.Errorf("to others: got %q, want %q", got, want)
	}
}

// TestToolsForViewsAloneAreListedToHostsAlone lists to a client that knows tasks and
// hosts no apps what a server has that offers tools for views, and shows none.
func TestToolsForViewsAloneAreListedToHostsAlone(t *testing.T) {
	b, seen := newAppBench(t, everyItem, "mod")
	source := appServer("mod", seen)
	source.Tools = append(source.Tools[1:], registry.Offer{
		Definition: object(
			`{"name":"long","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`),
		Timeout: libraryTime, Tasks: mcp.TasksAsked, Call: source.Tools[0].Call,
	})
	b.replace(t, source)
	result, failure := b.handle(t, knowing(mcp.TasksAsked, mcp.MethodToolsList, `{}`))
	if failure != nil {
		t.Fatal(failure)
	}
	for name, want := range map[string]bool{"mod__long": true, "mod__think": true, "mod__refresh": false} {
		if got := strings.Contains(string(result.Value("tools")), `"`+name+`"`); got != want {
			t.Errorf("%s is listed: %t, want %t", name, got, want)
		}
	}
}

func TestListsStayAsTheyAreWhereNoServerHasApps(t *testing.T) {
	b := newBench(t)
	if with, without := toolsFor(t, b, appHost), toolsFor(t, b, mcp.Extensions{}); !slices.Equal(with,
		without) {
		t.Errorf("got %q, want %q", with, without)
	}
}

func TestExtensionsAreOfferedOfTheServersThatACallerSees(t *testing.T) {
	const apps = `"io.modelcontextprotocol/ui":{}`
	for name, rules := range map[string][]Rule{"sees": everyItem, "does not": {{Allow: []string{"box__*"}}}} {
		b, _ := newAppBench(t, rules, "mod")
		result, failure := b.handle(t, ask(mcp.MethodDiscover, `{}`))
		if failure != nil {
			t.Fatal(failure)
		}
		if got := string(result.Value("capabilities")); strings.Contains(got, apps) != (name == "sees") ||
			!strings.Contains(got, mcp.ExtensionTasks) {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

func TestViewThatMayNotBeReadIsNotNamed(t *testing.T) {
	b, _ := newAppBench(t, []Rule{{Allow: []string{"*"}}}, "mod")
	if got := toolsFor(t, b, appHost)[0]; got != "mod__draw" {
		t.Errorf("got %q, want the tool without its view", got)
	}
	r := request("mod__draw", `{}`)
	r.Extensions = appHost
	result, failure := b.handle(t, r)
	if failure != nil || strings.Contains(string(result.JSON()), "ui://") {
		t.Errorf("got %s, %v; want no view", result.JSON(), failure)
	}
}

func TestViewsAreNamedAndReadByOneURI(t *testing.T) {
	b, seen := newAppBench(t, everyItem, "mod", "other")
	r := request("mod__draw", `{}`)
	r.Extensions = appHost
	result, failure := b.handle(t, r)
	if failure != nil {
		t.Fatal(failure)
	}
	if got := string(result.JSON()); strings.Count(got, "ui://mod/chart/view.html") != 3 ||
		strings.Contains(got, `"ui://chart`) {
		t.Errorf("the result names the view as %s", got)
	}
	if (*seen)[0].Extensions != appHost {
		t.Errorf("the source is told of %s", (*seen)[0].Extensions.JSON())
	}
	for uri, want := range map[string]string{
		"ui://mod/chart/view.html": "ui://chart/view.html", "ui://mod/mod/own.html": "ui://mod/own.html",
		"ui://mod/own.html": "ui://mod/own.html", "ui://mod/chart/unlisted.js": "ui://chart/unlisted.js",
	} {
		result, failure := b.handle(t, ask(mcp.MethodResourcesRead, `{"uri":"`+uri+`"}`))
		if failure != nil {
			t.Errorf("%s: %v", uri, failure)
			continue
		}
		last := (*seen)[len(*seen)-1]
		if last.Target != want || !strings.Contains(string(result.JSON()), `"uri":"ui://mod/`+
			strings.TrimPrefix(want, "ui://")+`"`) {
			t.Errorf("%s: read %s, got %s", uri, last.Target, result.JSON())
		}
	}
}

func TestOwnNamesOfAppsResolveUnlessTheyAreAmbiguous(t *testing.T) {
	own := func(b *bench, extensions mcp.Extensions) *mcp.Error {
		r := request("refresh", `{}`)
		r.Extensions = extensions
		_, failure := b.handle(t, r)
		return failure
	}
	b, seen := newAppBench(t, everyItem, "mod")
	if failure := own(b, appHost); failure != nil || (*seen)[0].Target != "refresh" {
		t.Errorf("got %v", failure)
	}
	if !strings.Contains(b.records(t), `"item":"mod__refresh"`) {
		t.Errorf("on record: %s", b.records(t))
	}
	if failure := own(b, mcp.Extensions{}); failure.StableCode() != "DB-TOOL" {
		t.Errorf("without apps: got %v, want that it is unknown", failure)
	}
	app := request("mod__refresh", `{}`)
	if _, failure := b.handle(t, app); failure.StableCode() != "DB-TOOL" {
		t.Errorf("a tool for views alone: got %v, want that it is unknown", failure)
	}
	read := ask(mcp.MethodResourcesRead, `{"uri":"ui://chart/view.html"}`)
	if _, failure := b.handle(t, read); failure != nil {
		t.Errorf("its own URI: %v", failure)
	}
	two, _ := newAppBench(t, everyItem, "mod", "other")
	if failure := own(two, appHost); failure.StableCode() != "DB-AMBIGUOUS" {
		t.Errorf("of two servers: got %v, want that it is ambiguous", failure)
	}
	if _, failure := two.handle(t, read); failure.StableCode() != "DB-AMBIGUOUS" {
		t.Errorf("a URI of two servers: got %v, want that it is ambiguous", failure)
	}
	if listed := toolsFor(t, two, appHost); slices.ContainsFunc(listed,
		func(line string) bool { return strings.HasPrefix(line, "refresh") }) {
		t.Errorf("of two servers: listed %q", listed)
	}
	one, _ := newAppBench(t, []Rule{{Allow: []string{"*", "resource:mod:*"}, Deny: []string{"other__*"}}},
		"mod", "other")
	if failure := own(one, appHost); failure != nil {
		t.Errorf("where the rules leave one: %v", failure)
	}
	if _, failure := one.handle(t, read); failure != nil {
		t.Errorf("a URI where the rules leave one: %v", failure)
	}
	if !slices.ContainsFunc(two.Warnings(),
		func(text string) bool {
			return strings.Contains(text, "mod, other") &&
				strings.Contains(text, "app")
		}) {
		t.Errorf("of two servers with apps: warned of %q", two.Warnings())
	}
}

// TestOwnNamesOfAppsAreNoNamesOfAnnouncedTools announces a tool under the name that the
// server of an app gives to one of its own.
func TestOwnNamesOfAppsAreNoNamesOfAnnouncedTools(t *testing.T) {
	seen := &[]*registry.Call{}
	b := newBench(t, TenantConfig{ID: "acme", Servers: []string{"mod", "bare"}, Rules: []Rule{
		{Allow: []string{"mod__*"}}, {Scopes: []string{"more"}, Allow: []string{"refresh"}, Announce: true},
	}})
	app := appServer("mod", seen)
	b.replace(t, app)
	b.replace(t, registry.Source{Name: "bare", Tools: []registry.Offer{{
		Definition: object(`{"name":"refresh","inputSchema":{"type":"object"}}`), Timeout: libraryTime,
		Call: app.Tools[0].Call,
	}}})
	named := slices.DeleteFunc(toolsFor(t, b, appHost),
		func(line string) bool { return !strings.HasPrefix(line, "refresh") })
	if len(named) != 1 {
		t.Errorf("listed under that name: %q, want one", named)
	}
	r := request("refresh", `{}`)
	r.Extensions = appHost
	if _, failure := b.handle(t, r); failure == nil || len(*seen) > 0 {
		t.Errorf("called: got %v and %d calls, want the announced tool refused", failure, len(*seen))
	}
}

// TestHeadersRepeatWhatTheListOfAClientSays has a tool whose argument travels as a header
// in the list of clients without apps alone.
func TestHeadersRepeatWhatTheListOfAClientSays(t *testing.T) {
	b, seen := newAppBench(t, everyItem, "mod")
	source := appServer("mod", seen)
	source.Varying = mcp.ExtensionsNamed(mcp.ExtensionApps)
	source.Base = source.Varying
	source.Variants = []registry.Variant{{Tools: []registry.Offer{{
		Definition: object(`{"name":"draw","inputSchema":{"type":"object","properties":{"at":{"type":"string",` +
			`"x-mcp-header":"At"}}}}`),
		Timeout: libraryTime, Call: source.Tools[0].Call,
	}}}}
	b.replace(t, source)
	c, err := b.Resolve(alice)
	if err != nil {
		t.Fatal(err)
	}
	for extensions, want := range map[mcp.Extensions]int{{}: 1, appHost: 0} {
		if got := b.HeaderParams(c, extensions, "mod__draw"); len(got) != want {
			t.Errorf("clients that declare %s: got %v, want %d", extensions.JSON(), got, want)
		}
	}
}

// TestClientsAreToldOfTheirOwnLists changes what a server lists to clients without apps
// alone: they see it, call it by it, and are told of it.
func TestClientsAreToldOfTheirOwnLists(t *testing.T) {
	b, seen := newAppBench(t, everyItem, "mod")
	source := appServer("mod", seen)
	source.Varying = mcp.ExtensionsNamed(mcp.ExtensionApps)
	source.Base = source.Varying
	plain := func(names ...string) (digests Digests) {
		offers := make([]registry.Offer, 0, len(names))
		for _, name := range names {
			offers = append(offers, registry.Offer{
				Definition: object(`{"name":"` + name + `","inputSchema":{"type":"object"}}`),
				Timeout:    libraryTime, Call: source.Tools[0].Call,
			})
		}
		source.Variants = []registry.Variant{{Tools: offers}}
		b.replace(t, source)
		c, err := b.Resolve(alice)
		if err != nil {
			t.Fatal(err)
		}
		return b.Lists(c)
	}
	first := plain("describe")
	hosts := toolsFor(t, b, appHost)
	second := plain("describe", "tell")
	if first[digestOfTools] == second[digestOfTools] || first[digestOfPrompts] != second[digestOfPrompts] ||
		first[digestOfResources].Listed == "" {
		t.Errorf("digests before %+v and after %+v a tool came for clients without apps", first, second)
	}
	if got := toolsFor(t, b, appHost); !slices.Equal(got, hosts) || slices.ContainsFunc(got, func(line string) bool {
		return strings.Contains(line, "describe")
	}) {
		t.Errorf("a host of apps sees %q, and before %q", got, hosts)
	}
	got := slices.DeleteFunc(toolsFor(t, b, mcp.Extensions{}), func(line string) bool { return strings.HasPrefix(line, "box__") })
	if want := []string{"mod__describe", "mod__tell"}; !slices.Equal(got, want) {
		t.Errorf("other clients see %q, want %q", got, want)
	}
	for extensions, works := range map[mcp.Extensions]bool{{}: true, appHost: false} {
		r := ask(mcp.MethodToolsCall, `{"name":"mod__tell","arguments":{}}`)
		r.Extensions = extensions
		if _, failure := b.handle(t, r); (failure == nil) != works {
			t.Errorf("%s: a call of what other clients see: %v, want it to work: %t", extensions.JSON(), failure, works)
		}
	}
}

// TestClientsSubscribeToWhatTheyList has a server list a resource to hosts of apps alone,
// under a URI that nobody finds who does not list it.
func TestClientsSubscribeToWhatTheyList(t *testing.T) {
	b, l := newLibrary(t)
	source := l.source("lib")
	source.Varying = mcp.ExtensionsNamed(mcp.ExtensionApps)
	source.Base = source.Varying
	source.Variants = []registry.Variant{{Tools: source.Tools, Resources: source.Resources}}
	source.Resources = append(source.Resources, object(`{"name":"c","uri":"file:///c//d"}`))
	b.replace(t, source)
	for extensions, want := range map[mcp.Extensions]string{appHost: "", {}: "DB-RESOURCE"} {
		got := ""
		r := &Request{ID: "r1", Extensions: extensions}
		opened, err := b.Subscribe(t.Context(), b.caller(t, alice), r, exposedURI("c//d"), func(string) {})
		if err == nil {
			opened.Stop()
		} else {
			got = asError(t, err).StableCode()
		}
		if got != want {
			t.Errorf("clients that declare %s: got %q, want %q", extensions.JSON(), got, want)
		}
	}
}
