package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"reflect"
	"time"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
)

// look is how often the files of the config are looked at. Watching their directory instead would wake the process at
// every audit line that is written beside them.
const look = 250 * time.Millisecond

// reloads reads the config again after a hangup and after a change of the file, or of a file it names, until ctx ends.
// What it starts lives until work ends.
func (p *parts) reloads(ctx, work context.Context, hangups <-chan os.Signal, env config.Environment) error {
	watch := config.NewWatch(p.started.Sources)
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-work.Done():
			return nil
		case <-hangups:
			p.reopenAudit(ctx)
			watch.Follow(p.reload(ctx, work, env))
		case <-tick.C:
			if watch.Settled() && watch.Changed() {
				watch.Follow(p.reload(ctx, work, env))
			}
		}
	}
}

// reopenAudit lets a rotated file go.
func (p *parts) reopenAudit(ctx context.Context) {
	if err := p.audit.Reopen(); err != nil {
		p.log.ErrorContext(ctx, "the audit file cannot be opened anew", slog.Any("error", err))
	}
}

// reload checks the whole new config first and only then changes anything. It returns what it read, also of a config
// that it refused.
func (p *parts) reload(ctx, work context.Context, env config.Environment) config.Sources {
	cfg, read, err := config.LoadWatched(p.started.File, env)
	if err == nil {
		cfg.KeepAddress(p.started)
		err = p.replace(work, cfg)
	}
	p.metrics.Reloaded(err == nil)
	if err != nil {
		p.status.setRefused(firstLine(err))
		p.log.ErrorContext(ctx, "config refused; the one before it stays in force", slog.String("file", p.started.File), slog.String("problems", err.Error()))
		return read
	}
	p.status.setRefused("")
	restart := restartNeeded(p.started, cfg)
	p.status.setRestart(restart)
	tellWarnings(ctx, cfg, p.log, p.metrics)
	p.log.InfoContext(ctx, "config reloaded", slog.String("config", summary(cfg)), slog.String("changes", changes(p.started, p.inForce, cfg)))
	p.inForce = cfg
	if len(restart) > 0 {
		p.log.WarnContext(ctx, "some changes need a restart", slog.Any("settings", restart))
	}
	return read
}

// replace puts a checked config in force. Whatever can fail comes before the first change.
func (p *parts) replace(work context.Context, cfg *config.Config) error {
	verifier, err := newVerifier(cfg.Issuers, p.log)
	if err != nil {
		return err
	}
	before := p.settings.Swap(settingsOf(cfg, p.address)) // first, because new tenants wake the streams, which ask whose tokens count
	if err := p.gateway.SetTenants(cfg.Tenants); err != nil {
		p.settings.Store(before)
		return err
	}
	p.issuers.replace(work, cfg.Issuers, verifier)
	p.level.Set(cfg.LogLevel)
	p.fleet.apply(work, cfg.Servers)
	return nil
}

// restartNeeded names the settings that differ from those the process runs with and that only a restart changes.
func restartNeeded(started, next *config.Config) []string {
	return differing(map[string]bool{
		"listen":               started.Listen == next.Listen,
		"operator":             started.Operator == next.Operator,
		"revisions.legacy_sse": started.LegacySSE == next.LegacySSE,
		"audit":                reflect.DeepEqual(started.Audit, next.Audit),
		"limits":               started.Limits == next.Limits,
		"lists.page_size":      started.PageSize == next.PageSize,
		"sessions":             reflect.DeepEqual(started.Sessions, next.Sessions),
		"log.format":           started.LogFormat == next.LogFormat,
	})
}

// firstLine is the first problem, with a word about how many more there are.
func firstLine(err error) string {
	var all config.RefusedError
	if !errors.As(err, &all) || len(all) < 2 {
		return err.Error()
	}
	return all[0].String() + ", and " + count(len(all)-1, "more problem")
}
