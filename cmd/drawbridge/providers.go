package main

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/provider"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/dial"
)

// newProvider returns the provider of a login. It connects to nothing yet, and never to
// private addresses unless the login says so.
func newProvider(login *config.Login, log *slog.Logger) provider.Trier {
	cfg := provider.Config{
		Name: login.Name, Issuer: login.Issuer.Issuer, ClientID: login.ClientID, ClientSecret: login.Secret,
		ClientKey: login.Key, Scopes: login.Scopes, Plain: login.PrivateAddresses, Logger: log, Now: time.Now,
		Client: dial.Client(dial.Config{PrivateAddresses: login.PrivateAddresses}),
	}
	if login.GitHub {
		return provider.NewGitHub(cfg)
	}
	return provider.New(cfg)
}

// claimsRead returns the names of the claims by which the people of a login are told
// apart.
func claimsRead(login *config.Login) []string {
	claims := slices.Concat(login.ScopeClaims,
		[]string{login.TenantClaim, login.SubjectClaim, login.NameClaim})
	claims = slices.AppendSeq(claims, maps.Keys(login.Require))
	for i, path := range claims {
		claims[i] = auth.TopClaim(path)
	}
	return slices.DeleteFunc(distinct(claims), func(name string) bool { return name == "" })
}
