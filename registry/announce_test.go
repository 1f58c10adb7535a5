package registry_test

import (
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

func TestAnnounceIsAChangeWithTheSameTools(t *testing.T) {
	r := registry.New()
	r.Announce("absent", registry.KindTool)
	before := r.Catalogue()
	if got := before.View([]string{"absent"}).Announced("absent", registry.KindTool); got != 0 {
		t.Errorf("a source without tools has announced %d changes, want 0", got)
	}
	definition, err := mcp.ParseObject([]byte(`{"name":"a","inputSchema":{"type":"object"}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Replace(registry.Source{
		Name: "box", Prefix: "box",
		Tools: []registry.Offer{{Definition: definition, Timeout: time.Second}},
	})
	listed := r.Catalogue().View([]string{"box"})
	changed := r.Changed()
	r.Announce("box", registry.KindTool)
	select {
	case <-changed:
	default:
		t.Error("Announce woke nobody")
	}
	after := r.Catalogue().View([]string{"box"})
	if after.Announced("box", registry.KindTool) != listed.Announced("box", registry.KindTool)+1 ||
		after.Tools[0] != listed.Tools[0] {
		t.Errorf("announced %d after %d with tool %p after %p, want one more and the same tool",
			after.Announced("box", registry.KindTool), listed.Announced("box", registry.KindTool),
			after.Tools[0], listed.Tools[0])
	}
}
