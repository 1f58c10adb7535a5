package signin

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
	"github.com/drawbridge-mcp/drawbridge/auth/signin/pages"
)

// choiceParameter says in the query of authorize where a person has chosen to sign in.
const choiceParameter = "drawbridge_login"

// challengeForm is the form of a challenge of S256: a SHA-256 in base64url.
// https://www.rfc-editor.org/rfc/rfc7636#section-4.2
var challengeForm = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// authorize begins a sign-in: it checks what the client asks for and sends the browser to
// a provider. Until client and redirect are known to belong together, nothing leads away
// from here.
// https://www.rfc-editor.org/rfc/rfc6749#section-4.1.2.1
func (s *core) authorize(x *exchange) error {
	query, err := url.ParseQuery(x.request.URL.RawQuery)
	// Who copies an address out of a terminal may miss its end.
	if err != nil || repeated(query) || query.Get("client_id") == "" || query.Get("redirect_uri") == "" {
		return newProblem(http.StatusBadRequest, pages.BadRequest, "query")
	}
	client, err := s.registry.Find(x.request.Context(), query.Get("client_id"))
	switch {
	case errors.Is(err, clients.ErrUnknown):
		return newProblem(http.StatusBadRequest, pages.UnknownClient, "unknown_client").telling(func() {
			s.log.LogAttrs(x.request.Context(), slog.LevelInfo, "a client is not known",
				slog.Any("error", err))
		})
	case err != nil:
		return s.away(x, "client", err)
	}
	redirect, ok := client.RedirectOf(query.Get("redirect_uri"))
	if !ok {
		return newProblem(http.StatusBadRequest, pages.BadRedirect, "redirect")
	}
	asked := ask{
		Tenant: x.at.tenant, Client: client, Redirect: redirect.URI, State: query.Get("state"),
		Challenge: query.Get("code_challenge"),
	}
	if f := s.judge(x.at, query, &asked); f != nil {
		return s.bounce(x, "authorize", asked, impossible(f), f)
	}
	return s.leadToProvider(x, asked, query)
}

// judge checks what a client asks for, and adds the scopes to asked.
func (s *core) judge(a address, query url.Values, asked *ask) *fault {
	if len(asked.State) > maxState {
		asked.State = "" // what is not kept is not brought back cut
		return errRepeated
	}
	fixed := s.registry.FixedBy(query.Get("client_id"))
	switch {
	case query.Has("request"):
		return &fault{code: "request_not_supported", says: "requests come in the query"}
	case query.Has("request_uri"):
		return &fault{code: "request_uri_not_supported", says: "requests come in the query"}
	case query.Get("response_type") != "code":
		return &fault{code: "unsupported_response_type", says: "only code is given out"}
	case query.Has("response_mode") && query.Get("response_mode") != "query":
		return &fault{code: "invalid_request", says: "answers come in the query", reason: "response_mode"}
	case fixed != nil && !fixed.Has("authorization_code"), len(a.settings.Logins) == 0:
		return errUnauthorized
	case query.Get("code_challenge_method") != "S256" || !challengeForm.MatchString(asked.Challenge):
		return &fault{code: "invalid_request", says: "PKCE with S256 is required", reason: "pkce"}
	case query.Get("prompt") == "none":
		return &fault{code: "login_required", says: "a person has to consent"}
	}
	if f := judgeResource(a, query); f != nil {
		return f
	}
	var f *fault
	asked.Scopes, f = scopesAsked(a.settings.Scopes, query.Get("scope"))
	return f
}

// leadToProvider sends the browser where the person signs in, or lets the person choose.
func (s *core) leadToProvider(x *exchange, asked ask, query url.Values) error {
	logins := x.at.logins()
	chosen := x.at.login(query.Get(choiceParameter))
	if chosen == nil && len(logins) == 1 {
		chosen = &logins[0]
	}
	if chosen == nil {
		s.choose(x, logins, query)
		return nil
	}
	t := s.newAttempt(asked, chosen.Provider.Name())
	ctx, cancel := context.WithTimeout(x.request.Context(), providerTime)
	defer cancel()
	to, err := chosen.Provider.AuthURL(ctx, s.towards(&t))
	if err != nil {
		return s.leadingBack(asked, s.providerFailed(x, t.Provider, err))
	}
	if err := s.begin(x, &t); err != nil {
		return s.bounce(x, "authorize", asked, impossible(errRepeated), errRepeated)
	}
	x.redirect(to)
	return nil
}

// choose lets a person choose where to sign in. The links lead here again.
func (s *core) choose(x *exchange, logins []Login, query url.Values) {
	var choice pages.Choice
	for _, l := range logins {
		query.Set(choiceParameter, l.Provider.Name())
		choice.Providers = append(choice.Providers, pages.Option{
			Name: cmp.Or(l.Title, l.Provider.Name()),
			Href: x.request.URL.Path + "?" + query.Encode(),
		})
	}
	pages.Page{Language: x.language(), Choice: &choice}.Write(x)
}

// impossible returns the problem of a person whose client has asked for what is not
// possible.
func impossible(f *fault) *problemError {
	return newProblem(http.StatusBadRequest, pages.Impossible, f.label())
}

// bounce tells a client of a fault by way of the browser. Whoever registers a client
// chooses where it is, or which program of the person's machine its scheme opens: then
// bounce returns the problem for the person, who decides whether to go there.
func (s *core) bounce(x *exchange, endpoint string, asked ask, p *problemError, f *fault) error {
	p.line.ClientID, p.back = asked.Client.Short(), s.faultURL(asked, f)
	isLoopback := strings.HasPrefix(asked.Redirect, "http://") // no other redirect is
	if asked.Client.Kind != clients.Configured && !isLoopback {
		return p
	}
	p.line.Outcome = OutcomeOf(p.status)
	s.refused(x, endpoint, p.line, nil)
	x.redirect(p.back)
	return nil
}
