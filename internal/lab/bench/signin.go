package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
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
    limits: {` + world.AnyRates + `, concurrency: 1000}
servers:
  echo: {url: "http://%[3]s/mcp", private_addresses: true}
audit: {file: audit.jsonl, sync: interval}
log: {level: info, format: json}
`

// signIns is the part signin. It measures calls of one gateway whose callers are let in
// in three ways. A token of the gateway's own is good for 15 minutes.
var signIns = comparison{
	rounds: 60, callers: 1,
	ways: []string{"a token of an issuer", "a token of the gateway's own", "an access key"},
	pairs: [][2]string{
		{"a token of the gateway's own", "a token of an issuer"},
		{"an access key", "a token of an issuer"},
	},
	title: "What a call costs by how its caller is let in",
	text:  "One gateway lets callers in by three credentials. Both tokens are signed with EdDSA.",
	begin: func(ctx context.Context, l *lab) (all []*target) {
		addrs := world.Addresses(2)
		token, key := issuerToken(addrs[0])
		l.Write(map[string]string{
			"signin.yaml": fmt.Sprintf(signInConfig, addrs[0], addrs[1], l.upstream),
			"issuer.pem":  string(key),
		})
		gateway := l.serveConfig(ctx, addrs[0], l.Program, "signin.yaml")
		made := exec.CommandContext(ctx, l.Program, "keys", "create", "-tenant", "bench", "-subject", "ci", //nolint:gosec // ours
			"-scopes", "tools.call", "-config", "signin.yaml")
		made.Dir = l.Dir
		accessKey := strings.TrimSpace(string(must.Have(made.Output())))
		for _, token := range []string{token, ownToken(ctx, addrs[0]), accessKey} {
			t := l.target(wayDrawbridge, gateway, "echo__echo", mcp.Modern)
			t.token = token
			all = append(all, t)
		}
		return all
	},
}

// issuerToken returns a token for the gateway of an issuer that has a new key, and the
// public half of that in PEM.
func issuerToken(gateway string) (token string, public []byte) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	must.OK(err)
	der := must.Have(x509.MarshalPKIXPublicKey(private.Public()))
	token = must.Have(auth.Sign(auth.Key{Public: private.Public(), Private: private}, "EdDSA", auth.Claims{
		Issuer: "https://bench.test/", Subject: "load", Audience: "http://" + gateway + "/mcp", IssuedAt: time.Now(),
		Expiry: time.Now().Add(time.Hour), Extra: map[string]any{"scope": "tools.call"},
	}))
	return token, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// ownToken asks the gateway for a token of its own.
func ownToken(ctx context.Context, gateway string) string {
	robot := clientcredentials.Config{
		ClientID: "robot", ClientSecret: hmacSecret, TokenURL: "http://" + gateway + "/token",
		AuthStyle: oauth2.AuthStyleInParams,
	}
	return must.Have(robot.Token(ctx)).AccessToken
}
