package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// issuerFaults returns what may happen to an issuer whose keys are fetched. The crowd has
// tokens of such an issuer.
func issuerFaults() []*fault {
	fetch := of(fleet, rewrites(func(config string) string { return config + "\n# once more\n" })) // a reload fetches keys
	fails := all(of(fleet, warns(issuerName)), goOn)
	faults := []*fault{
		{
			name: "the keys of an issuer rotate",
			done: "its key set gets a new key before the old one; new tokens are signed with the new key",
			holds: "tokens of the new key are taken at every replica without a reload, and those of the " +
				"old one go on",
			make: func(_ context.Context, s *scene) {
				s.issuer.rotate()
			},
			seen: goOn,
		},
		{
			name:  "the key server of an issuer is gone",
			done:  "it does not listen any more, and replicas are told to fetch",
			holds: "tokens go on, and `/readyz` warns",
			make:  all(keysAway, fetch), seen: fails, heal: keysBack,
		},
		{
			name:  "the key server of an issuer answers garbage",
			done:  "status 200 and a page, and replicas are told to fetch",
			holds: "tokens go on, and `/readyz` warns",
			make:  all(keysSpoiled(true), fetch), seen: fails, heal: keysSpoiled(false),
		},
	}
	for _, f := range faults {
		f.ground, f.before = plain, withIssuer
	}
	return faults
}

// withIssuer gives all replicas another issuer, whose tokens the crowd gets.
func withIssuer(ctx context.Context, s *scene) {
	address := must.Have(freeport.Address())
	i := &issuer{address: address, audience: s.URL + "/mcp"}
	i.rotate()
	s.issuer, s.token = i, i.token
	s.later(keysAway)
	text := fmt.Sprintf(
		"- {issuer: %q, jwks_url: \"http://%s/keys\", private_addresses: true, algorithms: [EdDSA], "+
			"tenants: {claim: tenant}, tenants_allowed: [%s]}",
		issuerName, i.address, strings.Join(world.Tenants, ", "))
	all(keysBack, of(fleet, rewrites(below("issuers", text))))(ctx, s)
}

// keysAway ends the issuer's key server.
func keysAway(_ context.Context, s *scene) {
	if s.issuer.server != nil {
		_ = s.issuer.server.Close() // nobody waits for an answer
	}
}

// keysBack has the issuer's key server listen, at the same address.
func keysBack(ctx context.Context, s *scene) {
	listener := must.Have((&net.ListenConfig{}).Listen(ctx, "tcp", s.issuer.address))
	server := &http.Server{Handler: http.HandlerFunc(s.issuer.serve), ReadHeaderTimeout: time.Minute}
	s.issuer.server = server
	go func() { _ = server.Serve(listener) }() // until keysAway
}

// keysSpoiled has the key server answer garbage, or keys again.
func keysSpoiled(garbage bool) step {
	return func(_ context.Context, s *scene) {
		s.issuer.garbage.Store(garbage)
	}
}

const issuerName = "https://rotating.test/"

// issuer signs tokens with keys that it serves as a key set.
type issuer struct {
	address, audience string

	server  *http.Server // nil: it never listened
	garbage atomic.Bool

	mu   sync.Mutex           // guards the field below
	keys []ed25519.PrivateKey // the newest last; the id of a key is its place
}

// rotate signs with a new key from now on.
func (i *issuer) rotate() {
	_, key, _ := ed25519.GenerateKey(rand.Reader) // it never fails
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = append(i.keys, key)
}

func (i *issuer) serve(w http.ResponseWriter, _ *http.Request) {
	if i.garbage.Load() {
		_, _ = w.Write([]byte("<html>this is no key set</html>")) // who reads sees it
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	set := []map[string]any{}
	for id, key := range i.keys {
		public, _ := key.Public().(ed25519.PublicKey)
		set = append(set, map[string]any{
			"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": fmt.Sprint(id),
			"x": base64.RawURLEncoding.EncodeToString(public),
		})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"keys": set}) // as above
}

// token signs a token that holds for a day.
func (i *issuer) token(tenant, user string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	now, id := time.Now(), len(i.keys)-1
	key := i.keys[id]
	return must.Have(auth.Sign(auth.Key{ID: fmt.Sprint(id), Public: key.Public(), Private: key}, "EdDSA",
		auth.Claims{
			Issuer: issuerName, Subject: user, Audience: i.audience, Extra: map[string]any{"tenant": tenant},
			IssuedAt: now, Expiry: now.Add(23 * time.Hour),
		}))
}
