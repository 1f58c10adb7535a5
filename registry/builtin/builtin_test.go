package builtin_test

import (
	"bytes"
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	santhosh "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/drawbridge-mcp/drawbridge/internal/corpus"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/builtin"
)

// everything is a config with all tools, none of which can reach anything.
func everything(t *testing.T) builtin.Config {
	t.Helper()
	return builtin.Config{
		Tools: builtin.Names(), CSVRoot: t.TempDir(),
		WeatherURL: "http://127.0.0.1:9", GeocodingURL: "http://127.0.0.1:9", Client: &http.Client{},
		Databases: []builtin.Database{
			{Name: "users", SQLite: "users.db"},
			{Name: "orders", PostgresFile: "orders.dsn"},
		},
	}
}

// open returns the offer of one tool.
func open(t *testing.T, cfg builtin.Config, name string) registry.Offer {
	t.Helper()
	cfg.Tools = []string{name}
	offers, err := builtin.New(cfg)
	if err != nil {
		t.Fatalf("New(%s): %v", name, err)
	}
	if len(offers) != 1 {
		t.Fatalf("New(%s) made %d offers, want 1", name, len(offers))
	}
	return offers[0]
}

// call runs a tool and checks what is true of every result: it fits its output schema,
// and text and structured content say the same.
func call(t *testing.T, offer registry.Offer, arguments string) mcp.Object {
	t.Helper()
	result, err := tryCall(t.Context(), t, offer, arguments)
	if err != nil {
		t.Fatalf("call with %s: %v", arguments, err)
	}
	if string(result.Value("isError")) == "true" {
		if result.Has("structuredContent") {
			t.Errorf("an error has structured content: %s", result.JSON())
		}
		return result
	}
	structured := result.Value("structuredContent")
	if got := textOf(t, result); got != string(structured) {
		t.Errorf("text is %s, structured content %s", got, structured)
	}
	conform(t, offer.Definition.Value("outputSchema"), structured)
	return result
}

func tryCall(ctx context.Context, t *testing.T, offer registry.Offer, arguments string) (mcp.Object, error) {
	t.Helper()
	args, err := mcp.ParseRaw([]byte(arguments))
	if err != nil {
		t.Fatalf("test arguments %s: %v", arguments, err)
	}
	name := offer.Definition.Text("name")
	params := mcp.NewObject(mcp.Member{Name: "name", Value: mcp.String(name)},
		mcp.Member{Name: "arguments", Value: args})
	catalogue := registry.New()
	catalogue.Replace(registry.Source{Name: "box", Own: true, Tools: []registry.Offer{offer}})
	tool, err := catalogue.Catalogue().View([]string{"box"}).Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	result, err := tool.Call(ctx, &registry.Call{Params: params})
	if err == nil {
		if fault := strictjson.Check(result.JSON()); fault != nil {
			t.Fatalf("result is not strict JSON: %v: %s", fault, result.JSON())
		}
	}
	return result, err
}

func textOf(t *testing.T, result mcp.Object) string {
	t.Helper()
	blocks, _ := result.Value("content").Elements()
	if len(blocks) != 1 {
		t.Fatalf("result has %d content blocks, want 1: %s", len(blocks), result.JSON())
	}
	block, _ := mcp.ObjectOf(blocks[0])
	if block.Text("type") != "text" {
		t.Fatalf("content is not text: %s", blocks[0])
	}
	return block.Text("text")
}

// refusal returns the text of a result that must be an error.
func refusal(t *testing.T, result mcp.Object) string {
	t.Helper()
	if string(result.Value("isError")) != "true" {
		t.Fatalf("got %s, want an error", result.JSON())
	}
	return textOf(t, result)
}

func compile(t *testing.T, schema mcp.RawJSON) *santhosh.Schema {
	t.Helper()
	document, err := santhosh.UnmarshalJSON(strings.NewReader(string(schema)))
	if err != nil {
		t.Fatal(err)
	}
	compiler := santhosh.NewCompiler()
	compiler.DefaultDraft(santhosh.Draft2020)
	if err := compiler.AddResource("mem:///schema", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("mem:///schema")
	if err != nil {
		t.Fatalf("schema %s: %v", schema, err)
	}
	return compiled
}

func conform(t *testing.T, schema, instance mcp.RawJSON) {
	t.Helper()
	value, err := santhosh.UnmarshalJSON(strings.NewReader(string(instance)))
	if err != nil {
		t.Fatal(err)
	}
	if err := compile(t, schema).Validate(value); err != nil {
		t.Errorf("%s does not fit its schema: %v", instance, err)
	}
}

func TestNamesAreSortedAndComplete(t *testing.T) {
	want := []string{
		"analyze_csv", "calculate", "current_time", "describe_database", "get_weather",
		"query_database",
	}
	if got := builtin.Names(); !slices.Equal(got, want) {
		t.Errorf("Names() = %q, want %q", got, want)
	}
}

func TestOffersStandInTheConfiguredOrder(t *testing.T) {
	cfg := everything(t)
	slices.Reverse(cfg.Tools)
	offers, err := builtin.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, offer := range offers {
		got = append(got, offer.Definition.Text("name"))
		if offer.Timeout != 30*time.Second {
			t.Errorf("%s: timeout %v, want the default of 30s", offer.Definition.Text("name"), offer.Timeout)
		}
	}
	if !slices.Equal(got, cfg.Tools) {
		t.Errorf("offers %q, want %q", got, cfg.Tools)
	}
}

func TestNothingIsOfferedUnlessConfigured(t *testing.T) {
	offers, err := builtin.New(builtin.Config{})
	if err != nil || len(offers) != 0 {
		t.Errorf("New of nothing = %d offers, %v; want none", len(offers), err)
	}
}

func TestNewRefuses(t *testing.T) {
	weather := func(change func(*builtin.Config)) builtin.Config {
		cfg := everything(t)
		cfg.Tools = []string{"get_weather"}
		change(&cfg)
		return cfg
	}
	for name, test := range map[string]struct {
		cfg  builtin.Config
		want string
	}{
		"unknown tool": {
			builtin.Config{Tools: []string{"shell"}},
			`no built-in tool is called "shell"; there are analyze_csv, calculate`,
		},
		"tool twice": {
			builtin.Config{Tools: []string{"calculate", "calculate"}},
			`"calculate" is listed twice`,
		},
		"no directory": {builtin.Config{Tools: []string{"analyze_csv"}}, "needs a directory"},
		"missing directory": {builtin.Config{
			Tools:   []string{"analyze_csv"},
			CSVRoot: filepath.Join(t.TempDir(), "none"),
		}, "open the data directory"},
		"no weather address": {
			weather(func(c *builtin.Config) { c.WeatherURL = "" }),
			"weather address: must begin with http",
		},
		"other scheme": {
			weather(func(c *builtin.Config) { c.GeocodingURL = "file:///etc/passwd" }),
			"geocoding address: must begin with http",
		},
		"user in the address": {
			weather(func(c *builtin.Config) { c.WeatherURL = "http://u:p@h" }),
			"must have no user",
		},
		"query": {
			weather(func(c *builtin.Config) { c.WeatherURL = "http://h/?key=1" }),
			"must have no user, query",
		},
		"broken address": {
			weather(func(c *builtin.Config) { c.WeatherURL = "http://h:x" }),
			"not an address",
		},
		"no databases": {builtin.Config{Tools: []string{"query_database"}}, "needs databases"},
		"no kind of database": {builtin.Config{
			Tools:     []string{"describe_database"},
			Databases: []builtin.Database{{Name: "x"}},
		}, "needs sqlite or postgres_file"},
		"no client": {weather(func(c *builtin.Config) { c.Client = nil }), "needs an HTTP client"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := builtin.New(test.cfg)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
		})
	}
}

// The words of a definition are what a model decides by.
func TestDefinitionsAreCompleteAndModest(t *testing.T) {
	offers, err := builtin.New(everything(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, offer := range offers {
		d := offer.Definition
		name := d.Text("name")
		if d.Text("title") == "" || d.Text("description") == "" || len(d.JSON()) > 4096 {
			t.Errorf("%s: title or description missing, or the definition is long (%d bytes)", name,
				len(d.JSON()))
		}
		for _, schema := range []string{"inputSchema", "outputSchema"} {
			compile(t, d.Value(schema))
			if d.Object(schema).Text("type") != "object" {
				t.Errorf("%s: %s is of type %q, want object", name, schema, d.Object(schema).Text("type"))
			}
		}
		if string(d.Object("inputSchema").Value("additionalProperties")) != "false" {
			t.Errorf("%s takes arguments that it does not know", name)
		}
		for property, schema := range d.Object("inputSchema").Object("properties").Members {
			if o, _ := mcp.ObjectOf(schema); o.Text("description") == "" {
				t.Errorf("%s: argument %s has no description", name, property)
			}
		}
		if string(d.Object("annotations").Value("readOnlyHint")) != "true" {
			t.Errorf("%s is not marked as read-only", name)
		}
	}
}

// The schema of each revision reads every definition as a Tool.
func TestDefinitionsFitTheProtocolSchema(t *testing.T) {
	offers, err := builtin.New(everything(t))
	if err != nil {
		t.Fatal(err)
	}
	for revision, path := range map[string]string{
		mcp.Revision2607: "/$defs/Tool", mcp.Revision2511: "/$defs/Tool",
		mcp.Revision2506: "/definitions/Tool",
		mcp.Revision2503: "/definitions/Tool", mcp.Revision2024: "/definitions/Tool",
	} {
		document, err := santhosh.UnmarshalJSON(bytes.NewReader(corpus.Schema(t, revision)))
		if err != nil {
			t.Fatal(err)
		}
		compiler := santhosh.NewCompiler()
		if err := compiler.AddResource("mcp.json", document); err != nil {
			t.Fatal(err)
		}
		schema, err := compiler.Compile("mcp.json#" + path)
		if err != nil {
			t.Fatalf("%s: %v", revision, err)
		}
		for _, offer := range offers {
			value, err := santhosh.UnmarshalJSON(strings.NewReader(string(offer.Definition.JSON())))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(value); err != nil {
				t.Errorf("%s, %s: %v", revision, offer.Definition.Text("name"), err)
			}
		}
	}
}
