package registry_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// define returns a plain definition.
func define(name, description string) mcp.Object {
	return mcp.NewObject(
		mcp.Member{Name: "description", Value: mcp.String(description)},
		mcp.Member{Name: "name", Value: mcp.String(name)},
		mcp.Member{Name: "inputSchema", Value: mcp.RawJSON(`{"type":"object"}`)},
	)
}

// answer returns a Func whose result says who answered.
func answer(text string) registry.Func {
	return func(context.Context, *registry.Call) (mcp.Object, error) {
		return mcp.NewObject(mcp.Member{Name: "by", Value: mcp.String(text)}), nil
	}
}

func source(name, prefix string, tools ...string) registry.Source {
	s := registry.Source{Name: name, Prefix: prefix}
	for _, tool := range tools {
		s.Tools = append(s.Tools, registry.Offer{
			Definition: define(tool, "does "+tool), Timeout: time.Second,
			Call: answer(name),
		})
	}
	return s
}

func exposed(v *registry.View) []string {
	var names []string
	for _, t := range v.Tools {
		names = append(names, t.Server+":"+t.Exposed)
	}
	return names
}

func mustReplace(t testing.TB, r *registry.Registry, s registry.Source) {
	t.Helper()
	if refused := r.Replace(s); len(refused) > 0 {
		t.Fatalf("refused: %+v", refused)
	}
}

func TestViewIsOrderedByServerThenName(t *testing.T) {
	r := registry.New()
	mustReplace(t, r, source("b", "b", "two", "one"))
	mustReplace(t, r, source("a", "a", "z", "y"))
	got := exposed(r.Catalogue().View([]string{"b", "none", "a", "b"}))
	want := []string{"b:b__one", "b:b__two", "a:a__y", "a:a__z"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFirstServerKeepsCollidingName(t *testing.T) {
	r := registry.New()
	mustReplace(t, r, source("a", "", "echo", "only-a"))
	mustReplace(t, r, source("b", "", "echo", "only-b"))
	for _, test := range []struct {
		servers []string
		want    registry.Collision
	}{
		{[]string{"a", "b"}, registry.Collision{
			Kind: registry.KindTool, Exposed: "echo", Winner: "a",
			Dropped: "b",
		}},
		{[]string{"b", "a"}, registry.Collision{
			Kind: registry.KindTool, Exposed: "echo", Winner: "b",
			Dropped: "a",
		}},
	} {
		v := r.Catalogue().View(test.servers)
		if diff := cmp.Diff([]registry.Collision{test.want}, v.Collisions); diff != "" {
			t.Error(diff)
		}
		tool, err := v.Lookup("echo")
		if err != nil || tool.Server != test.want.Winner {
			t.Errorf("got %v, %v; want the tool of %s", tool, err, test.want.Winner)
		}
		if len(v.Tools) != 3 {
			t.Errorf("got %v, want three tools", exposed(v))
		}
	}
}

func TestViewsAreInterned(t *testing.T) {
	r := registry.New()
	mustReplace(t, r, source("a", "a", "x"))
	c := r.Catalogue()
	first := c.View([]string{"a", "b"})
	if c.View([]string{"a", "b"}) != first {
		t.Error("the same servers gave two views")
	}
	for _, other := range [][]string{{"b", "a"}, {"a"}, {"ab"}, {"a1:b"}, {"a\x00b"}, {}} {
		if first == c.View(other) {
			t.Errorf("%q has the view of other servers", other)
		}
	}
}

func TestLookupOfUnknownName(t *testing.T) {
	r := registry.New()
	mustReplace(t, r, source("a", "a", "x"))
	for _, name := range []string{"", "x", "a__", "A__x", "a__x "} {
		if _, err := r.Catalogue().View([]string{"a"}).Lookup(name); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("%q: got %v, want ErrNotFound", name, err)
		}
	}
	if _, err := r.Catalogue().View([]string{"b"}).Lookup("a__x"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound for another server's tool", err)
	}
}

func TestNamesArePrefixedAndCut(t *testing.T) {
	long := strings.Repeat("x", 100)
	for _, test := range []struct{ prefix, name, want string }{
		{"files", "read", "files__read"},
		{"", "read", "read"},
		{"", long, long},
		{"", "A.b-C_9", "A.b-C_9"},
		{"abcdefghijklmnop", strings.Repeat("y", 29), "abcdefghijklmnop__" + strings.Repeat("y", 29)},
		{"abcdefghijklmnop", strings.Repeat("y", 30), "abcdefghijklmnop__" + strings.Repeat("y", 22) +
			"-001d3d"},
		{"files", long, "files__" + strings.Repeat("x", 33) + "-209f30"},
		{"files", "read a/b:c", "files__read_a_b_c-?"},
		{"files", "Übersicht 表", "files___bersicht__-?"},
		{"", "read file", "read_file-?"},
		{"", strings.Repeat("é", 128), strings.Repeat("_", 121) + "-?"},
		{"files", strings.Repeat("é", 128), "files__" + strings.Repeat("_", 33) + "-?"},
	} {
		r := registry.New()
		mustReplace(t, r, source("s", test.prefix, test.name))
		tool := r.Catalogue().View([]string{"s"}).Tools[0]
		want := test.want
		if beginning, hashed := strings.CutSuffix(want, "?"); hashed { // of the whole name
			sum := sha256.Sum256([]byte(registry.Beginning(test.prefix) + test.name))
			want = beginning + hex.EncodeToString(sum[:3])
		}
		if tool.Exposed != want {
			t.Errorf("%s, %s: got %s, want %s", test.prefix, test.name, tool.Exposed, want)
		}
		whole := registry.Beginning(test.prefix) + test.name
		if whole == want {
			whole = ""
		}
		if got := tool.WholeName(); got != whole {
			t.Errorf("%s, %s: whole name: got %q, want %q", test.prefix, test.name, got, whole)
		}
		if test.prefix != "" && len(tool.Exposed) > 47 {
			t.Errorf("%s has more than 47 characters", tool.Exposed)
		}
	}
}

func TestNamesThatLookAlikeStayApart(t *testing.T) {
	r := registry.New()
	long := strings.Repeat("x", 60)
	mustReplace(t, r, source("s", "s", long+"1", long+"2", "read file", "read/file", "read_file", "дом",
		"сад"))
	if got := len(r.Catalogue().View([]string{"s"}).Tools); got != 7 {
		t.Errorf("got %d tools, want 7", got)
	}
}

func TestValidServerName(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "my-server-9": true, "abcdefghijklmnop": true,
		"": false, "abcdefghijklmnopq": false, "A": false, "a_b": false, "a b": false, "é": false,
		"a/b": false,
	} {
		if got := registry.ValidServerName(name); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}

func TestOneBadDefinitionDropsThatOneAlone(t *testing.T) {
	with := func(name, member, value string) registry.Offer {
		return registry.Offer{
			Definition: define(name, "x").With(member, mcp.RawJSON(value)),
			Timeout:    time.Second,
		}
	}
	for _, test := range []struct {
		name   string
		bad    registry.Offer
		reason string
	}{
		{"hidden character", registry.Offer{Definition: define("a\u200bb", "")}, "name"},
		{"space at the end", registry.Offer{Definition: define("a ", "")}, "name"},
		{"empty name", registry.Offer{Definition: define("", "")}, "name"},
		{"129 characters", registry.Offer{Definition: define(strings.Repeat("x", 129), "")}, "name"},
		{"name no string", with("x", "name", "7"), "name"},
		{"line break", registry.Offer{Definition: define("a\nb", "")}, "name"},
		{"no schema", registry.Offer{Definition: define("x", "").Without("inputSchema")}, "schema"},
		{"null schema", with("x", "inputSchema", "null"), "schema"},
		{"true schema", with("x", "inputSchema", "true"), "schema"},
		{"no type", with("x", "inputSchema", "{}"), "schema"},
		{"type string", with("x", "inputSchema", `{"type":"string"}`), "schema"},
		{"bad schema", with("x", "inputSchema", `{"type":"object","$ref":"#/none"}`), "schema"},
		{"large schema", with("x", "inputSchema", `{"type":"object","title":"`+strings.Repeat("x", 65<<10)+
			`"}`), "size"},
		{
			"large beside its output",
			registry.Offer{Definition: define("x", strings.Repeat("x", 129<<10)).With("outputSchema",
				mcp.RawJSON(`1`))},
			"size",
		},
		{"large definition", registry.Offer{Definition: define("x", strings.Repeat("x", 129<<10))}, "size"},
		{"bad header", with("x", "inputSchema", `{"type":"object","x-mcp-header":"A"}`), "header"},
		{"title no string", with("x", "title", "5"), "schema"},
		{"description no string", with("x", "description", `["a"]`), "schema"},
		{"icons no list", with("x", "icons", "{}"), "schema"},
		{"hint no boolean", with("x", "annotations", `{"readOnlyHint":"true"}`), "schema"},
		{"duplicate", registry.Offer{Definition: define("good", "another")}, "duplicate"},
		{"duplicate but for case", registry.Offer{Definition: define("GOOD", "another")}, "duplicate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := registry.New()
			s := source("s", "s", "good")
			s.Tools = append(s.Tools, test.bad)
			s.Tools = append(s.Tools, source("s", "s", "last").Tools...)
			refused := r.Replace(s)
			if len(refused) != 1 || refused[0].Reason != test.reason || refused[0].Server != "s" ||
				refused[0].Err == nil {
				t.Errorf("got %+v, want one refusal for %s", refused, test.reason)
			}
			want := []string{"s:s__good", "s:s__last"}
			if diff := cmp.Diff(want, exposed(r.Catalogue().View([]string{"s"}))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestToolsBeyondTheLimitAreLeftOut(t *testing.T) {
	s := registry.Source{Name: "s"}
	for i := range 5_003 {
		s.Tools = append(s.Tools, registry.Offer{
			Definition: define(fmt.Sprint("t", i), ""),
			Timeout:    time.Second,
		})
	}
	r := registry.New()
	refused := r.Replace(s)
	if len(refused) != 1 || refused[0].Item != "t5000" || refused[0].Reason != "size" {
		t.Errorf("got %+v, want one refusal that begins with t5000", refused)
	}
	if got := len(r.Catalogue().View([]string{"s"}).Tools); got != 5_000 {
		t.Errorf("got %d tools, want 5000", got)
	}
}

// TestToolsWhoseSchemasTakeTooMuchMemoryAreLeftOut offers short texts that may make large
// schemas, however they are spelt. Once they are together what one server may have
// compiled, no other is, and small ones of the same server are there.
func TestToolsWhoseSchemasTakeTooMuchMemoryAreLeftOut(t *testing.T) {
	const offered = 8
	for i, part := range []string{`p{`, `P\u007b`, `\u0070{`, `\\\u0050{`, `\u005Cp{`, `{},`} {
		schema := `{"type":"object","default":"` + strings.Repeat(part, 63<<10/len(part)) + `"}`
		s := source("s", "s", "first")
		if i%2 == 0 { // else it offers tools alone
			s.Use = answer("s")
		}
		for i := range offered {
			definition := define(fmt.Sprint("large", i), "").With("inputSchema", mcp.RawJSON(schema))
			s.Tools = append(s.Tools, registry.Offer{Definition: definition, Timeout: time.Second})
		}
		s.Tools = append(s.Tools, source("s", "s", "last").Tools...)
		r := registry.New()
		refused := r.Replace(s)
		if len(refused) == 0 || len(refused) == offered || refused[0].Reason != "size" {
			t.Errorf("%s: got %+v, want that some of the large ones are refused", part, refused)
		}
		there := exposed(r.Catalogue().View([]string{"s"}))
		if !slices.Contains(there, "s:s__first") || !slices.Contains(there, "s:s__last") {
			t.Errorf("%s: got %q, want the small ones among them", part, there)
		}
	}
}

func TestDefinitionKeepsEveryByteButItsName(t *testing.T) {
	raw := `{"title":"T","x":{"b":1,"a":[1.0,  2]},"name":"echo","inputSchema":{"type":"object", "$schema":"http://json-schema.org/draft-07/schema#","$comment":"\u0061"},"_meta":{}}`
	definition, err := mcp.ParseObject([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	r := registry.New()
	mustReplace(t, r, registry.Source{
		Name: "s", Prefix: "s",
		Tools: []registry.Offer{{Definition: definition, Timeout: time.Second}},
	})
	tool := r.Catalogue().View([]string{"s"}).Tools[0]
	if got, want := string(tool.Raw), strings.Replace(raw, `"echo"`, `"s__echo"`, 1); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if tool.Name != "echo" || tool.Definition.Text("name") != "s__echo" {
		t.Errorf("got %s, %s", tool.Name, tool.Definition.Text("name"))
	}
}

func TestUnchangedDefinitionIsReused(t *testing.T) {
	r := registry.New()
	mustReplace(t, r, source("s", "s", "a", "b"))
	before, changed := r.Catalogue(), r.Changed()
	again := source("s", "s", "b", "a")
	for i := range again.Tools {
		again.Tools[i].Call = answer("new")
	}
	mustReplace(t, r, again)
	if r.Catalogue() != before {
		t.Error("another catalogue, though nothing differs")
	}
	select {
	case <-changed:
		t.Error("woken, though nothing differs")
	default:
	}
	tool := before.View([]string{"s"}).Tools[0]
	if result, err := tool.Call(t.Context(), &registry.Call{}); err != nil || result.Text("by") != "new" {
		t.Errorf("got %s, %v; want the newer Func", result.JSON(), err)
	}

	again.Tools[1].Definition = define("a", "does something else")
	mustReplace(t, r, again)
	select {
	case <-changed:
	default:
		t.Error("not woken by a change")
	}
	after := r.Catalogue().View([]string{"s"})
	if after.Tools[0] == tool || after.Tools[1] != before.View([]string{"s"}).Tools[1] {
		t.Error("want a new tool for the definition that changed, and the old one for the other")
	}
}

func TestTimeoutAndPrefixMakeAnotherTool(t *testing.T) {
	r := registry.New()
	s := source("s", "s", "a")
	mustReplace(t, r, s)
	first := r.Catalogue().View([]string{"s"}).Tools[0]
	s.Tools[0].Timeout = time.Minute
	mustReplace(t, r, s)
	second := r.Catalogue().View([]string{"s"}).Tools[0]
	if first == second || first.Timeout != time.Second || second.Timeout != time.Minute {
		t.Errorf("got time limits %v and %v", first.Timeout, second.Timeout)
	}
	s.Prefix = "p"
	mustReplace(t, r, s)
	if got := r.Catalogue().View([]string{"s"}).Tools[0].Exposed; got != "p__a" {
		t.Errorf("got %s, want p__a", got)
	}
}

func TestRemoveTakesOneSourceOut(t *testing.T) {
	r := registry.New()
	mustReplace(t, r, source("a", "a", "x"))
	mustReplace(t, r, source("b", "b", "y"))
	old := r.Catalogue()
	r.Remove("a")
	if diff := cmp.Diff([]string{"b:b__y"}, exposed(r.Catalogue().View([]string{"a", "b"}))); diff != "" {
		t.Error(diff)
	}
	if len(old.View([]string{"a", "b"}).Tools) != 2 {
		t.Error("the old catalogue changed")
	}
	now := r.Catalogue()
	r.Remove("never there")
	if r.Catalogue() != now {
		t.Error("another catalogue, though nothing differs")
	}
}

// A waiter that asks Changed first and Catalogue then sees the last state, however the
// changes fall.
func TestChangedLosesNoWakeUpAtOnce(t *testing.T) {
	t.Parallel()
	r := registry.New()
	const sources, rounds = 4, 50
	var writers, readers sync.WaitGroup
	for i := range sources {
		writers.Go(func() {
			name := fmt.Sprint("s", i)
			for round := range rounds {
				mustReplaceQuietly(r, source(name, name, fmt.Sprint("t", round)))
			}
			mustReplaceQuietly(r, source(name, name, "last"))
		})
	}
	servers := []string{"s0", "s1", "s2", "s3"}
	for range 4 {
		readers.Go(func() {
			for {
				changed, view := r.Changed(), r.Catalogue().View(servers)
				done := len(view.Tools) == sources
				for _, tool := range view.Tools {
					done = done && tool.Name == "last"
				}
				if done {
					return
				}
				<-changed
			}
		})
	}
	writers.Wait()
	readers.Wait()
}

func mustReplaceQuietly(r *registry.Registry, s registry.Source) {
	if refused := r.Replace(s); len(refused) > 0 {
		panic(refused[0].Err)
	}
}
