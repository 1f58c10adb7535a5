package corpus_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/drawbridge-mcp/drawbridge/internal/corpus"
)

var update = flag.Bool("update", false,
	"make the reduced schemas from the official ones, which must be at hand")

// originals are the official schemas of
// https://github.com/modelcontextprotocol/modelcontextprotocol,
// schema/REVISION/schema.json.
var originals = []struct {
	revision, sha256 string
	definitions      int
}{
	{"2024-11-05", "61cea2392d4f284092d09bc84b9ac488c0d5618ac2b38a56942fc5b99fd960ce", 79},
	{"2025-03-26", "e720669548c8100a4282c49e580efd6ddf7f28899ea786fc8db251dbdb356131", 83},
	{"2025-06-18", "af845e7e5b9d27107d1690f0936022546177a1403e63ffb11470135b296a2e01", 91},
	{"2025-11-25", "268a5f82ba70fd7e4b6dc4aa1e64f116f74b4d0edcb69dc046829c79dd4e97e7", 145},
	{"2026-07-28", "ef70b61f99b6d2e5e3b46863822eab08dff6a45bedc7a08914e0e5b133f40203", 155},
}

// What becomes of the keywords of a schema. One that is not listed is an error, so that
// no fact is lost unseen.
var keywords = map[string]string{
	"$schema": "kept", "$ref": "kept", "type": "kept", "required": "kept", "const": "kept", "enum": "kept",
	"format":  "kept",
	"minimum": "kept", "maximum": "kept", "maxItems": "kept",
	"$defs": "names", "definitions": "names", "properties": "names",
	"items": "schema", "additionalProperties": "schema",
	"anyOf": "list", "allOf": "list",
	"description": "dropped",
}

// reduced returns a schema without its texts.
func reduced(schema any) (any, error) {
	o, ok := schema.(map[string]any)
	if !ok {
		return schema, nil // true or false
	}
	facts := make(map[string]any)
	for keyword, value := range o {
		var err error
		switch keywords[keyword] {
		case "kept":
			facts[keyword] = value
		case "schema":
			facts[keyword], err = reduced(value)
		case "names":
			named := make(map[string]any)
			for name, inner := range value.(map[string]any) {
				if named[name], err = reduced(inner); err != nil {
					return nil, err
				}
			}
			facts[keyword] = named
		case "list":
			var list []any
			for _, inner := range value.([]any) {
				one, err := reduced(inner)
				if err != nil {
					return nil, err
				}
				list = append(list, one)
			}
			facts[keyword] = list
		case "dropped":
		default:
			err = fmt.Errorf("what becomes of the keyword %q?", keyword)
		}
		if err != nil {
			return nil, err
		}
	}
	return facts, nil
}

// written returns a reduced schema as a file: one definition a line, by name.
func written(t *testing.T, schema any) []byte {
	t.Helper()
	o := schema.(map[string]any)
	place := "definitions"
	if o[place] == nil {
		place = "$defs"
	}
	named := o[place].(map[string]any)
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(named)) {
		text, err := json.Marshal(named[name])
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%q:%s", name, text))
	}
	return fmt.Appendf(nil, "{\"$schema\":%q,%q:{\n%s\n}}\n", o["$schema"], place, strings.Join(lines, ",\n"))
}

// TestSchemasAreTheOfficialFacts reduces the official schemas where they are at hand and
// compares; -update rewrites.
func TestSchemasAreTheOfficialFacts(t *testing.T) {
	for _, original := range originals {
		path := corpus.Shared(t, "protocol", "schema", original.revision, "schema.json")
		if path == "" {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != original.sha256 {
			t.Errorf("%s has the digest %x, want %s", path, sum, original.sha256)
			continue
		}
		var schema any
		if err := json.Unmarshal(data, &schema); err != nil {
			t.Fatal(err)
		}
		facts, err := reduced(schema)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		want := written(t, facts)
		if *update {
			if err := os.WriteFile(filepath.Join("testdata", "schema", original.revision+".json"), want,
				0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got := corpus.Schema(t, original.revision); !bytes.Equal(got, want) {
			t.Errorf("%s: the file is not what the official schema reduces to; -update makes it again",
				original.revision)
		}
	}
}

// TestSchemasAreWhole counts the definitions, compiles each, and finds no texts.
func TestSchemasAreWhole(t *testing.T) {
	for _, original := range originals {
		schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(corpus.Schema(t, original.revision)))
		if err != nil {
			t.Fatalf("%s: %v", original.revision, err)
		}
		facts, err := reduced(schema)
		if err != nil || !bytes.Equal(written(t, facts), corpus.Schema(t, original.revision)) {
			t.Errorf("%s: there is more than facts: %v", original.revision, err)
		}
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource("mcp.json", schema); err != nil {
			t.Fatal(err)
		}
		count := 0
		for _, place := range []string{"definitions", "$defs"} {
			named, _ := schema.(map[string]any)[place].(map[string]any)
			for name := range named {
				count++
				if _, err := compiler.Compile("mcp.json#/" + place + "/" + name); err != nil {
					t.Errorf("%s: %v", original.revision, err)
				}
			}
		}
		if count != original.definitions {
			t.Errorf("%s: got %d definitions, want %d", original.revision, count, original.definitions)
		}
	}
}
