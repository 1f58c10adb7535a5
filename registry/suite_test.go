package registry_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// corpus returns the directory of shared test data that is no part of the repository.
func corpus(t testing.TB, elements ...string) string {
	t.Helper()
	candidates := []string{os.Getenv("DRAWBRIDGE_SHARED")}
	if dir, err := os.Getwd(); err == nil {
		for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			candidates = append(candidates, filepath.Join(dir, "shared"), filepath.Join(filepath.Dir(dir), "shared"))
		}
	}
	for _, candidate := range candidates {
		path := filepath.Join(append([]string{candidate, "corpora"}, elements...)...)
		if _, err := os.Stat(path); candidate != "" && err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("the test data %v is not beside the checkout, nor below DRAWBRIDGE_SHARED", elements)
	}
	t.Skipf("the test data %v is not beside the checkout, nor below DRAWBRIDGE_SHARED", elements)
	return ""
}

// group is one schema of the JSON Schema test suite with its tests.
type group struct {
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Tests       []struct {
		Description string          `json:"description"`
		Data        json.RawMessage `json:"data"`
		Valid       bool            `json:"valid"`
	} `json:"tests"`
}

func readGroups(t *testing.T, path string) []group {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var groups []group
	if err := json.Unmarshal(data, &groups); err != nil {
		t.Fatal(err)
	}
	return groups
}

// withDialect makes an object of true and false, and adds $schema where there is none.
func withDialect(raw json.RawMessage, dialect string) json.RawMessage {
	o, ok := mcp.ObjectOf(mcp.RawJSON(raw))
	if !ok {
		o = mcp.NewObject(mcp.Member{Name: "allOf", Value: mcp.Array([]mcp.RawJSON{mcp.RawJSON(raw)})})
	}
	if o.Has("$schema") {
		return raw
	}
	return json.RawMessage(o.With("$schema", mcp.String(dialect)).JSON())
}

// compact returns data as mcp.RawJSON, nil when it is not strict JSON.
func compact(t testing.TB, data []byte) mcp.RawJSON {
	t.Helper()
	raw, err := mcp.ParseRaw(data)
	if err != nil {
		return nil
	}
	return raw
}

// offerOutput puts a schema of any kind into a registry, as an output schema, and returns the tool.
func offerOutput(t testing.TB, schema []byte) (*registry.Tool, []registry.Refusal) {
	t.Helper()
	raw := compact(t, schema)
	if raw == nil {
		return nil, []registry.Refusal{{Reason: "json"}}
	}
	return offer(t, `{"type":"object"}`, string(raw))
}

func offer(t testing.TB, input, output string) (*registry.Tool, []registry.Refusal) {
	t.Helper()
	definition := mcp.NewObject(
		mcp.Member{Name: "name", Value: mcp.String("tool")},
		mcp.Member{Name: "inputSchema", Value: mcp.RawJSON(input)},
	)
	if output != "" {
		definition = definition.With("outputSchema", mcp.RawJSON(output))
	}
	r := registry.New()
	refused := r.Replace(registry.Source{Name: "s", Tools: []registry.Offer{{Definition: definition, Timeout: time.Second}}})
	tool, _ := r.Catalogue().View([]string{"s"}).Lookup("tool")
	return tool, refused
}

func TestSuiteGivesRightVerdictsOrRefuses(t *testing.T) {
	for _, test := range []struct {
		dialect, uri               string
		groups, tests, mostRefused int
	}{
		{"draft2020-12", "https://json-schema.org/draft/2020-12/schema", 383, 1299, 60},
		{"draft7", "http://json-schema.org/draft-07/schema#", 257, 927, 28},
	} {
		t.Run(test.dialect, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join(corpus(t, "json-schema", "tests", test.dialect), "*.json"))
			if err != nil || len(files) == 0 {
				t.Fatalf("no suite: %v", err)
			}
			groups, tests, refused := 0, 0, 0
			for _, file := range files {
				for _, g := range readGroups(t, file) {
					groups++
					name := strings.TrimSuffix(filepath.Base(file), ".json") + "/" + g.Description
					schema := compact(t, withDialect(g.Schema, test.uri))
					tool, refusals := offerOutput(t, schema)
					if tool == nil {
						refused++
						t.Logf("refused: %s: %v", name, refusals[0].Err)
					}
					for _, c := range g.Tests {
						tests++
						raw := compact(t, c.Data)
						if tool == nil || raw == nil {
							continue
						}
						err := tool.ValidateOutput(raw)
						if (err == nil) != c.Valid {
							t.Errorf("%s/%s: got error %v, want valid %v", name, c.Description, err, c.Valid)
						}
						if short, library, err := registry.Verdicts(schema, raw); err != nil || library != c.Valid || short && !c.Valid {
							t.Errorf("%s/%s: got short way %v, library %v, %v; want %v", name, c.Description, short, library, err, c.Valid)
						}
					}
				}
			}
			t.Logf("%d groups, %d refused, %d tests", groups, refused, tests)
			if test.tests > 0 && (tests != test.tests || groups != test.groups) {
				t.Errorf("got %d groups and %d tests, want %d and %d", groups, tests, test.groups, test.tests)
			}
			if refused > test.mostRefused {
				t.Errorf("refused %d groups, want at most %d", refused, test.mostRefused)
			}
		})
	}
}

func TestRealToolSchemasAreAccepted(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(corpus(t, "tool-schemas", "schemas"), "*.snap"))
	if err != nil || len(files) != 117 {
		t.Fatalf("got %d schemas (%v), want 117", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		definition, err := mcp.ParseObject(data)
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(file), err)
			continue
		}
		r := registry.New()
		source := registry.Source{Name: "github", Prefix: "github", Tools: []registry.Offer{{Definition: definition, Timeout: time.Second}}}
		if refused := r.Replace(source); len(refused) > 0 {
			t.Errorf("%s: refused: %s: %v", filepath.Base(file), refused[0].Reason, refused[0].Err)
		}
	}
}
