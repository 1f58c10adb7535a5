package signin

import (
	"crypto/rand"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth/signin/pages"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

const (
	cookiePrefix   = "__Host-drawbridge-"
	returnedPrefix = cookiePrefix + "returned-" // of attempts that led to a page; its value is the family
	attemptPurpose = "sign-in of a browser"
	maxAttempt     = 2800 // bytes: sealed, it must fit a cookie, which has 4,096
	maxState       = 1024 // bytes of a client's state
	maxCookies     = 3    // attempts of one browser at once; older ones end
	idSize         = 26   // characters of an id of this server; see rand.Text
)

// attempt is the way of one browser to a provider and back. It is in a cookie of that
// browser, sealed: what nobody finished takes up nothing here, and an answer of the
// provider counts only in the browser that asked.
//
//	authorize ──cookie──▶ provider ──state──▶ callback: does the state belong to a cookie of this browser?
type attempt struct {
	ask

	ID       string `json:"i"`
	Provider string `json:"w"`
	Secret   string `json:"z"` // in the state that the provider brings back
	Nonce    string `json:"n"`
	Verifier string `json:"v"` // of PKCE towards the provider
	Begun    int64  `json:"b"` // in seconds since 1970
}

// state returns the state towards the provider.
func (t *attempt) state() string { return t.ID + "." + t.Secret }

// newAttempt returns the attempt to answer what a client has asked for.
func (s *core) newAttempt(asked ask, provider string) attempt {
	asked.Client = asked.Client.Stored()
	return attempt{
		ask: asked, ID: rand.Text(), Provider: provider, Secret: rand.Text(), Nonce: rand.Text(),
		Verifier: rand.Text() + rand.Text(), Begun: s.now().Unix(),
	}
}

// begin gives the browser the cookie of an attempt, unless it is too long for one.
func (s *core) begin(x *exchange, t *attempt) error {
	text, err := strictjson.Marshal(t)
	if err != nil {
		return err
	}
	if len(text) > maxAttempt {
		return errRepeated
	}
	sealed, err := s.config.Ring.SealLong(attemptPurpose, text)
	if err != nil {
		return err
	}
	// The earliest first; families and attempts that are over have short cookies:
	// https://www.rfc-editor.org/rfc/rfc6265#section-5.4
	var open []string
	for _, cookie := range x.request.Cookies() {
		if strings.HasPrefix(cookie.Name, cookiePrefix) && len(cookie.Value) > idSize {
			open = append(open, cookie.Name)
		}
	}
	for _, name := range open[:max(0, len(open)+1-maxCookies)] {
		x.dropCookie(name)
	}
	x.setCookie(cookiePrefix+t.ID, sealed, attemptLife)
	return nil
}

// resumed returns the attempt that the state of a provider belongs to, if this browser
// has begun it lately with that provider.
func (s *core) resumed(x *exchange, state string) (attempt, bool) {
	id, secret, _ := strings.Cut(state, ".")
	cookie, err := x.request.Cookie(cookiePrefix + id)
	if len(id) != idSize || err != nil {
		return attempt{}, false
	}
	var t attempt
	text, err := s.config.Ring.OpenLong(attemptPurpose, cookie.Value)
	if err != nil || strictjson.Unmarshal(text, &t) != nil {
		return attempt{}, false
	}
	age := s.now().Sub(time.Unix(t.Begun, 0))
	return t, t.ID == id && t.Provider == x.name && age < attemptLife &&
		subtle.ConstantTimeCompare([]byte(t.Secret), []byte(secret)) == 1
}

// towards returns what the provider is told of an attempt.
func (s *core) towards(t *attempt) Attempt {
	return Attempt{
		State: t.state(), Nonce: t.Nonce, Verifier: t.Verifier,
		Callback: s.config.Settings().PublicURL + CallbackPath + t.Provider,
	}
}

// providerFailed returns the problem of a person whose provider failed, and tells the
// operator how.
func (s *core) providerFailed(x *exchange, provider string, err error) error {
	s.config.Records.SignedIn(provider, "failed")
	x.Header().Set("Retry-After", "30")
	return newProblem(http.StatusServiceUnavailable, pages.ProviderFailed, "provider_failed").telling(func() {
		s.log.LogAttrs(x.request.Context(), slog.LevelWarn, "the provider of a sign-in failed",
			slog.String("provider", provider), slog.Any("error", err))
	})
}
