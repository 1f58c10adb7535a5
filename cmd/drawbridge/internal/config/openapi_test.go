package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/registry/openapi"
)

// TestFilesBesideADocumentAreReadBelowItsFolder: references to files are followed there,
// and through no link that leads out. A file that changes, or appears, makes the config
// be read again, and what runs is what was read.
func TestFilesBesideADocumentAreReadBelowItsFolder(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("secret", "f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99")
	write("outside.yml", "operationId: outside\nresponses: {}\n")
	write("api/ops/list.yml", "operationId: list\nparameters: [{$ref: ../page.yml}]\nresponses: {}\n")
	write("api/page.yml", "{name: page, in: query, schema: {type: integer}}")
	write("api/api.yaml", `
openapi: 3.1.0
paths:
  /list: {get: {$ref: ops/list.yml}}
  /linked: {get: {$ref: ops/linked.yml}}
  /inner: {get: {$ref: ops/inner.yml}}
  /folder: {get: {$ref: ops}}
  /gone: {get: {$ref: gone.yml}}
`)
	write("drawbridge.yaml", `
listen: 127.0.0.1:8080
issuers: [{issuer: local, hmac_secret_file: secret, algorithms: [HS256], tenant: acme}]
tenants: {acme: {servers: [api], rules: [{allow: ["*"]}]}}
servers: {api: {openapi: api/api.yaml, base_url: "https://api.example", include: ["*", "GET *"]}}
`)
	for name, target := range map[string]string{"linked.yml": "../../outside.yml", "inner.yml": "list.yml"} {
		if err := os.Symlink(target, filepath.Join(dir, "api/ops", name)); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := Load(filepath.Join(dir, "drawbridge.yaml"), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	s := cfg.Servers[0]
	for label, want := range map[string]string{
		"linked": "path escapes from parent", "folder": "is not a regular file",
		"gone": "no such file or directory",
	} {
		found := slices.ContainsFunc(s.API.Notes, func(note string) bool {
			return strings.Contains(note, `"GET /`+label+`" cannot be a tool`) && strings.Contains(note, want)
		})
		if !found {
			t.Errorf("%s: got notes %q, want one with %q", label, s.API.Notes, want)
		}
	}
	loaded, err := openapi.Load(s.OpenAPIConfig())
	if err != nil || len(loaded.Offers) != 2 {
		t.Fatalf("got %+v, error %v; want the tools of list and its link", loaded, err)
	}
	for _, offer := range loaded.Offers {
		if !strings.Contains(string(offer.Definition.JSON()), `"page":{"type":"integer"}`) {
			t.Errorf("its parameter is missing: %s", offer.Definition.JSON())
		}
	}

	watch := NewWatch(cfg.Sources)
	if watch.Changed() {
		t.Error("nothing changed, and the config would be read again")
	}
	write("api/page.yml", "{name: page, in: query, schema: {type: string}}")
	if !watch.Changed() {
		t.Error("a file of the document changed, and the config would not be read again")
	}
	write("api/gone.yml", "operationId: gone\nresponses: {}\n")
	if !watch.Changed() {
		t.Error("a file of the document appeared, and the config would not be read again")
	}
}
