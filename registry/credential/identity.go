package credential

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

const (
	// usedFor is how long an identity is used, so that a signature is not made for each
	// call. The next one is made when a fifth of it is left, which is after a minute.
	usedFor = 75 * time.Second
	// identityLife is how long it is good: for a server whose clock is off, or that takes
	// its time, too.
	identityLife = 3 * time.Minute
	// maxIdentity bounds an identity. Servers refuse headers of more than 8 KiB or so,
	// with an error that says nothing.
	maxIdentity = 7 << 10 // bytes
)

var (
	errTooLong  = errors.New("the identity would have more than 7 KiB: name fewer claims")
	errUnplain  = errors.New("a value that no header can carry: a claim that is no text of plain ASCII")
	errUnheld   = errors.New("there is no credential for whose session it is, or it is over")
	errUnsigned = errors.New("the identity cannot be signed")
)

// Identity says to a server who calls, in a token that the gateway signs.
type Identity struct {
	Audience string   // who the token is for; "": there is none, only Plain
	Claims   []string // of the caller's token that go into it
	Header   string   // that carries it; "": Authorization, behind Bearer
	// Plain are headers without a signature, with the name of a claim of the identity
	// each. They are worth what the network is worth.
	Plain map[string]string
}

// names returns the headers that carry the identity, and what goes with it.
func (i *Identity) names() []string {
	out := append(slices.Sorted(maps.Keys(i.Plain)), requestID, traceparent)
	if i.Audience == "" {
		return out
	}
	return append(out, cmp.Or(i.Header, authorization))
}

// Reserved returns the names of the claims that the gateway makes, which none of the
// caller's can replace.
func Reserved() []string {
	return []string{"iss", "sub", "aud", "exp", "iat", "nbf", "jti", "tenant", "client_id", "act", "cnf"}
}

// identities are those of one server.
type identities struct {
	life  *life
	spec  *Identity
	cache *Cache[identity]
	own   *identity // the gateway's
}

var _ kind = (*identities)(nil)

// identity is that of one caller, or of the gateway itself.
type identity struct {
	validity
	cell cell
	ask  func(context.Context) (issued, error) // signs another one
}

func newIdentities(spec *Identity, l *life) *identities {
	all := &identities{
		life: l, spec: spec, cache: NewCache(func(one *identity) bool { return one.expired(l.cfg.Now()) }),
	}
	all.own = all.identityWith(map[string]any{"sub": l.cfg.Issuer})
	return all
}

// identityWith returns an identity with those claims, and those of time, not signed yet.
func (all *identities) identityWith(claims map[string]any) *identity {
	return &identity{
		cell: cell{life: all.life, traced: true},
		ask: func(context.Context) (issued, error) {
			g, err := all.sign(claims)
			if err != nil {
				return issued{}, &Error{FaultMissing, err}
			}
			return issued{g, usedFor}, nil
		},
	}
}

// current returns the identity as it was signed last.
func (i *identity) current(ctx context.Context) (*Headers, error) { return i.cell.get(ctx, i.ask) }

// headers returns the identity of p. What is kept depends on the claims of p's token too,
// since two tokens of one user may say different things.
func (all *identities) headers(ctx context.Context, p *auth.Principal) (*Headers, error) {
	if p == nil {
		return all.own.current(ctx)
	}
	one := all.cache.At(all.cacheKey(p), func() *identity { return all.identityOf(p) })
	one.extend(p.Expiry)
	return one.current(ctx)
}

func (all *identities) cacheKey(p *auth.Principal) CacheKey {
	return CacheKey{owner: p.Owner(), token: p.ClaimsDigest()}
}

// cached returns the identity of an owner that was used last, as long as the token is
// good with which its caller came.
func (all *identities) cached(ctx context.Context, owner auth.Owner) (*Headers, error) {
	if one := all.cache.of(owner); one != nil && !one.expired(all.life.cfg.Now()) {
		return one.current(ctx)
	}
	return nil, &Error{FaultMissing, errUnheld}
}

// identityOf returns who p is to the server, not signed yet. The subject is what rules of
// the gateway call a user, since a subject alone is unique with its issuer only. The
// gateway acts on behalf of that user, which act says:
// https://www.rfc-editor.org/rfc/rfc8693#section-4.1
func (all *identities) identityOf(p *auth.Principal) *identity {
	claims := map[string]any{
		"sub":    p.Issuer + "#" + p.Subject,
		"tenant": p.TenantID,
		"act":    map[string]string{"sub": all.life.cfg.Issuer},
	}
	if p.ClientID != "" {
		claims["client_id"] = p.ClientID
	}
	for _, c := range p.Claims() {
		if slices.Contains(all.spec.Claims, c.Name) && !slices.Contains(Reserved(), c.Name) {
			claims[c.Name] = json.RawMessage(c.Value)
		}
	}
	return all.identityWith(claims)
}

// sign makes the headers that carry an identity with those claims.
func (all *identities) sign(claims map[string]any) (*Headers, error) {
	spec, g := all.spec, &Headers{}
	for _, header := range slices.Sorted(maps.Keys(spec.Plain)) {
		value, is, err := plain(claims[spec.Plain[header]])
		if err != nil {
			return nil, err
		}
		if is {
			g.add(header, value)
			g.plain++
		}
	}
	if spec.Audience == "" {
		return g, nil
	}
	extra, now := maps.Clone(claims), all.life.cfg.Now()
	extra["jti"] = rand.Text()
	token, err := auth.Sign(all.life.cfg.Signer.current(), algorithm, auth.Claims{
		Issuer: all.life.cfg.Issuer, Audience: spec.Audience, Extra: extra,
		IssuedAt: now, Expiry: now.Add(identityLife), Type: Type,
	})
	switch {
	case err != nil:
		return nil, errUnsigned // its text could quote a claim
	case len(token) > maxIdentity:
		return nil, errTooLong
	case spec.Header == "":
		g.add(authorization, "Bearer "+token)
	default:
		g.add(spec.Header, token)
	}
	return g, nil
}

// plain returns a claim as the value of a header, and false if there is no such claim.
func plain(claim any) (value string, is bool, err error) {
	switch claim := claim.(type) {
	case string:
		value = claim
	case json.RawMessage:
		if value, err = strictjson.Unquote(claim); err != nil || claim[0] != '"' {
			return "", false, errUnplain
		}
	default:
		return "", false, nil
	}
	if CheckValue([]byte(value)) != nil || strings.ContainsRune(value,
		'\t') || strings.TrimSpace(value) != value {
		return "", false, errUnplain
	}
	return value, true, nil
}
