package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/quiet"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/raid"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

const (
	usersOfQuiet = 4
	usersOfLoud  = 8

	// loudAddress is where attackers connect from, so that the gateway can tell them from
	// the quiet tenant as it can in a network.
	loudAddress = "127.0.0.2"
)

// The limits are the default ones, with two exceptions. The rates of the quiet tenant are
// high, because it makes up for calls that were late, and its own limits must not refuse
// them. Tenant raised, for the attacks that need it, has high rates too; all else of it
// is as by default. Tenant ruled has the same rates, and rules that allow its users
// nothing.
const gatewayConfig = `listen: %[1]s
operator: %[2]s
public_url: http://%[1]s
issuers:
  - {issuer: "https://fair.test/", hmac_secret_file: secret, algorithms: [HS256], tenants: {claim: team}, tenants_allowed: [quiet, loud, raised, ruled]}
  - github: {client_id: lab, client_secret_file: secret, tenants: {claim: orgs, map: {acme: quiet}}}
data: {dir: kept}
access_keys: on
tenants:
  quiet:
    servers: [calm]
    rules: [{allow: ["*"]}]
    limits: ` + raid.HighRates + `
  loud:
    servers: [storm]
    rules: [{allow: ["*"]}]
  raised:
    servers: [storm, library]
    rules: [{allow: ["*"]}]
    limits: ` + raid.HighRates + `
  ruled:
    servers: [storm]
    limits: ` + raid.HighRates + `
    rules:
%[5]sservers:
  calm: {url: "http://%[3]s/mcp", private_addresses: true}
  storm: {url: "http://%[4]s/mcp", private_addresses: true}
  library: {builtin: {query_database: {databases: {library: {sqlite: library.db}}}}}
audit: {file: audit.jsonl, sync: interval}
log: {level: info, format: json}
`

// lab is what all measures share: the program of the gateway, the servers, and who knows
// which token.
type lab struct {
	*world.Lab

	cores              cores
	calm, storm, dummy string              // addresses of servers
	gateway            string              // the address that a gateway gets
	tokens             map[string][]string // by tenant, one for each user
	from               []string            // where attackers connect from; nil is where everybody does
	started            int                 // processes, each with a log of its own
}

// newLab builds the gateway and starts the servers. Everything it makes lies in a
// temporary folder.
func newLab(ctx context.Context) *lab {
	l := &lab{Lab: world.NewLab("fair"), cores: coresOfThisMachine(), tokens: map[string][]string{}}
	defer must.Else(l.Close)
	if runtime.GOOS == "linux" { // only Linux has all of 127.0.0.0/8
		l.from = []string{loudAddress}
	}
	l.Build(ctx)
	l.configure()
	for _, addr := range []string{l.calm, l.storm, l.dummy} {
		server := l.startPart(l.cores.served, "part-server", addr)
		server.Listens(ctx, addr, time.Minute)
	}
	return l
}

// configure takes addresses, makes a token for each user of each tenant and writes the
// gateway's config.
func (l *lab) configure() {
	addresses := world.Addresses(5)
	l.calm, l.storm, l.dummy, l.gateway = addresses[0], addresses[1], addresses[2], addresses[3]
	const secret = "fair-5d0b97e1c3f84a62-hmac-secret" //nolint:gosec // G101: of gateways that live for minutes
	for tenant, users := range map[string]int{
		"quiet": usersOfQuiet, "loud": usersOfLoud, "raised": usersOfLoud, "ruled": usersOfLoud,
	} {
		l.tokens[tenant] = quiet.Tokens(secret, "https://fair.test/", l.gateway, tenant, users)
	}
	rules := page.Times(1000, func(i int) string {
		return fmt.Sprintf("      - {scopes: [scope%d], allow: [\"storm__*\"]}\n", i)
	})
	l.Write(map[string]string{
		"drawbridge.yaml": fmt.Sprintf(gatewayConfig, l.gateway, addresses[4], l.calm, l.storm, rules),
		"secret":          secret,
		"library.db":      "", // a database without tables
	})
}

// serve starts a gateway and waits until it answers calls of all tenants.
func (l *lab) serve(ctx context.Context) *world.Process {
	gateway := l.start(l.cores.served, false, l.Program, "serve", "-config", "drawbridge.yaml")
	defer must.Else(gateway.Kill)
	err := quiet.Serves(ctx, l.gateway, l.tokens, map[string]string{"quiet": "calm", "raised": "storm"})
	must.Be(err == nil, "%w\n%s", err, gateway.Words())
	return gateway
}
