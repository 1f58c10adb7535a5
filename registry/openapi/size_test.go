package openapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

func large(t testing.TB) []byte {
	var many []string
	for i := range 1500 {
		many = append(many, fmt.Sprintf("%060d", i))
	}
	text := strings.ReplaceAll(string(document(t, "large.yaml")), "LONG", strings.Repeat("long text. ", 1818))
	return []byte(strings.ReplaceAll(text, "MANY", `"`+strings.Join(many, `","`)+`"`))
}

// An operation whose schema had more than 64 KiB was left out, most often for its
// descriptions.
func TestDescriptionsAreShortenedForAnOperationToFit(t *testing.T) {
	cfg := newAPI(t).config(large(t), "described")
	tools, refused := load(t, cfg)
	if len(refused) > 0 {
		t.Fatal(refused[0].Err)
	}
	raw := string(tools["described"].Raw)
	for _, part := range []string{
		`"Amount long text. `, `"Shopper long text. `, `"Description long text. `,
		"…",
	} {
		if !strings.Contains(raw, part) {
			t.Errorf("%s is not in %s", part, raw)
		}
	}
	for arguments, valid := range map[string]bool{
		`{"body":{"amount":1,"method":"card","shopper":{"description":"12345"}}}`: true, `{"body":{}}`: false,
		`{"body":{"amount":1,"shopper":{"description":"123456"}}}`: false,
		`{"body":{"amount":1,"method":"x"}}`:                       false,
	} {
		if err := tools["described"].ValidateWithin(mcp.RawJSON(arguments), nil); (err == nil) != valid {
			t.Errorf("%s: got error %v, want none: %v", arguments, err, valid)
		}
	}
	want := []string{`operation "described": descriptions within its schemas are cut to 400 bytes, for it to fit`}
	if got := notes(t, cfg); !slices.Equal(got, want) {
		t.Errorf("got notes %q, want %q", got, want)
	}
}

// Where shorter descriptions are not enough, inputs that may be missing are left out, the
// largest first, and no others.
func TestInputsThatDoNotFitAreLeftOut(t *testing.T) {
	a := newAPI(t)
	cfg := a.config(large(t), "optional", "required")
	tools, refused := load(t, cfg)
	if len(refused) != 1 || refused[0].Item != "required" ||
		refused[0].Err.Error() != "its input schema has more than 65536 bytes, also without descriptions and the largest inputs that may be missing" {
		t.Errorf("got refusals %v", refused)
	}
	mustUse(t, tools["optional"], `{"page":7,"body":{"name":"x"}}`)
	if r, body := a.last(t); r.RequestURI != "/v3/optional?page=7" || body != `{"name":"x"}` {
		t.Errorf("got %s with %s", r.RequestURI, body)
	}
	if raw := string(tools["optional"].Raw); strings.Contains(raw, "000000") ||
		strings.Contains(raw, "kind") || strings.Contains(raw, "$defs") {
		t.Errorf("what does not fit is in the definition: %.300s", raw)
	}
	want := []string{
		`operation "optional": descriptions within its schemas are left out, for it to fit`,
		`operation "optional": the input "body.kind" is left out: with it, its input schema has more than 65536 bytes`,
		`operation "optional": the input "country" is left out: with it, its input schema has more than 65536 bytes`,
	}
	got := notes(t, cfg)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("got notes %q, want %q", got, want)
	}
}

// Each try to leave out an input costs time, so that there is a bound.
func TestOnlySomeInputsAreLeftOut(t *testing.T) {
	var parameters []string
	for i := range 600 {
		parameters = append(parameters, fmt.Sprintf(`{"name":"p%d","in":"query","schema":{"const":%q}}`, i,
			strings.Repeat("x", 200)))
	}
	tools, refused := load(t, newAPI(t).config(withParameter(strings.Join(parameters, ","))))
	if len(tools) > 0 || len(refused) != 1 || !strings.Contains(refused[0].Err.Error(), "65536 bytes") {
		t.Errorf("got %d tools and %v, want one refusal", len(tools), refused)
	}
}

func TestAnOutputSchemaThatDoesNotFitIsLeftOut(t *testing.T) {
	cfg := newAPI(t).config(large(t), "answer")
	cfg.OutputSchemas = true
	tools, refused := load(t, cfg)
	if len(refused) > 0 || tools["answer"].HasOutput() || !strings.Contains(string(tools["answer"].Raw),
		`"page"`) {
		t.Errorf("got %v, want a tool without an output schema and with its input", refused)
	}
}

// TestDescriptionsOfParametersAreShortenedToo, and stay so where those within schemas are
// left out: they came back whole then.
func TestDescriptionsOfParametersAreShortenedToo(t *testing.T) {
	const count = 400
	var parameters []string
	for i := range count {
		parameters = append(parameters, fmt.Sprintf(`{"name":"p%d","in":"query","description":%q,`+
			`"schema":{"type":"string","title":%[2]q}}`, i, strings.Repeat("x", 200)))
	}
	cfg := newAPI(t).config(withParameter(strings.Join(parameters, ",")))
	tools, refused := load(t, cfg)
	if len(refused) > 0 {
		t.Fatal(refused[0].Err)
	}
	want := []string{`operation "op": descriptions within its schemas are left out, for it to fit`}
	if got := notes(t, cfg); !slices.Equal(got, want) {
		t.Errorf("got notes %q, want %q", got, want)
	}
	cut := `"description":"` + strings.Repeat("x", 60) + "…\""
	if raw := string(tools["op"].Raw); strings.Count(raw, cut) != count || strings.Contains(raw, `"title"`) {
		t.Errorf("got %.300s, want all with %s", raw, cut)
	}
}

// TestWhatAToolRefersToIsBounded together, however little of it would be left in the end.
func TestWhatAToolRefersToIsBounded(t *testing.T) {
	var properties, held []string
	for i := range 5 {
		properties = append(properties, fmt.Sprintf(`"p%d":{"$ref":"#/components/schemas/A%[1]d"}`, i))
		held = append(held, fmt.Sprintf(`"A%d":{"description":%q}`, i, strings.Repeat("x", 1<<20)))
	}
	cfg := newAPI(t).config([]byte(`{"openapi":"3.1.0","paths":{"/a":{"post":{"operationId":"op","requestBody":{"content":{`+
		`"application/json":{"schema":{"properties":{`+strings.Join(properties, ",")+`}}}}}}}},`+
		`"components":{"schemas":{`+strings.Join(held, ",")+`}}}`), "*")
	_, refused := load(t, cfg)
	if len(refused) != 1 || !strings.Contains(refused[0].Err.Error(), "it refers to more than 4 MiB of the document") {
		t.Errorf("got %v, want one refusal", refused)
	}
}
