package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// described returns a definition of a prompt, resource or template.
func described(member, value string) mcp.Object {
	o := mcp.NewObject(mcp.Member{Name: member, Value: mcp.String(value)})
	if member != "name" {
		o = o.With("name", mcp.String("n"))
	}
	return o
}

// library returns a source with resources and templates.
func library(name, prefix string, resources, templates []string) registry.Source {
	s := registry.Source{Name: name, Prefix: prefix, Use: answer(name), Reads: true}
	for _, uri := range resources {
		s.Resources = append(s.Resources, described("uri", uri))
	}
	for _, uri := range templates {
		s.Templates = append(s.Templates, described("uriTemplate", uri))
	}
	return s
}

func TestResourcesAreRouted(t *testing.T) {
	r := registry.New()
	mustReplace(t, r, library("box", "box", []string{"file:///a", "test://odd/../name"},
		[]string{"test://{id}"}))
	mustReplace(t, r, library("plain", "", []string{"file:///a"},
		[]string{"repo://{owner}/{name}", "{+any}"}))
	mustReplace(t, r, library("other", "", nil, []string{"repo://me/{name}{?ref}", "mem:x{/path*}"}))
	mustReplace(t, r, registry.Source{
		Name: "mute", Prefix: "mute", Use: answer("mute"),
		Prompts: []mcp.Object{described("name", "p")},
	})
	all := []string{"box", "plain", "other", "mute"}
	for _, test := range []struct {
		name    string
		servers []string
		uri     string
		want    string // server:own URI; "" is unknown
	}{
		{"listed", all, "mcp.box+file:///a", "box:file:///a"},
		{
			"listed, although its form is not plain", all, "mcp.box+test://odd/../name",
			"box:test://odd/../name",
		},
		{"the same of a server without prefix", all, "file:///a", "plain:file:///a"},
		{"by form", all, "mcp.box+test://7", "box:test://7"},
		{"by form, in no template", all, "mcp.box+memo://x?y=z", "box:memo://x?y=z"},
		{"by form, URI of a form", all, "mcp.box+mcp.plain+file:///a", "box:mcp.plain+file:///a"},
		{
			"form of a server that is not in the view",
			[]string{"plain"},
			"mcp.box+test://7",
			"plain:mcp.box+test://7",
		},
		{"form of a server without prefix", all, "mcp.plain+file:///a", "plain:mcp.plain+file:///a"},
		{"form of a server without resources", all, "mcp.mute+file:///a", ""},
		{"own URI without the form", []string{"box"}, "file:///a", ""},
		{"more literal text counts", all, "repo://me/x", "other:repo://me/x"},
		{"the other template", all, "repo://you/x", "plain:repo://you/x"},
		{"optional parts", all, "repo://me/x?ref=a/b", "other:repo://me/x?ref=a/b"},
		{"path", all, "mem:x/a/b", "other:mem:x/a/b"},
		{"the template of anything", all, "zip://x", "plain:zip://x"},
		{"the only one", []string{"box", "other"}, "zip://x", "other:zip://x"},
		{"one of two", []string{"other", "plain", "box"}, "zip://x", "plain:zip://x"},
		{"no absolute URI", all, "mcp.box+a", ""},
		{"nothing", all, "", ""},
		{"empty", all, "mcp.box+", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			found, err := r.Catalogue().View(test.servers).Resource(test.uri)
			if test.want == "" {
				if !errors.Is(err, registry.ErrNotFound) {
					t.Fatalf("got %+v, %v; want ErrNotFound", found, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if found.PolicyName() != test.want || found.Exposed != test.uri ||
				found.Timeout != 30*time.Second {
				t.Errorf("got %s, %s, %v; want %s", found.PolicyName(), found.Exposed, found.Timeout,
					test.want)
			}
			c := &registry.Call{Method: mcp.MethodResourcesRead}
			if result, err := found.Call(t.Context(), c); err != nil || result.Text("by") != found.Server ||
				c.Target != found.Name {
				t.Errorf("got %s, %v, target %s", result.JSON(), err, c.Target)
			}
		})
	}
}

func TestTwoServersThatMayHaveAURIHaveNone(t *testing.T) {
	r := registry.New()
	mustReplace(t, r, library("a", "", nil, nil))
	mustReplace(t, r, library("b", "", nil, nil))
	if found, err := r.Catalogue().View([]string{"a", "b"}).Resource("x:y"); !errors.Is(err,
		registry.ErrNotFound) {
		t.Errorf("got %+v, %v; want ErrNotFound", found, err)
	}
	if found, err := r.Catalogue().View([]string{"b"}).Resource("x:y"); err != nil || found.Server != "b" {
		t.Errorf("got %+v, %v; want that of b", found, err)
	}
}

// A URI that a server may read as another one could pass by a pattern that denies that
// one.
func TestURIsWithASecondReadingAreUnknown(t *testing.T) {
	r := registry.New()
	mustReplace(t, r, library("box", "box", nil, []string{"file:///{+path}"}))
	mustReplace(t, r, library("plain", "", nil, nil))
	view := r.Catalogue().View([]string{"box", "plain"})
	for _, uri := range []string{
		"file:///public/../secret", "file:///public/..", "file:///./secret", "file:..",
		"file:///a/%2e%2e/secret", "file:///a/.%2E/secret",
		"file:///a/%252e%252e/secret", "file:///a/%25252e%25252e/secret", "file:///a/%2525252e%2525252e/b",
		"file:///a%2f..%2fsecret", "file:///a%252f..%252fb",
		`file:///a\..\secret`, "file:///a%5c..%5csecret", `file:///a\b`, "file:///a%255cb",
		"file:///a?path=../b", "file:///a#..", "file:///a;/../b",
		"file:///a\x00", "file:///a\nb", "file:///a b", "file:///a%00", "file:///a%0d", "file:///a%7f",
		"file:///a\u200bb", "file:///a%e2%80%8bb", "file:///\xff", "file:///%ff",
		"file:////secret", "file:///secret//x", "file:///s%65cret/x", "file:///secret%2Fx",
		"file:///secret%2fx", "file:///a%2Db", "file:///a%", "file:///a%4", "file:///a%zz",
		"FILE:///secret", "File:///secret", "file:/secret", "file:secret", "file://localhost/secret",
		"file://LOCALHOST/secret",
		"https://API.test/x", "https://api.test:443/x", "http://api.test:80/x", "https://u@api.test/x",
		"https://api.test./x", "https://api.test.:8443/x",
		"https://api.test:/x", "https://%61pi.test/x", "https:api.test/x", "https:/api.test/x", "Test://host",
		"file://nas/share", "test://u@h:80/a;b=c,d", "docs://http://API.test/x", "docs://http:/api.test/x",
		"docs://x?u=http://127.1/x", "memo://intra://x", "memo://intra:///x", "docs://http:7/x",
		"docs://HTTP:7/x", "docs://http:x://y", "git+http://127.1/x",
		"url:http://api.test/x", "docs:http:api.test/x", "docs:http:/u@API.test/x", "docs:HTTP://api.test/x",
		"docs:url:http://api.test/x", "urn:docs:http:api.test", "docs:file:secret", "jar:file:/secret!/x",
		"file:///%zz/%252e%252e/b", "../secret", "/secret", "file", ":a", "1a:b", "fi le:a", "file:///" +
			strings.Repeat("a", 2041),
	} {
		for _, exposed := range []string{uri, "mcp.box+" + uri} {
			if found, err := view.Resource(exposed); !errors.Is(err, registry.ErrNotFound) {
				t.Errorf("%q: got %s, %v; want ErrNotFound", exposed, found.PolicyName(), err)
			}
		}
	}
	for _, uri := range []string{
		"file:///public/a.txt", "file:///a/...", "file:///.hidden/x..y", "test://host", "test://host/",
		"urn:isbn:0451450523", "file:///a%20b", "file:///100%25", "file:///100%25/b",
		"https://api.test/x", "https://api.test:8443/x", "http://localhost:8080/x",
		"http://[2001:db8::1]:8080/x", "user://17/profile", "greeting://J%C3%BCrgen", "db://Customers/1",
		"note:x",
		"file:///caf%C3%A9", "file:///caf\u00e9", "docs://https://example.com/a?b=c//d", "db://t?q=a%26b",
		"test://h:80/a;b=c,d", "memo://Insights", "memo://", "file:///" + strings.Repeat("a", 2040),
		"docs:https://api.test/x", "jar:file:///a!/b", "urn:docs:Note:x", "url://x", "url:x", "note:",
	} {
		for _, exposed := range []string{uri, "mcp.box+" + uri} {
			if _, err := view.Resource(exposed); err != nil {
				t.Errorf("%q: %v", exposed, err)
			}
		}
	}
}

func TestURIsOfAServersFormBelongToIt(t *testing.T) {
	r := registry.New()
	mustReplace(t, r, library("box", "b", nil, nil))
	mustReplace(t, r, library("thief", "", []string{"mcp.box+file:///secret", "file:///own"},
		[]string{"mcp.box+file:///{x}", "{+all}"}))
	view := r.Catalogue().View([]string{"thief", "box"})
	want := []registry.Collision{
		{Kind: registry.KindResource, Exposed: "mcp.box+file:///secret", Winner: "box", Dropped: "thief"},
		{Kind: registry.KindTemplate, Exposed: "mcp.box+file:///{x}", Winner: "box", Dropped: "thief"},
	}
	if diff := cmp.Diff(want, view.Collisions); diff != "" {
		t.Error(diff)
	}
	if found, err := view.Resource("mcp.box+file:///secret"); err != nil || found.Server != "box" {
		t.Errorf("got %+v, %v; want that of box", found, err)
	}
	alone := r.Catalogue().View([]string{"thief"})
	if found, err := alone.Resource("mcp.box+file:///secret"); err != nil || found.Server != "thief" ||
		len(alone.Collisions) > 0 {
		t.Errorf("got %+v, %v; want that of thief, which may be another gateway", found, err)
	}
}

func TestTemplatesMatchTheirURIs(t *testing.T) {
	for _, test := range []struct {
		template string
		yes, no  []string
	}{
		{
			"test://{id}/data",
			[]string{"test://7/data", "test://a%20b/data", "test://a,b/data"},
			[]string{
				"test://7/8/data", "test://7/dat", "test://7/data/", "test://7?/data",
				"tests://7/data",
			},
		},
		{"file:///{+path}", []string{"file:///a/b?c#d", "file:///"}, []string{"file://a"}},
		{"test://{a-b}/{a%20b:3}", []string{"test://7/8"}, []string{"test://7"}},
		{"file://{/path*}", []string{"file:///a/b", "file://"}, []string{"file://a", "file:///a?b"}},
		{"a:b{?x,y*}", []string{"a:b", "a:b?x=1&y=/2", "a:b?"}, []string{"a:b&x=1", "a:bc", "a:b?x#f"}},
		{"a:b?z=1{&x,y}", []string{"a:b?z=1", "a:b?z=1&x=2"}, []string{"a:b?z=1x"}},
		{"a:b{#f}", []string{"a:b", "a:b#c/d?e"}, []string{"a:b?c"}},
		{"a:b{.ext}{;p}", []string{"a:b", "a:b.tar.gz", "a:b.x;p=1", "a:b;p"}, []string{"a:bx", "a:b/x"}},
		{"a:{x}-{y}", []string{"a:-", "a:1-2", "a:1-2-3"}, []string{"a:12", "a:1/-2"}},
		{"a:{x:3}", []string{"a:abc"}, []string{"b:abc"}},
		{"{scheme}://x", []string{"a://x"}, []string{"a://y"}},
		{"{+all}", []string{"a:b", "c://d/e?f"}, nil},
		{"a:fixed", []string{"a:fixed"}, []string{"a:fixe", "a:fixedd"}},
		{"a:{x}{y}{z}end", []string{"a:end", "a:1end", "a:endend"}, []string{"a:endx"}},
	} {
		r := registry.New()
		mustReplace(t, r, library("s", "", nil, []string{test.template}))
		mustReplace(t, r, library("other", "", nil, nil)) // so that nothing is routed without a template
		view := r.Catalogue().View([]string{"s", "other"})
		for _, uri := range test.yes {
			if got := registry.TemplateMatches(view.Templates[0], uri); !got {
				t.Errorf("%s does not match %s", test.template, uri)
			}
		}
		for _, uri := range test.no {
			if registry.TemplateMatches(view.Templates[0], uri) {
				t.Errorf("%s matches %s", test.template, uri)
			}
		}
	}
}

// checkNoHang allows more than anything here takes on the slowest machine.
func checkNoHang(t *testing.T, began time.Time) {
	t.Helper()
	if took := time.Since(began); took > time.Minute {
		t.Errorf("took %v", took)
	}
}

func TestMatchingTakesNoLongTime(t *testing.T) {
	r := registry.New()
	mustReplace(t, r, library("s", "", nil, []string{"a:" + strings.Repeat("{+x}a", 64) + "b"}))
	template, uri := r.Catalogue().View([]string{"s"}).Templates[0], "a:"+strings.Repeat("a", 2000)
	began := time.Now()
	for range 10 {
		if registry.TemplateMatches(template, uri) {
			t.Fatal("matches")
		}
	}
	checkNoHang(t, began)
}

// Many templates that are slow to match take no more time than a few.
func TestMatchingManyTemplatesIsBounded(t *testing.T) {
	defer checkNoHang(t, time.Now())
	slow := make([]string, 100)
	for i := range slow {
		slow[i] = fmt.Sprint("{+x}", strings.Repeat("a{+x}", 63), i, "b")
	}
	r := registry.New()
	mustReplace(t, r, library("slow", "", nil, slow))
	mustReplace(t, r, library("last", "", nil,
		[]string{"a:{+x}" + strings.Repeat("{x}", 10) + strings.Repeat("a", 200)}))
	view := r.Catalogue().View([]string{"slow", "last"})
	if found, err := view.Resource("a:" + strings.Repeat("a", 2_000)); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("got %+v, %v, want ErrNotFound, because the last template is not asked any more", found, err)
	}
	if found, err := r.Catalogue().View([]string{"last", "slow"}).Resource("a:" + strings.Repeat("a",
		2_000)); err != nil || found.Server != "last" {
		t.Errorf("got %+v, %v, want the first template", found, err)
	}

	link := `{"type":"resource_link","name":"n","uri":"https://` + strings.Repeat("a", 2_000) + `"}`
	s := library("box", "box", nil, slow)
	s.Tools = source("box", "box", "x").Tools
	s.Tools[0].Call = func(context.Context, *registry.Call) (mcp.Object, error) {
		return parse(t, `{"content":[`+strings.Repeat(link+",", 999)+link+`]}`), nil
	}
	mustReplace(t, r, s)
	result, err := r.Catalogue().View([]string{"box"}).Tools[0].Call(t.Context(), &registry.Call{})
	if err != nil || strings.Contains(string(result.JSON()), "mcp.box+") {
		t.Errorf("got %v and a mapped link", err)
	}
}

func TestUpdatesHaveTheExposedURI(t *testing.T) {
	for prefix, want := range map[string]string{"box": "mcp.box+file:///a/part", "": "file:///a/part"} {
		r := registry.New()
		s := library("box", prefix, []string{"file:///a"}, nil)
		s.Subscribe = func(_ context.Context, user share.User, uri string, updated func(string), _ func()) error {
			if user.TenantID != "acme" || uri != "file:///a" {
				t.Errorf("got %s, %s", user.TenantID, uri)
			}
			updated(uri + "/part")
			return nil
		}
		mustReplace(t, r, s)
		var got string
		ok, err := r.Catalogue().View([]string{"box"}).Resources[0].Subscribe(t.Context(),
			share.User{TenantID: "acme"}, func(uri string) { got = uri })
		if !ok || err != nil || got != want {
			t.Errorf("got %v, %v, %s; want %s", ok, err, got, want)
		}
		s.Subscribe = nil
		mustReplace(t, r, s)
		if ok, err := r.Catalogue().View([]string{"box"}).Resources[0].Subscribe(t.Context(),
			share.User{TenantID: "acme"}, nil); ok || err != nil {
			t.Errorf("got %v, %v of a server that does not tell", ok, err)
		}
	}
}

// TestASubscriptionGoesOnAtTheNextSource has the source end to which somebody is
// subscribed, and another come in its place, as at a reload.
func TestASubscriptionGoesOnAtTheNextSource(t *testing.T) {
	r := registry.New()
	s := library("box", "box", []string{"file:///a"}, nil)
	var ends, tells []func()
	s.Subscribe = func(_ context.Context, _ share.User, uri string, updated func(string), over func()) error {
		ends, tells = append(ends, over), append(tells, func() { updated(uri) })
		return nil
	}
	mustReplace(t, r, s)
	told := 0
	if ok, err := r.Catalogue().View([]string{"box"}).Resources[0].Subscribe(t.Context(),
		share.User{TenantID: "acme"}, func(string) { told++ }); !ok || err != nil {
		t.Fatalf("got %v, %v, want a subscription", ok, err)
	}
	r.Lose("box", "box")
	r.Forget("box")
	mustReplace(t, r, s)
	ends[0]()
	if len(tells) != 2 || told != 1 {
		t.Fatalf("got %d subscriptions and %d changes, want one more and a change that was missed",
			len(tells), told)
	}
	if tells[1](); told != 2 {
		t.Errorf("got %d changes, want that of the next source, too", told)
	}
}

func FuzzURITemplate(f *testing.F) {
	for _, seed := range [][2]string{
		{"test://{id}/data", "test://7/data"},
		{"{+x}", "a:b"},
		{"a:{?x,y*}{&z:3}", "a:?x"},
		{"a:{/p*}{#f}", "a:/b#c"},
		{"a:{x", "a:"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, template, uri string) {
		r := registry.New()
		refused := r.Replace(library("s", "", nil, []string{template}))
		view := r.Catalogue().View([]string{"s"})
		if len(refused)+len(view.Templates) != 1 {
			t.Fatalf("%q: got %v and %d templates", template, refused, len(view.Templates))
		}
		if len(view.Templates) == 0 {
			return
		}
		if oracle := registry.TemplateExpression(view.Templates[0]); len(uri) <= 2048 {
			if got, want := registry.TemplateMatches(view.Templates[0], uri),
				oracle.MatchString(uri); got != want {
				t.Errorf("%q with %q: got %v, want %v", template, uri, got, want)
			}
		}
	})
}

func FuzzRoutedURI(f *testing.F) {
	for _, seed := range []string{
		"file:///a", "mcp.box+file:///a", "mcp.box+mcp.box+a:b",
		"file:///%252e%252e", `a:\`, "mcp.+a:b",
	} {
		f.Add(seed)
	}
	r := registry.New()
	r.Replace(library("box", "box", []string{"file:///a"}, []string{"test://{id}"}))
	r.Replace(library("plain", "", []string{"file:///a"}, []string{"{+any}"}))
	view := r.Catalogue().View([]string{"box", "plain"})
	f.Fuzz(func(t *testing.T, uri string) {
		found, err := view.Resource(uri)
		if err != nil {
			return
		}
		own, ofBox := strings.CutPrefix(uri, "mcp.box+")
		if (found.Server == "box") != ofBox || found.Name != own || found.Exposed != uri {
			t.Errorf("%q leads to %s", uri, found.PolicyName())
		}
		if strings.ContainsAny(own, "\\\x00\r\n ") || strings.Contains(own, "/../") ||
			strings.HasSuffix(own, "/..") || len(own) > 2048 {
			t.Errorf("%q leads to %s", uri, found.PolicyName())
		}
	})
}
