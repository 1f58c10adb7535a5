package main

import (
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// forgery is a token with what is wrong with it.
type forgery struct{ what, token string }

// forgedTokens is the class of inputs that forgeries are.
const forgedTokens = "tokens forged, for each algorithm" //nolint:gosec // G101: the name of a class

// tryForgeries sends every forgery under every algorithm, and beside them the good token
// of each.
func (w *world) tryForgeries(t *tally) {
	one := &speaker{w: w, person: people[0], revision: mcp.Revision2607}
	try := func(class string, m wanted, f forgery) {
		in := input{
			request: one.ask(`"f"`, mcp.MethodToolsList, ""), class: class, what: f.what, want: m,
			id: `"f"`,
		}
		in.token = f.token
		a := one.do(&in)
		t.add(class, judge(&in, &a),
			func() string { return fmt.Sprintf("%s: %.300s: %d %.200s", f.what, f.token, a.status, a.body) })
	}
	all := signers()
	must.AtOnce(len(all), len(all), func(i int) {
		s := all[i]
		try("messages as they should be", serve, forgery{s.algorithm, s.token(s.header(), s.claims())})
		for _, f := range s.forgeries() {
			try(forgedTokens, deny, forgery{s.algorithm + ": " + f.what, f.token})
		}
	})
}

// forgeries are all that are tried under one algorithm, in order of what they are.
func (s signer) forgeries() []forgery {
	all := slices.Concat(s.renamed(), s.confused(), s.headers(), s.payloads(), s.spellings(), s.signatures())
	slices.SortStableFunc(all, func(a, b forgery) int { return strings.Compare(a.what, b.what) })
	return all
}

// each is a forgery for each of some texts, which stand behind what it is.
func each(what string, texts []string, token func(text string) string) (all []forgery) {
	for _, text := range texts {
		all = append(all, forgery{what + text, token(text)})
	}
	return all
}

func (s signer) header() string {
	return `{"alg":"` + s.algorithm + `","kid":"` + keyID + `","typ":"at+jwt"}`
}

// with is the header with more members.
func (s signer) with(members string) string {
	return s.header()[:len(s.header())-1] + "," + members + "}"
}

// claims are those of the person.
func (s signer) claims() string { return s.claimsWith("iss", s.person.issuer) }

// claimsWith are claims of which one is another; nil leaves it out.
func (s signer) claimsWith(name string, value any) string {
	claims := s.person.claims()
	if claims[name] = value; value == nil {
		delete(claims, name)
	}
	return string(must.Have(json.Marshal(claims)))
}

// token is signed as it should be, whatever it says.
func (s signer) token(header, claims string) string {
	input := encode(header) + "." + encode(claims)
	return sealed(input, s.sign(input))
}

// renamed are tokens whose header names another algorithm than that of the signature.
func (s signer) renamed() (all []forgery) {
	for _, name := range []string{
		"none", "None", "NONE", "nOnE", " none", "none ", "", "\u0000",
		"no\u200bne",
	} {
		header := string(must.Have(json.Marshal(map[string]string{"alg": name, "kid": keyID})))
		input := encode(header) + "." + encode(s.claims())
		all = append(all, forgery{fmt.Sprintf("alg %q, no signature", name), input + "."},
			forgery{fmt.Sprintf("alg %q, signed", name), s.token(header, s.claims())},
			forgery{fmt.Sprintf("alg %q, two parts", name), input})
	}
	names := []string{
		"ES256K", "Ed25519", "Ed448", "HS1", "RS1", "RSA-OAEP", "RSA1_5", "dir", "A128KW",
		"PBES2-HS256+A128KW", "ECDH-ES", strings.ToLower(s.algorithm), s.algorithm + " ", s.algorithm +
			"\u0000",
	}
	for _, other := range signers() {
		if other.algorithm == s.algorithm {
			continue
		}
		names = append(names, other.algorithm)
		header := strings.Replace(s.header(), s.algorithm, other.algorithm, 1)
		all = append(all, forgery{
			"signed with " + other.algorithm + " by the key of that",
			other.token(header, s.claims()),
		})
		if fmt.Sprintf("%T", other.private) == fmt.Sprintf("%T", s.private) { // the same key, if it can
			own := signer{other.algorithm, other.hash, s.private, s.person}
			all = append(all, forgery{"signed with " + other.algorithm, own.token(header, s.claims())},
				forgery{"really signed with " + other.algorithm, own.token(s.header(), s.claims())})
		}
	}
	return slices.Concat(all, each("alg said to be ", names, func(name string) string {
		return s.token(string(must.Have(json.Marshal(map[string]string{"alg": name, "kid": keyID}))), s.claims())
	}), each("alg ", []string{"null", "7", "true", "[]", `["` + s.algorithm + `"]`, "{}"}, func(value string) string {
		return s.token(strings.Replace(s.header(), `"`+s.algorithm+`"`, value, 1), s.claims())
	}), []forgery{{"no alg", s.token(`{"kid":"k"}`, s.claims())}})
}

// confused are tokens that are signed with what everybody may know: the public key taken
// for a secret, in every form in which a program may hold it, or nothing at all.
func (s signer) confused() (all []forgery) {
	known := map[string][]byte{
		"nothing": nil, "a NUL": {0}, "a word": []byte("secret"),
		"its name": []byte(keyID), "the issuer": []byte(s.person.issuer),
	}
	if _, shared := s.private.([]byte); !shared {
		der := must.Have(x509.MarshalPKIXPublicKey(s.public()))
		block := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
		known["DER"], known["PEM"], known["PEM without its last line break"] = der, block,
			block[:len(block)-1]
		known["PEM with other line breaks"] = []byte(strings.ReplaceAll(string(block), "\n", "\r\n"))
		known["base64 of DER"] = []byte(strings.Join(strings.Split(string(block), "\n")[1:], ""))
		known["JSON"] = must.Have(json.Marshal(s.public()))
		if public, is := s.public().(*rsa.PublicKey); is {
			known["modulus"], known["DER of PKCS#1"] = public.N.Bytes(), x509.MarshalPKCS1PublicKey(public)
		}
	}
	for form, secret := range known {
		for name, hash := range map[string]crypto.Hash{
			"HS256": crypto.SHA256, "HS384": crypto.SHA384,
			"HS512": crypto.SHA512,
		} {
			mac := signer{name, hash, secret, s.person}
			all = append(all, forgery{
				name + " by " + form,
				mac.token(strings.Replace(s.header(), s.algorithm, name, 1), s.claims()),
			},
				forgery{name + " by " + form + ", not said", mac.token(s.header(), s.claims())})
		}
	}
	return all
}

// headers are tokens that are signed well or by a stranger, under a header that asks for
// too much.
func (s signer) headers() []forgery {
	stranger := s
	for _, one := range strangers() {
		if one.algorithm == s.algorithm {
			stranger = one
		}
	}
	jwk := `{"kty":"oct","kid":"k","k":"` + encode(secrets[""]) + `"}`
	return slices.Concat([]forgery{
		{"signed by a stranger", stranger.token(s.header(), s.claims())},
	}, each("signed by a stranger with ", []string{
		`"jwk":` + jwk, `"jku":"https://evil.test/keys"`, `"jku":"file:///dev/null"`,
		`"x5u":"https://evil.test/c"`, `"x5c":["` + digest("x") + `"]`, `"x5t":"` + digest("x") + `"`,
		`"x5t#S256":"` + digest("x") + `"`, `"keys":[` + jwk + `]`, `"jwks":{"keys":[` + jwk +
			`]}`, `"iss":"` + s.person.issuer + `"`, `"nonce":"x"`, `"apu":"x"`,
	}, func(members string) string { return stranger.token(s.with(members), s.claims()) }), each("header with ", []string{
		`"crit":["exp"]`, `"crit":["alg"]`, `"crit":[]`, `"crit":null`, `"crit":"b64"`, `"crit":[1]`,
		`"crit":["b64"],"b64":true`, `"crit":["b64"],"b64":false`, `"crit":["x"],"x":1`,
		`"b64":false`, `"b64":true`, `"b64":null`, `"b64":"false"`, `"zip":"DEF"`, `"enc":"A256GCM"`,
		`"alg":"` + s.algorithm + `"`, `"alg":"none"`, `"\u0061lg":"none"`, `"ALG":"none"`, `"Alg":"` +
			s.algorithm + `"`,
		`"alg\u0000":"none"`, `"kid":"k"`, `"KID":"k"`, "\"\u212aid\":\"k\"", `"Crit":["x"]`, `"x":1,"x":2`,
		`"x":1,"X":2`, `"x":"` + strings.Repeat("x", 9<<10) + `"`,
		`"x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200), `"x":1e999999`, `"x":"\ud800"`,
		"\"x\":\"\xff\"", "\"x\":\"\n\"", `"x":01`, `"x":NaN`, `"x":1,`,
	}, func(members string) string { return s.token(s.with(members), s.claims()) }), each("typ ", []string{
		`"dpop+jwt"`, `"logout+jwt"`, `"secevent+jwt"`, `"JWE"`, `"at+jwt2"`,
		`"token-introspection+jwt"`, `""`, `7`, `null`, `[]`, `{}`, `["at+jwt"]`,
	}, func(typ string) string {
		return s.token(strings.Replace(s.header(), `"at+jwt"`, typ, 1), s.claims())
	}), each("kid ", []string{
		`"x"`, `""`, `"K"`, `"k "`, `"k\u0000"`, `"../k"`, `"/dev/null"`,
		`"' OR '1'='1"`, `"k;id"`, `7`, `null`, `["k"]`, `{}`, `"` + strings.Repeat("k", 300) + `"`,
	}, func(kid string) string {
		return s.token(strings.Replace(s.header(), `"k"`, kid, 1), s.claims())
	}), each("header ", []string{
		"", "{", "{}", "[]", "null", `"x"`, "7", s.header() + "{}",
		s.header() + " x", "\ufeff" + s.header(), "[" + s.header() + "]", s.header()[1:],
		strings.ReplaceAll(s.header(), `"`, "'"), "/**/" + s.header(), "\x00" + s.header(),
	}, func(header string) string { return s.token(header, s.claims()) }))
}

// payloads are tokens that are signed well and say what they must not.
func (s signer) payloads() (all []forgery) {
	good := s.claims()
	for _, payload := range []string{
		"", "{", "{}", "[]", "null", `"x"`, "7", good + "{}", "[" + good + "]", "\ufeff" + good, good[1:],
		strings.Replace(good, "{", `{"sub":"root",`, 1), strings.Replace(good, "{", `{"org":"acme",`, 1),
		strings.Replace(good, "{", `{"Sub":"root",`, 1),
		strings.Replace(good, "{", `{"s\u0075b":"root",`, 1), strings.Replace(good, "{",
			`{"iss":"https://one.test/",`, 1), strings.Replace(good, s.person.user, s.person.user+"\xff", 1),
		strings.Replace(good, s.person.user, `\ud800`, 1),
		strings.Replace(good, "{", `{"x":"`+strings.Repeat("x", 9<<10)+`",`, 1), strings.Replace(good, "{",
			`{"x":`+strings.Repeat("[", 200)+strings.Repeat("]", 200)+`,`, 1), s.token(s.header(), good),
	} {
		all = append(all, forgery{"claims " + payload, s.token(s.header(), payload)},
			forgery{"nested claims " + payload, s.token(s.with(`"cty":"JWT"`), payload)})
	}
	for _, other := range append(signers(), people[0].signer(), people[4].signer()) {
		if other.person.issuer != s.person.issuer {
			all = append(all,
				forgery{"claims of " + other.person.issuer, s.token(s.header(), other.claims())},
				forgery{"signed by " + other.person.issuer, other.token(s.header(), s.claims())})
		}
	}
	now := s.person.claims()["iat"].(int64)
	for _, one := range []struct {
		name  string
		value any
	}{
		{"exp", now - 90},
		{"exp", now - 24*3600},
		{"exp", now + 3*24*3600},
		{"exp", "never"},
		{"exp", fmt.Sprint(now + 600)},
		{"exp", nil},
		{"exp", -1},
		{"exp", 1e300},
		{"nbf", now + 3600},
		{"nbf", "0"},
		{"iat", now + 3600},
		{"iss", nil},
		{"iss", "https://three.test/"},
		{"iss", strings.TrimSuffix(s.person.issuer, "/")},
		{"iss", []string{s.person.issuer}},
		{"iss", s.person.issuer + " "},
		{"aud", nil},
		{"aud", ""},
		{"aud", []string{}},
		{"aud", []any{audience, 1}},
		{"aud", audience + "/x"},
		{"aud", audience + "/"},
		{"aud", "https://elsewhere.test/mcp"},
		{"sub", nil},
		{"sub", ""},
		{"sub", 1},
		{"sub", strings.Repeat("s", 300)},
		{"org", "initech"},
		{"org", ""},
		{"org", "ACME"},
		{"org", []string{}},
		{"org", []string{"initech"}},
		{"org", []any{"acme", 7}},
		{"org", nil},
		{"org", 7},
	} {
		all = append(all, forgery{
			fmt.Sprintf("%s %v", one.name, one.value),
			s.token(s.header(), s.claimsWith(one.name, one.value)),
		})
	}
	return all
}
