package main

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/server"
	"github.com/drawbridge-mcp/drawbridge/server/admin"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// signIns is the authorization server of this process, where people sign in with a
// browser. Of the zero value there is none.
type signIns struct {
	server   *signin.Server // nil: there is none
	settings atomic.Pointer[signin.Settings]
	log      *slog.Logger
	logins   []config.Login // of the settings
	// puts on record what was done; it is set before anybody can sign in
	audit func(context.Context, audit.Record) bool
}

// signInParts are what the authorization server needs of the other parts.
type signInParts struct {
	ring    *seal.Ring
	db      store.Store // the config of who signs people in has one
	log     *slog.Logger
	metrics *metrics.Metrics
	changed func() // called when what is open is to be judged again
}

// newSignIns returns the authorization server of the config. public is what the server
// says of itself under that config.
func newSignIns(cfg *config.Config, public *server.Settings, p signInParts) (*signIns, error) {
	s := &signIns{log: p.log}
	if !cfg.SignsIn() {
		return s, nil
	}
	settings, err := s.next(cfg, public)
	if err != nil {
		return nil, err
	}
	s.settings.Store(settings)
	s.logins = cfg.Logins
	s.server = signin.New(signin.Config{
		Ring: p.ring, Store: p.db, Documents: dial.Client(dial.Config{}), IsTenant: gateway.IsTenantID,
		Settings: func() signin.Settings { return *s.settings.Load() },
		Logger:   slog.New(exchange.LogHandler(p.log.Handler())), Records: p.metrics, Changed: p.changed,
		Audit: func(ctx context.Context, r audit.Record) bool { return s.audit(ctx, r) },
		Now:   time.Now, Hold: signin.UsualHold,
	})
	return s, nil
}

// next returns the settings of a config. Providers whose logins are as before stay as
// they are, with what they know of the other side.
func (s *signIns) next(cfg *config.Config, public *server.Settings) (*signin.Settings, error) {
	made := &signin.Settings{
		PublicURL: public.PublicURL, Registration: cfg.Registration, Scopes: knownScopes(cfg),
		Advertised:  public.Scopes[""],
		Clients:     cfg.Clients,
		SpentWindow: cfg.SpentTokens,
		KeepTokens:  cfg.ExchangesTokens(),
		KeepClaims:  cfg.IdentityClaims(),
	}
	for i := range cfg.Logins {
		login, err := s.login(&cfg.Logins[i])
		if err != nil {
			return nil, fmt.Errorf("login %q: %w", cfg.Logins[i].Name, err)
		}
		made.Logins = append(made.Logins, login)
	}
	return made, nil
}

// login returns where people sign in by a login of the config.
func (s *signIns) login(l *config.Login) (signin.Login, error) {
	same := func(old config.Login) bool { return reflect.DeepEqual(old, *l) }
	if i := slices.IndexFunc(s.logins, same); i >= 0 {
		return s.settings.Load().Logins[i], nil
	}
	provider := l.Toy
	if provider == nil {
		provider = newProvider(l, s.log)
	}
	reader, err := auth.NewReader(l.Issuer)
	if err != nil {
		return signin.Login{}, err
	}
	return signin.Login{Provider: provider, Claims: reader, Tenants: l.AllTenants(), Title: l.Title}, nil
}

// replace puts the settings of a new config in force.
func (s *signIns) replace(cfg *config.Config, next *signin.Settings) {
	if s.server != nil {
		s.settings.Store(next)
		s.logins = cfg.Logins
	}
}

// issuers returns the issuers whose tokens are taken: those of the config, and those of
// the authorization server under the settings, if there is one. tenants are all that
// there are.
func (s *signIns) issuers(cfg *config.Config, settings *signin.Settings, tenants []string) []config.Issuer {
	if s.server == nil {
		return cfg.Issuers
	}
	all := slices.Clone(cfg.Issuers)
	for _, own := range s.server.Issuers(*settings, tenants) {
		all = append(all, config.Issuer{Issuer: own})
	}
	return all
}

// run keeps the authorization server up to date with other replicas until ctx ends.
func (s *signIns) run(ctx context.Context) error {
	if s.server == nil {
		return nil
	}
	return s.server.Run(ctx)
}

// begun tells whether it is known whose sign-ins have ended, or there are none.
func (s *signIns) begun() bool { return s.server == nil || s.server.Learned() }

// judge adds to what /readyz shows which providers cannot be reached. That makes the
// gateway not less ready: other replicas reach them no better, and valid tokens serve.
func (s *signIns) judge(view *admin.View) {
	if s.server == nil {
		return
	}
	view.Unreached = map[string]admin.Provider{}
	for _, u := range s.server.Unreached() {
		since := u.Since.UTC().Truncate(time.Second)
		view.Unreached[u.Provider] = admin.Provider{Failing: since}
		view.Warnings = append(view.Warnings, fmt.Sprintf("the provider %s cannot be reached: %s (since "+
			"%s); valid tokens are served meanwhile, and nobody can sign in there", u.Provider, u.Err,
			since.Format(time.RFC3339)))
	}
}
