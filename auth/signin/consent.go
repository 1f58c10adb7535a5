package signin

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
	"github.com/drawbridge-mcp/drawbridge/auth/signin/pages"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

// consent asks a person whether a client may act for her, and takes the answer. It asks
// each time: a consent that was remembered could be used by a page that leads the browser
// through a whole sign-in without the person's doing.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/security_best_practices#confused-deputy-problem
func (s *core) consent(x *exchange) error {
	values := x.request.URL.Query()
	posted := x.request.Method == http.MethodPost
	if posted {
		var ok bool
		if values, ok = x.form(); !ok {
			return newProblem(http.StatusBadRequest, pages.BadRequest, "form")
		}
	}
	f, secret, err := s.pending(x, values.Get("id"))
	if err != nil {
		return err
	}
	if !posted {
		s.askPerson(x, f, secret)
		return nil
	}
	if !s.isOwnForm(x) || !hmac.Equal([]byte(values.Get("proof")), []byte(proofOf(secret, f.ID))) {
		return newProblem(http.StatusForbidden, pages.Refused, "forged_consent")
	}
	x.setCookie(cookiePrefix+f.ID, secret, codeLife) // for a second click
	if values.Get("decision") != "allow" {
		s.denied(x, f)
		return nil
	}
	return s.allowed(x, f, secret, values.Get("tenant"))
}

// pending returns the family that waits for the consent of this very browser, or whose
// code may be on the way, and the secret in the browser's cookie.
func (s *core) pending(x *exchange, id string) (f *family, secret string, err error) {
	cookie, err := x.request.Cookie(cookiePrefix + id)
	if len(id) != idSize || err != nil {
		return nil, "", newProblem(http.StatusBadRequest, pages.OtherBrowser, "other_browser")
	}
	ctx := x.request.Context()
	err = s.retry(ctx, func() (err error) { f, err = s.family(ctx, id); return err })
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, "", newProblem(http.StatusBadRequest, pages.OtherBrowser, "consent_expired")
	case err != nil:
		return nil, "", s.away(x, "family", err)
	case f.Stage == stageConsent && isDigest(f.Secret, cookie.Value),
		f.Stage == stageCode && isDigest(f.Secret, codeOf(cookie.Value, f.ID)):
		x.at = address{x.at.settings, f.Ask.Tenant}
		return f, cookie.Value, nil
	case f.Stage != stageConsent:
		return nil, "", newProblem(http.StatusConflict, pages.AlreadyDone, "already_done")
	}
	return nil, "", newProblem(http.StatusBadRequest, pages.OtherBrowser, "other_browser")
}

// isOwnForm tells whether a browser sent a form from a page of this server. Its pages
// send no Referer, and with that the origin is null.
// https://fetch.spec.whatwg.org/#origin-header
func (s *core) isOwnForm(x *exchange) bool {
	origin, site := x.request.Header.Get("Origin"), x.request.Header.Get("Sec-Fetch-Site")
	own := origin == "" || origin == "null" || origin == x.at.settings.PublicURL
	return own && (site == "" || site == "same-origin")
}

// proofOf returns what a form must bring along, for the secret in the browser's cookie. A
// page of another site can have the browser send the cookie, but does not know the proof.
func proofOf(secret, id string) string { return derived(secret, "consent "+id) }

// codeOf returns the secret of the code that a browser with that secret brings to the
// client. It is the same however often a person clicks: the browser shows the answer to
// the last click alone.
func codeOf(secret, id string) string { return derived(secret, "code "+id) }

// derived returns a text for one use that nobody finds who does not know the secret.
func derived(secret, use string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(use))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// askPerson shows the page that asks.
func (s *core) askPerson(x *exchange, f *family, secret string) {
	redirect, _ := f.Ask.Client.RedirectOf(f.Ask.Redirect)
	tenants := f.Tenants
	if f.Tenant != "" {
		tenants = []string{f.Tenant}
	}
	pages.Page{Language: x.language(), Consent: &pages.Consent{
		Client:     f.Ask.Client.Name,
		Host:       f.Ask.Client.Host,
		Redirect:   redirect.Host,
		Local:      redirect.Local,
		AnyProgram: f.Ask.Client.Localhost,
		Person:     cmp.Or(f.Name, f.Subject),
		Tenants:    tenants,
		Scopes:     f.scopes(x.at.settings.Scopes, nil),
		All:        len(f.Ask.Scopes) == 0,
		Action:     "/consent",
		ID:         f.ID,
		Proof:      proofOf(secret, f.ID),
	}}.Write(x)
}

// denied ends a family that the person does not want, and sends the browser back.
func (s *core) denied(x *exchange, f *family) {
	s.refused(x, "consent", f.record("forbidden", "denied"), nil)
	_ = s.config.Store.Delete(x.request.Context(), familyKind, f.ID) // else it expires
	pages.Page{
		Language: x.language(), Move: &pages.Move{To: s.faultURL(f.Ask, errDenied), Denied: true},
	}.Write(x)
}

// allowed gives the client its code by way of the browser. The answer to the form is a
// page: of a redirect, browsers would hold the client's own next hop against the policy.
func (s *core) allowed(x *exchange, f *family, secret, tenant string) error {
	if f.Tenant == "" {
		if !slices.Contains(f.Tenants, tenant) {
			return newProblem(http.StatusBadRequest, pages.Refused, "no_tenant_chosen")
		}
		f.Tenant = tenant
	}
	to, err := s.consented(x, f, secret)
	if err != nil {
		return err
	}
	pages.Page{Language: x.language(), Move: &pages.Move{To: to}}.Write(x)
	return nil
}

// consented makes a family wait for its client, and returns where the browser with that
// secret goes, with the code that the client brings.
func (s *core) consented(x *exchange, f *family, secret string) (to string, err error) {
	ctx, code := x.request.Context(), codeOf(secret, f.ID)
	to = s.answerURL(f.Ask, url.Values{"code": {f.ID + "." + code}})
	if f.Stage == stageCode { // a second click
		return to, nil
	}
	f.Stage, f.Secret = stageCode, clients.DigestOf(code)
	f.Until = s.now().Add(codeLife).Unix()
	err = s.retry(ctx, func() error {
		if err := s.registry.Keep(ctx, f.Ask.Client, f.Tenant, owner(f.Issuer, f.Subject)); err != nil {
			return err
		}
		// The record outlives its code, so that a code that comes twice is noticed.
		return s.putOwn(ctx, f, s.now().Add(10*codeLife))
	})
	if err != nil {
		return "", s.consentFailed(x, "consent", err)
	}
	s.config.Audit(ctx, f.record("ok", "consented"))
	s.endSurplus(ctx, f)
	return to, nil
}

// consentFailed returns the problem of a person of whom something could not be kept, as
// what says.
func (s *core) consentFailed(x *exchange, what string, err error) error {
	switch {
	case errors.Is(err, store.ErrConflict): // another page of the same came first
		return newProblem(http.StatusConflict, pages.AlreadyDone, "already_done")
	case errors.Is(err, store.ErrFull):
		return newProblem(http.StatusServiceUnavailable, pages.TooMany, "full")
	}
	return s.away(x, what, err)
}
