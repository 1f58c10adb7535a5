package main

import (
	"context"
	"log/slog"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

// newRing returns the keys that seal what clients hold for the gateway. Without keys in
// the config they are random, and what was sealed before a restart, or by another
// replica, cannot be opened.
func newRing(cfg *config.Config) (*seal.Ring, error) {
	if len(cfg.Sessions.Keys) == 0 {
		return seal.RandomRing(), nil
	}
	return seal.NewRing(cfg.Sessions.Keys...)
}

// nextRing returns the keys that a reload puts in force, nil if those that are in force
// stay: without a keys_file at the start, or now. To give the random keys of a start away
// would lose every session.
func (p *parts) nextRing(cfg *config.Config) (*seal.Ring, error) {
	if len(p.started.Sessions.Keys) == 0 || len(cfg.Sessions.Keys) == 0 {
		return nil, nil
	}
	return seal.NewRing(cfg.Sessions.Keys...)
}

// adoptKeys puts keys in force, if there are any.
func (p *parts) adoptKeys(next *seal.Ring) {
	if next != nil {
		p.ring.Adopt(next)
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
