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
