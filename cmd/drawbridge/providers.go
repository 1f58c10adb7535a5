package main

import (
	"log/slog"
	"time"

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
