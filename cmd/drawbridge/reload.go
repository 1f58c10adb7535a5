package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/metrics"
)

const (
	// checkEvery is how often the files of the config are looked at. To be told of
	// changes in their directory would cost more: audit records are written to the same
	// directory by default, and each would wake the process.
	checkEvery = 250 * time.Millisecond
	// checkPart is one in how much of the time may go into looking: thousands of files
	// are looked at more rarely.
	checkPart = 50
)

// pause returns how long to wait after a look that took so long.
func pause(took time.Duration) time.Duration { return max(checkEvery, checkPart*took) }

// reloads reads the config again after each hangup signal and after each change of its
// files. It returns when ctx ends, as the stop begins. What a reload starts, such as a
// new server, must go on while the gateway drains, so it gets work and not ctx.
//
//	SIGHUP ---------------------------+
//	                                  v
//	look --> Settled --> Changed --> reload --> Loader.Load --> replace --> in force
//	             (see config.Watch)    |            |              |
//	                                   |            +--- refused --+--> the config before stays in force
//	                                   v
//	                              Follow what was read, taken or refused
func (p *parts) reloads(ctx, work context.Context, hangups <-chan os.Signal, loader *config.Loader) error {
	watch := config.NewWatch(p.started.Sources)
	next := time.NewTimer(checkEvery)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hangups:
			p.audit.Reopen() // a hangup is also how log rotation says that it has moved the file away
			watch.Follow(p.reload(ctx, work, loader))
		case <-next.C:
			began := time.Now()
			settled := watch.Settled()
			next.Reset(pause(time.Since(began)))
			if settled && watch.Changed() {
				watch.Follow(p.reload(ctx, work, loader))
			}
		}
	}
}

// reload checks the whole new config first and only then changes anything. It returns
// which files it read, also for a config that it refused: the operator will correct one
// of these, and the Watch must see it. When all is in force it gives back the memory that
// reading took, and that of the config before. Nothing else would for a while: the heap
// may grow to twice what is in use before Go collects, and the scavenger waits until the
// gateway is calm. So a process that is reloaded again and again stays as large as it was
// after its start.
func (p *parts) reload(ctx, work context.Context, loader *config.Loader) config.Sources {
	defer freeMemory()
	cfg, read, err := loader.Load()
	if err == nil {
		warnOfMemory(cfg, planHere(cfg.Limits))
		err = p.replace(work, cfg)
	}
	p.metrics.Reloaded(err == nil)
	if err != nil {
		// a fault elsewhere in the config must not keep a removed key alive
		p.issuers.current.Load().Refresh()
		p.status.refused.Store(new(firstLine(err)))
		p.log.ErrorContext(ctx, "config refused; the one before it stays in force",
			slog.String("file", p.started.File), slog.String("problems", err.Error()))
		return read
	}
	p.status.refused.Store(nil)
	restart := restartNeeded(p.started, cfg)
	p.status.restart.Store(&restart)
	tellWarnings(ctx, cfg, p.log, p.metrics)
	p.log.InfoContext(ctx, "config reloaded", slog.String("config", summary(cfg)),
		slog.String("changes", changes(p.started, p.inForce, cfg)))
	p.inForce = cfg
	p.metrics.ConfigInForce(cfg.Digest)
	if len(restart) > 0 {
		p.log.WarnContext(ctx, "some changes need a restart", slog.Any("settings", restart))
	}
	return read
}

// replace puts a checked config in force. Everything that can fail comes first, so that
// the gateway never runs with half of a new config.
func (p *parts) replace(work context.Context, cfg *config.Config) error {
	if err := p.storing.mayServe(cfg); err != nil {
		return err
	}
	settings := settingsOf(withoutNewParts(cfg, p.started), p.address)
	signIns, err := p.signIns.next(cfg, settings)
	if err != nil {
		return err
	}
	issuers := p.signIns.issuers(cfg, signIns, cfg.TenantIDs())
	verifier, err := p.issuers.verifier(issuers)
	if err != nil {
		return err
	}
	keys, err := p.nextRing(cfg)
	if err != nil {
		return err
	}
	policy := p.gateway.Policy(cfg.Digest, cfg.Tenants)
	access := p.gateway.Access()
	p.settings.Store(settings)
	p.fleet.withdraw(cfg.ReachedServers())
	p.gateway.Enforce(policy)
	p.adoptKeys(keys, cfg.Sessions.Keys)
	p.metrics.ServeTenants(cfg.TenantIDs())
	p.signIns.replace(cfg, signIns)
	p.issuers.replace(work, issuers, verifier)
	p.server.Reauthorize() // what was begun under the config before, by issuers, tenants and rules together
	p.level.Set(cfg.LogLevel)
	p.fleet.apply(work, cfg.ReachedServers())
	p.access.reloaded(access)
	return nil
}

// withoutNewParts returns next without what only a restart begins. Its logins, if people
// could not sign in when this process started: until then clients must not be sent to an
// authorization server that is not there. And access keys, if nothing was kept.
func withoutNewParts(next, started *config.Config) *config.Config {
	without := *next
	without.AccessKeys = next.AccessKeys && started.Data.Exists()
	if !started.SignsIn() {
		without.Logins, without.Clients = nil, nil
		without.Advertise = slices.DeleteFunc(slices.Clone(next.Advertise),
			func(name string) bool { return name == config.SignInKeyword })
	}
	return &without
}

// firstLine returns the first problem of a refused config, with the number of the others,
// for places that have room for one line.
func firstLine(err error) string {
	var all config.RefusedError
	if !errors.As(err, &all) || len(all) < 2 {
		return err.Error()
	}
	return all[0].String() + ", and " + count(len(all)-1, "more problem")
}

// tellWarnings logs the warnings of a config that comes into force, and counts them by
// code. It sets the counts that are zero too, so that a warning which a reload removes
// leaves the metrics. The codes no-match and unused-release are not among them: who knows
// what the servers offer tells of those, which are the gateway and the fleet.
func tellWarnings(ctx context.Context, cfg *config.Config, log *slog.Logger, m *metrics.Metrics) {
	counts := make(map[string]int)
	for _, w := range cfg.Warnings {
		counts[w.Code]++
		log.WarnContext(ctx, "config warning", slog.String("code", w.Code),
			slog.String("place", fmt.Sprintf("%s:%d:%d", w.File, w.Line, w.Column)),
			slog.String("warning", w.Text))
	}
	for _, code := range config.Codes() {
		if code != gateway.CodeNoMatch && code != config.CodeUnusedRelease {
			m.ConfigWarnings(code, counts[code])
		}
	}
}
