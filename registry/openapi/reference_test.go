package openapi_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// document returns a document of testdata.
func document(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A reference that leads nowhere, out of the document or to something of another kind
// costs the operations that use it, and no others.
func TestOneWrongReferenceCostsOnlyItsOperations(t *testing.T) {
	tools, refused := load(t, newAPI(t).config(document(t, "references.yaml"), "*"))
	for _, name := range []string{"good", "bundled"} {
		if tools[name] == nil {
			t.Errorf("%s is left out", name)
		}
	}
	got := map[string]string{}
	for _, r := range refused {
		got[r.Item] = r.Err.Error()
	}
	want := map[string]string{
		"nowhere": `body: at #/components/schemas/Basket: $ref "#/components/schemas/Gone" leads nowhere`,
		"outside": `at #/paths/~1outside/get/parameters/0: $ref "parameters.yaml#/page" leads to a file, and files are not ` +
			`read here (bundle the document first)`,
		"kind": `at #/paths/~1kind/post/requestBody: $ref "#/components/schemas/Order" leads to one of schemas, where one of requestBodies belongs`,
		"* /elsewhere": `its path: at #/paths/~1elsewhere: $ref "paths/elsewhere.yaml" leads to a file, and files are not ` +
			`read here (bundle the document first)`,
		"* /missing": `its path: at #/paths/~1missing: $ref "#/components/pathItems/Missing" leads nowhere`,
		"form":       `at #/paths/~1form/get/parameters/0: json: cannot unmarshal string into Go struct field parameter.Required of type bool`,
		"component":  `inputSchema: at #/$defs/Odd: maxLength must be a whole number from 0 to 2^53`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
}

// What the document says of answers is not used unless output schemas are wanted, and
// then only of a success, so that a fault elsewhere costs nothing.
func TestWrongReferencesInAnswersCountWithOutputSchemas(t *testing.T) {
	cfg := newAPI(t).config(document(t, "references.yaml"), "good")
	cfg.OutputSchemas = true
	tools, refused := load(t, cfg)
	if len(tools) > 0 || len(refused) != 1 || !strings.Contains(refused[0].Err.Error(),
		`"#/components/requestBodies/Order" leads to one of requestBodies, where one of responses belongs`) {
		t.Errorf("got %d tools and %v", len(tools), refused)
	}
}

// References into components and paths, as bundlers write them, keep their meaning.
func TestReferencesIntoOtherPlaces(t *testing.T) {
	tools, _ := load(t, newAPI(t).config(document(t, "references.yaml"), "bundled"))
	for arguments, valid := range map[string]bool{
		`{"body":{"note":"12345","parent":{"note":"x"}}}`: true, `{"body":{"note":"123456"}}`: false,
		`{"body":{"parent":{"parent":{"note":1}}}}`: false, `{"body":{"page":"x"}}`: false,
	} {
		if err := tools["bundled"].ValidateWithin(mcp.RawJSON(arguments), nil); (err == nil) != valid {
			t.Errorf("%s: got error %v, want none: %v", arguments, err, valid)
		}
	}
}

// TestAFaultInWhatNoToolNeedsCostsNothing, such as a name of a discriminator that leads
// to a file, as those of DigitalOcean do, or a wrong reference in an example.
func TestAFaultInWhatNoToolNeedsCostsNothing(t *testing.T) {
	cfg := newAPI(t).config([]byte(`{"openapi":"3.0.3","info":{"title":"x","version":"1"},"paths":{"/a":{"post":{"operationId":"op",
		"requestBody":{"content":{"application/json":{"schema":{"oneOf":[{"$ref":"#/components/schemas/Cat"}],
			"discriminator":{"propertyName":"kind","mapping":{"cat":"models/cat.yml"}}},
			"examples":{"one":{"$ref":"#/components/examples/Gone"}}}}},
		"responses":{"200":{"$ref":"#/components/responses/Gone"}}}}},
		"components":{"schemas":{"Cat":{"type":"object","example":{"$ref":"#/nowhere"},"xml":"none"}}}}`), "*")
	tools, refused := load(t, cfg)
	if len(refused) > 0 {
		t.Fatal(refused[0].Err)
	}
	for body, valid := range map[string]bool{`{}`: true, `7`: false} {
		err := tools["op"].ValidateWithin(mcp.RawJSON(`{"body":`+body+`}`), nil)
		if (err == nil) != valid {
			t.Errorf("%s: got error %v, want none: %v", body, err, valid)
		}
	}
}

// TestOfNamesThatStandTwiceTheLastCounts, since documents are written by hand.
func TestOfNamesThatStandTwiceTheLastCounts(t *testing.T) {
	a := newAPI(t)
	tools, refused := load(t, a.config([]byte(`{"openapi":"3.1.0","paths":{"/a":{"get":{"operationId":"gone"},"get":{
		"operationId":"op","parameters":[{"name":"n","in":"header","in":"query","schema":{"type":"string","type":"integer",
		"maximum":12345678901234567890}}],"responses":{}}}}}`)))
	if len(refused) > 0 {
		t.Fatal(refused[0].Err)
	}
	mustUse(t, tools["op"], `{"n":12345678901234567890}`)
	if r, _ := a.last(t); r.RequestURI != "/v3/a?n=12345678901234567890" {
		t.Errorf("got %s", r.RequestURI)
	}
	for _, wrong := range []string{`"x"`, `12345678901234567891`} {
		if _, err := use(t.Context(), tools["op"], `{"n":`+wrong+`}`); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}
