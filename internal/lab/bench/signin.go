package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// signInConfig lets callers in by a token of an issuer, by one of the gateway's own, and
// by an access key. Both tokens are signed with EdDSA.
const signInConfig = `listen: %[1]s
operator: %[2]s
public_url: http://%[1]s
issuers:
  - {issuer: "https://bench.test/", public_key_file: issuer.pem, algorithms: [EdDSA], tenant: bench}
clients:
  - {client_id: robot, client_secret_file: secret, grants: [client_credentials], tenant: bench, scopes: [tools.call]}
data: {dir: kept}
access_keys: on
tenants:
  bench:
    servers: [echo]
    rules: [{allow: ["*"], scopes: [tools.call]}, {deny: ["*__delete_*"]}]
    limits: {requests: {rate: 1e9, burst: 1000000000}, calls: {rate: 1e9, burst: 1000000000}, user_calls: {rate: 1e9, burst: 1000000000}, concurrency: 1000}
servers:
  echo: {url: "http://%[3]s/mcp", private_addresses: true}
audit: {file: audit.jsonl, sync: interval}
log: {level: info, format: json}
`

// The ways to be let in, the first of which the others are compared with.
const (
	byIssuer = "a token of an issuer"
	byOwn    = "a token of the gateway's own"
	byKey    = "an access key"
)

// runSignIn is the command signin. It measures calls of one gateway whose callers are let
// in in three ways.
func runSignIn(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench signin", flag.ContinueOnError)
	report := flags.String("out", "", "page to write the section to; the standard output when empty")
	took := flags.Duration("time", 500*time.Millisecond, "how long each way runs in each round")
	number := flags.Int("rounds", 60, "rounds for each revision; a token of the gateway's own is good for 15 minutes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	from := page.Origin(ctx, time.Now(), append([]string{"bench", "signin"}, args...)...)
	l, err := emptyLab("signin")
	if err != nil {
		return err
	}
	defer l.Close()
	tokens, err := l.beginSignIn(ctx)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		var targets []*target
		for _, way := range []string{byIssuer, byOwn, byKey} {
			t := l.target(wayDrawbridge, l.parts[wayDrawbridge], "echo__echo", era)
			t.name, t.token = way, tokens[way]
			targets = append(targets, t)
		}
		r, err := plan{*took, *number}.measure(ctx, targets, 1, io.Discard)
		if err != nil {
			return err
		}
		for _, t := range targets {
			cpu, by := r.ways[t.name].cpu, r.ways[byIssuer].cpu
			least, most := middle(ratiosOf(cpu, by))
			fmt.Fprintf(&text, "| %s | %s | %v | %.3f | %.3f to %.3f |\n", r.revision, t.name, spreadOf(cpu),
				ratioOf(cpu, by).median, least, most)
		}
	}
	return page.WriteSection(out, *report, "bench-signin", fmt.Sprintf(signInSection, from, *number, *took, text.String()))
}

const signInSection = `## What a call costs by how its caller is let in

%s

One connection calls a tool through one gateway, with each of three credentials in turn, %d times for %v. Both tokens are
signed with EdDSA. The ratio is that of the processor time to the first of the same round; the last column has its median
with a confidence of 95 %%.

| revision | let in by | µs of CPU a call | ratio | between |
|---|---|---|---|---|
%s`

// beginSignIn builds and starts the gateway, and returns what lets callers in, by way.
func (l *lab) beginSignIn(ctx context.Context) (map[string]string, error) {
	if err := l.build(ctx); err != nil {
		return nil, err
	}
	addrs, err := world.Addresses(3)
	if err != nil {
		return nil, err
	}
	l.gateway, l.upstream = addrs[0], addrs[2]
	tokens := map[string]string{}
	token, key, err := issuerToken(l.gateway)
	if tokens[byIssuer] = token; err != nil {
		return nil, err
	}
	if err := l.Write(map[string]string{
		"signin.yaml": fmt.Sprintf(signInConfig, addrs[0], addrs[1], addrs[2]),
		"issuer.pem":  string(key),
	}); err != nil {
		return nil, err
	}
	if _, err := l.start(ctx, l.upstream, l.Self, "upstream", l.upstream); err != nil {
		return nil, err
	}
	if l.parts[wayDrawbridge], err = l.serveConfig(ctx, l.gateway, l.Program, "signin.yaml"); err != nil {
		return nil, err
	}
	if tokens[byOwn], err = ownToken(ctx, l.gateway); err != nil {
		return nil, err
	}
	made := exec.CommandContext(ctx, l.Program, "keys", "create", "-tenant", "bench", "-subject", "ci", "-scopes", "tools.call", //nolint:gosec // ours
		"-config", "signin.yaml")
	made.Dir = l.Dir
	printed, err := made.Output()
	if err != nil {
		return nil, fmt.Errorf("make an access key: %w", err)
	}
	tokens[byKey] = strings.TrimSpace(string(printed))
	for way, token := range tokens {
		t := l.target(wayDrawbridge, l.parts[wayDrawbridge], "echo__echo", mcp.Modern)
		t.token = token
		if err := world.Within(ctx, 20*time.Second, way+" lets in", func() bool { return t.answers(ctx) }); err != nil {
			return nil, err
		}
	}
	return tokens, nil
}

// issuerToken returns a token for the gateway of an issuer that has a new key, and the
// public half of that in PEM.
func issuerToken(gateway string) (token string, public []byte, err error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		return "", nil, err
	}
	token, err = auth.Sign(auth.Key{Public: private.Public(), Private: private}, "EdDSA", auth.Claims{
		Issuer: "https://bench.test/", Subject: "load", Audience: "http://" + gateway + "/mcp", IssuedAt: time.Now(),
		Expiry: time.Now().Add(time.Hour), Extra: map[string]any{"scope": "tools.call"},
	})
	return token, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), err
}

// ownToken asks the gateway for a token of its own.
func ownToken(ctx context.Context, gateway string) (string, error) {
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {"robot"}, "client_secret": {hmacSecret}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+gateway+"/token", strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := new(http.Client).Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }() // it was read
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return "", err
	}
	var made struct {
		Access string `json:"access_token"`
	}
	if err := strictjson.Unmarshal(text, &made); err != nil || made.Access == "" {
		return "", fmt.Errorf("the gateway gives no token: %s: %s (%w)", answer.Status, text, err)
	}
	return made.Access, nil
}
