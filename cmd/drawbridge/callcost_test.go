package main

import (
	"flag"
	"fmt"
	"math"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// costCalls is how many calls the test below makes with each login. The figures of the
// documentation are of 10,000.
var costCalls = flag.Int("cost.calls", 2000, "calls for each kind of login")

// TestSignedInCallsCostWhatOthersDo makes the same calls with a token of an issuer, a
// token of the gateway's own sign-in and an access key, against one process. A call makes
// as many allocations whoever signed the caller in; the log of the test has the processor
// time. Of four rounds the cheapest counts: what the process does beside the calls only
// adds.
func TestSignedInCallsCostWhatOthersDo(t *testing.T) {
	const rounds = 4
	calls := *costCalls / rounds
	if testing.Short() {
		calls /= 2
	}
	d := newDirectory(t)
	r := startReplica(t, func(listen, operator string) string {
		return fmt.Sprintf(`listen: %s
operator: %s
public_url: http://%[1]s
data: {dir: kept}
access_keys: on
log: {level: warn}
issuers:
  - issuer: %[3]s
    private_addresses: true
    algorithms: [EdDSA]
    tenants: {claim: groups, map: {staff: acme}}
    sign_in: {name: corp, client_id: gateway, client_secret_file: secret, scopes: [openid]}
  - {issuer: local, hmac_secret_file: secret, algorithms: [HS256], tenant: acme}
tenants:
  acme:
    servers: [toolbox]
    rules: [{allow: ["*"]}]
    limits: {requests: {rate: 1e6, burst: 1000000}, calls: {rate: 1e6, burst: 1000000}, user_calls: {rate: 1e6, burst: 1000000}}
servers:
  toolbox: {builtin: [calculate]}
`, listen, operator, d.URL)
	})
	j := (&signInRun{browserClient: newBrowserClient(t), origin: strings.TrimSuffix(r.url, "/mcp")}).goes(steps[:6])
	said, err := exec.CommandContext(t.Context(), "drawbridge", "keys", "create", "-tenant", "acme", "-subject", "ci",
		"-config", r.path("drawbridge.yaml")).CombinedOutput()
	key := regexp.MustCompile(`dbk_[a-z2-7]{47}`).FindString(string(said))
	if err != nil || key == "" {
		t.Fatalf("keys create: %v: %s", err, said)
	}
	// counted returns how many allocations the process has made and its processor time.
	counted := func() (allocations, seconds float64) {
		status, text := fetched("http://" + r.operator + "/metrics")
		value := func(name string) float64 {
			found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(text)
			if status != http.StatusOK || found == nil {
				t.Fatalf("no metric %s", name)
			}
			value, err := strconv.ParseFloat(found[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
		return value("go_memstats_mallocs_total"), value("process_cpu_seconds_total")
	}
	call := func(token string, times int) {
		for range times {
			if err := j.callWith(token); err != nil {
				t.Fatal(err)
			}
		}
	}
	var first float64
	for _, login := range []struct{ name, token string }{
		{"a token of an issuer", r.token}, {"a token of ours", j.access}, {"an access key", key},
	} {
		call(login.token, 50) // what is made once is made
		each, cost := math.Inf(1), math.Inf(1)
		for range rounds {
			made, took := counted()
			call(login.token, calls)
			madeThen, tookThen := counted()
			each, cost = min(each, (madeThen-made)/float64(calls)), min(cost, (tookThen-took)/float64(calls))
		}
		t.Logf("%s: %.1f allocations and %v of a processor for each call", login.name, each,
			time.Duration(cost*float64(time.Second)).Round(time.Microsecond))
		if first == 0 {
			first = each
		}
		if math.Abs(each-first) > first*0.15 {
			t.Errorf("%s: %.1f allocations for each call, and %.1f with a token of an issuer", login.name, each, first)
		}
	}
}
