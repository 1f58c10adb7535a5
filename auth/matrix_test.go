package auth_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// raw is header or claims text that is no members.
type raw string

func (r raw) String() string { return string(r) }

// TestT42TokenMatrix shows each known attack on tokens refused for the right reason, and
// what is odd but right accepted.
func TestT42TokenMatrix(t *testing.T) {
	private := rsaKey()
	key := keyOf("k1", private)
	other := newEC()
	v := verifier(t, acme(key, "RS256"))
	good, said := header("RS256").with("kid", `"k1"`), claims(at)
	publicPEM := pem.EncodeToMemory(&pem.Block{
		Type:  "PUBLIC KEY",
		Bytes: made(x509.MarshalPKIXPublicKey(key.Public)),
	})
	evilJWK := string(keySet(keyOf("k1", other)))
	evilJWK = evilJWK[len(`{"keys":[`):strings.LastIndex(evilJWK, "]")]
	unix := func(d time.Duration) string { return fmt.Sprint(at.Add(d).Unix()) }
	token := mint(private, good, said)

	rows := []struct{ name, token, want string }{
		{"a good token", token, ""},
		{"typ JWT", mint(private, good.with("typ", `"JWT"`), said), ""},
		{"no typ", mint(private, good.without("typ"), said), ""},
		{"aud a list", mint(private, good, said.with("aud", `["x","`+audience+`"]`)), ""},
		{"no iat", mint(private, good, said.without("iat")), ""},
		{
			"fractions of seconds",
			mint(private, good, said.with("exp", unix(time.Hour)+".75").with("nbf", unix(0)+".5")), "",
		},
		{"expired within the leeway", mint(private, good, said.with("exp", unix(-29*time.Second))), ""},
		{"scope a list", mint(private, good, said.with("scope", `["a","b"]`)), ""},
		{
			"the ids of two hundred groups",
			mint(private, good, said.with("groups", `["`+strings.Repeat(`5c6f0000-0000-0000-0000-000000000000","`, 199)+`"]`)),
			"",
		},
		{
			"jku and x5u of an attacker, good signature",
			mint(private, good.with("jku", `"http://127.0.0.1:1/"`).with("x5u", `"http://127.0.0.1:1/"`),
				said), "",
		},

		{"none", encode(`{"alg":"none"}`) + "." + encode(said.String()) + ".", "algorithm"},
		{"None", encode(`{"alg":"None"}`) + "." + encode(said.String()) + ".", "algorithm"},
		{"none with a signature", mint(private, header("none"), said), "algorithm"},
		{"good header without signature", token[:strings.LastIndexByte(token, '.')+1], "signature"},
		{
			"HS256 with the public key as PEM", mint(publicPEM, header("HS256").with("kid", `"k1"`), said),
			"algorithm",
		},
		{"HS256 with the public key as DER", mint(made(x509.MarshalPKIXPublicKey(key.Public)),
			header("HS256").with("kid", `"k1"`), said), "algorithm"},
		{"PS256 although RS256 is allowed", mint(private, good.with("alg", `"PS256"`), said), "algorithm"},
		{"ES256 of another key", mint(other, good.with("alg", `"ES256"`), said), "algorithm"},
		{"lower case alg", mint(private, good.with("alg", `"rs256"`), said), "algorithm"},
		{"no alg", mint(private, good.without("alg"), said), "malformed"},
		{"alg a number", mint(private, good.with("alg", "256"), said), "malformed"},
		{"unknown kid", mint(private, good.with("kid", `"k2"`), said), "key"},
		{"kid a path", mint(private, good.with("kid", `"../../dev/null"`), said), "key"},
		{"kid an SQL text", mint(private, good.with("kid", `"x' UNION SELECT 'canary"`), said), "key"},
		{"kid a number", mint(private, good.with("kid", "1"), said), "malformed"},
		{
			"kid of 256 bytes", mint(private, good.with("kid", `"`+strings.Repeat("k", 256)+`"`), said),
			"malformed",
		},
		{"no kid though the key has one", mint(private, good.without("kid"), said), "key"},
		{"jwk of an attacker", mint(other, good.with("jwk", evilJWK), said), "signature"},
		{"jku of an attacker", mint(other, good.with("jku", `"http://127.0.0.1:1/"`), said), "signature"},
		{"x5u of an attacker", mint(other, good.with("x5u", `"http://127.0.0.1:1/"`), said), "signature"},
		{
			"unknown crit", mint(private, good.with("crit", `["canary"]`).with("canary", "true"), said),
			"malformed",
		},
		{"empty crit", mint(private, good.with("crit", "[]"), said), "malformed"},
		{
			"b64 false with crit", mint(private, good.with("crit", `["b64"]`).with("b64", "false"), said),
			"malformed",
		},
		{"b64 alone", mint(private, good.with("b64", "true"), said), "malformed"},
		{"Crit", mint(private, good.with("Crit", `["canary"]`), said), "malformed"},
		{"compressed", mint(private, good.with("zip", `"DEF"`), said), "malformed"},
		{"typ of a logout token", mint(private, good.with("typ", `"logout+jwt"`), said), "malformed"},
		{"typ of a proof of possession", mint(private, good.with("typ", `"dpop+jwt"`), said), "malformed"},
		{"duplicate header member", mint(private, append(good, "alg", `"RS256"`), said), "malformed"},
		{
			"duplicate header member, escaped",
			mint(private, raw(`{"alg":"RS256","\u0061lg":"none","kid":"k1"}`), said), "malformed",
		},
		{"folded header member", mint(private, append(good, "ALG", `"none"`), said), "malformed"},
		{"duplicate claim", mint(private, good, append(said, "sub", `"canary"`)), "malformed"},
		{
			"duplicate unknown claim", mint(private, good, append(said, "tid", `"A"`, "tid", `"B"`)),
			"malformed",
		},
		{"folded unknown claims", mint(private, good, append(said, "tid", `"A"`, "TID", `"B"`)), "malformed"},
		{
			"folded unknown claims, capitals first",
			mint(private, good, append(said, "TID", `"B"`, "tid", `"A"`)), "malformed",
		},
		{"folded claim", mint(private, good, append(said, "Sub", `"canary"`)), "malformed"},
		{"claim folded by a long s", mint(private, good, append(said, "\u017fub", `"canary"`)), "malformed"},
		{"folded claim alone", mint(private, good, append(said.without("iat"), "IAT", unix(0))), "malformed"},
		{
			"claim with a trailing NUL",
			mint(private, good, raw(strings.TrimSuffix(said.String(), "}")+`,"sub\u0000":"canary"}`)),
			"malformed",
		},
		{"trailing data after the claims", mint(private, good, raw(said.String()+"{}")), "malformed"},
		{"trailing data after the header", mint(private, raw(good.String()+" x"), said), "malformed"},
		{"claims an array", mint(private, good, raw("["+said.String()+"]")), "malformed"},
		{"claims nothing", mint(private, good, raw("")), "malformed"},
		{
			"bad UTF-8", mint(private, good, raw(strings.Replace(said.String(), "alice", "al\xffice", 1))),
			"malformed",
		},
		{"a lone surrogate", mint(private, good,
			raw(strings.Replace(said.String(), "alice", `al\ud800ice`, 1))), "malformed"},
		{"a byte order mark", mint(private, good, raw("\ufeff"+said.String())), "malformed"},
		{
			"a deep claim", mint(private, good, said.with("x", strings.Repeat("[", 70)+strings.Repeat("]", 70))),
			"malformed",
		},
		{"a claim 9,000 deep", mint(private, good,
			said.with("x", strings.Repeat("[", 9000)+strings.Repeat("]", 9000))), "malformed"},
		{
			"a number of 100 digits", mint(private, good, said.with("x", strings.Repeat("9", 100))),
			"malformed",
		},
		{"17 KiB", mint(private, good, said.with("x", `"`+strings.Repeat("a", 12600)+`"`)), "malformed"},
		{"100 KB", mint(private, good, said.with("x", `"`+strings.Repeat("a", 100<<10)+`"`)), "malformed"},
		{"no sub", mint(private, good, said.without("sub")), "claims"},
		{"empty sub", mint(private, good, said.with("sub", `""`)), "claims"},
		{"sub a number", mint(private, good, said.with("sub", "1")), "claims"},
		{"sub null", mint(private, good, said.with("sub", "null")), "claims"},
		{
			"sub of 256 bytes", mint(private, good, said.with("sub", `"`+strings.Repeat("s", 256)+`"`)),
			"claims",
		},
		{"no iss", mint(private, good, said.without("iss")), "claims"},
		{"iss a list", mint(private, good, said.with("iss", `["`+issuerName+`"]`)), "claims"},
		{"another iss", mint(private, good, said.with("iss", `"https://evil.example/"`)), "issuer"},
		{"no aud", mint(private, good, said.without("aud")), "claims"},
		{"empty aud", mint(private, good, said.with("aud", `""`)), "claims"},
		{"aud an empty list", mint(private, good, said.with("aud", `[]`)), "claims"},
		{"aud a list with a number", mint(private, good, said.with("aud", `["`+audience+`",1]`)), "claims"},
		{"aud an object", mint(private, good, said.with("aud", `{}`)), "claims"},
		{"another aud", mint(private, good, said.with("aud", `"https://mcp.example.com/"`)), "audience"},
		{"no exp", mint(private, good, said.without("exp")), "claims"},
		{"exp as a string", mint(private, good, said.with("exp", `"`+unix(time.Hour)+`"`)), "claims"},
		{"exp null", mint(private, good, said.with("exp", "null")), "claims"},
		{"exp negative", mint(private, good, said.with("exp", "-1")), "claims"},
		{"exp 1e300", mint(private, good, said.with("exp", "1e300")), "claims"},
		{"exp 1e400", mint(private, good, said.with("exp", "1e400")), "claims"},
		{"expired", mint(private, good, said.with("exp", unix(-31*time.Second))), "expired"},
		{"nbf as a string", mint(private, good, said.with("nbf", `"0"`)), "claims"},
		{"nbf ahead", mint(private, good, said.with("nbf", unix(31*time.Second))), "early"},
		{
			"iat ahead by a minute and a second", mint(private, good, said.with("iat", unix(61*time.Second))),
			"early",
		},
		{"iat a day ahead", mint(private, good, said.with("iat", unix(24*time.Hour)).with("exp",
			unix(25*time.Hour))), "early"},
		{
			"lives a day and a second", mint(private, good, said.with("exp", unix(24*time.Hour+time.Second))),
			"lifetime",
		},
		{
			"lives a year, does not say since when",
			mint(private, good, said.without("iat").with("exp", unix(8760*time.Hour))), "lifetime",
		},
		{"scope a number", mint(private, good, said.with("scope", "1")), "claims"},
		{"azp a list", mint(private, good, said.with("azp", "[]")), "claims"},
		{"JWE with five parts", encode(`{"alg":"RSA-OAEP","enc":"A256GCM"}`) + "." + strings.Repeat("AAAA.",
			3) + "AAAA", "malformed"},
		{"JWE header in three parts", mint(private, good.with("enc", `"A256GCM"`), said), "malformed"},
		{"one dot", token[:strings.LastIndexByte(token, '.')], "malformed"},
		{"no dot", "canary", "malformed"},
		{"dots only", "..", "malformed"},
		{"four parts", token + ".AAAA", "malformed"},
		{"padding", token + "=", "malformed"},
		{"standard base64", token[:len(token)-4] + "+/+/", "malformed"},
		{"a line break within", token[:len(token)-10] + "\n" + token[len(token)-10:], "malformed"},
		{"a carriage return at the end", token + "\r", "malformed"},
		{"a blank in front", " " + token, "malformed"},
		{"loose last bits", looseBits(token), "malformed"},
		{"a changed signature", swapLast(token, 20), "signature"},
		{"claims of another token", swapClaims(token, said.with("sub", `"root"`)), "signature"},
		{"empty", "", "missing"},
	}
	t.Attr("tokens", fmt.Sprint(len(rows)))
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			for range 2 { // the second time, what was remembered must not matter
				p, err := v.Verify(t.Context(), row.token)
				if got := reason(t, row.token, err); got != row.want {
					t.Fatalf("got reason %q (%v), want %q", got, err, row.want)
				}
				if (p.Subject == "alice") != (row.want == "") {
					t.Fatalf("got principal %+v with reason %q", p, row.want)
				}
			}
			if row.want == "" && !joseAccepts(row.token, private.Public(), "RS256") {
				t.Error("accepted what go-jose refuses")
			}
		})
	}
}

// looseBits changes bits of the last character that no byte needs.
func looseBits(token string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, token[len(token)-1])
	return token[:len(token)-1] + alphabet[last^1:last^1+1]
}

// swapLast changes the n-th last character.
func swapLast(token string, n int) string {
	i := len(token) - n
	c := "A"
	if token[i] == 'A' {
		c = "B"
	}
	return token[:i] + c + token[i+1:]
}

func swapClaims(token string, said members) string {
	parts := strings.Split(token, ".")
	return parts[0] + "." + encode(said.String()) + "." + parts[2]
}

func TestPrincipal(t *testing.T) {
	key := auth.Key{Public: secret, Private: secret}
	byClaim := acme(key, "HS256")
	byClaim.Tenant, byClaim.TenantClaim, byClaim.TenantsAllowed = "", "org_id", []string{"acme", "globex"}
	byClaim.ScopeClaims = []string{"scp"}
	said := claims(at)
	whole := auth.Principal{
		Issuer: issuerName, Subject: "alice", ClientID: "cli", TenantID: "acme",
		Scopes: []string{"tools.read", "tools.call"},
		Expiry: at.Add(time.Hour),
	}
	tests := []struct {
		name   string
		issuer auth.Issuer
		claims members
		want   func(*auth.Principal)
		reason string
	}{
		{name: "all", issuer: acme(key, "HS256"), claims: said},
		{name: "client_id", issuer: acme(key, "HS256"), claims: said.without("azp").with("client_id",
			`"other"`), want: func(p *auth.Principal) { p.ClientID = "other" }},
		{
			name: "no client", issuer: acme(key, "HS256"), claims: said.without("azp"),
			want: func(p *auth.Principal) { p.ClientID = "" },
		},
		{
			name: "no scope", issuer: acme(key, "HS256"), claims: said.without("scope"),
			want: func(p *auth.Principal) { p.Scopes = nil },
		},
		{
			name: "the issuer's tenant wins over any claim", issuer: acme(key, "HS256"),
			claims: said.with("org_id", `"globex"`),
		},
		{
			name: "tenant and scope from claims", issuer: byClaim,
			claims: said.with("org_id", `"globex"`).with("scp", `["a b","c"]`),
			want:   func(p *auth.Principal) { p.TenantID, p.Scopes = "globex", []string{"a b", "c"} },
		},
		{
			name: "a tenant that the issuer may not set", issuer: byClaim,
			claims: said.with("org_id", `"initech"`), reason: "tenant",
		},
		{name: "no tenant claim", issuer: byClaim, claims: said, reason: "tenant"},
		{name: "an empty tenant claim", issuer: byClaim, claims: said.with("org_id", `""`), reason: "tenant"},
		{
			name: "tenant claim a list", issuer: byClaim,
			claims: said.with("org_id", `["initech","acme","acme"]`),
			want:   func(p *auth.Principal) { p.Scopes = nil },
		},
		{
			name: "a list of no tenant", issuer: byClaim, claims: said.with("org_id", `["initech",""]`),
			reason: "tenant",
		},
		{
			name: "a list of other things", issuer: byClaim, claims: said.with("org_id", `["acme",1]`),
			reason: "tenant",
		},
		{
			name: "tenant claim in another case", issuer: byClaim, claims: said.with("ORG_ID", `"acme"`),
			reason: "tenant",
		},
		{
			name: "tenant in another case", issuer: byClaim, claims: said.with("org_id", `"Acme"`),
			reason: "tenant",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := verifier(t, test.issuer)
			token := mint(secret, header("HS256"), test.claims)
			got, err := v.Verify(t.Context(), token)
			if why := reason(t, token, err); why != test.reason {
				t.Fatalf("got reason %q, want %q", why, test.reason)
			}
			want := whole
			if test.want != nil {
				test.want(&want)
			}
			if test.reason != "" {
				want = auth.Principal{}
			}
			if diff := cmp.Diff(want.Expiry.Unix(), got.Expiry.Unix()); diff != "" {
				t.Error(diff)
			}
			got.Expiry = want.Expiry
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(auth.Principal{})); diff != "" {
				t.Errorf("principal (-want +got):\n%s", diff)
			}
		})
	}
}

// TestT44IssuersAreApart shows that nothing of one issuer or tenant serves for another.
func TestT44IssuersAreApart(t *testing.T) {
	acmeKey, globexKey := newEC(), newEC()
	first := acme(keyOf("k", acmeKey), "ES256")
	second := acme(keyOf("k", globexKey), "ES256")
	second.Issuer, second.Tenant, second.Audiences = "https://login.globex.example/", "globex",
		[]string{"https://mcp.globex.example/mcp"}
	v := verifier(t, first, second)
	head := header("ES256").with("kid", `"k"`)
	ofFirst := claims(at)
	ofSecond := ofFirst.with("iss", `"`+second.Issuer+`"`).with("aud", `"`+second.Audiences[0]+`"`)

	one, err := v.Verify(t.Context(), mint(acmeKey, head, ofFirst))
	if err != nil {
		t.Fatal(err)
	}
	two, err := v.Verify(t.Context(), mint(globexKey, head, ofSecond))
	if err != nil {
		t.Fatal(err)
	}
	if one.Subject != two.Subject || one.Issuer == two.Issuer || one.TenantID != "acme" ||
		two.TenantID != "globex" {
		t.Errorf("got %+v and %+v, want one subject, two issuers and two tenants", one, two)
	}

	refused := []struct{ name, token, want string }{
		{
			"audience of another tenant", mint(acmeKey, head, ofFirst.with("aud", `"`+second.Audiences[0]+`"`)),
			"audience",
		},
		{"issuer of another tenant, own key", mint(acmeKey, head, ofSecond), "signature"},
		{"own issuer, key of another tenant", mint(globexKey, head, ofFirst), "signature"},
		{
			"issuer without slash", mint(acmeKey, head, ofFirst.with("iss", `"https://login.acme.example"`)),
			"issuer",
		},
		{
			"issuer in capitals", mint(acmeKey, head, ofFirst.with("iss", `"https://LOGIN.acme.example/"`)),
			"issuer",
		},
		{
			"issuer with a blank", mint(acmeKey, head, ofFirst.with("iss", `"https://login.acme.example/ "`)),
			"issuer",
		},
		{
			"issuer with a port", mint(acmeKey, head, ofFirst.with("iss", `"https://login.acme.example:443/"`)),
			"issuer",
		},
		{
			"issuer with a NUL", mint(acmeKey, head, ofFirst.with("iss", `"https://login.acme.example/\u0000"`)),
			"issuer",
		},
		{"audience as a prefix", mint(acmeKey, head, ofFirst.with("aud", `"`+audience+`/x"`)), "audience"},
		{
			"audience in capitals", mint(acmeKey, head, ofFirst.with("aud", `"`+strings.ToUpper(audience)+`"`)),
			"audience",
		},
	}
	for _, row := range refused {
		_, err := v.Verify(t.Context(), row.token)
		if got := reason(t, row.token, err); got != row.want {
			t.Errorf("%s: got reason %q, want %q", row.name, got, row.want)
		}
	}
	escaped := strings.ReplaceAll(`"`+issuerName+`"`, "/", `\/`)
	if _, err := v.Verify(t.Context(), mint(acmeKey, head, ofFirst.with("iss", escaped))); err != nil {
		t.Errorf("the same issuer with escaped slashes: %v", err)
	}
}
