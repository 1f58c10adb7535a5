package registry_test

import (
	"slices"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// defined offers a tool by its definition.
func defined(definition string) registry.Offer {
	object, _ := mcp.ParseObject([]byte(definition))
	return registry.Offer{Definition: object, Timeout: time.Second, Call: answer("mod")}
}

// varied is a source that lists a tool with a view to hosts of apps, and to all others
// one of the same name in another form, and one more. A prompt and a resource have a
// title for hosts of apps alone.
func varied(name string) registry.Source {
	apart := mcp.ExtensionsNamed(mcp.ExtensionApps)
	same := defined(`{"name":"same","inputSchema":{"type":"object"}}`)
	return registry.Source{
		Name: name, Prefix: name, Varying: apart, Base: apart, Use: answer(name),
		Tools: []registry.Offer{
			same, defined(`{"name":"draw","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://v"}}}`),
		},
		Prompts:   []mcp.Object{described("name", "ask").With("title", mcp.String("With a view"))},
		Resources: []mcp.Object{described("uri", "file:///a").With("title", mcp.String("With a view"))},
		Variants: []registry.Variant{{
			Tools: []registry.Offer{
				same, defined(`{"name":"draw","inputSchema":{"type":"object"}}`),
				defined(`{"name":"describe","inputSchema":{"type":"object"}}`),
				defined(`{"name":"broken","inputSchema":[]}`),
			},
			Prompts: []mcp.Object{described("name", "ask")}, Resources: []mcp.Object{described("uri", "file:///a")},
		}},
	}
}

func TestListsDependOnWhatClientsDeclare(t *testing.T) {
	r := registry.New()
	refused := r.Replace(varied("mod"))
	if len(refused) != 1 || refused[0].Item != "broken" {
		t.Errorf("refused: got %v, want the broken tool", refused)
	}
	r.Replace(registry.Source{Name: "box", Tools: []registry.Offer{
		defined(`{"name":"plain","inputSchema":{"type":"object"}}`),
	}})
	catalogue := r.Catalogue()
	view := catalogue.View([]string{"mod", "box"})
	apps := mcp.ExtensionsNamed(mcp.ExtensionApps, mcp.ExtensionSkills)
	for _, test := range []struct {
		name string
		view *registry.View
		want []string
		app  string // of draw
	}{
		{"all", view, []string{"mod:mod__describe", "mod:mod__draw", "mod:mod__same", "box:plain"}, "ui://mod/v"},
		{"hosts", view.For(apps), []string{"mod:mod__draw", "mod:mod__same", "box:plain"}, "ui://mod/v"},
		{
			"others", view.For(mcp.Extensions{}),
			[]string{"mod:mod__describe", "mod:mod__draw", "mod:mod__same", "box:plain"},
			"",
		},
	} {
		if got := exposed(test.view); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
		if draw, err := test.view.Lookup("mod__draw"); err != nil || draw.AppURI != test.app {
			t.Errorf("%s: the view of draw is %q (%v), want %q", test.name, draw.AppURI, err, test.app)
		}
		ask, err := test.view.Prompt("mod__ask")
		if err != nil || ask.Definition.Has("title") != (test.app != "") {
			t.Errorf("%s: got the prompt %v, %v, want the one beside the view %q", test.name, ask, err, test.app)
		}
		file, err := test.view.Resource("mcp.mod+file:///a")
		if err != nil || file.Definition.Has("title") != (test.app != "") {
			t.Errorf("%s: got the resource %v, %v, want the one beside the view %q", test.name, file, err, test.app)
		}
	}
	if view.For(apps) != view.For(mcp.ExtensionsNamed(mcp.ExtensionApps)) || len(view.Variants()) != 2 {
		t.Errorf("clients to whom the same is listed have several views")
	}
	one, _ := view.For(apps).Lookup("mod__same")
	if other, _ := view.For(mcp.Extensions{}).Lookup("mod__same"); one != other {
		t.Error("a tool that is listed to all was made twice")
	}
	if r.Replace(varied("mod")); !r.Catalogue().View([]string{"mod"}).Lists("mod") {
		t.Error("the server is in no list")
	}
	if alone := catalogue.View([]string{"box"}); alone.For(apps) != alone || alone.Variants() != nil {
		t.Error("a view is made by extensions on which no list of its servers depends")
	}
}
