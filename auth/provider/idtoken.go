package provider

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

const (
	maxIDToken  = 64 << 10 // bytes; two hundred groups of Entra take twelve thousand
	maxClaims   = 64 << 10 // bytes of all claims of a person
	maxEarly    = 5 * time.Minute
	maxLogouts  = 10 * time.Minute // that a logout token is taken after it was issued
	maxTokenID  = 256              // bytes of a subject or session id
	logoutClaim = "http://schemas.openid.net/event/backchannel-logout"
)

// person is what a verified ID token says.
type person struct {
	subject, nonce, session string
	claims                  []strictjson.Member
	earlier                 bool // the claims are those of the sign-in, since the refresh brought none
}

// verify checks an ID token: its signature, issuer, audience and times, and that it was
// made for this client. The nonce is left to the caller.
// https://openid.net/specs/openid-connect-core-1_0.html#IDTokenValidation
func (p *OIDC) verify(ctx context.Context, d *discovered, raw string) (*person, error) {
	if len(raw) > maxIDToken {
		return nil, fmt.Errorf("an ID token of more than %d bytes", maxIDToken)
	}
	token, err := p.verifier(d, true).Verify(ctx, raw)
	if err != nil {
		return nil, bare("verify the ID token", err)
	}
	claims, err := claimsOf(token, "iss", "sub", "aud", "azp", "nonce", "sid", "exp", "iat")
	if err != nil {
		return nil, fmt.Errorf("the ID token: %w", err)
	}
	who := &person{
		subject: textOf(claims, "sub"), nonce: textOf(claims, "nonce"), session: textOf(claims, "sid"),
		claims: claims,
	}
	party := textOf(claims, "azp")
	switch {
	// go-oidc lets accounts.google.com pass without its scheme; rules would then name
	// another issuer than the config.
	case token.Issuer != p.cfg.Issuer:
		return nil, errors.New("the ID token is of another issuer")
	case who.subject == "" || len(who.subject) > maxTokenID:
		return nil, errors.New("the ID token has no subject, or one that is too long")
	case party != "" && party != p.cfg.ClientID, party == "" && len(token.Audience) > 1:
		return nil, errors.New("the ID token was made for another client")
	case token.IssuedAt.After(p.cfg.Now().Add(maxEarly)):
		return nil, errors.New("the ID token was issued in the future; compare the clocks")
	}
	return who, nil
}

// VerifyLogout implements signin.LogoutVerifier. That a token has jti, and sub or sid, is
// seen to by go-oidc.
// https://openid.net/specs/openid-connect-backchannel-1_0.html#Validation
func (p *OIDC) VerifyLogout(ctx context.Context, raw string) (signin.Logout, error) {
	if len(raw) > maxIDToken {
		return signin.Logout{}, fmt.Errorf("a logout token of more than %d bytes", maxIDToken)
	}
	d, err := p.discover(ctx)
	if err != nil {
		return signin.Logout{}, err
	}
	token, err := p.verifier(d, false).VerifyLogout(ctx, raw)
	if err != nil {
		return signin.Logout{}, bare("verify the logout token", err)
	}
	claims, err := claimsOf(token, "iss", "sub", "aud", "sid", "exp", "iat", "jti", "events", "nonce")
	if err != nil {
		return signin.Logout{}, fmt.Errorf("the logout token: %w", err)
	}
	out := signin.Logout{
		Subject: textOf(claims, "sub"), SessionID: textOf(claims, "sid"), Issued: token.IssuedAt,
	}
	now := p.cfg.Now()
	events, _ := strictjson.Members(nil, strictjson.Find(claims, "events")) // none if the claim is no object
	event := strictjson.Find(events, logoutClaim)
	switch {
	case len(event) == 0 || event[0] != '{':
		return signin.Logout{}, errors.New("the logout token has no event of a logout")
	case len(out.Subject) > maxTokenID || len(out.SessionID) > maxTokenID:
		return signin.Logout{}, errors.New("the logout token has a name that is too long")
	case out.Issued.After(now.Add(maxEarly)), now.Sub(out.Issued) > maxLogouts:
		return signin.Logout{}, errors.New("the logout token was not issued just now")
	}
	return out, nil
}

// verifier returns what verifies tokens of d. A patient one waits until the key set may
// be fetched again: a new key may have signed the token of somebody who just proved
// himself. What strangers can send must not make requests wait.
func (p *OIDC) verifier(d *discovered, patient bool) *oidc.IDTokenVerifier {
	return oidc.NewVerifier(p.cfg.Issuer, keySet{d.keys, patient},
		&oidc.Config{ClientID: p.cfg.ClientID, SupportedSigningAlgs: algorithms, Now: p.cfg.Now})
}

// algorithms are what ID tokens may be signed with: all that need a public key.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512,
	oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
}

// keySet is the key set of a provider for those who wait, or not.
type keySet struct {
	*signers

	patient bool
}

var _ oidc.KeySet = keySet{}

// VerifySignature implements oidc.KeySet.
func (k keySet) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	known := k.known.Load()
	payload, err := known.Payload(token)
	if err == nil {
		return payload, nil
	}
	failed := k.renew(ctx)
	if k.patient && errors.Is(failed, errTooSoon) && pace.Wait(ctx, k.of.gap) {
		failed = k.renew(ctx)
	}
	if now := k.known.Load(); now != known { // also if others have fetched the key
		payload, err = now.Payload(token)
	}
	if err != nil {
		return nil, cmp.Or(failed, err)
	}
	return payload, nil
}

// keysGap is the least time between two fetches of the keys at one address. Anybody can
// send a logout token with a key id that nobody has.
const keysGap = 5 * time.Second

// errTooSoon tells that keys were fetched a moment ago.
var errTooSoon = errors.New("the key set was fetched a moment ago")

// signers are the keys that documents of a provider name. They are fetched when a token
// wants one that is not known.
type signers struct {
	of      *OIDC
	address string
	made    time.Time
	known   atomic.Pointer[auth.PublicKeys] // never nil
	flights pace.Once[*auth.PublicKeys]
	fetched time.Time // when they were asked for last; only the one flight uses it
}

func newSigners(of *OIDC, address string, now time.Time) *signers {
	k := &signers{of: of, address: address, made: now}
	k.known.Store(auth.NewPublicKeys(0))
	return k
}

// renew fetches the keys, once for all who wait, or returns errTooSoon.
func (k *signers) renew(ctx context.Context) error {
	_, err := k.flights.Do(ctx, "", func(ctx context.Context) (*auth.PublicKeys, error) {
		now := k.of.cfg.Now()
		if now.Sub(k.fetched) < k.of.gap {
			return nil, errTooSoon
		}
		k.fetched = now
		text, err := auth.FetchKeySet(ctx, k.of.cfg.Client, k.address)
		if err != nil {
			return nil, err
		}
		keys, err := auth.ReadPublicKeys(text)
		if err == nil {
			k.known.Store(keys)
		}
		return keys, err
	})
	return err
}

// claimsOf returns the claims of what go-oidc has verified, as auth.Members does.
func claimsOf(verified interface{ Claims(v any) error }, known ...string) ([]strictjson.Member, error) {
	var payload json.RawMessage
	if err := verified.Claims(&payload); err != nil {
		return nil, errors.New("not a JSON object") // the error might quote claims
	}
	return auth.Members(payload, known...)
}

// textOf returns the text of the member of that name, "" if there is none.
func textOf(list []strictjson.Member, name string) string {
	text, _ := strictjson.Text(strictjson.Find(list, name))
	return text
}

// aboutPerson returns the claims of userinfo that are about the person, and not about a
// token or how somebody proved himself: of these only ID tokens speak.
func aboutPerson(claims []strictjson.Member) []strictjson.Member {
	return slices.DeleteFunc(slices.Clone(claims), func(m strictjson.Member) bool {
		switch m.Name {
		case "iss", "aud", "azp", "exp", "iat", "nbf", "jti", "sid", "auth_time", "acr", "amr":
			return true
		}
		return false
	})
}

// stillVerified returns earlier claims without those that say of an address or number
// that it is verified which is another one now.
// https://openid.net/specs/openid-connect-core-1_0.html#StandardClaims
func stillVerified(earlier, now []strictjson.Member) []strictjson.Member {
	return slices.DeleteFunc(slices.Clone(earlier), func(m strictjson.Member) bool {
		name, speaks := strings.CutSuffix(m.Name, "_verified")
		is := strictjson.Find(now, name)
		return speaks && is != nil && !bytes.Equal(is, strictjson.Find(earlier, name))
	})
}

// joined returns first with the members of second that first does not have, as one JSON
// object. What only the protocol needs is left out.
func joined(first, second []strictjson.Member) ([]byte, error) {
	var out bytes.Buffer
	have := map[string]bool{"nonce": true, "at_hash": true, "c_hash": true, "s_hash": true}
	out.WriteByte('{')
	for _, list := range [][]strictjson.Member{first, second} {
		for _, m := range list {
			if have[m.Name] {
				continue
			}
			have[m.Name] = true
			if out.Len() > 1 {
				out.WriteByte(',')
			}
			out.Write(strictjson.AppendQuote(nil, m.Name))
			out.WriteByte(':')
			out.Write(m.Value)
		}
	}
	out.WriteByte('}')
	if out.Len() > maxClaims {
		return nil, fmt.Errorf("claims of more than %d bytes", maxClaims)
	}
	return out.Bytes(), nil
}
