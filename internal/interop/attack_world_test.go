package interop_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/audit"
)

// besiege starts drawbridge with one issuer for the tenants acme and globex, and
// everything else of the config as given.
func besiege(t testing.TB, sections string) *gateway {
	t.Helper()
	return besiegeAt(t, settle(t), sections)
}

// besiegeAt is besiege for a gateway or a fleet that has its addresses.
func besiegeAt(t testing.TB, g *gateway, sections string) *gateway {
	t.Helper()
	for _, one := range g.members() {
		key := []byte(base64.StdEncoding.EncodeToString(auditKey))
		if err := os.WriteFile(filepath.Join(one.dir, "audit.key"), key, 0o600); err != nil {
			t.Fatal(err)
		}
		one.write(t, one.head()+`allowed_hosts: [127.0.0.1]
issuers:
  - {issuer: "https://issuer.test/", hmac_secret_file: secret, algorithms: [HS256], tenants: {claim: org}, tenants_allowed: [acme, globex]}
  - {issuer: "https://other.test/", hmac_secret_file: secret, algorithms: [HS256], tenant: acme}
audit: {file: audit.jsonl, key_file: audit.key}
log: {level: debug}
`+sections)
	}
	g.run(t)
	t.Cleanup(g.crash) // others look at how it stops
	return g
}

// twoTenants gives acme and globex the same servers and rules. Servers are lines of "
// name: {...}".
func twoTenants(rules, servers string) string {
	var names []string
	for line := range strings.Lines(servers) {
		if name, _, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			names = append(names, name)
		}
	}
	policy := fmt.Sprintf("{servers: [%s], rules: [%s], limits: %s}", strings.Join(names, ", "), rules,
		generous)
	return "tenants:\n  acme: " + policy + "\n  globex: " + policy + "\nservers:\n" + servers
}

// private is a servers entry for a URL on loopback.
func private(url string) string { return fmt.Sprintf("{url: %q, private_addresses: true}", url) }

// who is what a token says of its bearer.
type who struct {
	issuer, tenant, subject, client string
	life                            time.Duration
}

func (w who) String() string { return w.tenant + "/" + w.subject }

// mint signs a token. Left out: the issuer of both tenants, and ten minutes.
func (g *gateway) mint(w who) string {
	if w.issuer == "" {
		w.issuer = "https://issuer.test/"
	}
	if w.life == 0 {
		w.life = 10 * time.Minute
	}
	claims := map[string]any{
		"iss": w.issuer, "sub": w.subject, "aud": g.url, "org": w.tenant,
		"iat": time.Now().Add(-time.Hour).Unix(), "exp": time.Now().Add(w.life).Unix(),
	}
	if w.client != "" {
		claims["azp"] = w.client
	}
	return sign(claims, hmacSecret)
}

func sign(claims map[string]any, secret string) string {
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err) // plain values always encode
	}
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." +
		base64.RawURLEncoding.EncodeToString(payload)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// auditLine is one record as the tests need it.
type auditLine struct {
	Tenant, Issuer, Subject, Remote, Method, Server, Item, Outcome, Reason, Arguments string
}

// audited returns the records so far, one replica's after the other's.
func (g *gateway) audited(t testing.TB) []auditLine {
	t.Helper()
	var lines []auditLine
	for _, one := range g.members() {
		data, err := os.ReadFile(filepath.Join(one.dir, "audit.jsonl"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			var record auditLine
			if err := json.Unmarshal(line, &record); err != nil {
				t.Fatalf("audit line %q: %v", line, err)
			}
			lines = append(lines, record)
		}
	}
	return lines
}

// digest is how the audit names arguments of a tenant, for a gateway of besiege.
func digest(tenant string, arguments []byte) string {
	if len(arguments) == 0 {
		return ""
	}
	return audit.NewKeys([][]byte{auditKey}).Digest(tenant, arguments)
}

// auditKey is the key of the digests of arguments.
var auditKey = bytes.Repeat([]byte{7}, 32)

// gauge returns the one value of a metric without labels.
func (g *gateway) gauge(t testing.TB, name string) float64 {
	t.Helper()
	for line := range strings.Lines(metric(t, g, name)) {
		if text, found := strings.CutPrefix(line, name+" "); found {
			value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// unhurt fails the test when the gateway, or one of a fleet, ended or had to recover from
// a panic.
func (g *gateway) unhurt(t testing.TB) {
	t.Helper()
	for _, one := range g.replicas {
		one.unhurt(t)
	}
	select {
	case <-g.done:
		t.Fatalf("drawbridge ended: %v", g.err)
	default:
	}
	if g.replicas != nil {
		return // nginx runs, and has no metrics
	}
	if strings.Contains(g.out.String(), "DATA RACE") { // when it was built to tell
		t.Error("the gateway has a data race")
	}
	if n := g.gauge(t, "drawbridge_panics_total"); n != 0 {
		t.Errorf("the gateway recovered from %v panics, want none", n)
	}
}
