package registry_test

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

// TestAnEmptyListIsKnown shows that a server which offers nothing can be told from one
// that is not there.
func TestAnEmptyListIsKnown(t *testing.T) {
	r := registry.New()
	known := func() (kinds []registry.Kind) {
		view := r.Catalogue().View([]string{"box"})
		for _, kind := range []registry.Kind{
			registry.KindTool, registry.KindPrompt, registry.KindResource,
			registry.KindTemplate,
		} {
			if view.Listed("box", kind) {
				kinds = append(kinds, kind)
			}
		}
		return kinds
	}
	steps := []struct {
		name   string
		change func()
		want   int
	}{
		{"never there", func() {}, 0},
		{"nothing offered", func() { r.Replace(registry.Source{Name: "box"}) }, 4},
		{
			"prompts not read yet",
			func() { r.Replace(registry.Source{Name: "box", Unread: []registry.Kind{registry.KindPrompt}}) },
			3,
		},
		{"templates not read", func() {
			r.Replace(registry.Source{Name: "box", Unread: []registry.Kind{registry.KindTemplate}})
		}, 2},
		{"announced", func() { r.Announce("box", registry.KindTool) }, 2},
		{"gone", func() { r.Remove("box") }, 0},
	}
	for _, step := range steps {
		changed := r.Changed()
		before := len(known())
		step.change()
		if got := known(); len(got) != step.want {
			t.Errorf("%s: known are the lists of %v, want %d", step.name, got, step.want)
		}
		select {
		case <-changed:
		default:
			if before != step.want {
				t.Errorf("%s: nobody was told", step.name)
			}
		}
	}
}
