package signin

import (
	"context"
	"log/slog"
	"net/url"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// request is what a client sends to the token endpoint.
type request struct {
	form   url.Values
	client credentials
}

// tokens are what a client gets.
type tokens struct {
	access, refresh string // refresh: "" for none
	scopes          []string
}

// tokensOf returns tokens of a family that is live. wanted narrows the scopes.
func (s *core) tokensOf(f *family, wanted []string) (tokens, error) {
	at := address{s.config.Settings(), f.Ask.Tenant}
	made := tokens{refresh: f.token(), scopes: f.scopes(at.settings.Scopes, wanted)}
	extra := map[string]any{
		auth.OriginClaim: f.Issuer, auth.FamilyClaim: f.ID, tenantClaim: f.Tenant,
		"client_id": f.Ask.Client.Short(), "name": f.Name,
	}
	if spare := f.spare(at.settings.Scopes, made.scopes); len(spare) > 0 {
		extra[auth.SpareClaim] = strings.Join(spare, " ")
	}
	var err error
	if len(f.Carried) > 0 {
		if extra[auth.SealedClaim], err = s.sealCarried(f); err != nil {
			return tokens{}, err
		}
	}
	made.access, err = s.signer.sign(at, auth.Claims{Subject: f.Subject, Extra: extra}, made.scopes)
	return made, err
}

// suspect ends a family whose code or token somebody has who should not, and returns what
// that one is told.
func (s *core) suspect(ctx context.Context, f *family, reason string) error {
	if err := s.end(ctx, f, reason); err != nil {
		return err
	}
	s.log.LogAttrs(ctx, slog.LevelWarn, "a sign-in was ended because its code or token may be stolen",
		append(f.attrs(), slog.String("reason", reason))...)
	return errGrant
}
