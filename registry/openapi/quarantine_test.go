package openapi_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/openapi"
)

// TestToolsOfDocumentsThatHideTextAreLeftOut hides text in a choice, a default and a
// description of a document.
func TestToolsOfDocumentsThatHideTextAreLeftOut(t *testing.T) {
	a := newAPI(t)
	document := []byte(`{"openapi":"3.1.0","info":{"title":"x","version":"1"},"paths":{
		"/good":{"get":{"operationId":"good","summary":"a\u200bb","responses":{}}},
		"/choice":{"get":{"operationId":"choice","parameters":[{"name":"q","in":"query","schema":{"type":"string","enum":["a","b\u202e"]}}],"responses":{}}},
		"/default":{"get":{"operationId":"default","parameters":[{"name":"q","in":"query","schema":{"type":"string","default":"\u200b"}}],"responses":{}}}}}`)
	cfg := a.config(document)
	tools, refused := load(t, cfg)
	if tools["good"] == nil || tools["good"].Definition.Text("description") != "ab" || len(tools) != 1 {
		t.Errorf("got %v, want the good tool alone, with its description cleaned", tools)
	}
	want := map[string]string{
		"choice":  "hidden text in inputSchema.properties.q.enum[1] (an invisible character, U+202E)",
		"default": "hidden text in inputSchema.properties.q.default (an invisible character, U+200B)",
	}
	for _, one := range refused {
		why, ok := errors.AsType[*registry.QuarantineError](one.Err)
		if !ok || one.Reason != registry.ReasonQuarantined ||
			!strings.HasPrefix(why.Error(), want[one.Item]) {
			t.Errorf("%s is refused because of %s: %v, want %s", one.Item, one.Reason, one.Err,
				want[one.Item])
			continue
		}
		if one.Item == "choice" {
			cfg.Released = []string{why.Digest, "sha256:other"}
		}
	}
	if len(refused) != 2 || len(cfg.Released) != 2 {
		t.Fatalf("got %v refused, want two", refused)
	}
	loaded, err := openapi.Load(cfg)
	if err != nil || len(loaded.Offers) != 2 || !slices.Equal(loaded.Idle, cfg.Released[1:]) {
		t.Errorf("released: got %+v, %v, want two tools and one idle release", loaded, err)
	}
}
