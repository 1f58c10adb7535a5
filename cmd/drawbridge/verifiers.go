package main

import (
	"context"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/provider"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/metrics"
)

// verifiers holds the verifier of the config in force, which checks the tokens of
// callers. A reload that does not touch the issuers keeps the verifier, with the key sets
// that it has fetched: otherwise every change of any setting would make all logins depend
// on whether the issuers answer at that moment.
//
// It is safe for concurrent use: verify takes no lock, so that callers do not wait for a
// reload.
type verifiers struct {
	current atomic.Pointer[auth.Verifier]
	log     *slog.Logger
	storage keySetStorage // of key sets that outlive the process
	changed func()        // called when judge may judge otherwise than before, by any goroutine; returns soon

	changing sync.Mutex      // guards the fields below; held while one verifier takes the place of another
	known    []config.Issuer // the issuers of the present verifier
	running  *task           // the Run of the present verifier; nil before start
}

// newVerifiers returns verifiers with one for these issuers. Key sets are fetched only
// after start. The function changed is called whenever other keys or other issuers count
// than before; see judge.
func newVerifiers(issuers []config.Issuer, storage keySetStorage, log *slog.Logger,
	changed func(),
) (*verifiers, error) {
	v := &verifiers{known: issuers, storage: storage, log: log, changed: changed}
	verifier, err := v.verifier(issuers)
	if err != nil {
		return nil, err
	}
	v.current.Store(verifier)
	return v, nil
}

// verify checks a token with the present verifier, and returns who the caller is. Where a
// reload has put another one in place meanwhile, that one judges what the first refused:
// a caller that waited for a key set would be refused only because its fetch was ended.
func (v *verifiers) verify(ctx context.Context, token string) (auth.Principal, error) {
	for {
		present := v.current.Load()
		p, err := present.Verify(ctx, token)
		if err == nil || present == v.current.Load() {
			return p, err
		}
	}
}

// recheck returns nil if the token from which p was made, by this verifier or by one
// before it, would be accepted now. Otherwise the error is an *auth.Error that says why
// not. It does not wait.
func (v *verifiers) recheck(p auth.Principal) error {
	return v.current.Load().Recheck(p)
}

// start runs the present verifier until ctx ends, another takes its place, or wait is
// called. It is called once, before replace and wait.
func (v *verifiers) start(ctx context.Context) {
	v.changing.Lock()
	defer v.changing.Unlock()
	v.running = startTask(ctx, v.current.Load().Run)
}

// tellKeySets tells the metrics how it fares to fetch the keys of issuers.
func tellKeySets(sets []auth.KeySet, tell metrics.Tell) {
	for _, set := range sets {
		failing := 0.0
		if !set.Failing.IsZero() {
			failing = time.Since(set.Failing).Truncate(time.Second).Seconds()
		}
		tell(set.Issuer, metrics.OneIf(!set.Until.IsZero()), failing)
	}
}

// replace puts next in the place of the present verifier, unless the issuers are the
// same; then next is dropped. The new one is in use before the old one stops, so that no
// caller finds none. In both cases all key sets are fetched at once, and nobody waits for
// that: a reload is how an operator says that something has changed. It is called after
// start.
func (v *verifiers) replace(ctx context.Context, issuers []config.Issuer, next *auth.Verifier) {
	v.changing.Lock()
	defer v.changing.Unlock()
	if reflect.DeepEqual(issuers, v.known) {
		v.current.Load().Refresh()
		return
	}
	next.Adopt(v.current.Load())
	before := v.running
	v.current.Store(next)
	v.known, v.running = issuers, startTask(ctx, next.Run)
	before.stop()
	v.changed()
}

// wait ends the present verifier and waits for it. Its caller has ended the context given
// to start and replace, so that a verifier which a late reload puts in place ends at
// once.
func (v *verifiers) wait() {
	v.changing.Lock()
	defer v.changing.Unlock()
	v.running.stop()
}

// verifier returns a verifier for the issuers, for replace.
func (v *verifiers) verifier(issuers []config.Issuer) (*auth.Verifier, error) {
	return auth.New(auth.Config{
		Issuers: withKeySets(issuers), Logger: v.log, Changed: v.changed, Store: v.storage.forVerifier(),
	})
}

// withKeySets returns issuers with how their key sets are fetched. Entries of one issuer
// have one key set, which may be at a private address if one of them says so.
func withKeySets(issuers []config.Issuer) []auth.Issuer {
	all := make([]auth.Issuer, len(issuers))
	for i, iss := range issuers {
		iss.PrivateAddresses = slices.ContainsFunc(issuers, func(other config.Issuer) bool {
			return other.Issuer.Issuer == iss.Issuer.Issuer && other.PrivateAddresses
		})
		all[i] = withKeySet(iss)
	}
	return all
}

// withKeySet returns an issuer with how its key set is fetched, if it is fetched. Each
// has a client of its own, so that the permission of one issuer to be at a private
// address opens the internal network to no other. With another permission it is another
// place: what an address in the internal network has said must not count once that is
// forbidden.
func withKeySet(iss config.Issuer) auth.Issuer {
	if iss.JWKSURL == "" {
		return iss.Issuer
	}
	iss.Place = strconv.Quote(iss.Issuer.Issuer) + strconv.Quote(iss.JWKSURL) +
		strconv.FormatBool(iss.PrivateAddresses)
	client := dial.Client(dial.Config{PrivateAddresses: iss.PrivateAddresses})
	iss.Fetch = func(ctx context.Context) ([]byte, error) {
		if iss.Discover {
			return provider.FetchKeySet(ctx, client, iss.Issuer.Issuer, iss.PrivateAddresses)
		}
		return auth.FetchKeySet(ctx, client, iss.JWKSURL)
	}
	return iss.Issuer
}
