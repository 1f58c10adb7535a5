package schema_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/corpus"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

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

// moduleSuite returns the folder with the tests of the JSON Schema test suite that come
// with a module of our module graph. That of google lacks format, content and vocabulary,
// for which testdata/suite has tests of our own.
func moduleSuite(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", name).Output()
	var module struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &module)
	}
	if err != nil {
		t.Fatalf("go mod download: %v", err)
	}
	return module.Dir
}

func TestSuiteGivesRightVerdictsOrRefuses(t *testing.T) {
	module := filepath.Join(moduleSuite(t, "github.com/google/jsonschema-go"), "jsonschema", "testdata")
	older := filepath.Join(moduleSuite(t, "github.com/kaptinlin/jsonschema"), "testdata",
		"JSON-Schema-Test-Suite", "tests")
	public := corpus.Shared(t, "corpora", "json-schema", "tests")
	for _, test := range []struct {
		name, root, dialect        string
		groups, tests, mostRefused int
	}{
		{"module", module, "draft2020-12", 342, 1099, 60},
		{"module", module, "draft7", 254, 913, 28},
		{"own", filepath.Join("testdata", "suite"), "draft2020-12", 8, 35, 0},
		{"older", older, "draft2019-09", 359, 1220, 47},
		{"older", older, "draft6", 229, 822, 24},
		{"older", older, "draft4", 159, 610, 15},
		{"public", public, "draft2020-12", 383, 1299, 60},
		{"public", public, "draft7", 257, 927, 28},
	} {
		if test.root == "" {
			continue
		}
		t.Run(test.name+"/"+test.dialect, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join(test.root, test.dialect, "*.json"))
			if err != nil {
				t.Fatal(err)
			}
			groups, tests, refused := 0, 0, 0
			for _, file := range files {
				for _, g := range readGroups(t, file) {
					groups++
					tests += len(g.Tests)
					if !g.check(t, strings.TrimSuffix(filepath.Base(file), ".json"), dialects[test.dialect]) {
						refused++
					}
				}
			}
			t.Logf("%d groups, %d refused, %d tests", groups, refused, tests)
			t.Attr("tests", fmt.Sprint(tests))
			if tests != test.tests || groups != test.groups {
				t.Errorf("got %d groups and %d tests, want %d and %d", groups, tests, test.groups, test.tests)
			}
			if refused > test.mostRefused {
				t.Errorf("refused %d groups, want at most %d", refused, test.mostRefused)
			}
		})
	}
}

// dialects are the folders of the suite with what their schemas say of themselves.
var dialects = map[string]string{
	"draft2020-12": "https://json-schema.org/draft/2020-12/schema",
	"draft2019-09": "https://json-schema.org/draft/2019-09/schema",
	"draft7":       "http://json-schema.org/draft-07/schema#",
	"draft6":       "http://json-schema.org/draft-06/schema#",
	"draft4":       "http://json-schema.org/draft-04/schema#",
}

// check runs the tests of a group, and tells whether its schema is accepted at all.
func (g group) check(t *testing.T, file, dialect string) bool {
	t.Helper()
	name := file + "/" + g.Description
	text := compact(t, withDialect(g.Schema, dialect))
	s, err := schema.Compile(text)
	if err != nil {
		t.Logf("refused: %s: %v", name, err)
		return false
	}
	for _, c := range g.Tests {
		raw := compact(t, c.Data)
		if raw == nil {
			continue
		}
		err := s.CheckWithin(raw, "value", nil)
		if s.Unenforced() != nil && (err == nil || !c.Valid) {
			continue // more may be accepted, and no less
		}
		if (err == nil) != c.Valid {
			t.Errorf("%s/%s: got error %v, want valid %v", name, c.Description, err, c.Valid)
		}
		if fast, library, err := s.Verdicts(raw); err != nil || library != c.Valid || fast && !c.Valid {
			t.Errorf("%s/%s: got fast path %v, library %v, %v; want %v", name, c.Description, fast, library,
				err, c.Valid)
		}
	}
	return true
}
