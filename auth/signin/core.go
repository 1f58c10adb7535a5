package signin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

// Config is what a Server needs. Every field is required.
type Config struct {
	Ring      *seal.Ring // seals what clients and browsers carry; its keys give those that sign
	Store     store.Store
	Documents *http.Client // for documents of clients; of internal/dial, for public addresses only
	// IsTenant tells whether a text has the form of a tenant id.
	IsTenant func(id string) bool
	Settings func() Settings // what a reload may change; must be cheap
	Logger   *slog.Logger
	Records  Recorder
	// Audit puts a line about what was done on record. It tells whether the log is to
	// have a line, too: of what strangers do there may be too many. It is not called for
	// one request by several goroutines at a time.
	Audit func(context.Context, audit.Record) (logged bool)
	// Changed is called when families have ended, so that what is open is judged again.
	// It returns soon.
	Changed func()
	Now     func() time.Time

	// How long a token request is held while the store or the provider is away.
	Hold time.Duration
}

// UsualHold is the usual Hold.
const UsualHold = 6 * time.Second

// Recorder counts what happens. It is safe for concurrent use.
type Recorder interface {
	// SignedIn counts a way through a provider. outcome is ok, or why it failed.
	SignedIn(provider, outcome string)
	// SignInRefused counts a request that was refused, by endpoint and reason.
	SignInRefused(endpoint, reason string)
	// ClientRegistered counts a client that has registered itself.
	ClientRegistered()
	// TokenIssued counts an access token, by the grant.
	TokenIssued(grant string)
	// FamilyEnded counts a family of tokens that has ended before its time, by the
	// reason.
	FamilyEnded(reason string)
	// Families is told how many families there are, by tenant.
	Families(byTenant map[string]int)
	// Providers is told which providers answer, by name.
	Providers(up map[string]bool)
}

// core is what all parts of a Server have in common. It is safe for concurrent use.
type core struct {
	config   Config
	registry *clients.Registry
	log      *slog.Logger
	now      func() time.Time
	signer   signer
	own      *auth.Own // what verifies tokens of the signer; always the same
	ended    ended
	// the providers that do not answer, by name; replaced whole, never nil
	unreached atomic.Pointer[map[string]Unreached]
	// bound the questions to providers under way: who somebody is that is signed in, and
	// who somebody is that comes back from there, whom anybody can send
	lookups, arrivals *semaphore.Weighted
	telling           sync.Mutex // held while the end of a family is put on record
}

const (
	tokenLife    = 15 * time.Minute // of an access token
	attemptLife  = 10 * time.Minute // from the first page to the answer of the provider
	consentLife  = 10 * time.Minute
	codeLife     = time.Minute
	familyIdle   = 30 * 24 * time.Hour // since the last use, of a family whose person can be looked up
	unseenLife   = 8 * time.Hour       // of a family whose person cannot be looked up again
	providerTime = 10 * time.Second    // for one question to a provider
	maxLookups   = 128                 // questions to providers at once, of each of two sorts
	maxFamilies  = 100                 // of one person; then the one that would end first ends
	maxQuery     = 8 << 10             // bytes of a query
	maxForm      = 32 << 10            // bytes of a form or registration
)

// retry calls do until it does not fail any more in a way that may pass, or until the
// hold of the config is over. Of the errors that pass it returns the last one.
func (s *core) retry(ctx context.Context, do func() error) error {
	end := s.now().Add(s.config.Hold)
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		err := do()
		if err == nil || !isPassing(err) || !s.now().Add(wait).Before(end) {
			return err
		}
		if !pace.Wait(ctx, wait) {
			return err
		}
	}
}

const (
	retryFirst = 50 * time.Millisecond
	retryMost  = time.Second
)

// isPassing tells whether an error may be gone if the same is tried again.
func isPassing(err error) bool {
	_, refused := errors.AsType[*fault](err)
	return !refused && !errors.Is(err, store.ErrFull) && !errors.Is(err, store.ErrConflict) &&
		!errors.Is(err, store.ErrNotFound) &&
		!errors.Is(err, ErrSignInAgain) && !errors.Is(err, ErrUnanswered) &&
		!errors.Is(err, ErrClientRefused) && !errors.Is(err, clients.ErrUnknown)
}

// errBusy says that too many questions to providers are under way.
var errBusy = errors.New("too many questions to providers are under way")

// asking calls ask with a bound of time, unless there is no place among those who ask.
func asking(ctx context.Context, places *semaphore.Weighted, ask func(context.Context) (Identity, error)) (
	Identity, error,
) {
	if !places.TryAcquire(1) {
		return Identity{}, errBusy
	}
	defer places.Release(1)
	ctx, cancel := context.WithTimeout(ctx, providerTime)
	defer cancel()
	return ask(ctx)
}
