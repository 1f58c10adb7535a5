package interop_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// listed returns the tools of a server over stdio by name, as the official client gets
// them without a gateway.
func listed(t *testing.T, arguments ...string) map[string]map[string]any {
	t.Helper()
	binary, _ := node(t)
	command := exec.CommandContext(t.Context(), binary, append([]string{"clients/list.mjs", binary},
		arguments...)...)
	out, err := command.Output()
	if err != nil {
		t.Fatalf("list %s: %v", arguments, err)
	}
	return byName(t, out, "")
}

// byName decodes a list of tools, whose names begin with prefix.
func byName(t *testing.T, raw []byte, prefix string) map[string]map[string]any {
	t.Helper()
	var list []map[string]any
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	tools := map[string]map[string]any{}
	for _, tool := range list {
		// 2026-07-28 has no execution, and no tools that only become tasks for a client
		// without them.
		execution, _ := tool["execution"].(map[string]any)
		if execution["taskSupport"] == "required" {
			continue
		}
		delete(tool, "execution")
		name, _ := tool["name"].(string)
		if len(name) > len(prefix) && name[:len(prefix)] == prefix {
			tool["name"] = name[len(prefix):]
			tools[name[len(prefix):]] = tool
		}
	}
	return tools
}

// TestToolsOfNPMServersAreListedAsTheyAre compares what servers list directly and through
// the gateway, among them one with every format of zod 4.1 and 4.6 through the official
// SDK, some of whose patterns RE2 cannot read. A value that zod takes passes the gateway.
func TestToolsOfNPMServersAreListedAsTheyAre(t *testing.T) {
	t.Parallel()
	binary, modules := node(t)
	if _, err := os.Stat(filepath.Join(modules, "zod-4-1")); err != nil && os.Getenv("CI") != "true" {
		t.Skip("the pinned npm packages are older than this test; make setup fetches them")
	}
	script, err := filepath.Abs("clients/zod.mjs")
	if err != nil {
		t.Fatal(err)
	}
	pkg := func(name string) string {
		return filepath.Join(modules, "@modelcontextprotocol", name, "dist", "index.js")
	}
	servers := map[string][]string{
		"zodold": {script, "4.1"}, "zodnew": {script, "4.6"},
		"every": {pkg("server-everything"), "stdio"}, "files": {pkg("server-filesystem"), t.TempDir()},
		"memory": {pkg("server-memory")},
	}
	entries := ""
	for name, arguments := range servers {
		list, err := json.Marshal(arguments)
		if err != nil {
			t.Fatal(err)
		}
		entries += fmt.Sprintf("  %s: {command: %q, args: %s}\n", name, binary, list)
	}
	g := serve(t, tenant(entries))
	token := g.token(t)
	for name, arguments := range servers {
		direct := listed(t, arguments...)
		var through map[string]map[string]any
		eventually(t, name+" is listed", func() bool {
			through = byName(t, g.allTools(t, token), name+"__")
			return len(through) > 0
		})
		if diff := cmp.Diff(direct, through); diff != "" || len(direct) == 0 {
			t.Errorf("%s: %d tools directly, %d through the gateway (-direct +through):\n%s", name,
				len(direct), len(through), diff)
		}
		if name != "zodold" && name != "zodnew" {
			continue
		}
		for tool, definition := range direct {
			value, _ := definition["description"].(string)
			if text, isError := g.text(t, token, name+"__"+tool, `{"value":`+value+`}`); isError ||
				text != value {
				t.Errorf("%s of %s: %s becomes %q, isError %v", tool, name, value, text, isError)
			}
			if _, isError := g.text(t, token, name+"__"+tool, `{"value":7}`); !isError {
				t.Errorf("%s of %s takes a number", tool, name)
			}
		}
	}
}

// allTools returns the tools of every page as a JSON list.
func (g *gateway) allTools(t *testing.T, token string) []byte {
	t.Helper()
	var all []json.RawMessage
	for params := ""; ; {
		m := g.modern(t, token, "tools/list", "", params).last(t)
		var page struct {
			Tools      []json.RawMessage `json:"tools"`
			NextCursor string            `json:"nextCursor"`
		}
		if err := json.Unmarshal(m.Result, &page); err != nil {
			t.Fatalf("%s: %v", m.Result, err)
		}
		all = append(all, page.Tools...)
		if page.NextCursor == "" {
			break
		}
		params = fmt.Sprintf(`"cursor":%q`, page.NextCursor)
	}
	raw, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
