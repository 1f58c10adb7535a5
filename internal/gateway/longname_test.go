package gateway

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// namedKinds are the kinds of items whose names are cut, with what begins their patterns
// and how one is used.
var namedKinds = []struct {
	kind          registry.Kind
	pattern       string // before the name
	method, reply string
}{
	{registry.KindTool, "", mcp.MethodToolsCall, `{"content":[]}`},
	{registry.KindPrompt, "prompt:", mcp.MethodPromptsGet, `{"messages":[]}`},
}

// oneOfLength is a source whose one item of that kind has an own name of that many bytes,
// which ends in _admin.
func oneOfLength(kind registry.Kind, length int, reply string) registry.Source {
	use := func(context.Context, *registry.Call) (mcp.Object, error) { return object(reply), nil }
	name := strings.Repeat("x", length-len("_admin")) + "_admin"
	s := registry.Source{Name: "long", Prefix: "a-long-prefix", Use: use}
	if kind == registry.KindTool {
		definition := object(`{"name":"` + name + `","inputSchema":{"type":"object"}}`)
		s.Tools = []registry.Offer{{Definition: definition, Timeout: time.Second, Call: use}}
		return s
	}
	s.Prompts = []mcp.Object{object(`{"name":"` + name + `"}`)}
	return s
}

// TestLongNamesAreMatchedWholeToo shows for names of every length that a pattern which
// fits the whole name, or the one that clients see, names the item in rules: it is
// neither listed nor run when that is denied, and both when allowed.
func TestLongNamesAreMatchedWholeToo(t *testing.T) {
	for _, k := range namedKinds {
		for length := len("_admin"); length <= 128; length++ {
			if testing.Short() && length%5 != 0 && (length < 30 || length > 50) {
				continue // names are cut from 33 bytes on; the night tries all lengths
			}
			b := newBench(t, TenantConfig{ID: "acme"})
			b.replace(t, oneOfLength(k.kind, length, k.reply))
			item := onlyItem(b.registry.Catalogue().View([]string{"long"}))
			whole := "a-long-prefix__" + item.Name
			if cut := whole != item.Exposed; cut != (len(whole) > 47) {
				t.Fatalf("%d bytes are exposed as %s", len(whole), item.Exposed)
			}
			for _, pattern := range patternsOf(whole, item.Exposed) {
				deny := []Rule{{Allow: []string{"*", "prompt:*"}}, {Deny: []string{k.pattern + pattern}}}
				if listed, used := b.offers(t, item, k.method, deny); listed || used {
					t.Errorf("%s of %d bytes, deny %s: listed %v, used %v", k.kind, length, pattern, listed,
						used)
				}
				allow := []Rule{{Allow: []string{k.pattern + pattern}}}
				if listed, used := b.offers(t, item, k.method, allow); !listed || !used {
					t.Errorf("%s of %d bytes, allow %s: listed %v, used %v", k.kind, length, pattern, listed,
						used)
				}
			}
			other := []Rule{
				{Allow: []string{"*", "prompt:*"}},
				{Deny: []string{k.pattern + whole + "s", k.pattern + "*_admi", k.pattern + item.Exposed +
					"s"}},
			}
			if listed, used := b.offers(t, item, k.method, other); !listed || !used {
				t.Errorf("%s of %d bytes, deny of others: listed %v, used %v", k.kind, length, listed, used)
			}
		}
	}
}

// patternsOf returns patterns that fit either name: both themselves, and each with a star
// in some place.
func patternsOf(whole, exposed string) []string {
	patterns := []string{whole, "*_admin", "a-long-prefix__*_admin", "*_a*n"}
	patterns = append(patterns, exposed, exposed[:len(exposed)/2]+"*", "*"+exposed[len(exposed)-6:])
	if len(whole) > 60 {
		patterns = append(patterns, whole[:60]+"*")
	}
	slices.Sort(patterns)
	return slices.Compact(patterns)
}

// TestNamesInOtherCharactersAreKnownByBothSpellings shows for names that no client may be
// shown that rules, limits and the audit know the one that the server gives, and the one
// that clients see.
func TestNamesInOtherCharactersAreKnownByBothSpellings(t *testing.T) {
	for _, name := range []string{"read file", "read/file", "read:file", "Datei öffnen", "ファイル"} {
		b := newBench(t, TenantConfig{ID: "acme"})
		use := func(context.Context, *registry.Call) (mcp.Object,
			error,
		) {
			return object(`{"content":[]}`), nil
		}
		definition := object(`{"name":` + strconv.Quote(name) + `,"inputSchema":{"type":"object"}}`)
		b.replace(t, registry.Source{
			Name: "long", Prefix: "files",
			Tools: []registry.Offer{{Definition: definition, Timeout: time.Second, Call: use}},
		})
		item := onlyItem(b.registry.Catalogue().View([]string{"long"}))
		whole := "files__" + name
		for _, pattern := range []string{
			whole, item.Exposed, "files__" + name[:4] + "*",
			"*" + name[len(name)-4:],
		} {
			if listed, used := b.offers(t, item, mcp.MethodToolsCall,
				[]Rule{{Allow: []string{"*"}}, {Deny: []string{pattern}}}); listed || used {
				t.Errorf("deny %s: listed %v, used %v", pattern, listed, used)
			}
			if listed, used := b.offers(t, item, mcp.MethodToolsCall,
				[]Rule{{Allow: []string{pattern}}}); !listed || !used {
				t.Errorf("allow %s: listed %v, used %v", pattern, listed, used)
			}
		}
		if want := `"item":"` + item.Exposed + `","whole_name":"` + whole +
			`"`; !strings.Contains(b.records(t), want) {
			t.Errorf("%s is not in %.500s", want, b.records(t))
		}
		for _, pattern := range []string{whole, item.Exposed} {
			b.config.Recorded = []Recorded{{Pattern: pattern, Names: []string{"n"}}}
			before := len(b.records(t))
			_, _ = b.handle(t, ask(mcp.MethodToolsCall, `{"name":`+strconv.Quote(item.Exposed)+
				`,"arguments":{"n":7}}`))
			if line := b.records(t)[before:]; !strings.Contains(line, `"named_arguments":{"n":"7"}`) {
				t.Errorf("arguments of %s are not in %s", pattern, line)
			}
			limits := unlimited()
			limits.Tools = map[string]ratelimit.Limit{pattern: {}}
			allow := []Rule{{Allow: []string{"*"}}}
			b.SetPolicy("", []TenantConfig{{
				ID: "acme", Servers: []string{"long"}, Rules: allow,
				Limits: limits,
			}})
			_, failure := b.handle(t, ask(mcp.MethodToolsCall, `{"name":`+strconv.Quote(item.Exposed)+`}`))
			if stable(failure) != "DB-LIMIT-TOOL" {
				t.Errorf("limit of %s: got %v, want DB-LIMIT-TOOL", pattern, failure)
			}
		}
	}
}

func onlyItem(view *registry.View) *registry.Item {
	if len(view.Tools) > 0 {
		return &view.Tools[0].Item
	}
	return view.Prompts[0]
}

// offers tells whether alice sees the item in a list, and can use it, under these rules.
func (b *bench) offers(t *testing.T, item *registry.Item, method string, rules []Rule) (isListed, used bool) {
	t.Helper()
	b.SetPolicy("", []TenantConfig{{
		ID: "acme", Servers: []string{"long"}, Rules: rules,
		Limits: unlimited(),
	}})
	caller, err := b.Resolve(alice)
	if err != nil {
		t.Fatal(err)
	}
	_, failure := b.handleAs(t, caller, ask(method, `{"name":"`+item.Exposed+`"}`))
	return slices.Contains(listed(t, b, caller), item.Exposed), failure == nil
}

func unlimited() Limits {
	plenty := &ratelimit.Limit{Rate: 1e9, Burst: 1e9}
	return Limits{Requests: plenty, Calls: plenty, UserCalls: plenty}
}

func TestLimitOfAToolIsFoundByItsWholeName(t *testing.T) {
	for _, pattern := range []string{"*_admin", "a-long-prefix__" + strings.Repeat("x", 54) + "_admin"} {
		b := newBench(t, TenantConfig{
			ID: "acme", Servers: []string{"long"}, Rules: []Rule{{Allow: []string{"*"}}},
			Limits: Limits{Tools: map[string]ratelimit.Limit{pattern: {}}},
		})
		b.replace(t, oneOfLength(registry.KindTool, 60, `{"content":[]}`))
		item := onlyItem(b.registry.Catalogue().View([]string{"long"}))
		if _, failure := b.handle(t, ask(mcp.MethodToolsCall, `{"name":`+strconv.Quote(item.Exposed)+
			`}`)); stable(failure) != "DB-LIMIT-TOOL" {
			t.Errorf("limit of %s: got %v, want DB-LIMIT-TOOL", pattern, failure)
		}
	}
}
