package auth

import (
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

const (
	maxEarly = 60 * time.Second // how far in the future a token may say it was issued
	lastDate = 253402300799     // seconds since 1970 of the end of the year 9999
)

// claims are what a token says, of the right types, believed by nobody yet.
type claims struct {
	issuer    string
	subject   string
	clientID  string
	audience  []string
	expires   time.Time
	notBefore time.Time // zero: not said
	issued    time.Time // zero: not said
	all       []strictjson.Member
}

func readClaims(data []byte) (claims, error) {
	all, err := members(data, "iss", "sub", "aud", "exp", "nbf", "iat", "jti", "azp", "client_id", "scope")
	if err != nil {
		return claims{}, err
	}
	c := claims{all: all}
	var clientID string
	for _, m := range all {
		ok := true
		switch m.Name {
		case "iss":
			c.issuer, ok = text(m.Value)
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
			_, ok = text(m.Value)
		}
		if !ok {
			return claims{}, refuse("claims", m.Name+" is of the wrong type or size")
		}
	}
	if c.clientID == "" {
		c.clientID = clientID
	}
	if c.issuer == "" {
		return claims{}, refuse("claims", "iss is needed")
	}
	return c, nil
}

// complete checks that the token says what it must.
func (c *claims) complete() error {
	if c.subject == "" || len(c.audience) == 0 || c.expires.IsZero() {
		return refuse("claims", "sub, aud and exp are needed")
	}
	return nil
}

// timely checks what the library does not: when the token was issued and how long it lives. A token that does not say
// when it was issued may have been issued now, by a clock that is ahead by the leeway.
func (c *claims) timely(now time.Time) error {
	if c.issued.After(now.Add(maxEarly)) {
		return refuse("early", "issued in the future")
	}
	issued := c.issued
	if issued.IsZero() {
		issued = now.Add(leeway)
	}
	if c.expires.Sub(issued) > MaxLifetime {
		return &Error{Reason: "lifetime"}
	}
	return nil
}

// member returns the value of the claim of that exact name, nil when there is none.
func (c *claims) member(name string) []byte {
	for _, m := range c.all {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// text returns the JSON string in value.
func text(value []byte) (string, bool) {
	if len(value) == 0 || value[0] != '"' {
		return "", false
	}
	s, err := strictjson.Unquote(value)
	return s, err == nil
}

// name returns the JSON string in value when it may name somebody.
func name(value []byte) (string, bool) {
	s, ok := text(value)
	return s, ok && len(s) <= maxName
}

// texts returns the elements of the JSON array of strings in value.
func texts(value []byte) ([]string, bool) {
	if len(value) == 0 || value[0] != '[' {
		return nil, false
	}
	elements, err := strictjson.Elements(nil, value)
	if err != nil {
		return nil, false
	}
	list := make([]string, 0, len(elements))
	for _, element := range elements {
		s, ok := text(element)
		if !ok {
			return nil, false
		}
		list = append(list, s)
	}
	return list, true
}

// audience returns aud, which is one string or an array of them: RFC 7519 section 4.1.3.
func audience(value []byte) ([]string, bool) {
	if one, ok := text(value); ok {
		return []string{one}, one != ""
	}
	return texts(value)
}

// words returns the words of a scope claim: text with blanks between them, or an array. No claim is no words.
func words(value []byte) ([]string, bool) {
	if value == nil {
		return nil, true
	}
	if s, ok := text(value); ok {
		return strings.Fields(s), true
	}
	return texts(value)
}

// date returns a NumericDate, RFC 7519 section 2, in whole seconds.
func date(value []byte) (time.Time, bool) {
	seconds, err := strconv.ParseFloat(string(value), 64)
	if err != nil || seconds < 0 || seconds > lastDate {
		return time.Time{}, false
	}
	return time.Unix(int64(seconds), 0), true
}
