package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/upstream"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// credentialKinds are the kinds of auth that are measured, by the names of the servers that
// have them. The first has none.
var credentialKinds = []struct{ name, auth string }{
	{"none", ""},
	{"header", "header: {name: X-Api-Key, file: secret}"},
	{"identity", "identity: {audience: bench}"},
	{"exchange", `token_exchange: {token_url: "http://%s/token", client_id: bench, client_secret_file: secret, audience: bench}`},
}

// callersForCredential is how many connections call at once. With one alone the gateway
// sleeps and wakes for each message, and that differs by more than what is measured.
const callersForCredential = 8

// mostForCredential is how much more a call may cost whose credential is there already.
const mostForCredential = 1.05

// runCredentials is the command credentials. It measures calls through one gateway to one
// server, which the config names once for each kind of auth, so that nothing else differs.
func runCredentials(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench credentials", flag.ContinueOnError)
	report := flags.String("out", "", "page to write the section to; the standard output when empty")
	took := flags.Duration("time", 500*time.Millisecond, "how long each kind is called in each round")
	number := flags.Int("rounds", 80, "rounds for each revision, each of all kinds")
	if err := flags.Parse(args); err != nil {
		return err
	}
	from := page.Origin(ctx, time.Now(), append([]string{"bench", "credentials"}, args...)...)
	l, err := emptyLab("credentials")
	if err != nil {
		return err
	}
	defer l.Close()
	gateway, err := l.beginCredentials(ctx)
	if err != nil {
		return err
	}
	var text strings.Builder
	var dear error
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		var targets []*target
		for _, kind := range credentialKinds {
			t := l.target(wayDrawbridge, gateway, kind.name+"__echo", era)
			t.name = kind.name
			targets = append(targets, t)
		}
		r, err := plan{*took, *number}.measure(ctx, targets, callersForCredential, io.Discard)
		if err != nil {
			return err
		}
		none := r.ways[credentialKinds[0].name].cpu
		for _, kind := range credentialKinds[1:] {
			with := r.ways[kind.name].cpu
			least, most := middle(ratiosOf(with, none))
			fmt.Fprintf(&text, "| %s | %s | %v | %v | %.4f | %.4f to %.4f |\n", r.revision, kind.name, spreadOf(with),
				spreadOf(none), ratioOf(with, none).median, least, most)
			if least > mostForCredential {
				dear = errors.Join(dear, fmt.Errorf("a call with %s costs more than %.2f times as much as one without",
					kind.name, mostForCredential))
			}
		}
	}
	section := fmt.Sprintf(knownSection, from, callersForCredential, *number, *took, text.String())
	return errors.Join(page.WriteSection(out, *report, "bench-credentials", section), dear)
}

const knownSection = `## What it costs to tell a server who calls

%s

One gateway has one server four times: without auth, and with each kind of it that a call can find ready. %d connections
call a tool of each in turn, %d times for %v. The ratio is that of the processor time with and without, of each
round; the last column has its median with a confidence of 95 %%.

| revision | auth | with, µs of CPU a call | without | ratio | between |
|---|---|---|---|---|---|
%s`

// beginCredentials starts the server, an endpoint that gives tokens, and the gateway.
func (l *lab) beginCredentials(ctx context.Context) (part, error) {
	if err := l.build(ctx); err != nil {
		return part{}, err
	}
	addrs, err := world.Addresses(4)
	if err != nil {
		return part{}, err
	}
	for at, command := range map[string]string{addrs[2]: "upstream", addrs[3]: "tokens"} {
		if _, err := l.start(ctx, at, l.Self, command, at); err != nil {
			return part{}, err
		}
	}
	var names, servers strings.Builder
	for _, kind := range credentialKinds {
		fmt.Fprintf(&names, "%s, ", kind.name)
		auth := kind.auth
		if strings.Contains(auth, "%s") {
			auth = fmt.Sprintf(auth, addrs[3])
		}
		fmt.Fprintf(&servers, "  %s: {url: \"http://%s/mcp\", private_addresses: true, auth: {%s}}\n", kind.name, addrs[2], auth)
	}
	text := fmt.Sprintf(configHead, addrs[0], addrs[1]) + fmt.Sprintf(`    servers: [%s]
    rules: [{allow: ["*"]}]
    limits: {requests: {rate: 1e9, burst: 1000000000}, calls: {rate: 1e9, burst: 1000000000}, user_calls: {rate: 1e9, burst: 1000000000}, concurrency: 1000}
servers:
%saudit: {file: audit.jsonl, sync: interval}
`, strings.TrimSuffix(names.String(), ", "), strings.ReplaceAll(servers.String(), ", auth: {}", ""))
	if err := l.Write(map[string]string{"credentials.yaml": text}); err != nil {
		return part{}, err
	}
	l.token = sign(addrs[0])
	gateway, err := l.serveConfig(ctx, addrs[0], l.Program, "credentials.yaml")
	if err != nil {
		return part{}, err
	}
	for _, kind := range credentialKinds {
		if err := l.target(wayDrawbridge, gateway, kind.name+"__echo", mcp.Modern).serves(ctx); err != nil {
			return part{}, err
		}
	}
	return gateway, nil
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
