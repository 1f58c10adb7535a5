package main

import (
	"context"
	"log/slog"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// offers is what the servers of a config offer, for commands that start no gateway.
// Built-in tools and HTTP APIs are known from the config; programs and addresses only if
// they were asked. Of the others it is known that they were not reached, so that a name
// can be told to be one of theirs by its prefix.
type offers struct {
	catalogue *registry.Registry
	checks    []check
	fleet     *fleet
}

// newOffers returns what the servers of cfg offer; those elsewhere are asked only if
// online. Of the others nothing is in the catalogue before lose.
func newOffers(ctx context.Context, cfg *config.Config, online bool) *offers {
	o := &offers{catalogue: registry.New()}
	o.fleet = newFleet(o.catalogue, metrics.New(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	o.fleet.apply(ctx, slices.DeleteFunc(slices.Clone(cfg.Servers), config.Server.IsElsewhere))
	if online {
		o.checks = tryOnline(ctx, cfg, o.catalogue)
	}
	return o
}

// lose has the catalogue know the servers of cfg that were not reached.
func (o *offers) lose(cfg *config.Config, online bool) {
	for _, s := range cfg.Servers {
		failed := slices.ContainsFunc(o.checks,
			func(c check) bool { return c.Name == "server "+s.Name && !c.OK })
		if s.Auth.OwnLists {
			o.catalogue.Remove(s.Name) // nobody will read the lists of a person
		}
		if s.IsElsewhere() && (!online || failed || s.Auth.OwnLists) {
			o.catalogue.Lose(s.Name, s.Prefix)
		}
	}
}

// statuses returns what is known of each server that was asked, or whose items the config
// says.
func (o *offers) statuses() []upstream.Status {
	all := o.fleet.known()
	for _, c := range o.checks {
		all = append(all, c.status)
	}
	return all
}

// close ends what newOffers has started.
func (o *offers) close() { o.fleet.close() }
