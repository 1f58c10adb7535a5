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
		"nowhere": `at #/components/schemas/Basket/properties/first: $ref "#/components/schemas/Gone" leads nowhere`,
		"outside": `at #/paths/~1outside/get/parameters/0: $ref "parameters.yaml#/page" leads to a file, and files are not ` +
			`read here (bundle the document first)`,
		"kind": `at #/paths/~1kind/post/requestBody: $ref "#/components/schemas/Order" leads to one of schemas, where one of requestBodies belongs`,
		"* /elsewhere": `its path: $ref "paths/elsewhere.yaml" leads to a file, and files are not ` +
			`read here (bundle the document first)`,
		"* /missing": `its path: $ref "#/components/pathItems/Missing" leads nowhere`,
		"form":       `at #/paths/~1form/get: json: cannot unmarshal string into field Parameter.required of type bool`,
		"component":  `at #/components/schemas/Odd: json: cannot unmarshal string into field Schema.maxLength of type uint64`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
}

// What the document says of answers is not used unless output schemas are wanted, so that
// a fault there costs nothing.
func TestWrongReferencesInAnswersCountWithOutputSchemas(t *testing.T) {
	cfg := newAPI(t).config(document(t, "references.yaml"), "good")
	cfg.OutputSchemas = true
	tools, refused := load(t, cfg)
	if len(tools) > 0 || len(refused) != 1 || !strings.Contains(refused[0].Err.Error(),
		"#/components/responses/Absent") {
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
