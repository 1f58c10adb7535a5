package auth

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

const (
	maxEarly = 60 * time.Second // how far in the future the time may be at which a token says it was issued
	lastDate = 253402300799     // the end of the year 9999, in seconds since 1970

	// MaxName is how many bytes a subject, client id or key id may have. For sub, OpenID
	// Connect Core 1.0 section 2 says so.
	MaxName = 255
)

// claims are what a token says. They are of the right types, but nobody has checked yet
// that they are true.
type claims struct {
	issuer    string
	subject   string
	clientID  string
	tokenID   string
	audience  []string
	expires   time.Time           // zero: not said
	notBefore time.Time           // zero: not said
	issued    time.Time           // zero: not said
	all       []strictjson.Member // every claim, for those that the configuration names
}

// readClaims reads the claims of a token. It checks types and sizes only, because the
// signature is not verified yet. Only iss is required already, since without it there is
// no key to verify with.
func readClaims(data []byte) (claims, error) {
	all, err := Members(data, "iss", "sub", "aud", "exp", "nbf", "iat", "jti", "azp", "client_id", "scope")
	if err != nil {
		return claims{}, &Error{Reason: "malformed", Err: err}
	}
	c := claims{all: all}
	var clientID string
	for _, m := range all {
		ok := true
		switch m.Name {
		case "iss":
			c.issuer, ok = strictjson.Text(m.Value)
		case "sub":
			c.subject, ok = name(m.Value)
		case "aud":
			c.audience, ok = audience(m.Value)
		case "exp":
			c.expires, ok = date(m.Value)
		case "nbf":
			c.notBefore, ok = date(m.Value)
		case "iat":
			c.issued, ok = date(m.Value)
		case "azp":
			c.clientID, ok = name(m.Value)
		case "client_id":
			clientID, ok = name(m.Value)
		case "jti":
			c.tokenID, ok = strictjson.Text(m.Value)
		}
		if !ok {
			return claims{}, refuse("claims", m.Name+" is of the wrong type or size")
		}
	}
	c.clientID = cmp.Or(c.clientID, clientID)
	return c, nil
}

// complete returns an *Error unless the claims that every token must have are there.
func (c *claims) complete() error {
	for _, claim := range []struct {
		name    string
		isThere bool
	}{{"sub", c.subject != ""}, {"aud", len(c.audience) > 0}, {"exp", !c.expires.IsZero()}} {
		if !claim.isThere {
			return c.unfit("claims", claim.name, "sub, aud and exp are needed")
		}
	}
	return nil
}

// unfit returns an *Error that says which registered claim is at fault, and what was
// wanted, if that can be said.
func (c *claims) unfit(reason, claim, cause string, wanted ...string) error {
	return unfit(reason, &claimPath{text: claim}, c.member(claim), wanted, errors.New(cause))
}

// unixTime returns a time as claims write it.
func unixTime(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

// timely checks what the library does not: when the token was issued, and how long it
// lives, which may be as long as life. A token that does not say when it was issued is
// taken as issued now, by a clock that is ahead by the leeway. That is the kindest
// reading: any earlier time would make its life longer.
func (c *claims) timely(now time.Time, life time.Duration) error {
	if c.issued.After(now.Add(maxEarly)) {
		return c.unfit("early", "iat", "issued in the future", "at most "+unixTime(now.Add(maxEarly)))
	}
	issued := cmp.Or(c.issued, now.Add(leeway))
	if c.expires.Sub(issued) > life {
		return c.unfit("lifetime", "exp", "it may live for "+life.String()+" from when it was issued",
			"at most "+unixTime(issued.Add(life)))
	}
	return nil
}

// member returns the JSON value of the claim with exactly that name, nil if there is
// none.
func (c *claims) member(name string) []byte {
	return strictjson.Find(c.all, name)
}

// name returns the text of value, and false if value is not a JSON string or too long to
// name somebody.
func name(value []byte) (string, bool) {
	s, ok := strictjson.Text(value)
	return s, ok && len(s) <= MaxName
}

// audience returns the value of aud, which is one string or an array of strings: RFC 7519
// section 4.1.3.
func audience(value []byte) ([]string, bool) {
	if one, ok := strictjson.Text(value); ok {
		return []string{one}, one != ""
	}
	return strictjson.Texts(value)
}

// words returns the words of a scope claim, which is a text with blanks between them (RFC
// 8693 section 4.2) or, as some issuers write it, an array. A claim that is absent has no
// words.
func words(value []byte) ([]string, bool) {
	if value == nil {
		return nil, true
	}
	if s, ok := strictjson.Text(value); ok {
		return strings.Fields(s), true
	}
	return strictjson.Texts(value)
}

// date returns the time of a NumericDate (RFC 7519 section 2), rounded down to whole
// seconds.
func date(value []byte) (time.Time, bool) {
	seconds, err := strconv.ParseFloat(string(value), 64)
	if err != nil || seconds < 0 || seconds > lastDate {
		return time.Time{}, false
	}
	return time.Unix(int64(seconds), 0), true
}

// Members returns the members of a JSON object. It refuses two names that are the same
// once folded, and a name that folds to one of the known names without being it: a
// lenient parser may take it for that. Errors name no members.
func Members(data []byte, known ...string) ([]strictjson.Member, error) {
	if strictjson.Check(data) != nil {
		return nil, errors.New("not strict JSON")
	}
	list, err := strictjson.Members(nil, data)
	if err != nil {
		return nil, errors.New("not a JSON object")
	}
	seen := make(map[string]bool, len(list)+len(known))
	for _, name := range known {
		seen[name] = false
	}
	for _, m := range list {
		folded := strictjson.Fold(m.Name)
		taken, isKnown := seen[folded]
		if taken || isKnown && folded != m.Name {
			return nil, errors.New("two names that fold to one")
		}
		seen[folded] = true
	}
	return list, nil
}
