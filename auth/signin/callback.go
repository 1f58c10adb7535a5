package signin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
	"github.com/drawbridge-mcp/drawbridge/auth/signin/pages"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
)

// callback is where a provider sends the browser back to. Each provider has its own, so
// that the answer of one is never taken for another's.
// https://www.rfc-editor.org/rfc/rfc9700#section-4.4.2
func (s *core) callback(x *exchange) error {
	query, err := url.ParseQuery(x.request.URL.RawQuery)
	if err != nil || repeated(query) {
		return newProblem(http.StatusBadRequest, pages.BadRequest, "query")
	}
	t, ok := s.resumed(x, query.Get("state"))
	if !ok {
		return s.returnedBefore(x, query.Get("state"))
	}
	x.dropCookie(cookiePrefix + t.ID)
	x.at = address{x.at.settings, t.Tenant}
	return s.leadingBack(t.ask, s.returned(x, &t, query))
}

// returnedBefore answers a person who comes back from a provider once more, as after a
// double click there, with the page that the first click has led to. The code that comes
// along is not redeemed: a state is good for once, since not every provider binds its
// codes to it by PKCE or a nonce, and a provider that is asked twice for one code revokes
// what it gave for it.
// https://www.rfc-editor.org/rfc/rfc9700#section-2.1
func (s *core) returnedBefore(x *exchange, state string) error {
	id, _, _ := strings.Cut(state, ".")
	family, err := x.request.Cookie(returnedPrefix + id)
	if err != nil {
		return newProblem(http.StatusBadRequest, pages.OtherBrowser, "other_browser")
	}
	x.redirect("/consent?id=" + url.QueryEscape(family.Value))
	return nil
}

// returned takes in a person who comes back from the provider of an attempt.
func (s *core) returned(x *exchange, t *attempt, query url.Values) error {
	login := x.at.login(t.Provider)
	switch {
	case login == nil:
		return newProblem(http.StatusBadRequest, pages.OtherBrowser, "provider_gone")
	case query.Has("error"):
		return s.sentBack(x, t, query)
	}
	id, err := asking(x.request.Context(), s.arrivals, func(ctx context.Context) (Identity, error) {
		return login.Provider.Exchange(ctx, s.towards(t), query.Get("code"), query.Get("iss"))
	})
	if err != nil {
		return s.providerFailed(x, t.Provider, err)
	}
	person, err := login.Claims.Read(id.Claims)
	if err != nil {
		return s.noAccess(x, t, person, err)
	}
	if t.Tenant != "" {
		chosen, ok := person.At(t.Tenant)
		if !ok {
			return s.noAccess(x, t, person, errOtherTenant)
		}
		person = chosen
	}
	s.config.Records.SignedIn(t.Provider, "ok")
	return s.arrived(x, t, person, &id)
}

// denials are the errors by which a provider does not let a person in. Any other is for
// the operator to mend, such as a scope that the provider does not know.
// https://www.rfc-editor.org/rfc/rfc6749#section-4.1.2.1
// https://openid.net/specs/openid-connect-core-1_0.html#AuthError
var denials = []string{
	"access_denied", "login_required", "consent_required", "interaction_required",
	"account_selection_required",
}

// sentBack answers a person whom a provider has sent back with an error. The client
// learns of a denial, or it would go on waiting.
// https://www.rfc-editor.org/rfc/rfc6749#section-4.1.2.1
func (s *core) sentBack(x *exchange, t *attempt, query url.Values) error {
	if code := query.Get("error"); !slices.Contains(denials, code) {
		return s.providerFailed(x, t.Provider, fmt.Errorf("it sent the person back with %q: %q", cut(code),
			cut(query.Get("error_description"))))
	}
	s.config.Records.SignedIn(t.Provider, "denied")
	problem := newProblem(http.StatusForbidden, pages.ProviderDenied, "provider_denied")
	return s.bounce(x, "callback", t.ask, problem, errDenied)
}

// errOtherTenant says that a person is not of the tenant whose address it was.
var errOtherTenant = errors.New("the person is not of the tenant of this address")

// noAccess returns the problem of a person whose claims lead to no tenant at the address,
// and tells the operator which claim it was.
func (s *core) noAccess(x *exchange, t *attempt, person auth.Principal, err error) error {
	s.config.Records.SignedIn(t.Provider, "no_access")
	attrs := []slog.Attr{slog.String("provider", t.Provider), slog.Any("error", err)}
	line := audit.Record{
		Reason: "no_access", Issuer: person.Issuer, Subject: person.Subject, Name: person.Name,
		ClientID: t.Client.Short(),
	}
	if refused, ok := errors.AsType[*auth.Error](err); ok {
		attrs = append(attrs, slog.Any("cause", refused.Err), slog.String("claim", refused.Claim),
			slog.String("found", cut(refused.Found)), slog.Any("expected", refused.Expected))
		line.Issuer, line.Subject, line.Name = refused.Issuer, refused.Subject, refused.Name
		line.Claim, line.Found, line.Expected = refused.Claim, refused.Found, refused.Expected
	}
	s.log.LogAttrs(x.request.Context(), slog.LevelWarn, "a person who signed in has no access", attrs...)
	return &problemError{status: http.StatusForbidden, page: pages.NoAccess, line: line}
}

// cut returns a text that somebody else has chosen, short enough for a line of the log.
func cut(text string) string {
	const most = 128
	return text[:min(len(text), most)]
}

// arrived keeps who a person is until they have consented, and asks them. A client that
// the operator has configured needs no consent, unless the person has to choose a tenant.
func (s *core) arrived(x *exchange, t *attempt, person auth.Principal, id *Identity) error {
	now := s.now()
	f := &family{
		ID: rand.Text(), Stage: stageConsent, Ask: t.ask, Provider: t.Provider,
		Issuer: person.Issuer, Subject: person.Subject, Name: person.Name, Claimed: person.Scopes,
		Tenant: person.TenantID, Tenants: person.Tenants,
		RefreshToken: id.RefreshToken, SessionID: id.SessionID,
		ProviderSubject: id.Subject, SignedIn: now.Unix(), Looked: now.Unix(),
	}
	s.keepToken(f, id)
	ctx := x.request.Context()
	if tooLong := s.keepClaims(f, id); len(tooLong) > 0 {
		s.log.LogAttrs(ctx, slog.LevelWarn, "claims are too long for servers to be told",
			append(f.attrs(), slog.Any("claims", tooLong))...)
	}
	// A logout before the first tokens ends it, too: somebody else may sit before the
	// page.
	if err := s.retry(ctx, func() error { return s.index(ctx, f) }); err != nil {
		return s.consentFailed(x, "logout", err)
	}
	secret := rand.Text()
	f.Secret = clients.DigestOf(secret)
	if t.Client.Kind == clients.Configured && f.Tenant != "" {
		to, err := s.consented(x, f, secret)
		if err != nil {
			return err
		}
		x.redirect(to)
		return nil
	}
	err := s.retry(ctx, func() error { return s.putOwn(ctx, f, now.Add(consentLife)) })
	if err != nil {
		return s.consentFailed(x, "family", err)
	}
	x.setCookie(cookiePrefix+f.ID, secret, consentLife)
	x.setCookie(returnedPrefix+t.ID, f.ID, consentLife)
	// Code and state of the provider leave the address bar here.
	x.redirect("/consent?id=" + f.ID)
	return nil
}
