package signin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

const (
	tokenMargin = time.Minute     // before its end a provider's token is not given out any more
	usualAccess = 5 * time.Minute // for how long a token is good whose provider does not say it
)

// keepToken keeps the access token with which a provider vouches for a person.
func (s *core) keepToken(f *family, id *Identity) {
	f.AccessToken, f.AccessUntil = "", 0
	if !s.config.Settings().KeepTokens || id.AccessToken == "" {
		return
	}
	f.AccessToken = id.AccessToken
	f.AccessUntil = cmp.Or(id.Expiry, s.now().Add(usualAccess)).Unix()
}

// maxCarried bounds the claims of a person in an access token, which must fit a header.
// Those that find no room are left out, as if the provider had not told them.
const maxCarried = 2 << 10 // bytes

// keepClaims keeps what servers are to be told of a person, and returns the names of
// claims that find no room.
func (s *core) keepClaims(f *family, id *Identity) (tooLong []string) {
	f.Carried = map[string]json.RawMessage{}
	left := maxCarried
	for _, c := range auth.Keep(id.Claims, s.config.Settings().KeepClaims) {
		size := len(c.Name) + len(c.Value)
		if size > left {
			tooLong = append(tooLong, c.Name)
			continue
		}
		left -= size
		f.Carried[c.Name] = c.Value
	}
	return tooLong
}

// carriedPurpose separates the claims in access tokens from all else that is sealed.
const carriedPurpose = "signin kept claims"

// sealCarried returns what an access token has of a person's claims for this gateway
// alone.
func (s *core) sealCarried(f *family) (string, error) {
	text, err := strictjson.Marshal(f.Carried)
	if err != nil {
		return "", fmt.Errorf("write the claims of a person: %w", err)
	}
	return s.config.Ring.SealLong(carriedPurpose, text)
}

// openCarried returns what sealCarried was given. It is for tokens whose signature was
// verified.
func (s *core) openCarried(sealed string) []byte {
	// none with a key that has ended; the next token has another
	text, _ := s.config.Ring.OpenLong(carriedPurpose, sealed)
	return text
}

// providerToken returns the access token of the provider of a family. One that is about
// to end is replaced by the refresh token, which one replica sends at a time, as for
// askProvider. The error is auth.ErrSubjectGone if the person has to sign in again.
func (s *core) providerToken(ctx context.Context, id string) (string, error) {
	f, err := s.settled(ctx, func() (*family, error) { return s.vouchedOnce(ctx, id) })
	switch {
	case errors.Is(err, errGrant), errors.Is(err, ErrSignInAgain), errors.Is(err, store.ErrNotFound):
		return "", auth.ErrSubjectGone
	case err != nil:
		return "", fmt.Errorf("read the sign-in: %w", err)
	case f.AccessToken == "":
		return "", auth.ErrSubjectGone
	}
	return f.AccessToken, nil
}

// vouchedOnce is providerToken without a second try, with errors as of refreshOnce.
func (s *core) vouchedOnce(ctx context.Context, id string) (*family, error) {
	f, err := s.family(ctx, id)
	if err != nil {
		return nil, err
	}
	now := s.now()
	switch {
	case f.Stage != stageActive, !s.leads(f):
		return nil, errGrant
	case f.AccessToken != "" && now.Before(atTime(f.AccessUntil).Add(-tokenMargin)):
		return f, nil
	case f.RefreshToken == "":
		return nil, ErrSignInAgain
	case now.Before(atTime(f.Asking)):
		return nil, errOther
	}
	// As at the token endpoint: the call may end, or a reload change the server that it
	// is for, and the provider's next refresh token must not be lost with them.
	ctx = context.WithoutCancel(ctx)
	if err := s.askProvider(ctx, f); err != nil {
		return nil, err
	}
	f.Asking = 0
	given := f.AccessToken
	err = s.retry(ctx, func() error { return s.put(ctx, f, f.expires(now)) })
	f.AccessToken = given // also if it is too long to be kept
	return f, err
}
