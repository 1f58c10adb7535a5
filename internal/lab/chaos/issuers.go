package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// issuerFaults returns what may happen to an issuer whose keys are fetched. The crowd has
// tokens of such an issuer.
func issuerFaults() []*fault {
	return []*fault{
		{
			name:   "the keys of an issuer rotate",
			done:   "its key set gets a new key before the old one; new tokens are signed with the new key",
			ground: plain,
			holds:  "tokens of the new key are taken at every replica without a reload, and those of the old one go on", before: withIssuer,
			make: func(_ context.Context, s *scene) (effect, error) {
				s.issuer.rotate()
				return effect{seen: s.goOn()}, nil
			},
		},
		{
			name: "the key server of an issuer is gone",
			done: "it does not listen any more, and replicas are told to fetch", ground: plain,
			holds: "tokens go on, and `/readyz` warns", before: withIssuer,
			make: func(ctx context.Context, s *scene) (effect, error) {
				s.issuer.close()
				err := s.fetchKeys(ctx)
				return effect{
					seen: all(s.keysFail(), s.goOn()),
					heal: func(context.Context) error { return s.issuer.listen() },
				}, err
			},
		},
		{
			name: "the key server of an issuer answers garbage",
			done: "status 200 and a page, and replicas are told to fetch", ground: plain,
			holds: "tokens go on, and `/readyz` warns", before: withIssuer,
			make: func(ctx context.Context, s *scene) (effect, error) {
				s.issuer.spoil(true)
				err := s.fetchKeys(ctx)
				return effect{
					seen: all(s.keysFail(), s.goOn()),
					heal: does(func() { s.issuer.spoil(false) }),
				}, err
			},
		},
	}
}

// withIssuer gives all replicas another issuer, whose tokens the crowd gets.
func withIssuer(ctx context.Context, s *scene) error {
	i, err := newIssuer(s.URL + "/mcp")
	if err != nil {
		return err
	}
	s.later(does(i.close))
	s.issuer, s.token = i, i.token
	text := fmt.Sprintf(
		"\nissuers:\n  - {issuer: %q, jwks_url: \"http://%s/keys\", private_addresses: true, algorithms: [EdDSA], tenants: {claim: tenant}, tenants_allowed: [%s]}\n",
		issuerName, i.address, strings.Join(world.Tenants(), ", "))
	return s.rewriteAll(ctx,
		func(config string) string { return strings.Replace(config, "\nissuers:\n", text, 1) })
}

// rewriteAll changes the configs of all replicas until the round is over.
func (s *scene) rewriteAll(ctx context.Context, change func(config string) string) error {
	return inTurn(s.fleet(), func(r *world.Replica) error { return s.rewrite(ctx, r, change) })
}

// fetchKeys makes all replicas fetch the keys of issuers, by a reload.
func (s *scene) fetchKeys(ctx context.Context) error {
	return s.rewriteAll(ctx, func(config string) string { return config + "\n# once more\n" })
}

// keysFail returns what is wrong when a replica does not warn that keys cannot be
// fetched.
func (s *scene) keysFail() func(context.Context) error {
	return ofEach(s.fleet(), func(r *world.Replica) func(context.Context) error {
		return s.judged(r, "keys cannot be fetched", func(v view) bool {
			return strings.Contains(strings.Join(v.Warnings, " "), issuerName)
		})
	})
}

const issuerName = "https://rotating.test/"

// issuer signs tokens with keys that it serves as a key set.
type issuer struct {
	address, audience string

	mu      sync.Mutex           // guards the fields below
	keys    []ed25519.PrivateKey // the newest last; the id of a key is its place
	garbage bool
	server  *http.Server // nil: it does not listen
}

func newIssuer(audience string) (*issuer, error) {
	address, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	i := &issuer{address: address, audience: audience}
	i.rotate()
	return i, i.listen()
}

// rotate signs with a new key from now on.
func (i *issuer) rotate() {
	_, key, _ := ed25519.GenerateKey(rand.Reader) // it never fails
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = append(i.keys, key)
}

func (i *issuer) spoil(garbage bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.garbage = garbage
}

func (i *issuer) listen() error {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", i.address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(i.serve), ReadHeaderTimeout: time.Minute}
	i.mu.Lock()
	i.server = server
	i.mu.Unlock()
	go func() { _ = server.Serve(listener) }() // until close
	return nil
}

func (i *issuer) close() {
	i.mu.Lock()
	server := i.server
	i.server = nil
	i.mu.Unlock()
	if server != nil {
		_ = server.Close() // nobody waits for an answer
	}
}

func (i *issuer) serve(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.garbage {
		_, _ = w.Write([]byte("<html>this is no key set</html>")) // who reads sees it
		return
	}
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
	token, err := auth.Sign(auth.Key{ID: fmt.Sprint(id), Public: key.Public(), Private: key}, "EdDSA",
		auth.Claims{
			Issuer: issuerName, Subject: user, Audience: i.audience, Extra: map[string]any{"tenant": tenant},
			IssuedAt: now, Expiry: now.Add(23 * time.Hour),
		})
	if err != nil {
		panic(errors.Join(errors.New("a key of our own cannot sign"), err))
	}
	return token
}
