package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/auth/accesskey"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
	"github.com/drawbridge-mcp/drawbridge/server"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
	"github.com/drawbridge-mcp/drawbridge/server/primary"
)

// parts is the whole gateway, put together: build makes it, run starts and stops it, and
// reload changes what can be changed while it runs.
type parts struct {
	// The config that the process was started with. Settings that only a restart changes
	// are read from here, also after a reload.
	started *config.Config
	// The config that came into force last. Only the goroutine of reloads uses it, so it
	// needs no lock.
	inForce *config.Config
	log     *slog.Logger
	level   *slog.LevelVar
	address string // of the clients' listener, see addressOf

	gatherer  prometheus.Gatherer
	metrics   *metrics.Metrics
	memory    *share.Budget    // of what is held for clients
	collector *collector       // lets more garbage gather where memory allows
	turns     *fairqueue.Queue // at work that keeps a processor busy
	limits    connectionLimits
	ring      *seal.Ring // keys that seal what clients and Redis hold
	sharing   sharing
	storing   *storing // what outlives a restart
	audit     *audit.Log
	gateway   *gateway.Gateway
	server    *server.Server
	fleet     *fleet
	issuers   *verifiers
	signIns   *signIns
	keys      *accesskey.Keys // nil: nothing is kept, and so none are taken
	// What the server asks for at each request. A reload swaps it whole, so that no
	// request sees half of a change.
	settings atomic.Pointer[server.Settings]
	status   *status
	access   *accessLog // what reloads change for callers
}

// build makes the parts, those first that others need, and starts nothing. The config has
// been checked, so an error is about this machine, for example an audit file that cannot
// be opened.
func build(cfg *config.Config, plan memoryPlan, log *slog.Logger, level *slog.LevelVar,
	l listeners,
) (*parts, error) {
	p := &parts{started: cfg, inForce: cfg, log: log, level: level, address: addressOf(cfg, l)}
	registerer := prometheus.NewRegistry()
	p.gatherer = registerer
	p.metrics = metrics.New(registerer)
	p.metrics.BuildInfo(thisBuild().version, thisBuild().commit)
	p.memory = budgetFor(cfg.Limits, plan)
	p.collector = newCollector(plan, config.ProcessEnvironment())
	p.limits = p.newConnectionLimits(cfg.Limits, descriptors(), plan.limit)
	p.turns = fairqueue.New(0)
	p.tellUse(cfg)
	var err error
	if p.ring, err = newRing(cfg); err != nil {
		return nil, err
	}
	p.tellKeys()
	if p.sharing, err = newSharing(cfg, p.ring, log, p.metrics); err != nil {
		return nil, err
	}
	if p.storing, err = newStoring(cfg, p.ring, log, p.metrics); err != nil {
		return nil, err
	}
	auditConfig := cfg.Audit
	auditConfig.Calls = cmp.Or(cfg.Limits.MaxRequests, server.DefaultMaxRequests)
	auditConfig.Dropped = p.metrics.AuditDropped
	auditConfig.Changed, auditConfig.Moved = p.auditChanged, p.auditMoved
	p.audit, err = audit.Open(auditConfig)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: make its directory, or change audit.file", err)
	case err != nil:
		return nil, fmt.Errorf("%w: let the gateway write there, or change audit.file", err)
	}
	p.metrics.AuditWritable.Of(func(tell metrics.Tell) { tell("", metrics.OneIf(p.audit.Problem() == nil)) })
	if err := p.buildLogins(cfg); err != nil {
		return nil, err
	}
	catalogue := registry.New()
	p.fleet = newFleet(catalogue, p.metrics, log)
	p.fleet.signer = newSigner(cfg)
	if p.sharing.store != nil {
		p.fleet.shared = &credential.Shared{Store: p.sharing.store, Seal: p.ring, Quota: p.sharing.quota}
	}
	p.fleet.memory, p.fleet.turns, p.fleet.extensions = p.memory, p.turns, carried(cfg)
	lists := newRelisting(p.sharing.others, p.fleet.reread, p.fleet.rereadAll)
	p.sharing.users = append(p.sharing.users, lists.run)
	p.fleet.overheard = lists.add
	p.gateway = gateway.New(gateway.Config{
		Registry: catalogue,
		Limiter:  p.sharing.limiter(cfg.Replicas, p.metrics),
		Audit:    p.audit,
		Digests:  audit.NewKeys(cfg.Records.Keys),
		Recorded: cfg.Records.Arguments,
		Metrics:  p.metrics,
		Seal:     p.ring,
		Others:   p.sharing.others,
		Allot:    p.sharing.slots(p, cfg.Replicas),
		Shared:   p.sharing.store,
		Logger:   log,
		Memory:   p.memory,
		Turns:    p.turns,
		PageSize: cfg.PageSize,
		Slots:    cfg.Limits.MaxRequests,
		Name:     cfg.Card.Name,
		Version:  thisBuild().version,
	})
	p.gateway.SetPolicy(cfg.Digest, cfg.Tenants)
	p.metrics.ServeTenants(cfg.TenantIDs())
	p.server = server.New(p.serverConfig(cfg))
	p.signIns.audit = p.server.RecordSignIn
	p.status = newStatus(p)
	p.metrics.Draining.Of(func(tell metrics.Tell) { tell("", metrics.OneIf(p.status.drain.Load())) })
	return p, nil
}

// buildLogins makes what finds out who calls: the authorization server, if there is one,
// and the verifiers of tokens, its own included.
func (p *parts) buildLogins(cfg *config.Config) error {
	storage, err := newKeySetStorage(cfg, p.ring, p.sharing.store)
	if err != nil {
		return err
	}
	p.settings.Store(settingsOf(cfg, p.address))
	needs := signInParts{p.ring, p.storing.db, p.log, p.metrics, p.loginsChanged}
	if p.signIns, err = newSignIns(cfg, p.settings.Load(), needs); err != nil {
		return err
	}
	issuers := p.signIns.issuers(cfg, p.signIns.settings.Load(), cfg.TenantIDs())
	if p.issuers, err = newVerifiers(issuers, storage, p.log, p.loginsChanged); err != nil {
		return err
	}
	p.metrics.IssuerKeys.Of(func(tell metrics.Tell) {
		tellKeySets(p.issuers.current.Load().KeySets(), tell)
	})
	return nil
}

// tellUse has the metrics say which config is in force and what requests use.
func (p *parts) tellUse(cfg *config.Config) {
	p.metrics.WorkSlots.Of(func(tell metrics.Tell) {
		tell("", float64(p.turns.Slots()), float64(p.turns.Busy()))
	})
	p.metrics.WorkWaiting.Of(func(tell metrics.Tell) {
		for tenant, n := range p.turns.Waiting() {
			tell(tenant, float64(n))
		}
	})
	p.metrics.MemoryHeld.Of(func(tell metrics.Tell) { tellHeld(p.memory, tell) })
	p.metrics.MemoryLimit.Of(func(tell metrics.Tell) { tell("", float64(p.memory.Total())) })
	p.metrics.Reloaded(true) // the config of the start counts as the first one that was taken
	p.metrics.ConfigInForce(cfg.Digest)
}

// carried returns the extensions that are carried.
func carried(cfg *config.Config) *mcp.ExtensionTable {
	var passed []mcp.Extension
	for _, id := range cfg.PassedExtensions {
		passed = append(passed, mcp.Extension{ID: id})
	}
	return mcp.NewExtensionTable(passed...)
}

// loginsChanged is called when other keys or issuers count than before. It may be called
// before build has returned, but not before the verifiers are started.
func (p *parts) loginsChanged() { p.server.Reauthorize() }

// auditChanged is called by the audit log when its records cannot be written any more,
// with the problem, and when they can be again, with nil.
func (p *parts) auditChanged(problem error) {
	if problem == nil {
		p.log.InfoContext(context.Background(), "audit records are written again")
		return
	}
	meanwhile := "calls are refused"
	if p.started.Audit.Drop {
		meanwhile = "calls go on, and records beyond 4096 are lost"
	}
	p.log.ErrorContext(context.Background(), "audit records cannot be written", slog.Any("error", problem),
		slog.String("meanwhile", meanwhile))
}

// auditMoved is called by the audit log when its file is not at its place any more, for
// example because it was rotated. The error is nil if a new file is open at its place and
// the old one is closed.
func (p *parts) auditMoved(err error) {
	if closing, ok := errors.AsType[*audit.ClosingError](err); ok {
		p.log.ErrorContext(context.Background(),
			"the audit file was moved or removed; the last lines of the old one may not be on the disk",
			slog.String("file", auditLocation(p.started)), slog.Any("error", closing))
		return
	}
	if err != nil {
		p.log.ErrorContext(context.Background(),
			"the audit file was moved or removed, and no other can be opened at its place",
			slog.String("file", auditLocation(p.started)), slog.Any("error", err))
		return
	}
	p.log.WarnContext(context.Background(),
		"the audit file was moved or removed; another is written at its place", slog.String("file",
			auditLocation(p.started)))
}

// serverConfig returns what package server needs. Limits and session settings are copied
// from the config of the start: only a restart changes them.
func (p *parts) serverConfig(cfg *config.Config) server.Config {
	who := p.logins()
	serving := server.Config{
		Gateway:       p.gateway,
		Verify:        who.verify,
		Recheck:       who.recheck,
		Seal:          p.ring,
		Log:           p.newSessionLog(cfg.Sessions),
		Others:        p.sharing.others,
		Entries:       p.newEntries(cfg.Sessions),
		Once:          p.sharing.once,
		Logger:        p.log,
		Metrics:       p.metrics,
		Memory:        p.memory,
		Turns:         p.turns,
		Version:       thisBuild().version,
		Card:          server.Card(cfg.Card),
		KeySet:        p.fleet.keySet,
		Extensions:    carried(cfg),
		Settings:      func() server.Settings { return *p.settings.Load() },
		LegacySSE:     cfg.LegacySSE,
		SessionIdle:   cfg.Sessions.Idle,
		SessionMaxAge: cfg.Sessions.MaxAge,
		MaxBody:       cfg.Limits.MaxBody,
		MaxRequests:   cfg.Limits.MaxRequests,
		MaxStreams:    p.limits.streams(cfg.Limits),
	}
	if p.signIns.server != nil {
		serving.SignIn = p.signIns.server
	}
	return serving
}

// logins returns what finds out who a caller is, and whether that still holds. A reload
// says whether keys are taken, where something is kept.
func (p *parts) logins() logins {
	if p.storing.db != nil {
		p.keys = accesskey.New(accesskey.Config{
			Store: p.storing.db, Log: p.log, Revoked: p.loginsChanged, Now: time.Now,
			Taken:  func() bool { return p.settings.Load().AccessKeys },
			Issuer: func() string { return p.settings.Load().Base() },
		})
	}
	return logins{p.issuers, p.keys}
}

// newEntries returns where it stands which replica leads each session; nil: there are no
// others.
func (p *parts) newEntries(s config.Sessions) primary.Store {
	if p.sharing.store == nil {
		return nil
	}
	idle := cmp.Or(s.Idle, server.DefaultSessionIdle)
	return primary.NewRedis(primary.RedisConfig{
		Store: p.sharing.store, Seal: p.ring, Others: p.sharing.others,
		Life: idle + idle/5 + time.Minute,
	})
}

// newSessionLog returns where sessions keep their events: in this process, and in what
// replicas share if there is that.
func (p *parts) newSessionLog(s config.Sessions) eventlog.Log {
	bounds := eventlog.MemoryConfig{Age: s.EventAge, Memory: p.memory}
	if p.sharing.store == nil {
		return eventlog.NewMemory(bounds)
	}
	events := eventlog.NewRedis(eventlog.RedisConfig{
		MemoryConfig: bounds, Store: p.sharing.store, Seal: p.ring, Others: p.sharing.others,
		Quota: p.sharing.quota,
	})
	p.sharing.users = append(p.sharing.users, events.Run)
	return events
}

// addressOf returns the address of the clients' listener: the host as the config has it,
// since tokens are for that name and not for the address that it stands for, and the real
// port where the config says 0.
func addressOf(cfg *config.Config, l listeners) string {
	host, _, _ := net.SplitHostPort(cfg.Listen) // it was checked, and what was bound is an address
	_, port, _ := net.SplitHostPort(l.clients.Addr().String())
	return net.JoinHostPort(host, port)
}

// settingsOf returns the settings that the server asks for at every request and that a
// reload may change. Address is that of the clients' listener; it takes the place of a
// missing public_url.
func settingsOf(cfg *config.Config, address string) *server.Settings {
	public := cmp.Or(cfg.PublicURL, "http://"+address)
	settings := &server.Settings{
		PublicURL:      public,
		AllowedOrigins: cfg.AllowedOrigins,
		AllowedHosts:   allowedHosts(cfg, public, address),
		TrustedProxies: cfg.TrustedProxies,
		PublicTenants:  tenantsWithCard(cfg),
		AccessKeys:     cfg.AccessKeys,
	}
	advertised(cfg, settings)
	return settings
}

// tenantsWithCard returns the ids of the tenants whose endpoints have a server card.
func tenantsWithCard(cfg *config.Config) (ids []string) {
	for i := range cfg.Tenants {
		if cfg.Tenants[i].Card {
			ids = append(ids, cfg.Tenants[i].ID)
		}
	}
	return ids
}

// allowedHosts returns the values of the header Host that clients may send. The check is
// against DNS rebinding: a foreign web page can point its own name at this machine, but
// then the browser sends that name. Allowed are what public_url and listen say, loopback
// under its usual names, and what the config adds. Most clients leave out the usual port
// of a public_url, and a host without a port is allowed with any.
func allowedHosts(cfg *config.Config, public, address string) []string {
	hosts := []string{address}
	if u, err := url.Parse(public); err == nil {
		hosts = append(hosts, strings.TrimSuffix(u.Host, ":"+dial.UsualPort(u.Scheme)))
	}
	if _, port, err := net.SplitHostPort(address); err == nil {
		for _, name := range []string{"localhost", "127.0.0.1", "::1"} {
			hosts = append(hosts, net.JoinHostPort(name, port))
		}
	}
	return distinct(append(hosts, cfg.AllowedHosts...))
}
