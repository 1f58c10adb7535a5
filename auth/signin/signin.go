package signin

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

// Server is the authorization server. It is safe for concurrent use.
type Server struct{ core *core }

// New returns a server.
func New(cfg Config) *Server {
	c := &core{
		config: cfg, log: cfg.Logger, now: cfg.Now,
		lookups: semaphore.NewWeighted(maxLookups), arrivals: semaphore.NewWeighted(maxLookups),
		signer: signer{ring: cfg.Ring, now: cfg.Now},
	}
	c.own = &auth.Own{
		Keys:    func() *auth.PublicKeys { return c.signer.keys().public },
		Revoked: c.ended.has, OpenSealed: c.openCarried, TokenOf: c.providerToken,
	}
	c.unreached.Store(&map[string]Unreached{})
	c.registry = clients.NewRegistry(clients.Config{
		Ring: cfg.Ring, Store: cfg.Store, Documents: cfg.Documents, Now: cfg.Now,
		Fixed: func() []clients.Fixed { return cfg.Settings().Clients },
		Open:  func() clients.Registration { return cfg.Settings().Registration },
	})
	return &Server{c}
}

// Run learns of families that other replicas have ended, counts families, and looks
// whether providers answer, until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	var others sync.WaitGroup // what may take long
	others.Go(func() {
		s.core.reachAll(ctx)
		pace.Every(ctx, reachEvery, s.core.reachAll)
	})
	others.Go(func() {
		s.countFamilies(ctx)
		pace.Every(ctx, countEvery, s.countFamilies)
	})
	defer others.Wait()
	learn := func(ctx context.Context) { _ = s.Learn(ctx) } // the next one tries again
	learn(ctx)
	pace.Every(ctx, pollEvery, learn) // an end holds within a second, over a slow store too
	return nil
}

// Learn learns once of families that other processes have ended. It is for who does not
// Run, and is not called beside it.
func (s *Server) Learn(ctx context.Context) error { return s.core.pollEnded(ctx) }

// Learned tells whether it was learnt once which families have ended. Before that, the
// tokens of all are taken.
func (s *Server) Learned() bool { return s.core.ended.families.Load() != nil }

// countEvery is how often families are counted for the metrics.
const countEvery = 30 * time.Second

// countFamilies tells the metrics how many families there are. While the store is away
// the last count stands.
func (s *Server) countFamilies(ctx context.Context) {
	if counts, err := s.core.config.Store.Count(ctx, familyKind); err == nil {
		s.core.config.Records.Families(counts)
	}
}

// Issuers returns what a verifier needs to know of the tokens of this server under
// settings: an issuer for each of its addresses. tenants are all that there are.
func (s *Server) Issuers(settings Settings, tenants []string) []auth.Issuer {
	root := address{settings, ""}
	origins := []string{root.issuer()} // for clients that have tokens of their own
	for _, l := range settings.Logins {
		origins = append(origins, l.Provider.Issuer())
	}
	made := make([]auth.Issuer, 0, len(tenants)+1)
	for _, tenant := range append([]string{""}, tenants...) {
		a := address{settings, tenant}
		issuer := auth.Issuer{
			Issuer: a.issuer(), Algorithms: []string{"EdDSA"}, Audiences: []string{a.resource()},
			Tenant: tenant, NameClaim: "name", SpeaksFor: origins, MaxLifetime: tokenLife, Own: s.core.own,
			KeepClaims: settings.KeepClaims, KeepToken: settings.KeepTokens,
		}
		if tenant == "" {
			issuer.TenantClaim, issuer.TenantsAllowed = tenantClaim, tenants
		}
		made = append(made, issuer)
	}
	return made
}

// SignOut ends all families of a person, and returns how many these were. The person is
// named as rules do it: by the issuer and its subject.
func (s *Server) SignOut(ctx context.Context, issuer, subject string) (int, error) {
	return s.core.endAll(ctx, store.Query{Kind: familyKind, Owner: owner(issuer, subject)}, signedOut,
		func(r store.Record) string { return r.ID }, nil)
}
