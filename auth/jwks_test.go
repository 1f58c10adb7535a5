package auth_test

import (
	"crypto/ecdsa"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// TestKeySetMembers shows which keys of a set verify tokens: those that say they may, and
// are sound.
func TestKeySetMembers(t *testing.T) {
	private := newEC()
	point := made(private.PublicKey.Bytes())
	b64 := base64.RawURLEncoding.EncodeToString
	x, y := b64(point[1:33]), b64(point[33:])
	key := members{"kty", `"EC"`, "kid", `"k"`, "crv", `"P-256"`, "x", `"` + x + `"`, "y", `"` + y + `"`}
	oct := members{"kty", `"oct"`, "kid", `"k"`, "k", `"` + b64(secret) + `"`}
	head := header("ES256").with("kid", `"k"`)
	token := mint(private, head, claims(at))
	byHMAC := mint(secret, header("HS256").with("kid", `"k"`), claims(at))

	tests := []struct {
		name, key, token, want string
	}{
		{"plain", key.String(), token, ""},
		{"use sig", key.with("use", `"sig"`).String(), token, ""},
		{"use enc", key.with("use", `"enc"`).String(), token, "key"},
		{"use in capitals", key.with("use", `"SIG"`).String(), token, "key"},
		{"key_ops verify", key.with("key_ops", `["verify"]`).String(), token, ""},
		{"key_ops sign", key.with("key_ops", `["sign"]`).String(), token, "key"},
		{"key_ops empty", key.with("key_ops", `[]`).String(), token, "key"},
		{"alg", key.with("alg", `"ES256"`).String(), token, ""},
		{"alg of another type", key.with("alg", `"RS256"`).String(), token, "key"},
		{"alg of a type error", key.with("alg", `5`).String(), token, "key"},
		{"with private part", key.with("d", `"AAAA"`).String(), token, ""},
		{"unknown kty", key.with("kty", `"ZZ"`).String(), token, "key"},
		{"unknown curve", key.with("crv", `"secp256k1"`).String(), token, "key"},
		{"not on the curve", key.with("y", `"`+x+`"`).String(), token, "key"},
		{"short coordinate", key.with("x", `"`+b64(point[2:33])+`"`).String(), token, "key"},
		{"padded base64", key.with("x", `"`+x+`="`).String(), token, "key"},
		{"no coordinates", key.without("x").String(), token, "key"},
		{"a short RSA key", members{
			"kty", `"RSA"`, "kid", `"k"`, "n", `"` + b64(shortRSA().N.Bytes()) + `"`,
			"e", `"AQAB"`,
		}.String(), token, "key"},
		{"RSA without modulus", `{"kty":"RSA","kid":"k","e":"AQAB"}`, token, "key"},
		{
			"RSA with a huge exponent", members{
				"kty", `"RSA"`, "kid", `"k"`, "n",
				`"` + b64(rsaKey().N.Bytes()) + `"`, "e", `"` + strings.Repeat("_", 64) + `"`,
			}.String(), token,
			"key",
		},
		{"X25519", `{"kty":"OKP","crv":"X25519","kid":"k","x":"` + x + `"}`, token, "key"},
		{"a secret", oct.String(), byHMAC, ""},
		{"a secret for ES256", oct.String(), token, "algorithm"},
		{"a weak secret", oct.with("k", `"AAAA"`).String(), byHMAC, "key"},
		{"a secret that only signs", oct.with("key_ops", `["sign"]`).String(), byHMAC, "key"},
	}
	spare := `{"kty":"OKP","crv":"Ed25519","kid":"spare","x":"` + b64(secret[:32]) + `"}`
	spareSecret := oct.with("kid", `"spare"`).with("k", `"`+b64(newSecret().Public.([]byte))+`"`).String()
	for _, test := range tests {
		issuer := acme(auth.Key{}, "ES256", "RS256", "EdDSA", "HS256")
		other := spare
		if strings.Contains(test.key, `"oct"`) {
			other = spareSecret
		}
		issuer.Keys, issuer.JWKS = nil, []byte(`{"keys":[`+test.key+`,`+other+`]}`)
		_, err := verifier(t, issuer).Verify(t.Context(), test.token)
		if got := reason(t, test.token, err); got != test.want {
			t.Errorf("%s: got reason %q, want %q", test.name, got, test.want)
		}
	}
}

// TestKeySetKinds verifies tokens of each kind of key in a set as another library writes
// it.
func TestKeySetKinds(t *testing.T) {
	keys := map[string]auth.Key{
		"RS256": keyOf("rsa", rsaKey()), "ES256": keyOf("ec", newEC()),
		"EdDSA": keyOf("ed", newEd()),
	}
	issuer := acme(auth.Key{}, "RS256", "ES256", "EdDSA")
	issuer.Keys, issuer.JWKS = nil, keySet(keys["RS256"], keys["ES256"], keys["EdDSA"])
	v := verifier(t, issuer)
	for algorithm, key := range keys {
		token, err := auth.Sign(key, algorithm, auth.Claims{
			Issuer: issuerName, Subject: "alice",
			Audience: audience, Expiry: at.Add(time.Hour),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Verify(t.Context(), token); err != nil {
			t.Errorf("%s: %v", algorithm, err)
		}
	}
}

// badSets are answers that are no key set we take.
func badSets(key *ecdsa.PrivateKey) map[string][]byte {
	one := string(keySet(keyOf("k", key)))
	element := one[len(`{"keys":[`) : len(one)-len("]}\n")]
	var many []string
	for i := range 51 {
		many = append(many, strings.Replace(element, `"kid":"k"`, fmt.Sprintf(`"kid":"k%d"`, i), 1))
	}
	var nameless []auth.Key
	for range 5 {
		nameless = append(nameless, keyOf("", newEC()))
	}
	return map[string][]byte{
		"empty":            nil,
		"HTML":             []byte("<html>sign in</html>"),
		"an array":         []byte("[" + element + "]"),
		"one key":          []byte(element),
		"keys an object":   []byte(`{"keys":` + element + `}`),
		"keys twice":       []byte(`{"keys":[` + element + `],"keys":[]}`),
		"cut off":          []byte(one[:len(one)-10]),
		"trailing data":    []byte(one + "{}"),
		"bad UTF-8":        []byte(`{"x":"` + "\xff" + `",` + one[1:]),
		"51 keys":          []byte(`{"keys":[` + strings.Join(many, ",") + `]}`),
		"5 without a name": keySet(nameless...),
		"more than 256 KB": []byte(one + strings.Repeat(" ", 256<<10)),
		"nested very deep": []byte(`{"keys":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) +
			`}`),
		"Keys in capitals":  []byte(strings.Replace(one, `"keys"`, `"KEYS"`, 1)),
		"a thousand nulls":  []byte(`{"keys":[null` + strings.Repeat(",null", 1000) + `]}`),
		"two sets in a row": []byte(one + one),
	}
}

func TestKeySetFilesThatAreRefused(t *testing.T) {
	for name, data := range badSets(newEC()) {
		issuer := acme(auth.Key{}, "ES256")
		issuer.Keys, issuer.JWKS = nil, data
		if _, err := auth.New(auth.Config{Issuers: []auth.Issuer{issuer}}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
