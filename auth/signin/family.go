package signin

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

const familyKind = "family" // of records

// stage is how far a family has come.
type stage string

const (
	stageConsent stage = "consent" // the person is asked
	stageCode    stage = "code"    // the client is to bring its code
	stageActive  stage = "live"    // the client has tokens
	stageEnded   stage = "ended"   // none of its tokens is worth anything
)

// family is what one client may do for one person, and all its tokens, from the sign-in
// to the end. It is one record, so that whatever happens to it is one comparison with
// what was read, at whichever replica:
//
//	consent ──person allows──▶ code ──client brings it──▶ live ──refresh──▶ live, one generation on
//	   │                        │ twice                    │ a token that was spent too long ago, another client
//	   └──────time──────▶ gone  └───────────▶ ended ◀──────┘ sign-out, revoked, provider says no
type family struct {
	ID       string `json:"-"`
	Version  int64  `json:"-"` // of the record, as it was read; 0: it is new
	Stage    stage  `json:"stage"`
	Ask      ask    `json:"ask"`
	Provider string `json:"provider"`

	// The person, by the mapping of the provider's issuer, when the provider was asked
	// last.
	Issuer  string   `json:"issuer"`
	Subject string   `json:"subject"`
	Name    string   `json:"name,omitempty"`
	Claimed []string `json:"claimed,omitempty"` // scopes that the claims give
	Tenant  string   `json:"tenant,omitempty"`  // "": the person has to choose one of Tenants
	Tenants []string `json:"tenants,omitempty"`

	RefreshToken string `json:"refresh_token,omitempty"` // the provider's; "": it gave none
	// The provider's, and until when it is good, where Settings.KeepTokens says so. "":
	// it is had with the refresh token.
	AccessToken string `json:"access_token,omitempty"`
	AccessUntil int64  `json:"access_until,omitempty"`
	SessionID   string `json:"session_id,omitempty"` // the provider's
	// those of the provider's claims that Settings.KeepClaims names
	Carried map[string]json.RawMessage `json:"kept,omitempty"`
	// the provider's sub, which in rules may be another claim
	ProviderSubject string `json:"provider_subject,omitempty"`
	SignedIn        int64  `json:"signed_in"` // in seconds since 1970, as all times here
	Looked          int64  `json:"looked"`    // when the provider was asked last
	// when it was noted last how the provider names it; 0: never
	Indexed int64 `json:"indexed,omitempty"`

	// digest of the browser's secret, then of the code's and, in the end, of the end's
	Secret string `json:"secret,omitempty"`
	Until  int64  `json:"until,omitempty"` // when the code expires

	Key        []byte           `json:"key,omitempty"`        // of the family's refresh tokens
	Generation uint32           `json:"generation,omitempty"` // of the present one
	Spent      map[uint32]int64 `json:"spent,omitempty"`      // when earlier ones were used first
	// Until when one replica asks the provider, whose own refresh token may be good for
	// once; 0: none does.
	Asking int64 `json:"asking,omitempty"`

	unfit *auth.Error // the claim for which the person loses access; nil: there is none
}

// owner returns what the records of a person are listed by.
func owner(issuer, subject string) string { return clients.DigestOf(issuer + "\x00" + subject) }

// put writes the family. The error may be store.ErrConflict or store.ErrFull.
func (s *core) put(ctx context.Context, f *family, expires time.Time) error {
	value, err := strictjson.Marshal(f)
	if err != nil {
		return fmt.Errorf("write the family: %w", err)
	}
	if len(value) > store.MaxValue && f.AccessToken != "" { // it is had anew each time
		f.AccessToken = ""
		return s.put(ctx, f, expires)
	}
	if len(value) > store.MaxValue {
		return errRepeated // claims or tokens of the provider are too long to be kept
	}
	version, err := s.config.Store.Put(ctx, store.Record{
		Kind: familyKind, ID: f.ID, Tenant: f.Tenant, Owner: owner(f.Issuer, f.Subject),
		Expires: expires, Value: value, Version: f.Version,
	})
	if err != nil {
		return err
	}
	f.Version = version
	return nil
}

// putOwn is put for a family with a secret that nobody else can have. After a conflict
// the secret tells whether it was this very family that an earlier try has written, and
// whose answer was lost, or a click of the same person at the same time: both are on
// record then.
func (s *core) putOwn(ctx context.Context, f *family, expires time.Time) error {
	err := s.put(ctx, f, expires)
	if !errors.Is(err, store.ErrConflict) {
		return err
	}
	there, unread := s.family(ctx, f.ID)
	switch {
	case errors.Is(unread, store.ErrNotFound):
		return err
	case unread != nil:
		return unread
	case there.Secret != f.Secret:
		return err
	}
	f.Version = there.Version
	return nil
}

// family returns the family with that id. The error may be store.ErrNotFound.
func (s *core) family(ctx context.Context, id string) (*family, error) {
	record, err := s.config.Store.Get(ctx, familyKind, id)
	if err != nil {
		return nil, err
	}
	return familyOf(record)
}

func familyOf(record store.Record) (*family, error) {
	f := &family{}
	if err := strictjson.Unmarshal(record.Value, f); err != nil {
		return nil, fmt.Errorf("read the family: %w", err)
	}
	f.ID, f.Version = record.ID, record.Version
	return f, nil
}

// expires returns when the family ends if nobody uses it from now on.
func (f *family) expires(now time.Time) time.Time {
	if f.RefreshToken == "" {
		return atTime(f.SignedIn).Add(unseenLife)
	}
	return now.Add(familyIdle)
}

// scopes returns the scopes of an access token: of those that the claims give, the ones
// that mean something here, that the client has asked for, and that it wants now if it
// says so. None known, asked for or wanted stands for all.
func (f *family) scopes(known, wanted []string) []string {
	return f.claimedIn(known, f.Ask.Scopes, wanted)
}

// spare returns the scopes that the person has beyond those of a token: a client that
// asks for them in another sign-in gets them.
func (f *family) spare(known, has []string) []string {
	given := func(scope string) bool { return slices.Contains(has, scope) }
	return slices.DeleteFunc(f.claimedIn(known), given)
}

// claimedIn returns the scopes that the claims give and each list has, once each. A list
// of none has all.
func (f *family) claimedIn(lists ...[]string) (scopes []string) {
	for _, scope := range f.Claimed {
		lacks := func(list []string) bool { return len(list) > 0 && !slices.Contains(list, scope) }
		if !slices.ContainsFunc(lists, lacks) && !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// take takes over what the provider says of the person now. It is false if the person is
// another or has lost the tenant.
func (f *family) take(person auth.Principal, now time.Time) bool {
	chosen, is := person.At(f.Tenant)
	if !is || chosen.Issuer != f.Issuer || chosen.Subject != f.Subject {
		return false
	}
	f.Name, f.Claimed, f.Looked = person.Name, person.Scopes, now.Unix()
	return true
}

// attrs returns what the log says of a family.
func (f *family) attrs() []slog.Attr {
	return []slog.Attr{
		slog.String("issuer", f.Issuer), slog.String("subject", f.Subject), slog.String("tenant", f.Tenant),
		slog.String("client", f.Ask.Client.Short()), slog.String("provider", f.Provider),
	}
}

// A refresh token is this, in base64url behind a prefix:
//
//	id of the family 26 │ generation 4 │ MAC of both 20
//
// So each of a family is known for what it is, however long ago it was spent, without a
// list, and the present one can be said again.
const (
	tokenPrefix = "dbr_"
	macSize     = 20
	tokenSize   = idSize + 4 + macSize
)

// newTokenKey returns a key of a family's refresh tokens that no family has.
func newTokenKey() []byte {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return key
}

// token returns the family's present refresh token.
func (f *family) token() string {
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(f.tokenOf(f.Generation))
}

func (f *family) tokenOf(generation uint32) []byte {
	plain := binary.BigEndian.AppendUint32([]byte(f.ID), generation)
	mac := hmac.New(sha256.New, f.Key)
	mac.Write(plain)
	return append(plain, mac.Sum(nil)[:macSize]...)
}

// presented is a refresh token as a client sent it. Only its family can tell whether it
// is one.
type presented struct {
	family     string
	generation uint32
	raw        []byte
}

// readToken takes a refresh token apart.
func readToken(text string) (presented, bool) {
	rest, is := strings.CutPrefix(text, tokenPrefix)
	raw, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	if !is || err != nil || len(raw) != tokenSize || strings.ContainsAny(rest, "\r\n") {
		return presented{}, false
	}
	return presented{string(raw[:idSize]), binary.BigEndian.Uint32(raw[idSize:]), raw}, true
}

// made tells whether the family has given out the token, or will.
func (f *family) made(p presented) bool {
	return len(f.Key) > 0 && hmac.Equal(p.raw, f.tokenOf(p.generation))
}

const maxSpent = 64 // generations whose time is kept

// rotate makes the next refresh token the present one, unless too many were spent lately:
// then the present one stays, and rotate is false. It forgets when those were spent that
// are too old to be answered.
func (f *family) rotate(now time.Time, window time.Duration) bool {
	for generation, at := range f.Spent {
		if now.Sub(atTime(at)) > window {
			delete(f.Spent, generation)
		}
	}
	if len(f.Spent) >= maxSpent {
		return false
	}
	if f.Spent == nil {
		f.Spent = make(map[uint32]int64, 1)
	}
	f.Spent[f.Generation] = now.Unix()
	f.Generation++
	return true
}

// spentLately tells whether an earlier token of the family was used first so short a time
// ago that it may be answered with the present one.
func (f *family) spentLately(generation uint32, now time.Time, window time.Duration) bool {
	at, known := f.Spent[generation]
	return known && now.Sub(atTime(at)) <= window
}

// isDigest tells whether a secret has that digest, by which it is kept.
func isDigest(want, secret string) bool {
	return subtle.ConstantTimeCompare([]byte(want), []byte(clients.DigestOf(secret))) == 1
}

// atTime returns the time that a record has in seconds.
func atTime(seconds int64) time.Time { return time.Unix(seconds, 0) }
