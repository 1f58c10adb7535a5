package world

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
)

const tenantClaim = "team"

// Tight is a tenant with tight limits: a call a second with bursts of 3, one at a time,
// and two streams.
const Tight = "tight"

// Tenants are those whose limits are too high to matter. A token may name any user of
// these and of Tight.
var Tenants = []string{"red", "blue", "green"}

// gatewayConfig is the config of one replica. What a fault may change stands in a line of
// its own.
const gatewayConfig = `listen: %[1]s
operator: %[2]s
public_url: %[3]s
trusted_proxies: [%[4]s]
issuers:
  - {issuer: "%[5]s", hmac_secret_file: ../%[6]s, algorithms: [HS256], tenants: {claim: %[7]s}, tenants_allowed: [%[8]s]}
tenants:
%[9]sservers:
%[10]saudit: {file: %[11]s, arguments: {"*": [nonce]}}
log: {level: info, format: json}
redis: {url: "%[12]s", patience: %[13]s}
sessions: {keys_file: keys, events: {age: %[15]s}}
replicas: %[14]d
`

// AnyRate is a rate that no caller reaches, in the words of a config, and AnyRates are
// the limits of requests and calls at that rate.
const (
	AnyRate  = `{rate: 1e9, burst: 1000000000}`
	AnyRates = `requests: ` + AnyRate + `, calls: ` + AnyRate + `, user_calls: ` + AnyRate
)

const (
	wideLimits = `{` + AnyRates + `, tools: {"*": ` + AnyRate + `}, concurrency: 1000, ` +
		`streams: 10000, sessions: 100000, user_sessions: 100000}`
	tightLimits = `{calls: {rate: 1, burst: 3}, concurrency: 1, streams: 2}`
)

// text is the config of a replica at the start.
func (w *World) text(r *Replica, audit string) string {
	names := append(slices.Clone(Tenants), Tight)
	upstreams := slices.Sorted(maps.Keys(w.config.Upstreams))
	tenants := page.Rows(names, func(name string) string {
		return fmt.Sprintf("  %s:\n    servers: [%s]\n    rules: [{allow: [\"*\"%s]}]\n    limits: %s\n", name,
			strings.Join(upstreams, ", "), everything(upstreams),
			page.Either(name == Tight, tightLimits, wideLimits))
	})
	servers := page.Rows(upstreams, func(name string) string {
		_, path, _ := strings.Cut(w.config.Upstreams[name], "/")
		return fmt.Sprintf("  %s: {url: \"http://%s/%s\", private_addresses: true, timeout: 10s}\n", name,
			r.Upstream[name].Address, path)
	})
	text := fmt.Sprintf(gatewayConfig, r.Address, r.Operator, w.URL, w.network.trusted, issuer, secretFile,
		tenantClaim, strings.Join(names, ", "),
		tenants, servers, audit, w.Redis.url(r.Redis.Address), w.config.Patience, Room,
		w.config.EventAge)
	if r.Link != nil {
		text += fmt.Sprintf("link: {listen: \"%s\", address: \"%s\"}\n", r.LinkAddress, r.Link.Address)
	}
	return text
}

// everything returns patterns for all prompts and resources of the servers.
func everything(servers []string) string {
	return `, "prompt:*"` + page.Rows(servers, func(name string) string {
		return fmt.Sprintf(`, "resource:%s:*"`, name)
	})
}
