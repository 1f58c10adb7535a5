package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
)

// minimal is a good config, to be completed by a test. A file called secret lies beside
// it.
const minimal = `issuers:
  - {issuer: "https://login.example/", hmac_secret_file: secret, algorithms: [HS256], tenant: acme}
tenants:
  acme: {servers: [files]}
servers:
  files: {command: mcp-files}
`

// testEnvironment is what the configs of tests may expand.
func testEnvironment(name string) (string, bool) {
	return "hunter2-hunter2", name == "SECRET"
}

// parse returns what the text of a config file says. All files of one test have the same
// name, so that two configs differ only where their texts do.
func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	dir := filepath.Dir(t.TempDir())
	file := filepath.Join(dir, "drawbridge.yaml")
	for name, content := range map[string]string{
		file:                         text,
		filepath.Join(dir, "secret"): "f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99",
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(file, testEnvironment)
	if err != nil {
		t.Fatalf("config refused: %v\n%s", err, text)
	}
	return cfg
}
