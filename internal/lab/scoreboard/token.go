package main

import (
	"crypto"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"strings"
)

// mint signs claims with HS256.
func mint(claims map[string]any, secret string) string {
	return signed(`{"alg":"HS256","typ":"JWT"}`, string(made(json.Marshal(claims))), secret)
}

// signed returns a token of any header and claims.
func signed(header, payload, secret string) string {
	return signer{"HS256", crypto.SHA256, []byte(secret)}.token(header, payload)
}

// badToken returns a token that is none of an issuer here, or not for here, or not in its
// time: whatever it is, it must be refused. way says what is wrong with it.
func badToken(r *rand.Rand, p person) (token, way string) {
	good := p.token()
	parts := strings.Split(good, ".")
	switch r.IntN(8) {
	case 0: // one character of any part is another one
		i := r.IntN(len(good))
		return good[:i] + string(otherThan(r, good[i])) + good[i+1:], "a character changed"
	case 1:
		return good[:r.IntN(len(good))], "cut off"
	case 2:
		at := r.IntN(len(good) + 1)
		return good[:at] + pick(r, []string{"A", ".", "=", "==", "%", "\t", "e30", "AAAA", good}) + good[at:],
			"something inserted"
	case 3:
		other := strings.Split(mint(changed(p.claims(), "sub", "mallory"), secrets[""]), ".")
		parts[r.IntN(3)] = other[1+r.IntN(2)]
		return strings.Join(parts, "."), "parts of another token"
	case 4:
		return mint(changed(p.claims(), pick(r, []string{"sub", "org", "azp", "x"}),
			pick(r, []any{"root", "acme", "globex", 1, true})), secrets[""]), "signed by nobody here"
	case 5:
		return badHeader(r, p), "header"
	case 6: // each issuer has its own secret
		for issuer, secret := range secrets {
			if issuer != p.issuer && issuer != "" {
				return mint(p.claims(), secret), "signed by the other issuer"
			}
		}
	}
	return badClaims(r, p), "claims"
}

func badHeader(r *rand.Rand, p person) string {
	payload, _ := json.Marshal(p.claims()) // plain values always encode
	header := pick(r, []string{
		`{"alg":"none"}`, `{"alg":"None"}`, `{"alg":""}`, `{}`, `{"alg":"HS512"}`, `{"alg":"RS256"}`,
		`{"alg":"hs256"}`, `{"alg":["HS256"]}`, `{"alg":null}`,
		`{"alg":"HS256","crit":["exp"]}`, `{"alg":"HS256","b64":false,"crit":["b64"]}`,
		`{"alg":"HS256","b64":false}`, `{"alg":"HS256","alg":"HS256"}`,
		`{"alg":"HS256","Alg":"none"}`, `{"alg":"HS256"}{}`, `{"alg":"HS256","kid":7}`, `[]`, `"HS256"`, "",
		`{"alg":"HS256","typ":7}`, "{\"alg\":\"HS256\",\"x\":\"\xff\"}", `{"alg":"HS256","x":` +
			strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
	})
	if r.IntN(4) == 0 {
		good := p.token()
		return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) +
			good[strings.IndexByte(good, '.'):strings.LastIndexByte(good, '.')+1]
	}
	return signed(header, string(payload), secrets[p.issuer])
}

// badClaims are signed by the issuer, and must be refused for what they say.
func badClaims(r *rand.Rand, p person) string {
	claims, secret := p.claims(), secrets[p.issuer]
	now, _ := claims["iat"].(int64)
	day := int64(24 * 60 * 60)
	wrong := []struct {
		name  string
		value any
	}{
		{"exp", now - day},
		{"exp", now + 3*day},
		{"exp", "never"},
		{"exp", nil},
		{"nbf", now + day},
		{"iat", now + day},
		{"iss", "https://three.test/"},
		{"iss", strings.TrimSuffix(p.issuer, "/")},
		{"iss", []string{p.issuer}},
		{"iss", nil},
		{"aud", "https://elsewhere.test/mcp"},
		{"aud", audience + "/"},
		{"aud", []string{}},
		{"aud", nil},
		{"sub", ""},
		{"sub", 7},
		{"sub", nil},
		{"sub", strings.Repeat("s", 300)},
		{"org", "initech"},
		{"org", ""},
		{"org", []string{"initech"}},
		{"org", []string{}},
		{"org", []any{"acme", 7}},
		{"org", "ACME"},
		{"org", nil},
	}
	one := wrong[r.IntN(len(wrong)+3)%len(wrong)]
	claims = changed(claims, one.name, one.value)
	payload, _ := json.Marshal(claims) // plain values always encode
	text := string(payload)
	if r.IntN(5) == 0 { // two of one name, which parsers read differently
		payload, _ = json.Marshal(p.claims())
		text = strings.Replace(string(payload), `"sub":`,
			pick(r, []string{`"sub":"root","sub":`, `"Sub":"root","sub":`, `"org":"acme","sub":`}), 1)
	}
	return signed(`{"alg":"HS256","typ":"JWT"}`, text, secret)
}

// changed returns claims of which one is another; nil leaves it out.
func changed(claims map[string]any, name string, value any) map[string]any {
	claims = maps.Clone(claims)
	claims[name] = value
	if value == nil {
		delete(claims, name)
	}
	return claims
}

const base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// otherThan returns a character of base64url that is not c.
func otherThan(r *rand.Rand, c byte) byte {
	for {
		if other := base64url[r.IntN(len(base64url))]; other != c {
			return other
		}
	}
}

func pick[T any](r *rand.Rand, all []T) T { return all[r.IntN(len(all))] }
