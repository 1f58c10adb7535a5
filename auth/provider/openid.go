package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/internal/fetch"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// OIDC is a provider of OpenID Connect. It asks for its document at the first need, so
// that a gateway starts while the provider is away. It is safe for concurrent use.
type OIDC struct {
	base

	transport *transport
	gap       time.Duration // as keysGap

	flights pace.Once[*discovered]     // of the document
	found   atomic.Pointer[discovered] // nil: never fetched
}

var (
	_ signin.Provider       = (*OIDC)(nil)
	_ signin.LogoutVerifier = (*OIDC)(nil)
)

// New returns a provider. It connects to nothing yet.
func New(cfg Config) *OIDC {
	p := &OIDC{base: base{cfg: cfg}, gap: keysGap}
	p.transport = &transport{inner: cfg.Client.Transport}
	if cfg.ClientKey != nil {
		p.transport.assert = p.assertion
	}
	p.cfg.Client.Transport = p.transport
	return p
}

// AuthURL implements signin.Provider. PKCE is asked for also where the document does not
// list it: who does not know it ignores it.
// https://www.rfc-editor.org/rfc/rfc9700#section-2.1.1
func (p *OIDC) AuthURL(ctx context.Context, a signin.Attempt) (string, error) {
	return p.authURL(ctx, a)
}

// authURL is AuthURL with more parameters, which win over those that each sign-in has.
func (p *OIDC) authURL(ctx context.Context, a signin.Attempt, more ...oauth2.AuthCodeOption) (
	string, error,
) {
	d, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(a.Verifier), oidc.Nonce(a.Nonce)}
	if p.cfg.Issuer == google {
		// Only both together bring a refresh token each time, and not at the first
		// sign-in alone.
		options = append(options, oauth2.AccessTypeOffline, oauth2.SetAuthURLParam("prompt", "consent"))
	}
	return p.oauthAt(a.Callback, d.endpoint).AuthCodeURL(a.State, append(options, more...)...), nil
}

// Reach implements signin.Provider: it fetches the document. A provider that refuses the
// client is as good as away.
func (p *OIDC) Reach(ctx context.Context) error {
	if _, err := p.renew(ctx, p.found.Load()); err != nil {
		return err
	}
	return p.takesClient()
}

// Exchange implements signin.Provider.
func (p *OIDC) Exchange(ctx context.Context, a signin.Attempt, code, iss string) (signin.Identity, error) {
	d, err := p.discover(ctx)
	if err != nil {
		return signin.Identity{}, err
	}
	if iss == "" && d.document.TellsIssuer {
		return signin.Identity{}, errors.New("the provider says that it names itself in its answers, and " +
			"did not")
	}
	if iss != "" && iss != p.cfg.Issuer {
		return signin.Identity{}, errors.New("the answer is of another provider")
	}
	token, err := p.oauthAt(a.Callback, d.endpoint).Exchange(p.with(ctx), code,
		oauth2.VerifierOption(a.Verifier))
	if err := p.answered("redeem the code", err, code, a.Verifier); err != nil {
		return signin.Identity{}, err
	}
	raw, _ := token.Extra("id_token").(string) // "" if there is none, which is an error below
	if raw == "" {
		return signin.Identity{}, errors.New("the provider gave no ID token; is openid among the scopes?")
	}
	who, err := p.verify(ctx, d, raw)
	if err != nil {
		return signin.Identity{}, err
	}
	if who.nonce != a.Nonce || a.Nonce == "" {
		return signin.Identity{}, errors.New("the ID token was made for another attempt")
	}
	return p.identity(ctx, d, token, who)
}

// Refresh implements signin.Provider. Where the answer has an ID token, that alone says
// which groups somebody is in now. Without one the claims of the last one stay, but for
// what userinfo says.
// https://openid.net/specs/openid-connect-core-1_0.html#RefreshTokenResponse
func (p *OIDC) Refresh(ctx context.Context, refreshToken string) (signin.Identity, error) {
	was, err := remembered(refreshToken, &p.cfg)
	if err != nil {
		return signin.Identity{}, err
	}
	d, err := p.discover(ctx)
	if err != nil {
		return signin.Identity{}, err
	}
	token, err := p.oauthAt("", d.endpoint).TokenSource(p.with(ctx),
		&oauth2.Token{RefreshToken: was.Token}).Token()
	if err := p.answered("refresh", err, was.Token); err != nil {
		return signin.Identity{}, refreshFailed(err)
	}
	id, err := p.refreshed(ctx, d, token, &was)
	if err != nil {
		id = was.next(token.RefreshToken)
	}
	return id, err
}

// refreshed returns who somebody is by the answer to a refresh.
func (p *OIDC) refreshed(ctx context.Context, d *discovered, token *oauth2.Token, was *refreshState) (
	signin.Identity, error,
) {
	before, err := auth.Members([]byte(was.Claims))
	if err != nil {
		return signin.Identity{}, fmt.Errorf("%w: its claims are not readable", signin.ErrSignInAgain)
	}
	raw, _ := token.Extra("id_token").(string) // "" if there is none, which is legal here
	if raw == "" {
		p.tellOnce(ctx, "the provider gives no ID token at a refresh: claims that userinfo lacks stay as "+
			"they were at the sign-in")
		return p.identity(ctx, d, token, &person{
			subject: was.Subject, session: textOf(before, "sid"), claims: before, earlier: true,
		})
	}
	who, err := p.verify(ctx, d, raw)
	if err != nil {
		return signin.Identity{}, err
	}
	// A nonce need not be there, and nobody knows any more which one it was.
	if who.subject != was.Subject {
		return signin.Identity{}, fmt.Errorf("%w: the refreshed ID token is of somebody else",
			signin.ErrSignInAgain)
	}
	who.session = cmp.Or(who.session, textOf(before, "sid"))
	return p.identity(ctx, d, token, who)
}

// identity returns who somebody is by an ID token and userinfo.
func (p *OIDC) identity(ctx context.Context, d *discovered, token *oauth2.Token, who *person) (
	signin.Identity, error,
) {
	more, err := p.userinfo(ctx, d, token, who.subject)
	if err != nil {
		return signin.Identity{}, err
	}
	first, second := who.claims, more
	if who.earlier {
		first, second = aboutPerson(more), stillVerified(who.claims, more)
	}
	claims, err := joined(first, second)
	if err != nil {
		return signin.Identity{}, err
	}
	signed, err := joined(who.claims, nil)
	if err != nil {
		return signin.Identity{}, err
	}
	id, err := p.signedIn(token, claims, refreshState{
		Token: token.RefreshToken, Subject: who.subject, Claims: string(signed),
	})
	if err == nil {
		id.SessionID = who.session
	}
	return id, err
}

// userinfo returns what the userinfo endpoint adds, nothing if there is none or it does
// not take the token: Entra's is for tokens of Microsoft Graph alone. What is signed is
// verified by the keys of ID tokens, which go-oidc would fetch and read by itself.
// https://openid.net/specs/openid-connect-core-1_0.html#UserInfoResponse
func (p *OIDC) userinfo(ctx context.Context, d *discovered, token *oauth2.Token, subject string) (
	[]strictjson.Member, error,
) {
	if d.provider.UserInfoEndpoint() == "" {
		return nil, nil
	}
	answer, err := fetch.Do(ctx, p.cfg.Client, fetch.Request{
		Address: d.provider.UserInfoEndpoint(), Most: maxBody,
		Header: http.Header{"Authorization": {token.Type() + " " + token.AccessToken}},
	})
	if refused, ok := errors.AsType[*Error](err); ok && refused.Status < http.StatusInternalServerError &&
		refused.Status != http.StatusTooManyRequests {
		p.tellOnce(ctx, "the provider's userinfo does not take its access token: only the ID token counts")
		return nil, nil
	}
	if err != nil {
		return nil, bare("ask userinfo", err)
	}
	said := answer.Body
	if kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); kind == "application/jwt" {
		said, err = keySet{d.keys, true}.VerifySignature(ctx, strings.TrimSpace(string(said)))
		if err != nil {
			return nil, bare("verify userinfo", err)
		}
	}
	claims, err := auth.Members(said, "sub")
	if err != nil {
		return nil, fmt.Errorf("userinfo: %w", err)
	}
	if textOf(claims, "sub") != subject {
		return nil, errors.New("userinfo is about somebody else than the ID token")
	}
	return claims, nil
}

// assertionLife is how long a proof of who we are is good, on clocks that differ.
const assertionLife = 2 * time.Minute

// assertion returns a proof that we hold the key of the client, for one request.
// https://openid.net/specs/openid-connect-core-1_0.html#ClientAuthentication
func (p *OIDC) assertion(endpoint string) (string, error) {
	now := p.cfg.Now()
	return auth.Sign(*p.cfg.ClientKey, p.cfg.ClientKey.Algorithm(), auth.Claims{
		Issuer: p.cfg.ClientID, Subject: p.cfg.ClientID, Audience: endpoint,
		IssuedAt: now, Expiry: now.Add(assertionLife),
		Extra: map[string]any{"jti": oauth2.GenerateVerifier()},
	})
}
