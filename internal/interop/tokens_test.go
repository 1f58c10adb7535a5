package interop_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// tokenServer is a real authorization server: oidc-provider, with token exchange.
type tokenServer struct {
	issuer, folder string
	people         auth.Key // signs for the people whose tokens it takes
	verifier       *auth.Verifier
	process        *process
}

func newTokenServer(t *testing.T) *tokenServer {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(address, ":")
	s := &tokenServer{issuer: "http://127.0.0.1:" + port, folder: t.TempDir()}
	const secret = "f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99"
	if s.people, err = auth.ParseSecret([]byte(secret)); err != nil {
		t.Fatal(err)
	}
	s.verifier, err = auth.New(auth.Config{Issuers: []auth.Issuer{{
		Issuer: "https://login.example/", Algorithms: []string{"HS256"}, Audiences: []string{"gw"},
		Tenant: "acme",
		Keys:   []auth.Key{s.people}, KeepToken: true,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	point, err := private.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	text := base64.RawURLEncoding.EncodeToString
	jwk := fmt.Sprintf(`{"kty":"EC","crv":"P-256","alg":"ES256","use":"sig","kid":"k1","x":%q,"y":%q}`,
		text(point[1:33]), text(point[33:]))
	for name, content := range map[string]string{
		"secret": "hunter2-hunter2-hunter2",
		"key":    string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	} {
		if err := os.WriteFile(filepath.Join(s.folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.process = nodeProcess(t, nil, "testdata/tokens.mjs", port, secret, "hunter2-hunter2-hunter2", jwk)
	eventually(t, "the authorization server listens", func() bool { return listening(address) })
	return s
}

// source returns what requests to a server carry that takes its tokens.
func (s *tokenServer) source(t *testing.T, spec credential.Spec) *credential.Source {
	t.Helper()
	source := credential.New(credential.Config{
		Server: "erp", Spec: spec, Issuer: "https://gateway.example",
		Client: dial.Client(dial.Config{PrivateAddresses: true}),
	})
	t.Cleanup(source.Close)
	return source
}

func (s *tokenServer) client(id string) credential.Client {
	c := credential.Client{Issuer: s.issuer, ID: id, Resource: "https://erp.example/mcp"}
	if id == "signer" {
		c.KeyFile, c.KeyID = filepath.Join(s.folder, "key"), "k1"
	} else {
		c.SecretFile = filepath.Join(s.folder, "secret")
	}
	return c
}

// caller returns a person who comes with a token, which key has signed.
func (s *tokenServer) caller(t *testing.T, subject string) (*auth.Principal, string) {
	t.Helper()
	token, err := auth.Sign(s.people, "HS256", auth.Claims{
		Issuer: "https://login.example/", Subject: subject, Audience: "gw", IssuedAt: time.Now(),
		Expiry: time.Now().Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.verifier.Verify(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	return &p, token
}

// verified returns the claims of what a request carries, as a server checks them.
func (s *tokenServer) verified(t *testing.T, g *credential.Headers, audience string) jwt.MapClaims {
	t.Helper()
	header := g.Add(http.Header{}, credential.Trace{})
	var known struct {
		Keys []struct{ Kid, Kty, N, E string }
	}
	if err := json.Unmarshal([]byte(fetch(t, s.issuer+"/jwks")), &known); err != nil {
		t.Fatal(err)
	}
	claims := jwt.MapClaims{}
	_, err := jwt.ParseWithClaims(strings.TrimPrefix(header.Get("Authorization"), "Bearer "), claims,
		func(j *jwt.Token) (any, error) {
			for _, key := range known.Keys {
				if key.Kid == j.Header["kid"] && key.Kty == "RSA" {
					n, _ := base64.RawURLEncoding.DecodeString(key.N)
					return &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: 65537}, nil
				}
			}
			return nil, fmt.Errorf("no key %v", j.Header["kid"])
		}, jwt.WithValidMethods([]string{"RS256"}), jwt.WithIssuer(s.issuer), jwt.WithAudience(audience))
	if err != nil {
		t.Errorf("got %v, want a token that a server takes", err)
	}
	return claims
}

// TestRealAuthorizationServerGivesTokens has a real authorization server, found by its
// metadata, give tokens to the gateway itself, by both ways to prove who that is, and in
// exchange for tokens of people, all at once.
func TestRealAuthorizationServerGivesTokens(t *testing.T) {
	t.Parallel()
	s := newTokenServer(t)
	for _, id := range []string{"gw", "signer"} {
		client := s.client(id)
		g, err := s.source(t, credential.Spec{ClientCredentials: &client}).For(t.Context(), nil)
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		if got := s.verified(t, g, "https://erp.example/mcp"); got["client_id"] != id {
			t.Errorf("got %v, want a token of %s", got, id)
		}
	}
	client := s.client("gw")
	client.Resource = ""
	source := s.source(t, credential.Spec{Exchange: &credential.Exchange{Client: client, Audience: "erp"}})
	var all sync.WaitGroup
	for i := range 100 {
		p, _ := s.caller(t, fmt.Sprint("user-", i%20))
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			g, err := source.For(ctx, p)
			if err != nil {
				t.Errorf("%s: %v", p.Subject, err)
				return
			}
			if got := s.verified(t, g, "erp"); got["sub"] != p.Subject || got["client_id"] != "gw" {
				t.Errorf("got %v, want a token for %s", got, p.Subject)
			}
		})
	}
	all.Wait()
	known, _ := s.caller(t, "user-0")
	before, err := source.For(t.Context(), known)
	if err != nil {
		t.Fatal(err)
	}
	// the server refuses a token that it cannot check, and repeats it in its words
	stranger, err := auth.ParseSecret([]byte("0a1b2c3d4e5f60718293a4b5c6d7e8f9f3b1c0a9"))
	if err != nil {
		t.Fatal(err)
	}
	s.people = stranger
	if s.verifier, err = auth.New(auth.Config{Issuers: []auth.Issuer{{
		Issuer: "https://login.example/", Algorithms: []string{"HS256"}, Audiences: []string{"gw"},
		Tenant: "acme",
		Keys:   []auth.Key{stranger}, KeepToken: true,
	}}}); err != nil {
		t.Fatal(err)
	}
	p, token := s.caller(t, "user-0")
	_, err = source.For(t.Context(), p)
	if credential.FaultOf(err) != credential.FaultExchange || strings.Contains(err.Error(), token[:20]) {
		t.Errorf("got %v, want a refusal without the token", err)
	}
	s.process.stop(t)
	if after, err := source.For(t.Context(), known); err != nil || after != before {
		t.Errorf("got %v, %v while the server is gone, want what it gave before", after, err)
	}
	other, _ := s.caller(t, "user-1")
	if _, err := source.For(t.Context(), other); credential.FaultOf(err) != credential.FaultAway {
		t.Errorf("got %v for a new token, want %s", err, credential.FaultAway)
	}
}
