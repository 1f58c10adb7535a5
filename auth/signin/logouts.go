package signin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

// logout ends what a person has who has signed out at the provider.
// https://openid.net/specs/openid-connect-backchannel-1_0.html#BCResponse
func (s *core) logout(x *exchange) error {
	login := x.at.login(x.name)
	form, ok := x.form()
	var verifier LogoutVerifier
	if login != nil {
		verifier, _ = login.Provider.(LogoutVerifier)
	}
	if !ok || verifier == nil {
		return errRepeated
	}
	ctx := context.WithoutCancel(x.request.Context())
	brief, cancel := context.WithTimeout(ctx, providerTime)
	defer cancel()
	said, err := verifier.VerifyLogout(brief, form.Get("logout_token"))
	if err != nil || said.Subject == "" && said.SessionID == "" {
		return &fault{
			code: "invalid_request", says: "the logout token is not fit", reason: "logout_token",
			tell: func() {
				s.log.LogAttrs(ctx, slog.LevelWarn, "a logout of a provider was not believed",
					slog.String("provider", x.name), slog.Any("error", err))
			},
		}
	}
	// Held for as long as any other, because most providers do not come again.
	err = s.retry(ctx, func() error { return s.loggedOut(ctx, login.Provider.Issuer(), said) })
	if err != nil {
		return err
	}
	x.WriteHeader(http.StatusOK)
	return nil
}

// loggedOut ends the families of a session of the provider or, if it names none, all of
// the person. Who has signed in after the logout stays: a logout token that comes twice,
// or late, ends nothing new.
func (s *core) loggedOut(ctx context.Context, issuer string, said Logout) error {
	key := "sub\x00" + said.Subject
	if said.SessionID != "" {
		key = "sid\x00" + said.SessionID
	}
	query := store.Query{Kind: indexKind, Owner: owner(issuer, key)}
	_, err := s.endAll(ctx, query, "logged_out", func(r store.Record) string { return string(r.Value) },
		func(f *family) bool { return atTime(f.SignedIn).After(said.Issued.Add(clockSkew)) })
	return err
}

// indexKind is the kind of records that lead from what a provider calls a session or a
// person to families. In rules, the person may have another name.
const indexKind = "logout"

// index notes how the provider would name the family, if it tells of logouts. What was
// noted before is written anew, to expire after the family: one without tokens yet
// expires within halfwayLife.
func (s *core) index(ctx context.Context, f *family) error {
	login := address{s.config.Settings(), f.Tenant}.login(f.Provider)
	if login == nil {
		return nil
	}
	if _, tells := login.Provider.(LogoutVerifier); !tells {
		return nil
	}
	now := s.now()
	until := f.expires(now)
	switch {
	case f.Stage != stageActive:
		until = now.Add(halfwayLife)
	case f.RefreshToken != "":
		until = until.Add(indexAgain)
	}
	for name, key := range map[string]string{"sub": f.ProviderSubject, "sid": f.SessionID} {
		if key == "" {
			continue
		}
		known, err := s.config.Store.Get(ctx, indexKind, name+"."+f.ID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		_, err = s.config.Store.Put(ctx, store.Record{
			Kind: indexKind, ID: name + "." + f.ID, Tenant: f.Tenant, Owner: owner(f.Issuer, name+"\x00"+key),
			Expires: until, Value: []byte(f.ID), Version: known.Version,
		})
		if err != nil && !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	f.Indexed = now.Unix()
	return nil
}

// indexDue tells whether a family is to be noted again, lest what is noted expires first.
func (f *family) indexDue(now time.Time) bool { return now.Sub(atTime(f.Indexed)) >= indexAgain }

// unindex removes what was noted of a family that has ended. A person may have but so
// many families; what is noted of all that ever were would fill the tenant's share of the
// store.
func (s *core) unindex(ctx context.Context, f *family) {
	for _, name := range []string{"sub", "sid"} {
		_ = s.config.Store.Delete(ctx, indexKind, name+"."+f.ID) // else it expires
	}
}

const (
	indexAgain  = 3 * 24 * time.Hour        // after which a family in use is noted again
	halfwayLife = consentLife + 10*codeLife // from the provider's answer to the first tokens
	clockSkew   = 30 * time.Second          // how much the clock of a provider may be behind
)
