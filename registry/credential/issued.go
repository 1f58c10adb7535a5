package credential

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// clientCredentials is a token for the gateway itself, the same for all callers.
// https://www.rfc-editor.org/rfc/rfc6749#section-4.4
type clientCredentials struct {
	impersonal

	endpoint *endpoint
	form     url.Values // immutable
	cell     cell
}

var _ kind = (*clientCredentials)(nil)

func newClientCredentials(spec *Client, l *life) *clientCredentials {
	form := url.Values{"grant_type": {"client_credentials"}}
	ask(form, spec.Scopes, spec.Resource)
	return &clientCredentials{endpoint: newEndpoint(spec, l), form: form, cell: cell{life: l}}
}

// shared has replicas share the token. spec says what is asked for.
func (c *clientCredentials) shared(spec any) *clientCredentials {
	l := c.cell.life
	c.cell.common = l.newCommon(spec, "", share.Server(l.cfg.Server), [sha256.Size]byte{})
	return c
}

// ask puts into a form what is asked for.
func ask(form url.Values, scopes []string, resource string) {
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
	if resource != "" {
		form.Set("resource", resource)
	}
}

func (c *clientCredentials) headers(ctx context.Context, _ *auth.Principal) (*Headers, error) {
	return c.cell.get(ctx, func(ctx context.Context) (issued, error) { return c.endpoint.ask(ctx, c.form) })
}

func (c *clientCredentials) cached(ctx context.Context, _ auth.Owner) (*Headers, error) {
	return c.headers(ctx, nil)
}

// Exchange trades the token of a caller for one of the server. The gateway itself has a
// token by client credentials of the same client, for the lists.
// https://www.rfc-editor.org/rfc/rfc8693
type Exchange struct {
	Client

	Audience string // for whom the token is; "": Resource or Scopes say it
	Actor    bool   // the gateway says that it acts, by a token of its own
	Entra    bool   // as Microsoft Entra ID does it, on behalf of
}

// exchanges are those of one server.
type exchanges struct {
	life     *life
	spec     *Exchange
	endpoint *endpoint
	own      *clientCredentials
	cache    *Cache[exchanged]
}

var _ kind = (*exchanges)(nil)

// exchanged is what was given for one token of a caller, or one sign-in.
type exchanged struct {
	validity
	cell cell
}

// validity is how long the token is good with which a caller came. It is safe for
// concurrent use.
type validity struct {
	mu     sync.Mutex // guards the field below
	expiry time.Time  // of the latest token with which the caller came; zero: it has none
}

// extend notes until when the token is good with which the caller comes.
func (v *validity) extend(expiry time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if expiry.After(v.expiry) {
		v.expiry = expiry
	}
}

// expired tells whether the token has expired with which the caller came last.
func (v *validity) expired(now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return !v.expiry.IsZero() && !now.Before(v.expiry)
}

func newExchanges(spec *Exchange, l *life) *exchanges {
	own := newClientCredentials(&spec.Client, l)
	own.endpoint.aimed = spec.Entra
	if spec.Entra {
		own.form.Del("resource")
		own.form.Set("scope", cmp.Or(spec.Audience, spec.Resource)+"/.default")
	} else if spec.Audience != "" {
		own.form.Set("audience", spec.Audience)
	}
	own.shared(spec)
	return &exchanges{
		life: l, spec: spec, endpoint: own.endpoint, own: own,
		cache: NewCache(func(one *exchanged) bool {
			return one.expired(l.cfg.Now()) && one.cell.peek() == nil
		}),
	}
}

// kindURN is what the names of the types of tokens begin with:
// https://www.rfc-editor.org/rfc/rfc8693#section-3
const kindURN = "urn:ietf:params:oauth:token-type:"

var errNoSubject = errors.New("the caller came without a token that could be exchanged")

func (x *exchanges) headers(ctx context.Context, p *auth.Principal) (*Headers, error) {
	if p == nil {
		return x.own.headers(ctx, nil)
	}
	if _, has := p.SubjectDigest(); !has {
		return nil, &Error{FaultSignIn, errNoSubject}
	}
	at := x.cacheKey(p)
	one := x.cache.At(at, func() *exchanged {
		common := x.life.newCommon(x.spec, p.TenantID, share.User(p.User()), at.token)
		return &exchanged{cell: cell{life: x.life, common: common, traced: true}}
	})
	one.extend(p.Expiry)
	return one.cell.get(ctx, func(ctx context.Context) (issued, error) {
		token, err := p.SubjectToken(ctx)
		switch {
		case errors.Is(err, auth.ErrSubjectGone):
			return issued{}, failed(FaultSignIn, "the sign-in of the person gives no token that could be "+
				"exchanged")
		case err != nil:
			return issued{}, failed(FaultAway, "the token of the person's sign-in cannot be had: %w", err)
		}
		return x.exchange(ctx, token)
	})
}

func (x *exchanges) cacheKey(p *auth.Principal) CacheKey {
	token, _ := p.SubjectDigest() // zero if there is none, of which nothing is kept
	return CacheKey{owner: p.Owner(), token: token}
}

// cached returns what was given last for a token of the owner, if both are still good.
func (x *exchanges) cached(_ context.Context, owner auth.Owner) (*Headers, error) {
	if one := x.cache.of(owner); one != nil && !one.expired(x.life.cfg.Now()) {
		if g := one.cell.peek(); g != nil {
			return g, nil
		}
	}
	return nil, &Error{FaultMissing, errUnheld}
}

// exchange asks for a token in place of the caller's.
func (x *exchanges) exchange(ctx context.Context, token string) (issued, error) {
	if x.spec.Entra {
		return x.endpoint.ask(ctx, x.onBehalf(token), token)
	}
	accessToken := kindURN + "access_token"
	form := url.Values{
		"grant_type":           {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"subject_token":        {token},
		"subject_token_type":   {accessToken},
		"requested_token_type": {accessToken},
	}
	ask(form, x.spec.Scopes, x.spec.Resource)
	if x.spec.Audience != "" {
		form.Set("audience", x.spec.Audience)
	}
	secrets := []string{token}
	if x.spec.Actor {
		actor, err := x.own.headers(ctx, nil)
		switch {
		case err != nil && FaultOf(err) == "": // ctx is over, which is not the caller's
			return issued{}, failed(FaultAway, "the gateway's own token did not come in time")
		case err != nil:
			return issued{}, err
		}
		own := strings.TrimPrefix(actor.values[0], "Bearer ")
		form.Set("actor_token", own)
		form.Set("actor_token_type", accessToken)
		secrets = append(secrets, own)
	}
	return x.endpoint.ask(ctx, form, secrets...)
}

// onBehalf returns the form of Microsoft Entra ID.
// https://learn.microsoft.com/entra/identity-platform/v2-oauth2-on-behalf-of-flow
func (x *exchanges) onBehalf(token string) url.Values {
	scope := strings.Join(x.spec.Scopes, " ")
	return url.Values{
		"grant_type":          {"urn:ietf:params:oauth:grant-type:jwt-bearer"},
		"assertion":           {token},
		"requested_token_use": {"on_behalf_of"},
		"scope":               {cmp.Or(scope, cmp.Or(x.spec.Audience, x.spec.Resource)+"/.default")},
	}
}
