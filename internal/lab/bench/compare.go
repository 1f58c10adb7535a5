package main

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sources"
)

// comparison is what ways to call one tool through gateways of ours cost beside each
// other, in processor time: its commands differ in the gateways and in what is compared.
type comparison struct {
	rounds  int
	callers int // at once
	ways    []string
	// pairs are the names of ways, of which the first is divided by the other
	pairs [][2]string
	title string // of the section
	text  string // what stands above the table; how often and for how long stands below
	// begin starts what is measured, and returns how to call it, in the order of ways
	begin func(ctx context.Context, l *lab) []*target
	// judge claims what a call may cost in one revision; nil: anything
	judge func(c *world.Claims, of map[[2]string]spread)
}

func (c comparison) measured(flags *flag.FlagSet) page.Measure {
	p := planOf(flags, 500*time.Millisecond, c.rounds, "each way, in each revision")
	return func(ctx context.Context, r page.Report) (string, error) {
		l := emptyLab("compare", r)
		defer l.Close()
		l.build(ctx)
		l.startUpstream(ctx, "upstream")
		all := c.begin(ctx, l)
		for i, t := range all {
			t.name = c.ways[i]
			l.serves(ctx, t) // once it lets its caller in
		}
		var rows strings.Builder
		var claims world.Claims
		for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
			targets := make([]*target, len(all))
			for i, t := range all {
				targets[i] = t.in(era)
			}
			found, likely := l.measure(ctx, *p, c.callers, targets...), map[[2]string]spread{}
			for _, pair := range c.pairs {
				of, by := found.ways[pair[0]].cpu, found.ways[pair[1]].cpu
				s := middle(ratiosOf(of, by))
				likely[pair] = s
				fmt.Fprintf(&rows, "| %s | %s | %s | %v | %v | %.4f | %.4f to %.4f |\n", found.revision, pair[0],
					pair[1], spreadOf(of), spreadOf(by), s.median, s.least, s.most)
			}
			if c.judge != nil {
				c.judge(&claims, likely)
			}
		}
		return fmt.Sprintf(comparisonSection, c.title, c.text, page.Plural(c.callers, "connection"), p.rounds, p.took,
			rows.String()), claims.Broken()
	}
}

const comparisonSection = `## %s

%s %s at a time call the tool through each in turn, %d times for %v. The ratio is that of the processor
time of a round; the last column has its median with a confidence of 95 %%.

| revision | way | beside | µs of CPU a call | beside, µs | ratio | between |
|---|---|---|---|---|---|---|
%s`

// middle returns the median of values, and between which of them it lies with a
// confidence of 95 %.
func middle(values []float64) spread {
	sorted := slices.Sorted(slices.Values(values))
	n := float64(len(sorted))
	rank := max(0, int(n/2-0.98*math.Sqrt(n))) // of the binomial distribution, as the normal one has it
	return spread{spreadOf(values).median, sorted[rank], sorted[len(sorted)-1-rank]}
}

// setFields are the fields of a record that say who decided, from where and with what, as
// the gateway names them.
var setFields = []string{
	"Name", "TokenID", "Claims", "Upstream", "Wait", "WaitedFor", "Scopes", "Ruled", "Remote", "Session", "Client",
	"Version", "Config",
}

// recordConfig is that of all gateways, which differ in their addresses and files alone.
const recordConfig = configHead + `    servers: [echo]
    rules: [{allow: ["*"], scopes: [tools.call]}, {deny: ["*__delete_*"]}]
    limits: ` + wideLimits + `
servers:
  echo: {url: "http://%[3]s/mcp", private_addresses: true}
audit: {file: %[4]s, sync: interval}
log: {level: info, format: json}
`

// The gateways of the part record.
const (
	withFields      = "with the fields"
	withoutFields   = "without"
	withFieldsAgain = "with the fields once more"
)

// What the part record compares.
var (
	dearFields  = [2]string{withFields, withoutFields}
	equalFields = [2]string{withFields, withFieldsAgain}
)

// recordFields is the part record. It measures this gateway beside one that is built from
// the same code without the fields, so that nothing else differs, and beside itself: two
// processes of one program differ, too, by where their memory and connections lie.
var recordFields = comparison{
	rounds: 80, callers: 1, ways: []string{withFields, withoutFields, withFieldsAgain},
	pairs: [][2]string{dearFields, equalFields},
	title: "What the record's fields cost",
	text: `Two gateways are built from the same code. One puts into each record who decided, from where and with what, the other
leaves these fields out. The first runs once more beside itself: what these two differ by is no difference.`,
	begin: func(ctx context.Context, l *lab) (all []*target) {
		other := filepath.Join(l.Dir, "without")
		l.buildWithoutFields(ctx, other)
		for i, program := range []string{l.Program, other, l.Program} {
			at, config := world.Addresses(2), fmt.Sprintf("record%d.yaml", i)
			l.Write(map[string]string{
				config: fmt.Sprintf(recordConfig, at[0], at[1], l.upstream, fmt.Sprintf("audit%d.jsonl", i)),
			})
			t := l.target(wayDrawbridge, l.serveConfig(ctx, at[0], program, config), "echo__echo", mcp.Modern)
			t.token = world.Token(hmacSecret, "https://bench.test/", "http://"+at[0]+"/mcp", "load",
				map[string]any{"scope": "tools.call", "jti": "1"})
			all = append(all, t)
		}
		return all
	},
	judge: func(c *world.Claims, of map[[2]string]spread) {
		const most = 1.01 // times the cost without, beyond what two equal gateways differ by
		c.Claim(of[dearFields].least <= most*max(of[equalFields].most, 1/of[equalFields].least),
			"a call costs more than %.2f times as much with the fields", most)
	},
}

// buildWithoutFields builds a gateway that sets none of the fields, so its records lack
// them. It fails if it does not find one of them.
func (l *lab) buildWithoutFields(ctx context.Context, program string) {
	file := filepath.Join(must.Have(sources.Root()), "internal", "gateway", "record.go")
	world.BuildWith(ctx, program, l.Dir, world.Edit{File: file, Change: func(text string) string {
		for _, field := range setFields {
			shorter := regexp.MustCompile(`([\t ])`+field+`: [^,\n]+,`).ReplaceAllString(text, "$1")
			must.Be(shorter != text, "%s is not set as it was: bench record has to learn how it is now", field)
			text = shorter
		}
		return text
	}})
}

// credentialWays are the servers of the part credentials, and credentialAuths the auth of
// those that have any.
var credentialWays = []string{"none", "header", "identity", "exchange"}

var credentialAuths = map[string]string{
	"header":   ", auth: {header: {name: X-Api-Key, file: secret}}",
	"identity": ", auth: {identity: {audience: bench}}",
	"exchange": `, auth: {token_exchange: {token_url: "http://%s/token", client_id: bench, ` +
		`client_secret_file: secret, audience: bench}}`,
}

const credentialsConfig = configHead + `    servers: [none, header, identity, exchange]
    rules: [{allow: ["*"]}]
    limits: {` + world.AnyRates + `, concurrency: 1000}
audit: {file: audit.jsonl, sync: interval}
servers:
`

// credentials is the part credentials. It measures calls through one gateway to one
// server, which the config names once for each kind of auth, so that nothing else
// differs. With one connection alone the gateway sleeps and wakes for each message, and
// that differs by more than what is measured.
var credentials = comparison{
	rounds: 80, callers: 8, ways: credentialWays,
	pairs: [][2]string{{"header", "none"}, {"identity", "none"}, {"exchange", "none"}},
	title: "What it costs to tell a server who calls",
	text: "One gateway has one server four times: without auth, and with each kind of it that a call " +
		"can find ready.",
	begin: func(ctx context.Context, l *lab) (all []*target) {
		addrs := world.Addresses(3)
		l.start(ctx, addrs[2], l.Self, "tokens", addrs[2])
		servers := page.Rows(credentialWays, func(name string) string {
			return fmt.Sprintf("  %s: {url: \"http://%s/mcp\", private_addresses: true%s}\n", name,
				l.upstream, strings.Replace(credentialAuths[name], "%s", addrs[2], 1))
		})
		l.Write(map[string]string{
			"credentials.yaml": fmt.Sprintf(credentialsConfig, addrs[0], addrs[1]) + servers,
		})
		gateway := l.serveConfig(ctx, addrs[0], l.Program, "credentials.yaml")
		for _, name := range credentialWays {
			all = append(all, l.target(wayDrawbridge, gateway, name+"__echo", mcp.Modern))
		}
		return all
	},
	judge: func(c *world.Claims, of map[[2]string]spread) {
		const most = 1.05 // times the cost without
		for pair, s := range of {
			c.Claim(s.least <= most, "a call with %s costs more than %.2f times as much as one without",
				pair[0], most)
		}
	},
}

// serveTokens is an endpoint that gives everybody the same token, of the length that such
// tokens have.
func serveTokens(ctx context.Context, addr string) error {
	answer := fmt.Sprintf(`{"access_token":%q,"token_type":"Bearer","expires_in":3600,`+
		`"issued_token_type":"urn:ietf:params:oauth:token-type:access_token"}`, strings.Repeat(rand.Text(), 40))
	return upstream.Listen(ctx, addr, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer) // whoever asked may be gone
	}))
}
