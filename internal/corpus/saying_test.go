package corpus_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/drawbridge-mcp/drawbridge/internal/corpus"
)

// TestSayingsAreWhatTheSchemaAllows validates each saying, without Here, against the
// schema that it was made from.
func TestSayingsAreWhatTheSchemaAllows(t *testing.T) {
	for _, c := range []struct {
		revision, definition string
		fewest               int
	}{
		{"2024-11-05", "CallToolResult", 20},
		{"2025-06-18", "ElicitRequest", 20},
		{"2025-11-25", "CreateMessageRequest", 80},
		{"2025-11-25", "GetTaskResult", 10},
		{"2026-07-28", "InputRequiredResult", 200},
		{"2026-07-28", "Tool", 30},
		{"2024-11-05", "Task", 0},
	} {
		sayings := corpus.Sayings(t, c.revision, c.definition)
		if len(sayings) < c.fewest || c.fewest == 0 && len(sayings) > 0 {
			t.Errorf("%s: %d sayings of %s, want %d or more", c.revision, len(sayings), c.definition,
				c.fewest)
		}
		if len(sayings) == 0 {
			continue
		}
		compiler := jsonschema.NewCompiler()
		schema, _ := jsonschema.UnmarshalJSON(bytes.NewReader(corpus.Schema(t, c.revision)))
		if err := compiler.AddResource("mcp.json", schema); err != nil {
			t.Fatal(err)
		}
		names := "$defs"
		if _, ok := schema.(map[string]any)[names]; !ok {
			names = "definitions"
		}
		compiled, err := compiler.Compile("mcp.json#/" + names + "/" + c.definition)
		if err != nil {
			t.Fatal(err)
		}
		for _, saying := range sayings {
			if strings.Count(saying.Message, corpus.Here) != 1 {
				t.Errorf("%s: %s", saying.Path, saying.Message)
			}
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(strings.Replace(saying.Message,
				corpus.Here, "", 1)))
			if err != nil {
				t.Fatal(err)
			}
			if err := compiled.Validate(value); err != nil {
				t.Errorf("%s: %s of %s: %v", c.revision, saying.Message, saying.Path, err)
			}
		}
	}
}
