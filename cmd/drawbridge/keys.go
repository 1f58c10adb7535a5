package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// newSigner returns the keys that sign who calls, for servers that are told. They follow
// from the secrets of newRing, so that replicas have the same; it is called after that.
func newSigner(cfg *config.Config) *credential.Signer {
	secrets := cfg.Sessions.Keys
	if len(secrets) == 0 && cfg.Data.Dir != "" {
		if data, err := os.ReadFile(filepath.Join(cfg.Data.Dir, ringFile)); err == nil {
			// a file that cannot be parsed is refused by newRing
			secrets, _ = seal.ParseKeys(data)
		}
	}
	return credential.NewSigner(time.Now, secrets...)
}

// nextRing returns the keys that a reload puts in force, nil if those that are in force
// stay: without a keys_file at the start, or now. To give the random keys of a start away
// would lose every session.
func (p *parts) nextRing(cfg *config.Config) (*seal.Ring, error) {
	if len(p.started.Sessions.Keys) == 0 || len(cfg.Sessions.Keys) == 0 {
		return nil, nil
	}
	next, err := seal.NewRing(cfg.Sessions.Keys...)
	if err != nil {
		return nil, err
	}
	return next, p.storing.mayAdopt(p.ring, next)
}

// adoptKeys puts keys in force, if there are any: next, made of secrets.
func (p *parts) adoptKeys(next *seal.Ring, secrets [][]byte) {
	if next != nil {
		p.ring.Adopt(next)
		p.fleet.signer.Adopt(secrets...)
		p.tellKeys()
	}
}

// tellKeys says by their ids which keys are in force. Before an operator removes a key,
// all replicas must have the one that replaces it, and this is where that shows.
func (p *parts) tellKeys() {
	ids := p.ring.IDs()
	p.metrics.SealKeys(ids[0], ids[1:])
	if len(p.started.Sessions.Keys) > 0 {
		p.log.InfoContext(context.Background(), "keys in force", slog.String("seals", ids[0]),
			slog.Any("opens", ids))
	}
}
