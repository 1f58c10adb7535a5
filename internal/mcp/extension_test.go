package mcp_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// invented is an extension of which the table of a test says what that of the product
// says of those that are known.
var invented = mcp.Extension{
	ID: "com.example/shapes", Settings: mcp.RawJSON(`{"mimeTypes":["model/shape"]}`), Media: "model/shape",
	Flags: []string{"round"}, Schemes: []string{"shape"},
}

func TestExtensionsOfClients(t *testing.T) {
	table := mcp.NewExtensionTable(invented, mcp.Extension{ID: "com.example/passed"})
	for name, test := range map[string]struct{ declared, carried string }{
		"none":             {``, ``},
		"no object":        {`[]`, ``},
		"apps":             {`{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app","x/y"],"more":1}}`, `{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}`},
		"apps of no type":  {`{"io.modelcontextprotocol/ui":{}}`, ``},
		"no settings":      {`{"com.example/passed":true}`, ``},
		"in another order": {`{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]},"com.example/passed":{}}`, `{"com.example/passed":{},"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}`},
		"tasks":            {`{"io.modelcontextprotocol/tasks":{}}`, ``},
		"invented": {
			`{"com.example/shapes":{"mimeTypes":["model/shape"]}}`,
			`{"com.example/shapes":{"mimeTypes":["model/shape"]}}`,
		},
		"let through": {`{"com.example/passed":{"any":[1]}}`, `{"com.example/passed":{"any":[1]}}`},
		"unknown":     {`{"com.example/other":{}}`, ``},
	} {
		got, unknown := table.OfClient(mcp.RawJSON(test.declared))
		if string(got.JSON()) != test.carried {
			t.Errorf("%s: got %s, want %s", name, got.JSON(), test.carried)
		}
		if (name == "unknown") != slices.Equal(unknown, []string{"com.example/other"}) {
			t.Errorf("%s: unknown are %q", name, unknown)
		}
		if again := mcp.ParseExtensions(string(got.JSON())); again != got {
			t.Errorf("%s: read again it is %s", name, again.JSON())
		}
	}
}

func TestExtensionsOfServersAreJoined(t *testing.T) {
	table := mcp.NewExtensionTable(invented)
	var all mcp.Extensions
	for _, declared := range []string{
		`{"extensions":{"com.example/shapes":{"round":false}}}`,
		`{"extensions":{"com.example/shapes":{"round":true,"more":2},"com.example/other":{}}}`,
		`{"extensions":{"io.modelcontextprotocol/ui":{}}}`,
		`{}`,
	} {
		capabilities, _ := mcp.ObjectOf(mcp.RawJSON(declared))
		all = all.With(table.OfServer(capabilities))
	}
	const want = `{"com.example/shapes":{"round":true},"io.modelcontextprotocol/ui":{}}`
	if got := string(all.JSON()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if !all.Has("com.example/shapes") || all.Has("com.example/other") {
		t.Errorf("got %q", all.IDs())
	}
	whole := all.Adding(mcp.NewObject(mcp.Member{Name: "extensions", Value: mcp.RawJSON(`{"a/b":{}}`)}))
	if whole.Object("extensions").Len() != 3 {
		t.Errorf("got %s", whole.JSON())
	}
}

// TestExtensionsNameTheirMethods holds that the table of extensions and that of methods
// agree.
func TestExtensionsNameTheirMethods(t *testing.T) {
	for _, row := range (*mcp.ExtensionTable)(nil).Rows() {
		for _, name := range row.Methods {
			if m := mcp.MethodOf(name); m.Name != "" && m.Extension != row.ID {
				t.Errorf("method %s is of extension %q, want %q", name, m.Extension, row.ID)
			}
		}
		if !mcp.ValidExtensionID(row.ID) {
			t.Errorf("%s is no identifier", row.ID)
		}
	}
}

// TestExtensionsAreInTheReference compares the table of docs/reference/protocol.md with
// the rows: it says what the gateway knows of each.
func TestExtensionsAreInTheReference(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := func(names []string) string {
		if len(names) == 0 {
			return "–"
		}
		return "`" + strings.Join(names, "`, `") + "`"
	}
	for _, row := range (*mcp.ExtensionTable)(nil).Rows() {
		pattern := "–"
		if row.Pattern != "" {
			pattern = "`" + row.Pattern + ":`"
		}
		var whole []string
		if len(row.Whole) > 0 {
			whole = append(whole, "contents of "+quoted(row.Whole))
		}
		if row.Files {
			whole = append(whole, "files")
		}
		if row.Item != "" {
			whole = append(whole, "definitions with `"+row.Item+"`")
		}
		if whole == nil {
			whole = []string{"–"}
		}
		want := "| `" + row.ID + "` | " + strings.Join([]string{
			quoted(row.Methods), quoted(row.Meta),
			quoted(row.Schemes), pattern, strings.Join(whole, ", "), row.Older,
		}, " | ") + " |\n"
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks the row\n%s", want)
		}
	}
}

func TestExtensionIDs(t *testing.T) {
	for id, want := range map[string]bool{
		"io.modelcontextprotocol/ui": true, "a/b": true, "com.example-2.x/a.b_c-d": true, "x": false,
		"/x": false,
		"a/": false, "a..b/c": false, "a/b/c": false, "a b/c": false, "a/-": false, "": false,
	} {
		if got := mcp.ValidExtensionID(id); got != want {
			t.Errorf("%q: got %v, want %v", id, got, want)
		}
	}
}
