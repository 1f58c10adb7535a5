package credential_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// verify returns the claims of an identity, as a server does that knows the key set
// alone.
func verify(t *testing.T, now time.Time, set []byte, token string) jwt.MapClaims {
	t.Helper()
	var known struct {
		Keys []struct{ Kid, X, Y string }
	}
	if err := json.Unmarshal(set, &known); err != nil {
		t.Fatal(err)
	}
	claims := jwt.MapClaims{}
	_, err := jwt.ParseWithClaims(token, claims, func(j *jwt.Token) (any, error) {
		for _, key := range known.Keys {
			if key.Kid == j.Header["kid"] {
				point := append([]byte{4}, append(unbase64(t, key.X), unbase64(t, key.Y)...)...)
				return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
			}
		}
		return nil, fmt.Errorf("no key %v", j.Header["kid"])
	}, jwt.WithValidMethods([]string{"ES256"}), jwt.WithIssuer(own), jwt.WithAudience(server),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(),
		jwt.WithTimeFunc(func() time.Time { return now }))
	if err != nil {
		t.Fatalf("got %v, want an identity that the key set verifies", err)
	}
	return claims
}

// claimsOf returns the claims of a token, whose signature nobody checks here.
func claimsOf(t *testing.T, token string) (header, claims map[string]any) {
	t.Helper()
	for i, into := range []*map[string]any{&header, &claims} {
		if err := json.Unmarshal(unbase64(t, strings.Split(token, ".")[i]), into); err != nil {
			t.Fatal(err)
		}
	}
	return header, claims
}

func unbase64(t *testing.T, text string) []byte {
	t.Helper()
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestIdentitySaysWhoCalls(t *testing.T) {
	people := newTokenIssuer(t, issuer)
	signer := credential.NewSigner(time.Now, bytes.Repeat([]byte{7}, 32))
	s := source(t, credential.Config{
		Spec: credential.Spec{Identity: &credential.Identity{
			Audience: server,
			Claims:   []string{"email"},
		}},
		Signer: signer,
	})
	ann, token := people.caller(issuer, "ann", "acme", map[string]any{
		"email":  "ann@example.com",
		"groups": []string{"a"},
	})
	identity := bearerOf(t, grant(t, s, ann))
	who := verify(t, time.Now(), signer.KeySet(), identity)
	if who["sub"] != issuer+"#ann" || who["tenant"] != "acme" || who["client_id"] != "claude" {
		t.Errorf("got %v, want ann of acme with claude", who)
	}
	header, claims := claimsOf(t, identity)
	if header["typ"] != credential.Type || header["alg"] != "ES256" || header["kid"] == "" {
		t.Errorf("got header %v", header)
	}
	if claims["email"] != "ann@example.com" || claims["groups"] != nil || claims["aud"] != server {
		t.Errorf("got claims %v, want email and not groups", claims)
	}
	if act, _ := claims["act"].(map[string]any); act["sub"] != own {
		t.Errorf("got act %v, want the gateway", claims["act"])
	}
	if life := claims["exp"].(float64) - claims["iat"].(float64); life <= 60 || life > 600 {
		t.Errorf("got a life of %v s, want a short one", life)
	}
	if strings.Contains(identity, token) || fmt.Sprintf("%+v",
		*ann) == "" || strings.Contains(fmt.Sprintf("%+v", *ann), token) {
		t.Error("got the caller's token, want it nowhere")
	}
	if _, err := people.verifier.Verify(t.Context(), identity); err == nil {
		t.Error("got an identity that the gateway takes, want none")
	}
	of := credential.Trace{ID: "REQ1", Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	traced := grant(t, s, ann).Add(http.Header{}, of)
	lines := string(grant(t, s, ann).Lines(of)(nil))
	for name, want := range map[string]string{"X-Request-Id": of.ID, "Traceparent": of.Parent} {
		if traced.Get(name) != want || !strings.Contains(lines, "\r\n"+name+": "+want+"\r\n") {
			t.Errorf("got %v and %q, want %s of the request", traced, lines, name)
		}
	}
	itself, claims := claimsOf(t, bearerOf(t, grant(t, s, nil)))
	if itself["typ"] != credential.Type || claims["sub"] != own || claims["act"] != nil ||
		claims["tenant"] != nil {
		t.Errorf("got claims %v, want the gateway itself", claims)
	}
}

func TestIdentitiesAreKeptApart(t *testing.T) {
	const other = "https://other.example/"
	people := newTokenIssuer(t, issuer, other)
	s := source(t, credential.Config{
		Spec: credential.Spec{Identity: &credential.Identity{Audience: server, Claims: []string{"email"}}},
	})
	var callers []*auth.Principal
	for _, c := range []struct{ iss, sub, tenant, email string }{
		{issuer, "ann", "acme", "a@x"},
		{other, "ann", "acme", "a@x"},
		{issuer, "ann", "globex", "a@x"},
		{issuer, "bob", "acme", "a@x"},
		{issuer, "ann", "acme", "b@x"},
	} {
		p, _ := people.caller(c.iss, c.sub, c.tenant, map[string]any{"email": c.email})
		callers = append(callers, p)
	}
	var all sync.WaitGroup
	for i := range 400 {
		all.Go(func() {
			p := callers[i%len(callers)]
			g, err := s.For(t.Context(), p)
			if err != nil {
				t.Error(err)
				return
			}
			_, claims := claimsOf(t, bearerOf(t, g))
			email := strings.Trim(string(p.Claims()[0].Value), `"`)
			if claims["sub"] != p.Issuer+"#"+p.Subject || claims["tenant"] != p.TenantID ||
				claims["email"] != email {
				t.Errorf("got %v, want those of %s", claims, p.Subject)
			}
			if again, _ := s.For(t.Context(), p); again != g {
				t.Error("got another identity within a minute, want the same")
			}
		})
	}
	all.Wait()
}

func TestKeysRotateWithNoIdentityRefused(t *testing.T) {
	people := newTokenIssuer(t, issuer)
	ann, _ := people.caller(issuer, "ann", "acme", nil)
	old, fresh := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	now := time.Now()
	clock := func() time.Time { return now }
	a, b := credential.NewSigner(clock, old), credential.NewSigner(clock, old)
	if !bytes.Equal(a.KeySet(), b.KeySet()) {
		t.Fatal("got two key sets of one secret, want one")
	}
	s := source(t, credential.Config{
		Spec: credential.Spec{Identity: &credential.Identity{Audience: server}}, Signer: a, Now: clock,
	})
	check := func(set []byte) {
		t.Helper()
		now = now.Add(2 * time.Minute) // so that it is signed anew
		verify(t, now, set, bearerOf(t, grant(t, s, ann)))
	}
	// added everywhere before it signs; servers may have the set of either replica
	check(b.KeySet())
	a.Adopt(old, fresh)
	check(b.KeySet())
	b.Adopt(old, fresh)
	known := b.KeySet() // that a server keeps
	a.Adopt(fresh, old)
	check(known)
	a.Adopt(fresh)
	check(known)
	if !strings.Contains(string(a.KeySet()), kidOf(t, old)) {
		t.Error("got no old key in the set, want it for what it has signed")
	}
	now = now.Add(time.Hour)
	if strings.Contains(string(a.KeySet()), kidOf(t, old)) {
		t.Error("got the old key in the set after an hour, want it gone")
	}
}

func kidOf(t *testing.T, secret []byte) string {
	t.Helper()
	var set struct{ Keys []struct{ Kid string } }
	if err := json.Unmarshal(credential.NewSigner(time.Now, secret).KeySet(), &set); err != nil {
		t.Fatal(err)
	}
	return set.Keys[0].Kid
}

func TestPlainHeadersSayWhoCalls(t *testing.T) {
	people := newTokenIssuer(t, issuer)
	s := source(t, credential.Config{Spec: credential.Spec{Identity: &credential.Identity{
		Claims: []string{"email"}, Plain: map[string]string{
			"X-Forwarded-User":  "sub",
			"X-Forwarded-Email": "email",
		},
	}}})
	ann, _ := people.caller(issuer, "ann", "acme", map[string]any{"email": "ann@example.com"})
	g := grant(t, s, ann)
	if got := headerOf(t, g, "X-Forwarded-User"); got != issuer+"#ann" {
		t.Errorf("got %q", got)
	}
	if got := headerOf(t, g, "X-Forwarded-Email"); got != "ann@example.com" {
		t.Errorf("got %q", got)
	}
	for _, odd := range []any{"a\r\nX-Evil: 1", "ü@example.com", []string{"a"}, 7} {
		mallory, _ := people.caller(issuer, "mallory", "acme", map[string]any{"email": odd})
		if _, err := s.For(t.Context(), mallory); credential.FaultOf(err) != credential.FaultMissing {
			t.Errorf("got %v for the email %q, want it refused", err, odd)
		}
	}
}

// TestIdentityIsSignedAnewAfterAMinute has a caller come again and again, and the server
// refuse one that says nothing of a caller without an email.
func TestIdentityIsSignedAnewAfterAMinute(t *testing.T) {
	people := newTokenIssuer(t, issuer)
	ann, _ := people.caller(issuer, "ann", "acme", nil)
	synctest.Test(t, func(t *testing.T) {
		s := source(t, credential.Config{
			Spec: credential.Spec{Identity: &credential.Identity{
				Audience: server,
				Plain:    map[string]string{"X-Email": "email"},
			}},
			Tenants: map[string]credential.Spec{"plain": {Identity: &credential.Identity{
				Plain: map[string]string{"X-Email": "email"},
			}}},
		})
		first := grant(t, s, ann)
		time.Sleep(59 * time.Second)
		if grant(t, s, ann) != first {
			t.Error("got another identity within a minute, want the same")
		}
		time.Sleep(2 * time.Second)
		grant(t, s, ann) // has the next one signed beside
		synctest.Wait()
		next := grant(t, s, ann)
		if next == first {
			t.Error("got the same identity after a minute, want another")
		}
		if next.Refused() {
			t.Error("an identity that was signed just now is signed again")
		}
		time.Sleep(10 * time.Second)
		if !next.Refused() || grant(t, s, ann) == next {
			t.Error("got the same identity after the server refused it, want another")
		}

		nobody := *ann
		nobody.TenantID = "plain"
		empty := grant(t, s, &nobody)
		time.Sleep(10 * time.Second)
		if !empty.Refused() {
			t.Error("got no other attempt without headers")
		}
	})
}

// TestIdentityThatNoHeaderHoldsIsNotSent has callers whose claims are longer than what
// servers take: nothing is sent for them, and others are not affected.
func TestIdentityThatNoHeaderHoldsIsNotSent(t *testing.T) {
	people := newTokenIssuer(t, issuer)
	s := source(t, credential.Config{Spec: credential.Spec{Identity: &credential.Identity{
		Audience: server, Claims: []string{"email", "groups"},
	}}})
	for size, refused := range map[int]bool{500: false, 2700: true} {
		long := strings.Repeat("g", size)
		p, _ := people.caller(issuer, fmt.Sprint("user-", size), "acme", map[string]any{"email": long, "groups": long})
		g, err := s.For(t.Context(), p)
		if got := credential.FaultOf(err) == credential.FaultMissing; got != refused || refused != (g == nil) {
			t.Errorf("claims of %d bytes: got %v, want refused: %v", size, err, refused)
		}
		if err != nil && strings.Contains(err.Error(), "ggg") {
			t.Errorf("got %v, which quotes a claim", err)
		}
	}
}
