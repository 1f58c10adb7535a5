package openapi_test

import (
	"slices"
	"strings"
	"testing"
)

// TestAParameterThatIsAnObjectByItsPartsIsLeftOut as any other object is whose properties
// would become parameters: it was offered, and each call with it was refused.
func TestAParameterThatIsAnObjectByItsPartsIsLeftOut(t *testing.T) {
	a := newAPI(t)
	cfg := a.config([]byte(`{"openapi":"3.0.3","info":{"title":"x","version":"1"},
		"paths":{"/a":{"get":{"operationId":"op","parameters":[
			{"name":"filter","in":"query","schema":{"allOf":[{"$ref":"#/components/schemas/Named"}]}},
			{"name":"circle","in":"query","schema":{"$ref":"#/components/schemas/Circle"}},
			{"name":"short","in":"query","schema":{"allOf":[{"type":"string"},{"maxLength":3}]}}],
			"responses":{}}}},
		"components":{"schemas":{
			"Base":{"properties":{"id":{"type":"string"}}},
			"Named":{"allOf":[{"description":"named"},{"$ref":"#/components/schemas/Base"}]},
			"Circle":{"allOf":[{"$ref":"#/components/schemas/Round"},{"$ref":"#/components/schemas/Round"}]},
			"Round":{"allOf":[{"$ref":"#/components/schemas/Circle"},{"$ref":"#/components/schemas/Circle"}]}}}}`))
	want := []string{`operation "op": query parameter "filter" is left out: it is an object whose ` +
		`properties would become parameters of their own`}
	if got := notes(t, cfg); !slices.Equal(got, want) {
		t.Errorf("got notes %q, want %q", got, want)
	}
	cfg.Document = []byte(strings.Replace(string(cfg.Document), `{"$ref":"#/components/schemas/Circle"}},`,
		`{"type":"string"}},`, 1)) // the catalogue takes no schema that refers to itself alone
	tools, refused := load(t, cfg)
	if len(refused) > 0 {
		t.Fatal(refused[0].Err)
	}
	mustUse(t, tools["op"], `{"short":"abc"}`)
	if r, _ := a.last(t); r.RequestURI != "/v3/a?short=abc" {
		t.Errorf("got %s", r.RequestURI)
	}
	if _, err := use(t.Context(), tools["op"], `{"filter":{"id":"1"}}`); err == nil {
		t.Error("the object is still offered")
	}
}
