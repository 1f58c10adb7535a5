// Package credential answers one question: which headers does a request to a server
// carry, and on whose behalf? It knows files, keys and the endpoints that give tokens. It
// does not know what a request asks for, who may call what, or how a server is spoken to.
//
//	Source.For(caller) ──▶ the kind that the caller's tenant has with this server
//	                         header, token file    read from a file, again when that changes
//	                         client credentials    had from an endpoint, for the gateway itself
//	                         identity              signed here, for each user and client
//	                         token exchange        had from an endpoint for a token of the caller
//	                       ──▶ Headers: headers, ready to be sent
//	Headers.Refused ◀── the server answered 401
//
// A caller's own token goes to the endpoint of a token exchange and nowhere else: no
// other package asks a principal for it, which a test holds. Whatever depends on a caller
// is kept under its owner, and never found under another's.
//
// Read headers.go and credential.go first, then static.go with file.go, identity.go with
// signer.go, and issued.go, which has what endpoints gave, with endpoint.go and
// clientauth.go. cell.go and cache.go keep things for a time, and shared.go keeps them
// for other replicas.
package credential

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// Spec says what requests to a server carry. At most one field is set; none: nothing. It
// is plain data, so that two can be compared.
type Spec struct {
	Header            *Header
	TokenFile         string // of a bearer token; "": another kind
	ClientCredentials *Client
	Identity          *Identity
	Exchange          *Exchange
}

// IsZero tells whether requests carry nothing.
func (s Spec) IsZero() bool { return s == Spec{} }

// Personal tells whether what requests carry depends on the caller.
func (s Spec) Personal() bool { return s.Identity != nil || s.Exchange != nil }

// Names returns the names of the headers that requests carry.
func (s Spec) Names() []string {
	switch {
	case s.Header != nil:
		return []string{s.Header.Name}
	case s.Identity != nil:
		return s.Identity.names()
	case s.Exchange != nil:
		return []string{authorization, requestID, traceparent}
	case s.IsZero():
		return nil
	}
	return []string{authorization}
}

// Header is a header whose value is the content of a file.
type Header struct{ Name, File string }

// authorization is the header of bearer tokens.
const authorization = "Authorization"

// Config is what a Source needs.
type Config struct {
	Server string // its name, for the log
	Spec   Spec   // for the gateway itself, and for tenants that have nothing of their own
	// what a tenant has in place of Spec, by the tenants' ids
	Tenants map[string]Spec
	Client  *http.Client // asks the endpoints; follows no redirect
	Signer  *Signer      // signs identities; nil: there are none
	Issuer  string       // the gateway's own address, as identities and its clients have it
	Now     func() time.Time
	// Shared is where replicas keep what endpoints gave; nil: each asks for itself.
	Shared *Shared
	// Count is called with what became of each credential that was made or asked for.
	// nil: nobody counts.
	Count func(result string)
	// Panicked is called when a goroutine was saved from a panic. nil: nobody counts.
	Panicked func()
	Logger   *slog.Logger
}

// Source makes and keeps the credentials for one server. It is safe for concurrent use. A
// nil Source is one without any.
type Source struct {
	common  kind
	tenants map[string]kind
	life    *life
}

// kind is a way to have credentials. Its methods are safe for concurrent use.
type kind interface {
	// headers returns what a request on behalf of p carries; nil p: of the gateway
	// itself.
	headers(ctx context.Context, p *auth.Principal) (*Headers, error)
	// cached returns what the latest headers for an owner have become, for requests that
	// keep the owner's session.
	cached(ctx context.Context, owner auth.Owner) (*Headers, error)
	// cacheKey returns where things are kept that were had with the credential of p.
	cacheKey(p *auth.Principal) CacheKey
}

// New returns a source. It reads no file and asks nobody yet. Whoever has it calls Close.
func New(cfg Config) *Source {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Count == nil {
		cfg.Count = func(string) {}
	}
	s := &Source{life: newLife(&cfg), tenants: make(map[string]kind, len(cfg.Tenants))}
	s.common = newKind(cfg.Spec, s.life)
	for tenant, spec := range cfg.Tenants {
		s.tenants[tenant] = newKind(spec, s.life)
	}
	return s
}

// newKind returns the kind that a spec names.
func newKind(spec Spec, l *life) kind {
	switch {
	case spec.Header != nil:
		return &fixed{life: l, name: spec.Header.Name, path: spec.Header.File}
	case spec.TokenFile != "":
		return &fixed{life: l, name: authorization, prefix: "Bearer ", path: spec.TokenFile}
	case spec.ClientCredentials != nil:
		return newClientCredentials(spec.ClientCredentials, l).shared(spec.ClientCredentials)
	case spec.Identity != nil:
		return newIdentities(spec.Identity, l)
	case spec.Exchange != nil:
		return newExchanges(spec.Exchange, l)
	}
	return nothing{}
}

// nothing is the kind of a source that gives no headers.
type nothing struct{ impersonal }

var _ kind = nothing{}

func (nothing) headers(context.Context, *auth.Principal) (*Headers, error) { return nil, nil }
func (nothing) cached(context.Context, auth.Owner) (*Headers, error)       { return nil, nil }

// impersonal is what kinds have in common that have the same for all callers.
type impersonal struct{}

func (impersonal) cacheKey(p *auth.Principal) CacheKey { return CacheKey{owner: p.Owner()} }

// For returns what a request on behalf of p carries, nil: nothing. A nil p is the gateway
// itself. Errors are *Error, or that of ctx.
func (s *Source) For(ctx context.Context, p *auth.Principal) (*Headers, error) {
	tenant := ""
	if p != nil {
		tenant = p.TenantID
	}
	return s.of(tenant).headers(ctx, p)
}

// Cached returns what a request carries that keeps a session of an owner alive. It asks
// nobody for anything that needs the owner's token: what For gave last must still be
// good. Where nothing depends on the caller, an owner of whom only the tenant is known
// will do.
func (s *Source) Cached(ctx context.Context, owner auth.Owner) (*Headers, error) {
	return s.of(owner.TenantID).cached(ctx, owner)
}

// CacheKey returns where things are kept that were had with the credential of p: no other
// user, and no other credential of that user, finds them there.
func (s *Source) CacheKey(p *auth.Principal) CacheKey {
	return s.of(p.TenantID).cacheKey(p)
}

// Personal tells whether what requests of the tenant carry depends on who calls.
func (s *Source) Personal(tenant string) bool {
	if s == nil {
		return false
	}
	if own, has := s.life.cfg.Tenants[tenant]; has {
		return own.Personal()
	}
	return s.life.cfg.Spec.Personal()
}

// Names returns the names of all headers that requests carry, whoever calls. Nobody else
// may set one of them, also where a request does not carry it.
func (s *Source) Names() []string {
	if s == nil {
		return nil
	}
	names := s.life.cfg.Spec.Names()
	for _, spec := range s.life.cfg.Tenants {
		names = append(names, spec.Names()...)
	}
	return names
}

// of returns the kind of a tenant. A nil s gives nothing.
func (s *Source) of(tenant string) kind {
	if s == nil {
		return nothing{}
	}
	if own, has := s.tenants[tenant]; has {
		return own
	}
	return s.common
}

// Close ends whatever is being asked for, and waits for it. No method is called
// afterwards.
func (s *Source) Close() {
	if s != nil {
		s.life.end()
		s.life.work.Wait()
	}
}

// life is what all kinds of one source share: its config, and until when their work goes
// on.
type life struct {
	cfg  *Config
	ctx  context.Context //nolint:containedctx // work here outlives whoever asks for it, and ends with the source
	end  context.CancelFunc
	work sync.WaitGroup // requests under way

	mu     sync.Mutex          // guards the field below
	logged map[Fault]time.Time // when the log last told of each
}

func newLife(cfg *Config) *life {
	ctx, end := context.WithCancel(context.Background())
	return &life{cfg: cfg, ctx: ctx, end: end, logged: map[Fault]time.Time{}}
}

// logInterval is the least time between two log lines of one fault, or an endpoint that
// is away would fill the log.
const logInterval = time.Minute

// tell counts a fault and says it in the log.
func (l *life) tell(err *Error) {
	l.cfg.Count(string(err.Fault))
	now := l.cfg.Now()
	l.mu.Lock()
	recent := now.Sub(l.logged[err.Fault]) < logInterval
	if !recent {
		l.logged[err.Fault] = now
	}
	l.mu.Unlock()
	if !recent && l.cfg.Logger != nil {
		l.cfg.Logger.WarnContext(l.ctx, "no credential for a server", slog.String("server", l.cfg.Server),
			slog.String("reason", string(err.Fault)), slog.String("problem", err.Err.Error()))
	}
}

// panicked counts and logs a panic that a goroutine recovered from, and returns what its
// work ended with.
func (l *life) panicked(problem any) error {
	if l.cfg.Panicked != nil {
		l.cfg.Panicked()
	}
	if l.cfg.Logger != nil {
		l.cfg.Logger.ErrorContext(l.ctx, "panic", slog.Any("problem", problem),
			slog.String("stack", string(debug.Stack())))
	}
	return failed(FaultAway, "a fault of the gateway itself, which its log has")
}
