package signin

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth/signin/pages"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// exchange is one request on its way through the server.
type exchange struct {
	http.ResponseWriter

	request *http.Request
	at      address
	name    string // of the provider that the path names; "": none
}

// language returns the language of the person's browser.
func (x *exchange) language() pages.Language {
	return pages.LanguageOf(x.request.Header.Get("Accept-Language"))
}

// fail answers with the error of an endpoint: a problem, a fault, or something else that
// may pass, which only the operator is told.
func (s *core) fail(x *exchange, endpoint string, err error) {
	if p, is := errors.AsType[*problemError](err); is {
		s.show(x, p)
		return
	}
	f, is := errors.AsType[*fault](err)
	if !is {
		f = &fault{ // the one answer after which clients keep their tokens and try again
			code: "temporarily_unavailable", says: "try again in a moment",
			status: http.StatusServiceUnavailable, tell: func() {
				s.log.LogAttrs(x.request.Context(), slog.LevelWarn, "tokens cannot be given out now",
					slog.Any("error", err))
			},
		}
	}
	s.refuse(x, endpoint, f)
}

// show answers a person with a problem, in words.
func (s *core) show(x *exchange, p *problemError) {
	p.line.Outcome = OutcomeOf(p.status)
	s.refused(x, "page", p.line, p.tell)
	pages.Page{
		Status: p.status, Language: x.language(), Problem: p.page,
		Person: cmp.Or(p.line.Name, p.line.Subject), Back: p.back,
		Request: x.Header().Get("X-Request-Id"), // that it has in all records
	}.Write(x)
}

// away returns the problem that something needed cannot be reached, and tells the
// operator what.
func (s *core) away(x *exchange, what string, err error) error {
	x.Header().Set("Retry-After", "30")
	return newProblem(http.StatusServiceUnavailable, pages.Unavailable, "unavailable").telling(func() {
		s.log.LogAttrs(x.request.Context(), slog.LevelWarn, "sign-in is not possible now",
			slog.String("needs", what), slog.Any("error", err))
	})
}

// refused puts a refusal on record, and into the log unless there are too many of its
// kind, with what tell logs of it; nil: nothing more. line has what is known of who was
// refused.
func (s *core) refused(x *exchange, endpoint string, line audit.Record, tell func()) {
	s.config.Records.SignInRefused(endpoint, line.Reason)
	ctx := x.request.Context()
	if !s.config.Audit(ctx, line) {
		return
	}
	if tell != nil {
		tell()
	}
	s.log.LogAttrs(ctx, slog.LevelInfo, "sign-in refused", slog.String("endpoint", endpoint),
		slog.String("reason", line.Reason), slog.String("tenant", x.at.tenant),
		slog.String("client", line.ClientID))
}

// refuse answers a program with a fault.
func (s *core) refuse(x *exchange, endpoint string, f *fault) {
	status := cmp.Or(f.status, http.StatusBadRequest)
	s.refused(x, endpoint, audit.Record{Outcome: OutcomeOf(status), Reason: f.label()}, f.tell)
	switch status {
	case http.StatusUnauthorized:
		if x.request.Header.Get("Authorization") != "" { // https://www.rfc-editor.org/rfc/rfc6749#section-5.2
			x.Header().Set("WWW-Authenticate", `Basic realm="drawbridge"`)
		}
	case http.StatusServiceUnavailable:
		x.Header().Set("Retry-After", "5")
	}
	_ = x.writeJSON(status, map[string]any{"error": f.code, "error_description": f.says}) // never fails
}

// writeJSON answers with a document.
func (x *exchange) writeJSON(status int, document any) error {
	data, err := strictjson.Marshal(document)
	if err != nil {
		return err
	}
	h := x.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	x.WriteHeader(status)
	_, _ = x.Write(data) // the client is gone
	return nil
}

// form reads a form, in which each parameter stands once. It is false if there is none,
// or if it is too long or cut off.
func (x *exchange) form() (url.Values, bool) {
	kind, _, _ := mime.ParseMediaType(x.request.Header.Get("Content-Type"))
	data, err := io.ReadAll(x.request.Body)
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, false
	}
	values, err := url.ParseQuery(string(data))
	return values, err == nil && !repeated(values)
}

// repeated tells whether a parameter stands in a query or form more than once. Two
// programs might read different ones. Only resource may, and then no more than one is
// taken.
// https://www.rfc-editor.org/rfc/rfc6749#section-3.1
func repeated(values url.Values) bool {
	for name, list := range values {
		if len(list) > 1 && name != "resource" {
			return true
		}
	}
	return false
}

// redirect sends the browser to another address.
func (x *exchange) redirect(to string) {
	x.Header().Set("Location", to)
	x.WriteHeader(http.StatusSeeOther)
}

// setCookie gives the browser a cookie for this host alone, which scripts do not see and
// which comes along when a provider sends the browser back. A browser takes it from plain
// HTTP only on the person's own machine.
func (x *exchange) setCookie(name, value string, life time.Duration) {
	http.SetCookie(x, &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: int(life / time.Second), Secure: true, HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
	})
}

// dropCookie takes a cookie from the browser.
func (x *exchange) dropCookie(name string) { x.setCookie(name, "", -time.Second) }
