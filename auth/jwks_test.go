package auth_test

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
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

// TestKeysOfASetAreRead shows in which forms and sizes keys of a set are read: a modulus
// of up to 8192 bits, an exponent of up to 31, and base64 in its one spelling.
func TestKeysOfASetAreRead(t *testing.T) {
	b64 := base64.RawURLEncoding.EncodeToString
	modulus := func(bits int) string {
		n := bytes.Repeat([]byte{0xa7}, bits/8) // which is odd, and no power of 65537 modulo 3
		return b64(n)
	}
	rsaKey := func(n, e string) string { return fmt.Sprintf(`{"kty":"RSA","kid":"k","n":%q,"e":%q}`, n, e) }
	point := made(newEC().PublicKey.Bytes())
	ecKey := func(x string) string {
		return fmt.Sprintf(`{"kty":"EC","kid":"k","crv":"P-256","x":%q,"y":%q}`, x, b64(point[33:]))
	}
	oct := func(k string) string { return fmt.Sprintf(`{"kty":"oct","kid":"k","k":%q}`, k) }
	tests := []struct {
		name, key string
		read      bool
	}{
		{"2048 bits", rsaKey(modulus(2048), "AQAB"), true},
		{"2040 bits", rsaKey(modulus(2040), "AQAB"), false},
		{"4104 bits", rsaKey(modulus(4104), "AQAB"), true},
		{"8192 bits", rsaKey(modulus(8192), "AQAB"), true},
		{"8200 bits", rsaKey(modulus(8200), "AQAB"), false},
		{"an exponent of 31 bits", rsaKey(modulus(2048), b64([]byte{0x7f, 0xff, 0xff, 0xff})), true},
		{"an exponent of 32 bits", rsaKey(modulus(2048), b64([]byte{0x80, 0, 0, 1})), false},
		{"an exponent of 63 bits", rsaKey(modulus(2048), b64([]byte{0x7f, 0, 0, 0, 0, 0, 0, 1})), false},
		{"an even exponent", rsaKey(modulus(2048), "BA"), false},
		{"the exponent 1", rsaKey(modulus(2048), "AQ"), false},
		{"no exponent", rsaKey(modulus(2048), ""), false},
		{"an exponent in another spelling", rsaKey(modulus(2048), "Bx"), false},
		{"a modulus in another spelling", rsaKey(respelt(modulus(2048)), "AQAB"), false},
		{"a point", ecKey(b64(point[1:33])), true},
		{"a point in another spelling", ecKey(respelt(b64(point[1:33]))), false},
		{"a secret", oct(b64(secret[:32])), true},
		{"a secret in another spelling", oct(respelt(b64(secret[:32]))), false},
	}
	for _, test := range tests {
		issuer := acme(auth.Key{}, "RS256", "ES256", "HS256")
		issuer.Keys, issuer.JWKS = nil, []byte(`{"keys":[`+test.key+`]}`)
		if _, err := auth.New(auth.Config{Issuers: []auth.Issuer{issuer}}); (err == nil) != test.read {
			t.Errorf("%s: got %v, want it read: %v", test.name, err, test.read)
		}
	}
}

// respelt returns base64url with bits set behind the end of the data, which lenient
// readers drop.
func respelt(text string) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := len(text) - 1
	return text[:last] + string(digits[strings.IndexByte(digits, text[last])|1])
}

// TestPublishedKeysAreReadAsTheyAreUsed reads sets from an address, as a verifier does
// and beforehand: a key whose private part is published there verifies nothing, and is
// named; the others of its set do.
func TestPublishedKeysAreReadAsTheyAreUsed(t *testing.T) {
	good, leaked := keyOf("good", newEd()), newEd()
	b64 := base64.RawURLEncoding.EncodeToString
	public := string(keySet(good))
	public = public[len(`{"keys":[`) : len(public)-len("]}\n")]
	private := fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","kid":"leaked","x":%q,"d":%q}`,
		b64(leaked[32:]), b64(leaked[:32]))
	shared := fmt.Sprintf(`{"kty":"oct","kid":"shared","k":%q}`, b64(secret))
	for _, test := range []struct {
		name, keys string
		refused    []string // the ids
		usable     bool
	}{
		{"public", public, nil, true},
		{"a private one beside it", public + "," + private, []string{"leaked"}, true},
		{"a private one alone", private, []string{"leaked"}, false},
		{"a shared secret beside it", public + "," + shared, []string{"shared"}, true},
		{"a shared secret alone", shared, []string{"shared"}, false},
	} {
		text := []byte(`{"keys":[` + test.keys + `]}`)
		refused, err := auth.ReadKeySet(text, []string{"EdDSA"})
		if (err == nil) != test.usable {
			t.Errorf("%s: got error %v, want none: %v", test.name, err, test.usable)
		}
		told := strings.Join(refused, "\n")
		if err != nil {
			told = err.Error()
		}
		for _, id := range []string{"leaked", "shared"} {
			if strings.Contains(told, id) != slices.Contains(test.refused, id) {
				t.Errorf("%s: got %q, want %q named", test.name, told, test.refused)
			}
		}
		if strings.Contains(told, b64(leaked[:32])) || strings.Contains(told, b64(secret)) {
			t.Errorf("%s: what is told holds a key", test.name)
		}
		synctest.Test(t, func(t *testing.T) {
			v := running(t, clientOf(func(r *http.Request) (*http.Response, error) { return answer(r, text), nil }))
			synctest.Wait()
			if got := verify(t, v, tokenOf(good, "alice")); (got == "") != test.usable {
				t.Errorf("%s: a token of the good key: got %q, want it accepted: %v", test.name, got, test.usable)
			}
			if got := verify(t, v, tokenOf(keyOf("leaked", leaked), "alice")); got == "" {
				t.Errorf("%s: a token of the leaked key is accepted", test.name)
			}
			if set := v.KeySets()[0]; len(set.Refused) != len(test.refused) {
				t.Errorf("%s: the verifier refused %q, want %q", test.name, set.Refused, test.refused)
			}
		})
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
