package openapi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/openapi"
)

// notes returns what is noted of a document's operations.
func notes(t testing.TB, cfg openapi.Config) []string {
	t.Helper()
	loaded, err := openapi.Load(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return loaded.Notes
}

// TestAPatternThatCannotBeReadIsNotEnforced: it is shown all the same, and nothing
// becomes stricter for it.
func TestAPatternThatCannotBeReadIsNotEnforced(t *testing.T) {
	cfg := newAPI(t).config(document(t, "patterns.yaml"), "save")
	tools, refused := load(t, cfg)
	if len(refused) > 0 {
		t.Fatal(refused[0].Err)
	}
	for arguments, valid := range map[string]bool{
		`{"name":"a"}`: true, `{"name":"a","page":"7"}`: true, `{"name":"a","page":"x"}`: false, `{"name":7}`: false,
		`{"name":"a","body":{"title":"x"}}`: true, `{"name":"a","body":{"kind":"abc"}}`: true, `{"name":"a","body":{"kind":7}}`: false,
		`{"name":"a","body":{"labels":{"x":"y"}}}`: true, `{"name":"a","body":{"labels":{"n-x":"y"}}}`: false,
	} {
		if err := tools["save"].Validate(mcp.RawJSON(arguments)); (err == nil) != valid {
			t.Errorf("%s: got error %v, want none: %v", arguments, err, valid)
		}
	}
	if raw := string(tools["save"].Raw); !strings.Contains(raw, `"pattern":"^(?!\\.)\\w+$"`) || !strings.Contains(raw, `"oneOf"`) {
		t.Errorf("it is not shown: %s", raw)
	}
	if got := tools["save"].Unenforced; len(got) != 7 || !strings.HasPrefix(got[0], `inputSchema: at "#/properties/name/pattern": `) {
		t.Errorf("not enforced: got %q", got)
	}
}

// A parameter that may be missing and cannot be an argument used to be left out in silence, or to refuse the operation.
func TestParametersThatAreLeftOutAreNoted(t *testing.T) {
	cfg := newAPI(t).config(withParameter(`{"name":"a","in":"query","schema":{"type":"object"}},{"name":"s","in":"cookie","schema":{}}`))
	if tools, refused := load(t, cfg); tools["op"] == nil {
		t.Errorf("got %v, want a tool", refused)
	}
	want := []string{
		`operation "op": query parameter "a" is left out: it is an object whose properties would become parameters of their own`,
		`operation "op": cookie parameter "s" is left out: no argument may set a cookie`,
	}
	if got := notes(t, cfg); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
