package signin

import (
	"context"
	"errors"
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

// revoke ends the family of a token that its client does not want any more. A token that
// is none is no error.
// https://www.rfc-editor.org/rfc/rfc7009#section-2.2
func (s *core) revoke(x *exchange) error {
	form, ok := x.form()
	if !ok || form.Get("token") == "" {
		return errRepeated
	}
	client, err := s.credentials(x.request, form)
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(x.request.Context())
	_, err = s.settled(ctx, func() (*family, error) {
		return nil, s.revokeOnce(ctx, client, form.Get("token"))
	})
	if err != nil {
		return err
	}
	x.WriteHeader(http.StatusOK)
	return nil
}

// revokeOnce ends the family of a token, if the token is of the client. One without a
// family goes on, which its client must not take for an end.
// https://www.rfc-editor.org/rfc/rfc7009#section-2.2.1
func (s *core) revokeOnce(ctx context.Context, client credentials, token string) error {
	p, refreshes := readToken(token)
	id := p.family
	if !refreshes {
		family, ours := s.signer.familyOf(token)
		switch {
		case !ours:
			return nil
		case family == "":
			return &fault{code: "unsupported_token_type", says: "a token of a client itself ends by its time"}
		}
		id = family
	}
	f, err := s.family(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	case !client.is(f) || refreshes && !f.made(p):
		return nil
	}
	return s.end(ctx, f, "revoked")
}
