package signin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

const (
	// For how long the word of a provider serves all refreshes of a family: those that
	// came together, at whichever replica, are answered by one question.
	freshAnswer = 20 * time.Second
	maxTries    = 100 // changes of a family by others during one refresh
	// for one write, as the store of several replicas bounds it
	storeTime = 5 * time.Second
)

// askingTime is for how long a replica has the family to itself that asks the provider:
// as long as it may take to write that it asks, to ask, and to write the answer, which is
// tried again, the last time just before Hold is over. One that dies meanwhile holds up
// nobody for longer.
func (s *core) askingTime() time.Duration {
	return storeTime + providerTime + s.config.Hold + storeTime
}

// errOther says that another request or replica is at work on the family.
var errOther = errors.New("another request is at work on the family")

// refresh gives new tokens for a refresh token. The present one is spent thereby. One
// that was spent lately is answered with the present one: clients share what they keep
// between windows, lose answers, and come back with what they had. A token that was spent
// longer ago, or that another client brings, was taken by somebody: then the family ends.
//
// A request that meets the store or the provider away waits for them as long as is
// allowed, because many clients sign in again after any error.
// https://www.rfc-editor.org/rfc/rfc9700#section-4.14.2
func (s *core) refresh(ctx context.Context, at address, q *request) (tokens, error) {
	p, ok := readToken(q.form.Get("refresh_token"))
	if !ok {
		return tokens{}, errGrant
	}
	// Clients ask here for what they asked at authorize for, out of habit.
	wanted, unknown := scopesAsked(at.settings.Scopes, q.form.Get("scope"))
	if unknown != nil {
		return tokens{}, unknown
	}
	f, err := s.settled(ctx, func() (*family, error) { return s.refreshOnce(ctx, at, q, p) })
	if err != nil {
		return tokens{}, err
	}
	if err := s.registry.Used(ctx, f.Ask.Client.Digest); err != nil {
		s.log.LogAttrs(ctx, slog.LevelDebug, "the use of a client was not noted", slog.Any("error", err))
	}
	return s.tokensOf(f, wanted)
}

// settled calls do again, which reads the family anew, while others change it, and while
// what it needs is away. Who ends a family has to go on until it has ended: replicas are
// told first, and would refuse the access tokens of one that lives on.
func (s *core) settled(ctx context.Context, do func() (*family, error)) (f *family, err error) {
	tries := 0
	err = s.retry(ctx, func() (err error) {
		for ; tries < maxTries; tries++ {
			if f, err = do(); !errors.Is(err, store.ErrConflict) {
				return err
			}
		}
		return err
	})
	return f, err
}

// refreshOnce is refresh without a second try. The error is store.ErrConflict if others
// have changed the family meanwhile, and errOther while one of them asks the provider.
func (s *core) refreshOnce(ctx context.Context, at address, q *request, p presented) (*family, error) {
	f, err := s.family(ctx, p.family)
	if errors.Is(err, store.ErrNotFound) {
		return nil, errGrant
	}
	if err != nil {
		return nil, err
	}
	if err := s.mayRefresh(ctx, at, q, f, p); err != nil {
		return nil, err
	}
	if !s.leads(f) {
		return nil, s.lost(ctx, f, "provider_gone")
	}
	now := s.now()
	if f.RefreshToken != "" && now.Sub(atTime(f.Looked)) >= freshAnswer {
		if now.Before(atTime(f.Asking)) {
			return nil, errOther
		}
		if f.indexDue(now) {
			_ = s.index(ctx, f) // the next refresh tries again
		}
		if err := s.askProvider(ctx, f); err != nil {
			return nil, err
		}
	}
	rotated := p.generation == f.Generation && f.rotate(now, at.settings.spentWindow())
	if !rotated && f.Asking == 0 { // a token that was spent before is answered without a trace
		return f, nil
	}
	f.Asking = 0
	// What the provider has said is not to be had again: it may have taken its refresh
	// token and given another.
	return f, s.retry(ctx, func() error { return s.put(ctx, f, f.expires(now)) })
}

// leads tells whether the config still leads from the provider of a family to its tenant.
// People who cannot be looked up would else go on until their family ends by itself.
func (s *core) leads(f *family) bool {
	return slices.ContainsFunc(s.config.Settings().Logins, func(l Login) bool {
		return l.Provider.Name() == f.Provider && slices.Contains(l.Tenants, f.Tenant)
	})
}

// mayRefresh returns why a token must not be answered. It ends the family if the token
// seems stolen.
func (s *core) mayRefresh(ctx context.Context, at address, q *request, f *family, p presented) error {
	switch {
	case f.Stage != stageActive || !f.made(p) || p.generation > f.Generation:
		return errGrant
	case !q.client.is(f):
		return s.suspect(ctx, f, "other_client")
	case q.client.isGone(f):
		return errClient
	case at.tenant != f.Ask.Tenant:
		return errGrant // another address of ours has other tokens
	case p.generation < f.Generation && !f.spentLately(p.generation, s.now(), at.settings.spentWindow()):
		return s.suspect(ctx, f, "token_replay")
	}
	if fault := judgeResource(at, q.form); fault != nil {
		return fault
	}
	if q.client.fixed != nil && !q.client.fixed.Has("refresh_token") {
		return errUnauthorized
	}
	return nil
}

// askProvider asks the provider who the person is now. First it notes on the family that
// it asks: the provider may take its refresh token but once, and two who ask at a time
// would lose it. After success the family is to be written.
func (s *core) askProvider(ctx context.Context, f *family) error {
	f.Asking = s.now().Add(s.askingTime()).Unix()
	if err := s.put(ctx, f, f.expires(s.now())); err != nil {
		return err
	}
	login := address{s.config.Settings(), f.Tenant}.login(f.Provider)
	if login == nil {
		return s.lost(ctx, f, "provider_gone")
	}
	id, err := asking(ctx, s.lookups, func(ctx context.Context) (Identity, error) {
		return login.Provider.Refresh(ctx, f.RefreshToken)
	})
	switch {
	case errors.Is(err, ErrSignInAgain):
		return s.lost(ctx, f, "provider_refused")
	case err != nil:
		err = fmt.Errorf("provider %s: %w", f.Provider, err)
		f.Asking = 0
		if id.RefreshToken == "" {
			_ = s.put(ctx, f, f.expires(s.now())) // else it ends by itself
			return err
		}
		f.RefreshToken = id.RefreshToken
		return errors.Join(err, s.retry(ctx, func() error { return s.put(ctx, f, f.expires(s.now())) }))
	}
	return s.takeAnswer(ctx, f, login, &id)
}

// takeAnswer takes over what the provider has said.
func (s *core) takeAnswer(ctx context.Context, f *family, l *Login, id *Identity) error {
	f.RefreshToken = cmp.Or(id.RefreshToken, f.RefreshToken)
	s.keepToken(f, id)
	if id.SessionID != "" && id.SessionID != f.SessionID {
		f.SessionID, f.Indexed = id.SessionID, 0
	}
	person, err := l.Claims.Read(id.Claims)
	if refused, is := errors.AsType[*auth.Error](err); is {
		s.log.LogAttrs(ctx, slog.LevelInfo, "a person has lost access",
			append(f.attrs(), slog.String("claim", refused.Claim), slog.Any("cause", refused.Err))...)
		f.unfit = refused
		return s.lost(ctx, f, "no_access")
	}
	s.keepClaims(f, id)
	if !f.take(person, s.now()) {
		return s.lost(ctx, f, "no_access")
	}
	return nil
}

// lost ends a family that nobody has stolen, and returns what its client is told.
func (s *core) lost(ctx context.Context, f *family, reason string) error {
	if err := s.end(ctx, f, reason); err != nil {
		return err
	}
	return errGrant
}
