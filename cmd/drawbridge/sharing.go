package main

import (
	"context"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

// sharing is what this process has in common with other replicas.
type sharing struct {
	store  *redis.Store // nil: there are no others
	others replica.Others
	mail   *replica.Mail // the same as others; nil: there are no others
}

// newSharing returns what the config says, not running yet.
func newSharing(cfg *config.Config, ring *seal.Ring, log *slog.Logger) sharing {
	if len(cfg.Redis.Addresses) == 0 {
		return sharing{others: replica.NewAlone()}
	}
	store := redis.New(redis.Config{Addresses: cfg.Redis.Addresses, Logger: log})
	mail := replica.NewMail(replica.MailConfig{Store: store, Seal: ring, Logger: log})
	return sharing{store: store, others: mail, mail: mail}
}

// run starts what is shared, until work ends.
func (s *sharing) run(work context.Context, group *errgroup.Group) {
	if s.store == nil {
		return
	}
	group.Go(func() error { return s.store.Run(work) })
	group.Go(func() error { return s.mail.Run(work) })
}
