package signin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
)

// token gives out tokens.
// https://www.rfc-editor.org/rfc/rfc6749#section-3.2
func (s *core) token(x *exchange) error {
	form, ok := x.form()
	if !ok {
		return errRepeated
	}
	given, err := s.credentials(x.request, form)
	if err != nil {
		return err
	}
	q := &request{form, given}
	// What was begun is brought to its end though the client leaves: a token of the
	// provider that was used up must not be lost with it.
	ctx := context.WithoutCancel(x.request.Context())
	grant := form.Get("grant_type")
	var made tokens
	switch grant {
	case "authorization_code":
		made, err = s.redeem(ctx, x.at, q)
	case "refresh_token":
		made, err = s.refresh(ctx, x.at, q)
	case "client_credentials":
		made, err = s.ownTokens(ctx, x.at, q)
	default:
		err = &fault{
			code: "unsupported_grant_type",
			says: "codes, refresh tokens and client credentials are taken",
		}
	}
	if err != nil {
		return s.blame(ctx, q, err)
	}
	s.config.Records.TokenIssued(grant)
	x.Header().Set("Pragma", "no-cache")
	return x.writeJSON(http.StatusOK, tokenAnswer{
		Access: made.access, Type: "Bearer", Expires: int(tokenLife.Seconds()), Refresh: made.refresh,
		Scope: strings.Join(made.scopes, " "),
	})
}

// tokenAnswer is what a client reads that gets tokens.
// https://www.rfc-editor.org/rfc/rfc6749#section-5.1
type tokenAnswer struct {
	Access  string `json:"access_token"`
	Type    string `json:"token_type"`
	Expires int    `json:"expires_in"` // seconds
	Refresh string `json:"refresh_token,omitzero"`
	Scope   string `json:"scope,omitzero"`
}

// blame turns the refusal of a client that is not known into the error after which
// clients register again: some never would, and repeat their old id for ever.
func (s *core) blame(ctx context.Context, q *request, err error) error {
	if !errors.Is(err, errGrant) && !errors.Is(err, errUnauthorized) {
		return err
	}
	known, away := s.registry.Known(ctx, q.client.id)
	if away != nil || known {
		return err
	}
	return errClient
}

// ownTokens gives a client that the operator has configured a token of its own. In rules
// it is the user of that name whom this gateway itself knows. One that has no scopes asks
// for those of others all the same, because it is told of them.
// https://www.rfc-editor.org/rfc/rfc6749#section-4.4
func (s *core) ownTokens(ctx context.Context, at address, q *request) (tokens, error) {
	c := q.client.fixed
	if c == nil || c.Secret == "" || !c.Has("client_credentials") ||
		at.tenant != "" && at.tenant != c.Tenant {
		return tokens{}, errUnauthorized
	}
	if f := judgeResource(at, q.form); f != nil {
		return tokens{}, f
	}
	scopes := c.Scopes
	if asked := strings.Fields(q.form.Get("scope")); len(asked) > 0 && len(scopes) > 0 {
		scopes = slices.DeleteFunc(slices.Clone(c.Scopes), func(scope string) bool {
			return !slices.Contains(asked, scope)
		})
		if len(scopes) == 0 {
			return tokens{}, errScope
		}
	}
	access, err := s.signer.sign(at, auth.Claims{Subject: c.ID, Extra: map[string]any{
		auth.OriginClaim: address{at.settings, ""}.issuer(), tenantClaim: c.Tenant, "client_id": c.ID,
	}}, scopes)
	if err == nil {
		s.config.Audit(ctx, audit.Record{
			TenantID: c.Tenant, Issuer: address{at.settings, ""}.issuer(), Subject: c.ID, ClientID: c.ID,
			Outcome: "ok", Reason: "client_credentials",
		})
	}
	return tokens{access: access, scopes: scopes}, err
}
