package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// nursery is a tenant of its own with one server, for faults of servers that the crowd
// does not use.
const (
	nursery       = "nursery"
	nurseryServer = "odd"
	nurseryIssuer = "https://nursery.test/"
)

// withNursery gives replicas the tenant and its server until the round is over, and
// returns a token of it. server is the text of the server in the config.
func (s *scene) withNursery(ctx context.Context, server string,
	replicas ...*world.Replica,
) (token string, err error) {
	secret := fmt.Appendf(nil, "%016x%016x%016x", s.draw.Uint64(), s.draw.Uint64(), s.draw.Uint64())
	file := filepath.Join(s.dir, "nursery.secret")
	if err := os.WriteFile(file, secret, 0o600); err != nil {
		return "", err
	}
	for _, r := range replicas {
		err := s.rewrite(ctx, r, func(config string) string {
			config = strings.Replace(config, "\nissuers:\n",
				fmt.Sprintf(
					"\nissuers:\n  - {issuer: %q, hmac_secret_file: %q, algorithms: [HS256], tenant: %s}\n",
					nurseryIssuer, file, nursery), 1)
			config = strings.Replace(config, "\ntenants:\n",
				fmt.Sprintf("\ntenants:\n  %s: {servers: [%s], rules: [{allow: [\"*\"]}]}\n", nursery,
					nurseryServer), 1)
			return strings.Replace(config, "\nservers:\n", fmt.Sprintf("\nservers:\n  %s: %s\n",
				nurseryServer, server), 1)
		})
		if err != nil {
			return "", err
		}
	}
	return world.Token(string(secret), nurseryIssuer, s.URL+"/mcp", prober, nil), nil
}

// servesOdd returns what is wrong when a replica does not serve a tool of the nursery.
func (s *scene) servesOdd(r *world.Replica, token, tool string) func(context.Context) error {
	return func(ctx context.Context) error {
		said, err := s.call(ctx, at(r), token, nurseryServer+"__"+tool, nursery)
		return is(r.Name+" serves "+tool+" of "+nursery, said.ok(), said, err)
	}
}
