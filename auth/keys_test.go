package auth_test

import (
	"bytes"
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// TestSignAndVerify signs with each algorithm and each fitting key, and shows which keys
// an algorithm does not take.
func TestSignAndVerify(t *testing.T) {
	keys := map[string]auth.Key{
		"RSA":     keyOf("", rsaKey()),
		"P-256":   keyOf("", newEC()),
		"P-384":   keyOf("", made(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))),
		"P-521":   keyOf("", made(ecdsa.GenerateKey(elliptic.P521(), rand.Reader))),
		"Ed25519": keyOf("", newEd()),
		"secret":  {Public: secret, Private: secret},
		"short":   {Public: secret[:32], Private: secret[:32]},
	}
	serves := map[string][]string{
		"RSA": {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}, "P-256": {"ES256"}, "P-384": {"ES384"},
		"P-521":   {"ES512"},
		"Ed25519": {"EdDSA"}, "secret": {"HS256", "HS384", "HS512"}, "short": {"HS256"},
	}
	all := slices.Concat(serves["RSA"], serves["secret"], []string{"ES256", "ES384", "ES512", "EdDSA"})
	said := auth.Claims{
		Issuer: issuerName, Subject: "alice", Audience: audience, IssuedAt: at, Expiry: at.Add(time.Hour),
		Extra: map[string]any{"scope": "a b", "sub": "overruled"},
	}
	for kind, key := range keys {
		v := verifier(t, acme(key, all...))
		for _, algorithm := range append(all, "none", "") {
			token, err := auth.Sign(key, algorithm, said)
			if fits := slices.Contains(serves[kind], algorithm); fits != (err == nil) {
				t.Errorf("sign %q with %s: got error %v, want one: %v", algorithm, kind, err, !fits)
			}
			if err != nil {
				continue
			}
			p, err := v.Verify(t.Context(), token)
			if err != nil || p.Subject != "alice" || len(p.Scopes) != 2 {
				t.Errorf("verify %s by %s: got %+v, %v", algorithm, kind, p, err)
			}
			if !joseAccepts(token, key.Public, algorithm) {
				t.Errorf("go-jose refuses %s by %s", algorithm, kind)
			}
			if _, err := v.Verify(t.Context(), swapLast(token, 20)); reason(t, token, err) != "signature" {
				t.Errorf("changed %s by %s: got %v, want it refused for its signature", algorithm, kind, err)
			}
		}
	}
	if _, err := auth.Sign(auth.Key{Public: rsaKey().Public()}, "RS256", said); err == nil {
		t.Error("signed without a private key")
	}
}

// TestSaltLength shows that the one salt length of RFC 7518 is asked of PS256.
func TestSaltLength(t *testing.T) {
	v := verifier(t, acme(keyOf("", rsaKey()), "PS256"))
	input := encode(header("PS256").String()) + "." + encode(claims(at).String())
	for salt, want := range map[int]string{
		rsa.PSSSaltLengthEqualsHash: "", 0: "signature", 20: "signature",
		64: "signature",
	} {
		hash := crypto.SHA256.New()
		hash.Write([]byte(input))
		signature := made(rsa.SignPSS(rand.Reader, rsaKey(), crypto.SHA256, hash.Sum(nil),
			&rsa.PSSOptions{SaltLength: salt}))
		token := input + "." + encode(string(signature))
		_, err := v.Verify(t.Context(), token)
		if got := reason(t, token, err); got != want {
			t.Errorf("salt length %d: got reason %q, want %q", salt, got, want)
		}
	}
}

// TestKeyNames shows which keys a token with or without kid may use.
func TestKeyNames(t *testing.T) {
	one, two, third := newEd(), newEd(), newEd()
	tests := []struct {
		name string
		keys []auth.Key
		kid  string
		want string
	}{
		{"only key without name, no kid", []auth.Key{keyOf("", one)}, "", ""},
		{"only key without name, any kid", []auth.Key{keyOf("", one)}, `"x"`, ""},
		{"only key with name, that kid", []auth.Key{keyOf("a", one)}, `"a"`, ""},
		{"only key with name, another kid", []auth.Key{keyOf("a", one)}, `"b"`, "key"},
		{"only key with name, no kid", []auth.Key{keyOf("a", one)}, "", "key"},
		{"one of two without names, no kid", []auth.Key{keyOf("", two), keyOf("", one)}, "", ""},
		{"one of two without names, a kid", []auth.Key{keyOf("", two), keyOf("", one)}, `"a"`, "key"},
		{"key of another name", []auth.Key{keyOf("a", two), keyOf("b", one)}, `"a"`, "signature"},
		{"key of that name is another", []auth.Key{keyOf("a", two), keyOf("", one)}, `"a"`, "signature"},
		{
			"kid of a key of another type",
			[]auth.Key{keyOf("a", newEC()), keyOf("b", one)},
			`"a"`,
			"algorithm",
		},
		{"none of them", []auth.Key{keyOf("", two), keyOf("", third)}, "", "signature"},
	}
	for _, test := range tests {
		issuer := acme(auth.Key{}, "EdDSA", "ES256")
		issuer.Keys = test.keys
		head := header("EdDSA")
		if test.kid != "" {
			head = head.with("kid", test.kid)
		}
		token := mint(one, head, claims(at))
		_, err := verifier(t, issuer).Verify(t.Context(), token)
		if got := reason(t, token, err); got != test.want {
			t.Errorf("%s: got reason %q, want %q", test.name, got, test.want)
		}
	}
}

func TestNewRefusesFaultyIssuers(t *testing.T) {
	good := acme(keyOf("", newEd()), "EdDSA")
	tests := []struct {
		name   string
		change func(*auth.Issuer)
		want   string
	}{
		{"no name", func(i *auth.Issuer) { i.Issuer = "" }, "name"},
		{
			"a # in the name", func(i *auth.Issuer) { i.Issuer = "https://login.example/#team" },
			"must not have #",
		},
		{"no algorithm", func(i *auth.Issuer) { i.Algorithms = nil }, "no algorithm"},
		{"none", func(i *auth.Issuer) { i.Algorithms = []string{"none"} }, `"none"`},
		{"no audience", func(i *auth.Issuer) { i.Audiences = nil }, "audience"},
		{"an empty audience", func(i *auth.Issuer) { i.Audiences = []string{""} }, "audience"},
		{"no tenant", func(i *auth.Issuer) { i.Tenant = "" }, "tenant"},
		{
			"a tenant claim alone", func(i *auth.Issuer) { i.Tenant, i.TenantClaim = "", "org" },
			"tenants allowed",
		},
		{
			"an empty tenant allowed",
			func(i *auth.Issuer) { i.Tenant, i.TenantClaim, i.TenantsAllowed = "", "org", []string{""} },
			"without a name",
		},
		{"two ways to a tenant", func(i *auth.Issuer) { i.TenantClaim = "org" }, "both"},
		{"no keys", func(i *auth.Issuer) { i.Keys = nil }, "exactly one"},
		{"two sources of keys", func(i *auth.Issuer) { i.JWKSURL = "https://x.example/" }, "exactly one"},
		{
			"a key of no allowed algorithm", func(i *auth.Issuer) { i.Algorithms = []string{"RS256"} },
			"none of the allowed",
		},
		{"a key without a public part", func(i *auth.Issuer) { i.Keys = []auth.Key{{}} }, "no public key"},
		{"a short RSA key", func(i *auth.Issuer) { i.Keys = []auth.Key{{Public: shortRSA()}} }, "1024 bits"},
		{"an even modulus", func(i *auth.Issuer) {
			i.Keys = []auth.Key{{Public: &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), 2047), E: 65537}}}
		}, "cannot be"},
		{"P-224", func(i *auth.Issuer) {
			i.Keys = []auth.Key{keyOf("", made(ecdsa.GenerateKey(elliptic.P224(), rand.Reader)))}
		}, "curve"},
		{"a key agreement key", func(i *auth.Issuer) {
			i.Keys = []auth.Key{{Public: made(ecdh.X25519().GenerateKey(rand.Reader)).Public()}}
		}, "signs no tokens"},
		{"a weak secret", func(
			i *auth.Issuer,
		) {
			i.Keys = []auth.Key{{Public: bytes.Repeat([]byte("k"), 64)}}
		}, "repeats"},
		{
			"two halves that do not match",
			func(i *auth.Issuer) { i.Keys = []auth.Key{{Public: newEd().Public(), Private: newEd()}} },
			"another key",
		},
		{
			"two keys of one name",
			func(i *auth.Issuer) { i.Keys = []auth.Key{keyOf("a", newEd()), keyOf("a", newEd())} },
			`key "a": different keys`,
		},
		{"a key and a secret", func(
			i *auth.Issuer,
		) {
			i.Keys = append(i.Keys[:1:1], auth.Key{ID: "b", Public: secret})
		}, "none of the allowed"},
		{"a key and a secret, both allowed", func(i *auth.Issuer) {
			i.Algorithms, i.Keys = []string{"EdDSA", "HS256"}, append(i.Keys[:1:1],
				auth.Key{ID: "b", Public: secret})
		}, "in one set with public keys"},
		{"51 keys", func(i *auth.Issuer) {
			i.Keys = nil
			for n := range 51 {
				i.Keys = append(i.Keys, keyOf(strconv.Itoa(n), newEd()))
			}
		}, "more than 50"},
		{
			"a key set of nothing", func(i *auth.Issuer) { i.Keys, i.JWKS = nil, []byte(`{"keys":[]}`) },
			"no key in it",
		},
		{
			"a key set that is none", func(i *auth.Issuer) { i.Keys, i.JWKS = nil, []byte(`<html>`) },
			"JWK Set",
		},
	}
	for _, test := range tests {
		issuer := good
		test.change(&issuer)
		_, err := auth.New(auth.Config{Issuers: []auth.Issuer{issuer}})
		if err == nil || !strings.Contains(err.Error(), test.want) ||
			!strings.Contains(err.Error(), "issuer") {
			t.Errorf("%s: got %v, want an error that names the issuer and %q", test.name, err, test.want)
		}
	}
	for _, address := range []string{
		"", "file:///etc/passwd", "keys", "https://", "https://user@x.example/",
		"https://x.example/#a", "gopher://x.example/", "https://x.example/%zz",
	} {
		issuer := good
		issuer.Keys, issuer.JWKSURL = nil, address
		if _, err := auth.New(auth.Config{Issuers: []auth.Issuer{issuer}}); err == nil {
			t.Errorf("address %q: got no error", address)
		}
	}
	fetched := good
	fetched.Keys, fetched.JWKSURL, fetched.Audiences = nil, "https://x.example/keys", []string{"other"}
	elsewhere, seldom := fetched, fetched
	elsewhere.JWKSURL, elsewhere.Audiences = "https://x.example/others", []string{"another"}
	seldom.KeysRefresh, seldom.Audiences = 2*time.Hour, []string{"another"}
	for name, other := range map[string]auth.Issuer{
		"of another source": good, "at another address": elsewhere, "with other times": seldom,
	} {
		if _, err := auth.New(auth.Config{Issuers: []auth.Issuer{fetched, other}}); err == nil {
			t.Errorf("two entries with keys %s: got no error", name)
		}
	}
	bad := acme(auth.Key{}, "x")
	bad.Issuer = "https://other.example/"
	_, err := auth.New(auth.Config{Issuers: []auth.Issuer{good, good, bad}})
	if err == nil || !strings.Contains(err.Error(), "two entries have the audience") ||
		!strings.Contains(err.Error(), `"x"`) {
		t.Errorf("got %v, want all faults at once", err)
	}
}

func shortRSA() *rsa.PublicKey {
	n := new(big.Int).Lsh(big.NewInt(1), 1023)
	return &rsa.PublicKey{N: n.SetBit(n, 0, 1), E: 65537}
}

func TestParseKeys(t *testing.T) {
	rsaPrivate, ec, ed := rsaKey(), newEC(), newEd()
	certificate := func(key crypto.Signer) []byte {
		template := &x509.Certificate{SerialNumber: big.NewInt(1)}
		return made(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	}
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	pkix := func(key any) string { return block("PUBLIC KEY", made(x509.MarshalPKIXPublicKey(key))) }
	pkcs8 := func(key any) string { return block("PRIVATE KEY", made(x509.MarshalPKCS8PrivateKey(key))) }
	sec1 := block("EC PRIVATE KEY", made(x509.MarshalECPrivateKey(ec)))
	tests := []struct {
		name, text string
		want       []auth.Key
	}{
		{"PKIX RSA", pkix(rsaPrivate.Public()), []auth.Key{{Public: rsaPrivate.Public()}}},
		{"PKIX EC", "text before\n" + pkix(ec.Public()), []auth.Key{{Public: ec.Public()}}},
		{"PKIX Ed25519", pkix(ed.Public()) + "\n\n", []auth.Key{{Public: ed.Public()}}},
		{
			"PKCS#1 public", block("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&rsaPrivate.PublicKey)),
			[]auth.Key{{Public: rsaPrivate.Public()}},
		},
		{
			"PKCS#1 private", block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaPrivate)),
			[]auth.Key{keyOf("", rsaPrivate)},
		},
		{"PKCS#8 RSA", pkcs8(rsaPrivate), []auth.Key{keyOf("", rsaPrivate)}},
		{"PKCS#8 EC", pkcs8(ec), []auth.Key{keyOf("", ec)}},
		{"PKCS#8 Ed25519", pkcs8(ed), []auth.Key{keyOf("", ed)}},
		{"SEC 1 as openssl writes it", block("EC PARAMETERS", []byte{6, 8, 42, 134, 72, 206, 61, 3, 1, 7}) +
			sec1, []auth.Key{keyOf("", ec)}},
		{"a certificate", block("CERTIFICATE", certificate(ec)), []auth.Key{{Public: ec.Public()}}},
		{
			"a certificate and its key", block("CERTIFICATE", certificate(ec)) + sec1,
			[]auth.Key{keyOf("", ec)},
		},
		{
			"two public keys", pkix(ec.Public()) + pkix(ed.Public()),
			[]auth.Key{{Public: ec.Public()}, {Public: ed.Public()}},
		},
		{"nothing", "", nil},
		{"no PEM", hex.EncodeToString(secret), nil},
		{"cut off", sec1[:len(sec1)-20], nil},
		{"the second one cut off", pkix(ed.Public()) + sec1[:len(sec1)-20], nil},
		{"the first one damaged", strings.Replace(sec1, "\n", "\n!", 1) + pkix(ed.Public()), nil},
		{"wrong content", block("PUBLIC KEY", []byte("canary")), nil},
		{"encrypted", block("ENCRYPTED PRIVATE KEY", []byte("canary")), nil},
		{
			"a curve that signs no tokens", pkix(made(ecdsa.GenerateKey(elliptic.P224(), rand.Reader)).Public()),
			nil,
		},
		{"a key agreement key", pkix(made(ecdh.X25519().GenerateKey(rand.Reader)).Public()), nil},
		{"a short RSA key", pkix(shortRSA()), nil},
	}
	for _, test := range tests {
		got, err := auth.ParseKeys([]byte(test.text))
		if (err == nil) != (test.want != nil) {
			t.Errorf("%s: got error %v, want one: %v", test.name, err, test.want == nil)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: error %q quotes the file", test.name, err)
		}
		if !slices.EqualFunc(got, test.want, sameKey) {
			t.Errorf("%s: got %d keys, want %d, each with the same parts", test.name, len(got),
				len(test.want))
		}
	}
}

func sameKey(a, b auth.Key) bool {
	type equal interface{ Equal(crypto.PublicKey) bool }
	return a.ID == b.ID && a.Public.(equal).Equal(b.Public) && (a.Private == nil) == (b.Private == nil)
}

func TestParseSecret(t *testing.T) {
	random := make([]byte, 32)
	rand.Read(random)
	random[31] = 1 // no line break at the end
	strong := []string{
		string(secret), string(random), hex.EncodeToString(random),
		"Tr0ub4dor&3-correct-horse-battery-staple",
		"MHcCAQEEIKey9secret4Zb2xQpLmNvRtYw", "c2l4dGVlbiByYW5kb20gYnl0ZXM5MTcyOHpx",
	}
	for _, text := range strong {
		for _, end := range []string{"", "\n", "\r\n"} {
			key, err := auth.ParseSecret([]byte(text + end))
			if err != nil || string(key.Public.([]byte)) != text || string(key.Private.([]byte)) != text {
				t.Errorf("%q: got %q, %v", text+end, key.Public, err)
			}
		}
	}
	weak := []string{
		"", "\n", "short", string(secret[:31]), string(secret[:31]) + "\n", strings.Repeat("a", 32),
		strings.Repeat("\x00", 64),
		strings.Repeat("ab", 40), strings.Repeat("0123456789abcdef", 4), strings.Repeat("xK9#qLm2$", 8),
		strings.Repeat("secret", 8),
		strings.Repeat("changeme", 5), "your-256-bit-secret-your-256-bit-secret",
		"your-256-bit-secret0000000000000000",
		"your-256-bit-secret             ", "Your-256-Bit-Secret!!!!!!!!!!!!!!!!!!",
		"secret-secret-secret-secret-12345",
		"changeme1234567890changeme1234567890", "changeme_changeme_changeme_please_1",
		"supersecretpassword-do-not-share!!",
		"abcdefghijklmnopqrstuvwxyz0123456789", "a-string-secret-at-least-256-bits-long",
		"qwertyuiopasdfghjklzxcvbnm1234567890",
		"00000000000000000000000000000000001", "this-is-a-very-long-secret-key-for-jwt",
		"my-super-secret-jwt-signing-key-1234567",
	}
	for _, text := range weak {
		if _, err := auth.ParseSecret([]byte(text)); err == nil {
			t.Errorf("%q: accepted", text)
		} else if text != "" && text != "\n" && strings.Contains(err.Error(), text) {
			t.Errorf("%q: error %q quotes it", text, err)
		}
	}
}
