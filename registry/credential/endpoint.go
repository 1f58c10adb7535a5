package credential

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/drawbridge-mcp/drawbridge/internal/fetch"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// Limits of endpoints that give tokens.
const (
	askLimit    = 10 * time.Second // for a token, with all attempts
	tryLimit    = 4 * time.Second  // for one attempt
	maxTries    = 3                // for a token, while nothing comes that makes sense
	maxAsked    = 16               // requests at once to one endpoint
	maxAnswer   = 64 << 10         // bytes of an answer with a token
	maxMetadata = 256 << 10        // bytes of metadata
	findEvery   = time.Hour        // metadata is read again after that
	usualLife   = 5 * time.Minute  // of a token of which the endpoint does not say it
	longestLife = 24 * time.Hour   // believed of a token
	patience    = 3                // tokens in a row that could not be had, after which callers do not wait
)

// endpoint gives tokens. It is safe for concurrent use.
type endpoint struct {
	life   *life
	spec   *Client
	prover *prover
	slots  *semaphore.Weighted // of requests under way
	aimed  bool                // assertions are for the endpoint even if an issuer is named

	mu     sync.Mutex // guards the fields below
	found  metadata
	foundA time.Time // when the metadata was read; zero: it was not
	failed int       // tokens in a row that could not be had because nothing sensible came
	pause  time.Time // nobody asks before that
}

// metadata is what is read of the metadata of an authorization server.
// https://www.rfc-editor.org/rfc/rfc8414#section-2
type metadata struct {
	Issuer   string   `json:"issuer"`
	TokenURL string   `json:"token_endpoint"`
	Methods  []string `json:"token_endpoint_auth_methods_supported"`
}

func newEndpoint(spec *Client, l *life) *endpoint {
	return &endpoint{
		life: l, spec: spec, prover: &prover{spec: spec, now: l.cfg.Now},
		slots: semaphore.NewWeighted(maxAsked),
	}
}

// errNoAnswer says that the endpoint did not answer lately.
var errNoAnswer = errors.New("the endpoint that gives tokens did not answer lately; it is asked again soon")

// ask asks for a token. secrets are texts in the form that no log may have. Errors are
// *Error. An endpoint that does not answer is asked again at once, twice; after that has
// failed for several tokens, whoever wants one is told so without waiting, but for one
// caller after each pause.
func (e *endpoint) ask(ctx context.Context, form url.Values, secrets ...string) (got issued, err error) {
	if err := e.begin(ctx); err != nil {
		return issued{}, err
	}
	defer e.slots.Release(1)
	for try := 0; ; try++ {
		var again bool
		got, again, err = e.once(ctx, form, secrets)
		if err == nil || !again || try+1 == maxTries || !pace.Wait(ctx, pace.Backoff(try)) {
			break
		}
	}
	e.conclude(err)
	return got, err
}

// begin takes a place among those who ask.
func (e *endpoint) begin(ctx context.Context) error {
	now := e.life.cfg.Now()
	e.mu.Lock()
	closed := now.Before(e.pause)
	if !closed && e.failed >= patience {
		e.pause = now.Add(askLimit) // this one tries for all
	}
	e.mu.Unlock()
	if closed {
		return &Error{FaultAway, errNoAnswer}
	}
	if e.slots.Acquire(ctx, 1) != nil {
		return failed(FaultAway, "too many wait for the endpoint that gives tokens")
	}
	return nil
}

// conclude draws conclusions from how asking for a token ended.
func (e *endpoint) conclude(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if FaultOf(err) != FaultAway {
		e.failed, e.pause = 0, time.Time{}
		return
	}
	e.foundA = time.Time{} // the endpoint may have moved
	if e.failed++; e.failed >= patience {
		e.pause = e.life.cfg.Now().Add(pauseAfter(e.failed - patience))
	}
}

// once makes one attempt. again tells, beside an error, whether another one may do
// better.
func (e *endpoint) once(ctx context.Context, form url.Values, secrets []string) (got issued, again bool,
	err error,
) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	at, err := e.find(ctx)
	if err != nil {
		return issued{}, true, err
	}
	header, own := http.Header{}, maps.Clone(form) // prove sets values, and changes none
	audience := at.Issuer
	if audience == "" || e.aimed {
		audience = at.TokenURL
	}
	proof, err := e.prover.prove(header, own, audience, at.Methods)
	if err != nil {
		return issued{}, false, err
	}
	header.Set("Content-Type", "application/x-www-form-urlencoded")
	header.Set("Accept", "application/json")
	response, err := e.send(ctx, fetch.Request{
		Method: http.MethodPost, Address: at.TokenURL, Header: header, Body: own.Encode(), Most: maxAnswer,
	})
	if err != nil {
		return issued{}, true, err
	}
	return e.read(response, append(proof, secrets...))
}

// send sends a request. The error has neither the address nor the form.
func (e *endpoint) send(ctx context.Context, r fetch.Request) (*fetch.Answer, error) {
	r.Header.Set("User-Agent", "drawbridge")
	response, err := fetch.Do(ctx, e.life.cfg.Client, r)
	if err != nil {
		return nil, failed(FaultAway, "ask the endpoint that gives tokens: %w", err)
	}
	return response, nil
}

// answer is what an endpoint says. https://www.rfc-editor.org/rfc/rfc6749#section-5
type answer struct {
	token, tokenType, kind string
	life                   time.Duration
	code, description      string
}

// read makes headers of an answer, or says what is wrong.
func (e *endpoint) read(response *fetch.Answer, secrets []string) (issued, bool, error) {
	status := response.Status
	said, ok := readAnswer(response.Body)
	switch {
	case status >= 500, status == http.StatusTooManyRequests, said.code == "temporarily_unavailable",
		said.code == "server_error":
		return issued{}, status != http.StatusTooManyRequests, failed(FaultAway,
			"the endpoint that gives tokens answered %d", status)
	case status >= 300 && status < 400:
		return issued{}, false, failed(FaultAway,
			"the endpoint that gives tokens answered %d, which leads elsewhere and is not followed", status)
	case said.code != "", status >= 400:
		return issued{}, false, e.refusal(response, said, secrets)
	case status != http.StatusOK || !ok:
		return issued{}, false, failed(FaultAway,
			"the endpoint that gives tokens answered %d with what is no answer of OAuth", status)
	case !isToken(said.token):
		return issued{}, false, failed(FaultExchange,
			"the endpoint gave no token, or one of more than %d bytes",
			maxToken)
	case !strings.EqualFold(said.tokenType, "Bearer"):
		return issued{}, false, failed(FaultExchange, "the endpoint gave a token that is no bearer token")
	case slices.Contains(otherKinds, said.kind):
		return issued{}, false, failed(FaultExchange, "the endpoint gave a token that is no access token")
	}
	return issued{newHeaders(authorization, "Bearer "+said.token), said.life}, false, nil
}

// otherKinds are the types of tokens that are no access tokens.
var otherKinds = []string{
	kindURN + "refresh_token", kindURN + "id_token", kindURN + "saml1", kindURN + "saml2",
}

// refusal returns the error for an endpoint that refused.
func (e *endpoint) refusal(response *fetch.Answer, said answer, secrets []string) *Error {
	switch said.code {
	case "interaction_required", "login_required", "consent_required":
		return failed(FaultSignIn, "the endpoint that gives tokens wants the person there: %s",
			said.text(secrets))
	case "invalid_client", "invalid_grant", "invalid_request", "":
		if skew, known := skewOf(response.Header, e.life.cfg.Now()); known && skew > maxSkew {
			return failed(FaultClock,
				"the endpoint that gives tokens answered %d (%s); its clock and ours "+
					"are %v apart", response.Status, said.text(secrets), skew.Round(time.Second))
		}
	}
	return failed(FaultExchange, "the endpoint that gives tokens answered %d: %s", response.Status,
		said.text(secrets))
}

// text returns what an endpoint said of its refusal, without what it was sent.
func (a answer) text(secrets []string) string {
	text := fetch.Clean(a.code, 64, secrets)
	if text == "" {
		return "without a reason"
	}
	if more := fetch.Clean(a.description, 200, secrets); more != "" {
		text += " (" + more + ")"
	}
	return text
}

// readAnswer reads the members of an answer that matter. A number that is written as a
// text is taken, as some endpoints write expires_in, and null as if it were not there, as
// others write error.
func readAnswer(body []byte) (a answer, ok bool) {
	object, err := mcp.ParseObject(body)
	if err != nil {
		return answer{}, false
	}
	said := func(name string) string {
		value := object.Value(name)
		text, ok := value.Text()
		if !ok && !value.IsNull() {
			return string(value)
		}
		return text
	}
	a = answer{
		token: said("access_token"), tokenType: said("token_type"), kind: said("issued_token_type"),
		life: usualLife, code: said("error"), description: said("error_description"),
	}
	seconds, err := strconv.ParseFloat(said("expires_in"), 64)
	if err == nil && seconds > 0 {
		a.life = time.Duration(min(seconds, longestLife.Seconds())) * time.Second
	}
	return a, true
}

// find returns where tokens are given, from the config or from the metadata of the
// issuer. The metadata of RFC 8414 come first; where there are none, those of OpenID
// Connect.
func (e *endpoint) find(ctx context.Context) (metadata, error) {
	if e.spec.TokenURL != "" {
		return metadata{TokenURL: e.spec.TokenURL}, nil
	}
	now := e.life.cfg.Now()
	e.mu.Lock()
	known, fresh := e.found, !e.foundA.IsZero() && now.Sub(e.foundA) < findEvery
	e.mu.Unlock()
	if fresh {
		return known, nil
	}
	var found metadata
	var err error
	for _, address := range metadataURLs(e.spec.Issuer) {
		// metadata that will not do are told, rather than that there are none elsewhere
		if found, err = e.fetch(ctx, address); err == nil || FaultOf(err) == FaultExchange {
			break
		}
	}
	if err != nil {
		return metadata{}, err
	}
	e.mu.Lock()
	e.found, e.foundA = found, now
	e.mu.Unlock()
	return found, nil
}

// metadataURLs returns where the metadata of an issuer may be.
// https://www.rfc-editor.org/rfc/rfc8414#section-3
func metadataURLs(issuer string) []string {
	u, _ := url.Parse(issuer) // it can be: whoever made the Spec has checked it
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	base := u.Scheme + "://" + u.Host
	return []string{
		base + "/.well-known/oauth-authorization-server" + path,
		base + path + "/.well-known/openid-configuration",
	}
}

// fetch reads metadata. They must be those of the issuer, and name an endpoint to which a
// secret can be sent: https, unless the issuer itself is at an http address.
// https://www.rfc-editor.org/rfc/rfc8414#section-3.3
func (e *endpoint) fetch(ctx context.Context, address string) (metadata, error) {
	response, err := e.send(ctx, fetch.Request{
		Address: address, Header: http.Header{"Accept": {"application/json"}}, Most: maxMetadata,
	})
	if err != nil {
		return metadata{}, err
	}
	if response.Status != http.StatusOK {
		return metadata{}, failed(FaultAway, "the metadata of the issuer answered %d", response.Status)
	}
	var found metadata
	if strictjson.Unmarshal(response.Body, &found) != nil { // or they are too long, and break off
		return metadata{}, failed(FaultAway, "the metadata of the issuer are no metadata of OAuth")
	}
	if found.Issuer != e.spec.Issuer {
		return metadata{}, failed(FaultExchange,
			"the metadata at the issuer's address are of another issuer")
	}
	if err := CheckEndpoint(found.TokenURL, strings.HasPrefix(e.spec.Issuer, "http://")); err != nil {
		return metadata{}, failed(FaultExchange,
			"the metadata of the issuer name no endpoint for tokens: %w", err)
	}
	return found, nil
}

// CheckEndpoint returns why no secret may be sent to an address, nil if it may. plain: it
// need not be https.
func CheckEndpoint(address string, plain bool) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("not an address")
	case u.Scheme == "http" && !plain:
		return errors.New("an http address, to which no secret is sent")
	case u.User != nil || u.Fragment != "":
		return fmt.Errorf("an address with a user or a fragment")
	}
	return nil
}
