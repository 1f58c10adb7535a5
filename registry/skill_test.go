package registry_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// TestSkillsOfALongURIAreFoundSoon has a server that lists a skill mention a URI with
// millions of directories, which to look up one by one takes many minutes.
func TestSkillsOfALongURIAreFoundSoon(t *testing.T) {
	t.Parallel()
	r := registry.New()
	skill, _ := mcp.ParseObject(
		[]byte(`{"uri":"skill://a/SKILL.md","frontmatter":{"name":"a"},"resources":"dynamic"}`))
	mustReplace(t, r, registry.Source{Name: "box", Skills: []mcp.Object{skill}, Use: answer("box")})
	item := r.Catalogue().View([]string{"box"}).Skills[0]
	began := time.Now()
	got := item.SkillsOf("skill://a/" + strings.Repeat("b/", 2<<20))
	if took := time.Since(began); took > time.Minute {
		t.Errorf("took %v", took)
	}
	if want := []string{"box:skill://a/SKILL.md"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
