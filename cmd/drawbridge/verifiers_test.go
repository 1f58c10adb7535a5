package main

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
)

// login is an issuer on loopback that serves a set of one Ed25519 key, until it is told to fail.
type login struct {
	server  *httptest.Server
	key     atomic.Pointer[auth.Key]
	failing atomic.Bool
	fetches atomic.Int64
}

func newLogin(t *testing.T) *login {
	l := &login{}
	l.rotate()
	l.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		l.fetches.Add(1)
		if l.failing.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		key := l.key.Load()
		x := base64.RawURLEncoding.EncodeToString(key.Public.(ed25519.PublicKey))
		fmt.Fprintf(w, `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":%q,"x":%q}]}`, key.ID, x)
	}))
	t.Cleanup(l.server.Close)
	return l
}

// rotate puts another key in the place of the one that is served.
func (l *login) rotate() {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err)
	}
	l.key.Store(&auth.Key{ID: fmt.Sprintf("%x", public[:8]), Public: public, Private: private})
}

func (l *login) issuer() config.Issuer {
	return config.Issuer{Issuer: auth.Issuer{
		Issuer: "https://login.example/", Algorithms: []string{"EdDSA"}, Audiences: []string{"us"}, Tenant: "acme", JWKSURL: l.server.URL,
	}, PrivateAddresses: true}
}

func (l *login) token(t *testing.T) string {
	t.Helper()
	token, err := auth.Sign(*l.key.Load(), "EdDSA", auth.Claims{
		Issuer: "https://login.example/", Subject: "alice", Audience: "us", IssuedAt: time.Now(), Expiry: time.Now().Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// started returns verifiers of the issuers that run until the test ends.
func started(t *testing.T, changed func(), issuers ...config.Issuer) *verifiers {
	t.Helper()
	v, err := newVerifiers(issuers, slog.New(slog.DiscardHandler), changed)
	if err != nil {
		t.Fatal(err)
	}
	v.start(t.Context())
	t.Cleanup(v.wait)
	return v
}

// reloaded puts a config with these issuers in the place of the one before.
func reloaded(t *testing.T, v *verifiers, issuers ...config.Issuer) {
	t.Helper()
	next, err := v.verifier(issuers)
	if err != nil {
		t.Fatal(err)
	}
	v.replace(t.Context(), issuers, next)
}

// TestAReloadJudgesThoseWhoCameBefore changes the issuers while the login does not answer: what an earlier verifier has
// accepted goes on if it still may, and at once no longer if it may not.
func TestAReloadJudgesThoseWhoCameBefore(t *testing.T) {
	l := newLogin(t)
	var told atomic.Int64
	v := started(t, func() { told.Add(1) }, l.issuer())
	token := l.token(t)
	p, err := v.verify(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	l.failing.Store(true)
	more := l.issuer()
	more.Audiences = []string{"us", "them"}
	other := l.issuer()
	other.Tenant = "globex"
	public := more
	public.PrivateAddresses = false
	for _, test := range []struct {
		name    string
		issuers []config.Issuer
		want    bool
	}{
		{"as it was", []config.Issuer{l.issuer()}, true},
		{"one audience more", []config.Issuer{more}, true},
		{"another tenant", []config.Issuer{other}, false},
		{"the first tenant again", []config.Issuer{more}, true},
		{"no such issuer", nil, false},
		{"a set that may not be fetched there", []config.Issuer{public}, false},
	} {
		before := told.Load()
		unchanged := len(test.issuers) > 0 && test.name == "as it was"
		reloaded(t, v, test.issuers...)
		if err := v.judge(p); (err == nil) != test.want {
			t.Errorf("%s: judged %v, want it accepted: %v", test.name, err, test.want)
		}
		if told.Load() == before && !unchanged {
			t.Errorf("%s: nobody was told", test.name)
		}
	}
}
