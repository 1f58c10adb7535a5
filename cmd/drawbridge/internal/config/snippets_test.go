package config_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
)

var (
	snippet      = regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```$")
	clientSecret = regexp.MustCompile(`\b[a-z0-9]+\.secret\b`)
	serverName   = regexp.MustCompile(`(?m)^  ([a-z]+):.*\b(?:url|command|openapi|builtin):|^  ([a-z]+):$`)
)

const snippetAPI = `{openapi: 3.0.3, info: {title: issues, version: "1"}, paths: {/issues: {
  get: {responses: {"200": {description: all}}},
  post: {operationId: create_issue, responses: {"201": {description: one more}}}}}}`

const snippetIssuer = `issuers:
  - issuer: https://login.acme.example/
    jwks_url: https://login.acme.example/keys
    algorithms: [RS256]
    tenant: acme
`

// TestSnippetsOfPagesAreValid loads each block of YAML in the pages, with what it leaves
// out from a config around it.
func TestSnippetsOfPagesAreValid(t *testing.T) {
	pages, _ := filepath.Glob("../../../../docs/*.md")        // the pattern is right
	logins, _ := filepath.Glob("../../../../docs/login/*.md") // so is this
	found := 0
	for _, page := range slices.Concat(pages, logins, []string{
		"../../../../README.md", "../../../../docs/reference/config.md",
	}) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range snippet.FindAllStringSubmatch(string(text), -1) {
			found++
			whole := wholeConfig(ofChart(strings.ReplaceAll("\n"+block[2], "\n"+block[1], "\n")[1:]))
			if problem := loadSnippet(t, whole); problem != "" {
				t.Errorf("%s: %s\n%s", filepath.Base(page), problem, whole)
			}
		}
	}
	if found < 10 {
		t.Errorf("got %d snippets, want those of a dozen pages", found)
	}
	if loadSnippet(t, wholeConfig("tenants:\n  acme: {server: [files], rules: [{alow: [\"*\"]}]}\n")) == "" {
		t.Error("a misspelt key is no problem")
	}
}

// ofChart returns the config in values of the chart, and what is no such values as it is.
func ofChart(text string) string {
	values, isValues := strings.CutPrefix(text, "config:\n")
	if !isValues {
		return text
	}
	config := ""
	for line := range strings.Lines(values) {
		inner, isInner := strings.CutPrefix(line, "  ")
		if !isInner {
			break
		}
		config += inner
	}
	return config
}

// wholeConfig puts what is missing around a snippet: the section that its indented lines
// belong to, and the other sections.
func wholeConfig(text string) string {
	switch {
	case strings.HasPrefix(text, "    "): // keys of an issuer
		text = snippetIssuer + text
	case strings.HasPrefix(text, "  - "):
		text = "issuers:\n" + text
	case strings.HasPrefix(text, "  "):
		text = "servers:\n" + text
	}
	has := func(key string) bool { return strings.Contains("\n"+text, "\n"+key+":") }
	servers := []string{"files", "github"}
	if has("servers") {
		servers = nil
		for _, name := range serverName.FindAllStringSubmatch(text, -1) {
			servers = append(servers, name[1]+name[2])
		}
	}
	tenants := strings.ReplaceAll("tenants:\n  acme: {servers: []}\n  globex: {servers: []}\n  payments: {servers: []}\n  search: {servers: []}\n", "[]",
		"["+strings.Join(servers, ", ")+"]")
	data := "data: {dir: kept}\n"
	if !strings.Contains(text, "sign_in:") && !strings.Contains(text, "github:\n") {
		data = "" // nobody signs in
	}
	for _, section := range []string{
		data, "public_url: https://mcp.example.com\n", snippetIssuer, tenants,
		"servers:\n  files: {command: npx}\n  github: {url: \"https://api.example.com/mcp\"}\n",
	} {
		if key, _, _ := strings.Cut(section, ":"); key != "" && !has(key) {
			text += section
		}
	}
	return text
}

// ownKey returns a private key as clients of token endpoints have it.
func ownKey(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// loadSnippet returns what is wrong with a config, "" for nothing.
func loadSnippet(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	server := httptest.NewTLSServer(nil)
	server.Close()
	for _, name := range []string{"tokens", "data"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	text = strings.ReplaceAll(text, "/run/secrets/drawbridge/", "")
	files := map[string][]byte{
		"drawbridge.yaml": []byte(text), "redis-password": []byte("a password"),
		"audit.key":   []byte("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
		"issues.yaml": []byte(snippetAPI), "users.db": nil, "gw.key": ownKey(t),
		"tokens/mcp": []byte("token"),
		"crm.key":    []byte("a key"), "acme.key": []byte("a key"),
		"postgres.dsn": []byte("postgres://drawbridge:secret@127.0.0.1/drawbridge"),
		"pg.dsn":       []byte("postgres://drawbridge:secret@127.0.0.1/drawbridge"),
		"orders.dsn":   []byte("postgres://reader:secret@127.0.0.1/orders"),
		"keys":         []byte("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
		"session.keys": []byte("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
		"redis-ca.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
	for _, secret := range clientSecret.FindAllString(text, -1) {
		files[secret] = []byte("a-client-secret-of-some-length")
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := config.Load(filepath.Join(dir, "drawbridge.yaml"),
		func(string) (string, bool) { return "a value", true }); err != nil {
		return err.Error()
	}
	return ""
}
