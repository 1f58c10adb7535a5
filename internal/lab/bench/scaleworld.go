package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// contents is what a gateway has to hold.
type contents struct {
	tenants int
	servers int  // in all; a tenant has two of them, or the only one
	tools   int  // of each server
	rules   int  // of each tenant
	files   bool // each tenant stands in a file of its own, else 50 in each
	version int  // of the first tenant, so that a reload finds a change
}

const (
	scaleIssuer = "https://bench.test/"
	signed      = 10 // tenants that send requests, however many there are
)

func tenantName(n int) string { return fmt.Sprintf("tenant-%d", n) }

// write writes the config of a contents into a folder.
func (w contents) write(dir, gateway, operator, upstream string) {
	must.OK(os.MkdirAll(filepath.Join(dir, "tenants"), 0o700))
	files := map[string]string{"secret": hmacSecret, "drawbridge.yaml": w.config(gateway, operator, upstream)}
	for n := 0; n < w.tenants; n += w.together() {
		files[w.fileOf("", n)] = w.part(n)
	}
	world.WriteFiles(dir, files)
}

// fileOf returns the file in which a tenant stands.
func (w contents) fileOf(dir string, n int) string {
	return filepath.Join(dir, "tenants", tenantName(n-n%w.together())+".yaml")
}

// together returns how many tenants stand in one file.
func (w contents) together() int { return page.Either(w.files, 1, 50) }

// part returns the text of the file that begins with a tenant.
func (w contents) part(first int) string {
	return "tenants:\n" + page.Times(min(w.together(), w.tenants-first), func(i int) string {
		return w.tenant(first + i)
	})
}

// scaleConfig is the config file, with places for addresses, tenants and servers.
const scaleConfig = `listen: %[1]s
operator: %[2]s
public_url: http://%[1]s
lists: {page_size: 10000}
limits: {memory: 1GiB}
audit: {file: audit.jsonl, sync: interval}
log: {level: info, format: json}
issuers:
  - {issuer: "` + scaleIssuer + `", hmac_secret_file: secret, algorithms: [HS256], tenants: {claim: org}, tenants_allowed: [%[3]s]}
servers:
%[4]sinclude: [tenants/*.yaml]
`

// config returns the text of the config file.
func (w contents) config(gateway, operator, upstream string) string {
	tenants := page.Times(w.tenants, func(n int) string { return tenantName(n) + ", " })
	return fmt.Sprintf(scaleConfig, gateway, operator, tenants, page.Times(w.servers, func(n int) string {
		return fmt.Sprintf("  s%d: {url: \"http://%s/tools/%d\", private_addresses: true}\n", n, upstream,
			w.tools)
	}))
}

// tenantConfig is one tenant, with places for its name, servers and rules.
const tenantConfig = `  %s:
    servers: [%s]
    limits: {` + world.AnyRates + `, concurrency: 1000, sessions: 200000, user_sessions: 200000}
    rules:
%s      - {allow: ["*"]}
`

// tenant returns the text of one tenant. Its last rule allows everything, and each before
// that one tool; which tools these are differs from tenant to tenant, as it would among
// people.
func (w contents) tenant(n int) string {
	second, servers := 0, "s0"
	if w.servers > 1 {
		second = 1 + n%(w.servers-1)
		servers += fmt.Sprintf(", s%d", second)
	}
	allow := func(server, tool int) string {
		return fmt.Sprintf("      - {allow: [\"s%d__tool_%04d\"]}\n", server, tool)
	}
	rules := page.Times(w.rules-1, func(rule int) string {
		return allow([]int{0, second}[rule%2], (n*7+rule)%(w.tools-1))
	})
	if n == 0 && w.version > 0 {
		rules += allow(0, w.version)
	}
	return fmt.Sprintf(tenantConfig, tenantName(n), servers, rules)
}

// tokens returns tokens of tenants that stand as far from each other as may be.
func (w contents) tokens(gateway string) []string {
	var all []string
	step := max(1, w.tenants/signed)
	for n := 0; n < w.tenants && len(all) < signed; n += step {
		all = append(all, world.Token(hmacSecret, scaleIssuer, "http://"+gateway+"/mcp", "load",
			map[string]any{"org": tenantName(n)}))
	}
	return all
}
