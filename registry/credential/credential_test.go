package credential_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

const (
	issuer = "https://login.example/"
	own    = "https://gateway.example"
	server = "https://crm.example/mcp"
)

// tokenIssuer makes tokens of an issuer, and callers of them as the door does.
type tokenIssuer struct {
	t        *testing.T
	key      auth.Key
	verifier *auth.Verifier
}

func newTokenIssuer(t *testing.T, issuers ...string) *tokenIssuer {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &tokenIssuer{t: t, key: auth.Key{Public: &private.PublicKey, Private: private}}
	var all []auth.Issuer
	for _, name := range issuers {
		all = append(all, auth.Issuer{
			Issuer: name, Algorithms: []string{"ES256"}, Audiences: []string{own + "/mcp"}, TenantClaim: "tenant",
			TenantsAllowed: []string{"acme", "globex"}, Keys: []auth.Key{p.key},
			KeepClaims: []string{"email", "groups"}, KeepToken: true,
		})
	}
	if p.verifier, err = auth.New(auth.Config{Issuers: all}); err != nil {
		t.Fatal(err)
	}
	return p
}

// caller returns who comes with a token with these claims, and the token.
func (p *tokenIssuer) caller(iss, subject, tenant string, extra map[string]any) (*auth.Principal, string) {
	p.t.Helper()
	members := map[string]any{"tenant": tenant, "azp": "claude"}
	maps.Copy(members, extra)
	token, err := auth.Sign(p.key, "ES256", auth.Claims{
		Issuer: iss, Subject: subject, Audience: own + "/mcp", IssuedAt: time.Now(),
		Expiry: time.Now().Add(time.Hour), Extra: members,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	principal, err := p.verifier.Verify(p.t.Context(), token)
	if err != nil {
		p.t.Fatal(err)
	}
	return &principal, token
}

// headerOf returns a header of a grant.
func headerOf(t *testing.T, g *credential.Headers, name string) string {
	t.Helper()
	h := g.Add(http.Header{}, credential.Trace{})
	if value := h.Get(name); value != "" && !strings.Contains(string(g.Lines(credential.Trace{})(nil)), name+": "+value+"\r\n") {
		t.Errorf("got lines %q, want the header %s among them", g.Lines(credential.Trace{})(nil), name)
	}
	return h.Get(name)
}

func bearerOf(t *testing.T, g *credential.Headers) string {
	t.Helper()
	return strings.TrimPrefix(headerOf(t, g, "Authorization"), "Bearer ")
}

// source returns a source that is closed when the test ends.
func source(t *testing.T, cfg credential.Config) *credential.Source {
	t.Helper()
	cfg.Server, cfg.Issuer = "crm", own
	if cfg.Client == nil {
		cfg.Client = dial.Client(dial.Config{PrivateAddresses: true})
	}
	if cfg.Signer == nil {
		cfg.Signer = credential.NewSigner(time.Now)
	}
	s := credential.New(cfg)
	t.Cleanup(s.Close)
	return s
}

// written returns the path of a new file.
func written(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func grant(t *testing.T, s *credential.Source, p *auth.Principal) *credential.Headers {
	t.Helper()
	g, err := s.For(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestFileIsReadAgainWhenItChanges(t *testing.T) {
	path := written(t, "first\n")
	now := time.Now()
	s := source(t, credential.Config{
		Spec: credential.Spec{Header: &credential.Header{Name: "x-api-key", File: path}},
		Now:  func() time.Time { return now },
	})
	before := grant(t, s, nil)
	if got := headerOf(t, before, "X-Api-Key"); got != "first" {
		t.Fatalf("got %q, want first", got)
	}
	if before.Refused() {
		t.Error("got another attempt, want none: the file is the same")
	}
	if err := os.WriteFile(path, []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Second)
	if got := headerOf(t, grant(t, s, nil), "X-Api-Key"); got != "second" {
		t.Errorf("got %q, want second", got)
	}
	// within the same second, by a refusal alone
	if err := os.WriteFile(path, []byte("third!"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !grant(t, s, nil).Refused() {
		t.Error("got no other attempt, want one: the file changed")
	}
	if got := headerOf(t, grant(t, s, nil), "X-Api-Key"); got != "third!" {
		t.Errorf("got %q, want third!", got)
	}
	// while the file is being replaced, what was read goes on
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Second)
	if got := headerOf(t, grant(t, s, nil), "X-Api-Key"); got != "third!" {
		t.Errorf("got %q, want third! while the file is gone", got)
	}
}

func TestFileThatIsNoCredentialIsRefused(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "\n", "line break": "Bearer a\r\nX-Evil: b", "blank in a token": "hunter 2",
		"long": strings.Repeat("a", 100<<10), "not ASCII": "é",
	} {
		t.Run(name, func(t *testing.T) {
			s := source(t, credential.Config{Spec: credential.Spec{TokenFile: written(t, content)}})
			_, err := s.For(t.Context(), nil)
			if credential.FaultOf(err) != credential.FaultMissing {
				t.Fatalf("got %v, want %s", err, credential.FaultMissing)
			}
			if text := strings.TrimSpace(content); text != "" && strings.Contains(err.Error(), text) {
				t.Errorf("got %q, which has the content", err)
			}
		})
	}
}

// TestFilesAreReadToABound reads files that have more than they may, whatever they say.
func TestFilesAreReadToABound(t *testing.T) {
	const bound = 64 << 10
	// The file system says that a file of the kernel's has no bytes, however many come.
	paths := []string{
		written(t, strings.Repeat("k", bound+1)),
		written(t, strings.Repeat("k", bound)+"\nand more"), // what is within the bound ends with a line
	}
	if err := credential.CheckFile(written(t, strings.Repeat("k", bound))); err != nil {
		t.Errorf("got %v of a file with as much as it may have", err)
	}
	if info, err := os.Stat("/proc/kallsyms"); err == nil && info.Size() == 0 {
		paths = append(paths, "/proc/kallsyms")
	}
	for _, path := range paths {
		if err := credential.CheckFile(path); err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("got %v of %s, want that the file has too many bytes", err, path)
		}
	}
}

func TestTenantHasItsOwn(t *testing.T) {
	s := source(t, credential.Config{
		Spec:    credential.Spec{TokenFile: written(t, "common")},
		Tenants: map[string]credential.Spec{"globex": {TokenFile: written(t, "globexs")}},
	})
	for tenant, want := range map[string]string{"acme": "common", "globex": "globexs"} {
		if got := bearerOf(t, grant(t, s, &auth.Principal{TenantID: tenant})); got != want {
			t.Errorf("got %s for %s, want %s", got, tenant, want)
		}
		g, err := s.Cached(t.Context(), auth.Owner{User: auth.User{TenantID: tenant}})
		if err != nil || bearerOf(t, g) != want {
			t.Errorf("got %v, %v held for %s, want %s", g, err, tenant, want)
		}
	}
}
