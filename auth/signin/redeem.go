package signin

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"log/slog"
	"regexp"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

// verifierForm is the form of a verifier of PKCE.
// https://www.rfc-editor.org/rfc/rfc7636#section-4.1
var verifierForm = regexp.MustCompile(`^[A-Za-z0-9._~-]{43,128}$`)

// redeem gives the first tokens of a family for its code. A code is good for once: a
// second use ends the family, since one of the two has stolen it, and so does a use by
// somebody who cannot prove to have asked for it.
// https://www.rfc-editor.org/rfc/rfc6749#section-4.1.2
func (s *core) redeem(ctx context.Context, at address, q *request) (tokens, error) {
	id, secret, _ := strings.Cut(q.form.Get("code"), ".")
	if len(id) != idSize {
		return tokens{}, errGrant
	}
	key := newTokenKey()
	f, err := s.settled(ctx, func() (*family, error) { return s.redeemOnce(ctx, at, q, id, secret, key) })
	if err != nil {
		return tokens{}, err
	}
	made, err := s.tokensOf(f, nil)
	if err != nil {
		return tokens{}, err
	}
	s.log.LogAttrs(ctx, slog.LevelInfo, "signed in", f.attrs()...)
	s.config.Audit(ctx, f.record("ok", "signed_in"))
	if c := q.client.fixed; c != nil && !c.Has("refresh_token") {
		made.refresh = ""
	}
	return made, nil
}

// redeemOnce is redeem without a second try. The tokens of the family get the key. That a
// family has it already tells that an earlier try has written it, and that the answer of
// the store was lost.
func (s *core) redeemOnce(ctx context.Context, at address, q *request, id, secret string, key []byte) (
	*family, error,
) {
	now := s.now()
	f, err := s.family(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, errGrant
	case err != nil:
		return nil, err
	case f.Stage != stageCode && f.Stage != stageActive || !isDigest(f.Secret, secret):
		return nil, errGrant
	case q.client.is(f) && q.client.isGone(f):
		return nil, errClient
	case f.Stage == stageActive && hmac.Equal(f.Key, key):
		return f, nil
	case f.Stage == stageActive:
		return nil, s.suspect(ctx, f, "code_replay")
	case !q.client.is(f), q.form.Get("redirect_uri") != f.Ask.Redirect, at.tenant != f.Ask.Tenant,
		!proves(q.form.Get("code_verifier"), f.Ask.Challenge):
		return nil, s.suspect(ctx, f, "code_of_another")
	case !now.Before(atTime(f.Until)):
		return nil, errGrant
	}
	if f := judgeResource(at, q.form); f != nil {
		return nil, f
	}
	f.Stage, f.Key, f.Generation = stageActive, key, 1
	if err := s.index(ctx, f); err != nil {
		return nil, err
	}
	err = s.put(ctx, f, f.expires(now))
	if errors.Is(err, store.ErrConflict) { // another was first
		return nil, errGrant
	}
	return f, err
}

// proves tells whether a verifier belongs to a challenge of S256, which every code has.
func proves(verifier, challenge string) bool {
	sum := sha256.Sum256([]byte(verifier))
	return verifierForm.MatchString(verifier) && base64.RawURLEncoding.EncodeToString(sum[:]) == challenge
}
