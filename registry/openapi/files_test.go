package openapi_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// below returns what reads the files of a folder of testdata, and the names that were
// asked for.
func below(t testing.TB, folder string) (open func(string) ([]byte, error), asked map[string]int) {
	t.Helper()
	root, err := os.OpenRoot(filepath.Join("testdata", folder))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	asked = map[string]int{}
	return func(name string) ([]byte, error) {
		asked[name]++
		return root.ReadFile(name)
	}, asked
}

// TestOperationsInFilesBecomeTools: an operation, path item or part of one may stand in a
// file below the document's folder. Anything else is refused as what it is, and alone.
func TestOperationsInFilesBecomeTools(t *testing.T) {
	cfg := newAPI(t).config(document(t, "scattered/api.yaml"), "*")
	open, asked := below(t, "scattered")
	cfg.Files = open
	tools, refused := load(t, cfg)
	for _, test := range []struct {
		tool, arguments string
		valid           bool
	}{
		{"droplets_create", `{"body":{"name":"web","region":"nyc3","tags":["a"]}}`, true},
		{"droplets_create", `{"body":{"names":["web"],"region":"ams3"}}`, true},
		{"droplets_create", `{"body":{"name":"web"}}`, false},
		{"droplets_create", `{"body":{"name":"web","region":"mars"}}`, false},
		{"droplets_create", `{"body":{"name":"web","region":"nyc3","tags":["too long a tag"]}}`, false},
		{"droplets_create", `{"body":{"name":"web","region":"nyc3","parent":{"name":"too long","region":"nyc3"}}}`, false},
		{"droplets_create", `{}`, false},
		{"inline", `{"body":{"name":"web","region":"nyc3"}}`, true},
		{"inline", `{"body":{"name":1,"region":"nyc3"}}`, false},
		{"droplets_list", `{"per_page":20,"tag_name":"a"}`, true},
		{"droplets_list", `{"per_page":201}`, false},
		{"droplets_list", `{"tag_name":"too long a tag"}`, false},
		{"droplets_get", `{"id":7}`, true},
		{"droplets_get", `{}`, false},
		{"droplets_destroy", `{"id":7}`, true},
		{"droplets_destroy", `{"id":"x"}`, false},
	} {
		if tools[test.tool] == nil {
			t.Errorf("%s is left out", test.tool)
			continue
		}
		if err := tools[test.tool].ValidateWithin(mcp.RawJSON(test.arguments), nil); (err == nil) != test.valid {
			t.Errorf("%s %s: got error %v, want none: %v", test.tool, test.arguments, err, test.valid)
		}
	}
	got := map[string]string{}
	for _, r := range refused {
		got[r.Item] = r.Err.Error()
	}
	want := map[string]string{
		"POST /v2/missing": `at #/paths/~1v2~1missing/post: $ref "resources/missing.yml" cannot be read: openat resources/missing.yml: no such file or directory`,
		"POST /v2/pointer": `at #/paths/~1v2~1pointer/post: $ref "resources/droplets/create.yml#/nothing" leads nowhere`,
		"* /v2/outside": `its path: at #/paths/~1v2~1outside: $ref "../references.yaml" leads out of the document's folder, ` +
			`and only files below it are read`,
		"POST /v2/rooted": `at #/paths/~1v2~1rooted/post: $ref "/etc/passwd" leads out of the document's folder, ` +
			`and only files below it are read`,
		"POST /v2/web": `at #/paths/~1v2~1web/post: $ref "https://specs.example/create.yml" leads to an address, ` +
			`and only files below the document's folder are read`,
		"body": `body: at #/paths/~1v2~1body/post/requestBody/content/application~1json/schema: $ref "resources/../../../secret.yml#/a" ` +
			`leads out of the document's folder, and only files below it are read`,
		"POST /v2/circle": `references that lead to each other`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
	for name, times := range asked {
		if times > 1 || strings.Contains(name, "..") || strings.HasPrefix(name, "/") {
			t.Errorf("%s was asked for %d times", name, times)
		}
	}
}

// TestFilesAreReadWhenTheyAreNeeded: those of operations that are not included are not,
// but for the operations' own.
func TestFilesAreReadWhenTheyAreNeeded(t *testing.T) {
	cfg := newAPI(t).config(document(t, "scattered/api.yaml"), "droplets_list")
	open, asked := below(t, "scattered")
	cfg.Files = open
	if tools, _ := load(t, cfg); tools["droplets_list"] == nil {
		t.Error("the tool is left out")
	}
	if asked["shared/parameters.yml"] != 1 || asked["resources/droplets/models/single.yml"] != 0 {
		t.Errorf("asked for %v", asked)
	}
}

// TestFilesOfADocumentAreBounded in number and in bytes, together with the document.
func TestFilesOfADocumentAreBounded(t *testing.T) {
	for name, test := range map[string]struct {
		file       string
		operations int // each in a file of its own
		most       int
		cause      string
	}{
		"number": {`{"operationId":"x","responses":{}}`, 5_002, 5_000, "more than the 5000"},
		"bytes": {
			`{"description":"` + strings.Repeat("x", 1<<20) + `","responses":{}}`, 18, 15,
			"more than 16 MiB",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var paths strings.Builder
			for i := range test.operations {
				fmt.Fprintf(&paths, `"/%d":{"get":{"$ref":"%d.json"}},`, i, i)
			}
			cfg := newAPI(t).config([]byte(`{"openapi":"3.1.0","paths":{` + strings.TrimSuffix(paths.String(),
				",") + `}}`))
			read := 0
			cfg.Files = func(string) ([]byte, error) { read++; return []byte(test.file), nil }
			tools, refused := load(t, cfg)
			if len(tools) > test.most || len(tools)+len(refused) != test.operations || read > test.most+1 &&
				name == "number" {
				t.Errorf("%d tools, %d refusals, %d files read", len(tools), len(refused), read)
			}
			if err := refused[0].Err.Error(); !strings.Contains(err, test.cause) {
				t.Errorf("got %s", err)
			}
		})
	}
}

// TestAFileThatCannotBeReadCostsItsOperation: the reason stands in one line.
func TestAFileThatCannotBeReadCostsItsOperation(t *testing.T) {
	for content, want := range map[string]string{
		"a: [": "cannot be read: ",
		strings.Repeat("[", 201) + strings.Repeat("]", 201): "more than 200 levels deep",
		"": "cannot be read: gone",
	} {
		cfg := newAPI(t).config([]byte(`{"openapi":"3.1.0","paths":{"/x":{"get":{"$ref":"x.yaml"}}}}`))
		cfg.Files = func(string) ([]byte, error) {
			if content == "" {
				return nil, errors.New("gone\nand more")
			}
			return []byte(content), nil
		}
		tools, refused := load(t, cfg)
		if len(tools) > 0 || len(refused) != 1 || !strings.Contains(refused[0].Err.Error(), want) ||
			strings.Contains(refused[0].Err.Error(), "\n") {
			t.Errorf("%.20q: got %v, want %q", content, refused, want)
		}
	}
}

// TestAReferenceIsFollowedOnce: to look for what is not there takes a look through a
// whole file or part, and a document may say the same wrong reference at many places.
func TestAReferenceIsFollowedOnce(t *testing.T) {
	const places = 40_000
	large := `{"type":"string","description":"` + strings.Repeat("x", 6<<20) + `"}`
	common := `{"components":{"schemas":{"A":` + large + `}}}`
	for _, missing := range []string{
		"common.json#/components/schemas/Missing", "#/components/schemas/A/properties/missing",
	} {
		properties := make([]string, places)
		for i := range properties {
			properties[i] = fmt.Sprintf(`"p%d":{"$ref":%q}`, i, missing)
		}
		cfg := newAPI(t).config([]byte(`{"openapi":"3.0.3","info":{"title":"x","version":"1"},"paths":{"/a":{"get":{`+
			`"operationId":"op","parameters":[{"name":"q","in":"query","style":"deepObject","schema":{"properties":{`+
			strings.Join(properties, ",")+`}}}],"responses":{"200":{"description":"x"}}}}},`+
			`"components":{"schemas":{"A":`+large+`}}}`), "op")
		cfg.Files = func(string) ([]byte, error) { return []byte(common), nil }
		before := processorTime(t)
		_, refused := load(t, cfg)
		if len(refused) != 1 || !strings.Contains(refused[0].Err.Error(), "leads nowhere") {
			t.Errorf("%s: got %v, want one refusal for a reference that leads nowhere", missing, refused)
		}
		if took := processorTime(t) - before; took > 15*time.Second { // with a look at each place, 20 or more
			t.Errorf("%s: it took %v of a processor", missing, took)
		}
	}
}

// processorTime returns how long processors have worked for this process.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// TestALargeArrayCostsLittleMemory: millions of elements fit into a document, and
// whatever is kept of each counts.
func TestALargeArrayCostsLittleMemory(t *testing.T) {
	cfg := newAPI(t).config([]byte(`{"openapi":"3.0.3","info":{"title":"x","version":"1"},"paths":{"/a":{"get":{`+
		`"operationId":"op","parameters":[{"name":"q","in":"query","schema":{"$ref":"#/x-a/1"}}],`+
		`"responses":{"200":{"description":"x"}}}}},"x-a":[`+strings.Repeat("0,", 1<<20)+`0]}`), "op")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, refused := load(t, cfg)
	runtime.ReadMemStats(&after)
	if len(refused) != 1 { // a number is no schema
		t.Errorf("got %v, want one refusal", refused)
	}
	if got := after.Mallocs - before.Mallocs; got > 1<<19 { // for each element it were twice as many
		t.Errorf("to read the document has taken memory %d times", got)
	}
}

// TestALargePartIsTakenApartOnce: tools that bundle documents write references into the
// middle of parts, each another one.
func TestALargePartIsTakenApartOnce(t *testing.T) {
	const places = 1000
	var properties, held []string
	for i := range places {
		properties = append(properties,
			fmt.Sprintf(`"p%d":{"$ref":"#/components/schemas/A/properties/missing%[1]d"}`, i))
	}
	for i := range 20 * places {
		held = append(held, fmt.Sprintf(`"p%d":{}`, i))
	}
	cfg := newAPI(t).config([]byte(`{"openapi":"3.0.3","info":{"title":"x","version":"1"},"paths":{"/a":{"get":{`+
		`"operationId":"op","parameters":[{"name":"q","in":"query","style":"deepObject","schema":{"properties":{`+
		strings.Join(properties, ",")+`}}}],"responses":{"200":{"description":"x"}}}}},`+
		`"components":{"schemas":{"A":{"properties":{`+strings.Join(held, ",")+`}}}}}`), "op")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, refused := load(t, cfg)
	runtime.ReadMemStats(&after)
	if len(refused) != 1 || !strings.Contains(refused[0].Err.Error(), "leads nowhere") {
		t.Errorf("got %v, want one refusal for a reference that leads nowhere", refused)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 128<<20 { // taken apart for each, 1 GB or more
		t.Errorf("to read the document has allocated %d MiB", got>>20)
	}
}

// TestPropertiesMayHaveTheNamesOfSections: what a reference below a schema leads to is a
// schema, whatever the properties above it are called.
func TestPropertiesMayHaveTheNamesOfSections(t *testing.T) {
	api := `{"openapi":"3.1.0","info":{"title":"x","version":"1"},"paths":{"/a":{"$ref":"paths.json#/a"}}}`
	paths := `{"a":{"post":{"operationId":"op","requestBody":{"$ref":"parts.json#/body"},
		"parameters":[{"$ref":"parts.json#/headers"}]}}}`
	parts := `{"body":{"content":{"application/json":{"schema":{"properties":{
			"parameters":{"items":{"$ref":"#/name"}},
			"headers":{"additionalProperties":{"$ref":"#/name"}},
			"responses":{"not":{"$ref":"#/name"}},
			"requestBody":{"$ref":"#/name"},
			"schema":{"$ref":"#/more"}}}}}},
		"more":{"properties":{"examples":{"prefixItems":[{"$ref":"#/name"}]}}},
		"name":{"type":"string"},
		"headers":{"name":"schema","in":"query","schema":{"$ref":"#/name"}}}`
	cfg := newAPI(t).config([]byte(api), "*")
	cfg.Files = func(name string) ([]byte, error) {
		return []byte(map[string]string{"paths.json": paths, "parts.json": parts}[name]), nil
	}
	tools, refused := load(t, cfg)
	if len(refused) > 0 {
		t.Fatalf("the operation is left out: %v", refused[0].Err)
	}
	for arguments, valid := range map[string]bool{
		`{"schema":"x","body":{"parameters":["x"],"headers":{"y":"z"},"responses":1,"requestBody":"x"}}`: true,
		`{"body":{"parameters":[1]}}`:          false,
		`{"body":{"headers":{"y":1}}}`:         false,
		`{"body":{"responses":"x"}}`:           false,
		`{"body":{"requestBody":1}}`:           false,
		`{"body":{"schema":{"examples":[1]}}}`: false,
		`{"schema":1}`:                         false,
	} {
		if _, err := use(t.Context(), tools["op"], arguments); (err == nil) != valid {
			t.Errorf("%s: got %v, want valid %v", arguments, err, valid)
		}
	}
}

// TestComponentsMayBeCalledSchema: what is called so is not a schema for that.
func TestComponentsMayBeCalledSchema(t *testing.T) {
	api := `{"openapi":"3.1.0","info":{"title":"x","version":"1"},"paths":{"/a":{"post":{"operationId":"op",
		"parameters":[{"$ref":"#/components/parameters/schema"}],
		"responses":{"200":{"description":"x","headers":{
			"schema":{"$ref":"parts.json#/header"},"headers":{"schema":{"$ref":"parts.json#/name"}}}}}}}},
		"components":{"parameters":{"schema":{"$ref":"parts.json#/schema"}}}}`
	cfg := newAPI(t).config([]byte(api), "*")
	cfg.Files = func(string) ([]byte, error) {
		return []byte(`{"schema":{"name":"kind","in":"query","schema":{"$ref":"#/name"}},
			"header":{"schema":{"$ref":"#/name"}},"name":{"type":"string"}}`), nil
	}
	tools, refused := load(t, cfg)
	if len(refused) > 0 {
		t.Fatalf("the operation is left out: %v", refused[0].Err)
	}
	for arguments, valid := range map[string]bool{`{"kind":"x"}`: true, `{"kind":1}`: false} {
		if _, err := use(t.Context(), tools["op"], arguments); (err == nil) != valid {
			t.Errorf("%s: got %v, want valid %v", arguments, err, valid)
		}
	}
}
