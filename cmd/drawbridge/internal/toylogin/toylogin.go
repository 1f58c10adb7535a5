// Package toylogin is an identity provider for trying things out: it checks nobody. Who
// opens its page chooses who they are. It speaks as much of OpenID Connect as the gateway
// asks of a provider, so that a sign-in on one machine goes the way that it goes
// everywhere.
//
// It deliberately has no config, keeps nothing and is for one process: whoever starts it
// listens on loopback only.
package toylogin

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

const (
	// ClientID is the id of the one client, the gateway.
	ClientID = "drawbridge"
	// GroupsClaim is the claim that has the groups of a person.
	GroupsClaim = "groups"
	// RolesClaim is the claim that has the roles of a person.
	RolesClaim = "roles"

	maxOpen   = 100 // sign-ins that were begun; then the oldest ones end
	tokenLife = 5 * time.Minute
)

// Person is somebody whom visitors may choose to be.
type Person struct {
	Subject string
	Name    string
	Groups  []string
	Roles   []string
	About   string // for who chooses; plain text
}

// Provider is the provider. It is safe for concurrent use.
type Provider struct {
	address  string // host and port
	callback string
	secret   string
	people   []Person
	key      auth.Key

	mu   sync.Mutex        // guards the fields below
	open map[string]signIn // by an id, which becomes the code once somebody was chosen
	last []string          // the ids, oldest first
}

// signIn is what the gateway has asked for, and who came.
type signIn struct {
	state, nonce, challenge string
	person                  *Person // nil: nobody has chosen yet
}

// New returns a provider that is reached at an address of the form host:port and sends
// people back to callback. The people are shared: do not modify.
func New(address, callback string, people []Person) *Provider {
	public, private, _ := ed25519.GenerateKey(nil) // never fails
	return &Provider{
		address: address, callback: callback, secret: rand.Text(), people: people,
		key: auth.Key{ID: "toy", Public: public, Private: private}, open: map[string]signIn{},
	}
}

// Issuer returns what the provider is called by.
func (p *Provider) Issuer() string { return "http://" + p.address }

// Secret returns the secret of the client.
func (p *Provider) Secret() string { return p.secret }

// ServeHTTP implements http.Handler. A page that another name leads here is of somebody
// else, who wants a browser of this machine to come.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	if r.Host != p.address {
		http.Error(w, "this is "+p.Issuer(), http.StatusMisdirectedRequest)
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /.well-known/openid-configuration":
		write(w, http.StatusOK, map[string]any{
			"issuer": p.Issuer(), "authorization_endpoint": p.Issuer() + "/authorize",
			"token_endpoint": p.Issuer() + "/token", "jwks_uri": p.Issuer() + "/keys",
			"id_token_signing_alg_values_supported": []string{"EdDSA"},
			"code_challenge_methods_supported":      []string{"S256"},
			"scopes_supported":                      []string{"openid", "offline_access"},
			"claims_supported":                      []string{"sub", "name", GroupsClaim, RolesClaim},
		})
	case "GET /keys":
		write(w, http.StatusOK, map[string]any{"keys": []any{map[string]any{
			"kty": "OKP", "crv": "Ed25519", "kid": p.key.ID, "use": "sig", "alg": "EdDSA",
			"x": base64.RawURLEncoding.EncodeToString(p.key.Public.(ed25519.PublicKey)),
		}}})
	case "GET /authorize":
		p.authorize(w, r)
	case "GET /enter":
		p.enter(w, r)
	case "POST /token":
		p.token(w, r)
	default:
		http.NotFound(w, r)
	}
}

// authorize shows the page on which a visitor chooses who to be.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != ClientID || q.Get("redirect_uri") != p.callback ||
		q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" {
		http.Error(w, "only the gateway that was started with this login sends people here",
			http.StatusBadRequest)
		return
	}
	id := p.begin(signIn{state: q.Get("state"), nonce: q.Get("nonce"), challenge: q.Get("code_challenge")})
	var list strings.Builder
	for i, person := range p.people {
		_, _ = fmt.Fprintf(&list, "<li><a href=\"/enter?id=%s&amp;as=%d\">%s</a>: %s</li>\n", id, i,
			person.Name, person.About) // a write into a builder cannot fail
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'")
	_, _ = fmt.Fprintf(w, page, list.String()) // the browser is gone
}

// page is the one page of the login. Its list is made of constants and random letters.
const page = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Toy login: nobody is checked here</title>
</head>
<body>
<main>
<h1>Toy login</h1>
<p><strong>This is no real login. Nobody is checked, and there are no passwords.</strong>
It stands in for your company&#39;s identity provider while you try drawbridge on this machine.</p>
<p>Who do you want to be?</p>
<ul>
%s</ul>
</main>
</body>
</html>
`

// begin keeps a sign-in, and returns its id.
func (p *Provider) begin(s signIn) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := rand.Text()
	p.open[id] = s
	if p.last = append(p.last, id); len(p.last) > maxOpen {
		delete(p.open, p.last[0])
		p.last = p.last[1:]
	}
	return id
}

// take ends a sign-in, and returns it if chosen is whether somebody has come.
func (p *Provider) take(id string, chosen bool) (signIn, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, ok := p.open[id]
	if !ok || chosen != (s.person != nil) {
		return signIn{}, false
	}
	delete(p.open, id)
	return s, true
}

// enter sends a visitor who has chosen back to the gateway.
func (p *Provider) enter(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var person *Person
	for i := range p.people {
		if q.Get("as") == fmt.Sprint(i) {
			person = &p.people[i]
		}
	}
	s, ok := p.take(q.Get("id"), false)
	if person == nil || !ok {
		http.Error(w, "this sign-in has ended; begin again in your client", http.StatusBadRequest)
		return
	}
	s.person = person
	back := url.Values{"code": {p.begin(s)}, "state": {s.state}, "iss": {p.Issuer()}}
	w.Header().Set("Location", p.callback+"?"+back.Encode())
	w.WriteHeader(http.StatusSeeOther)
}

// token says who somebody is, for a code or a refresh token.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 8<<10)
	id, secret, _ := r.BasicAuth()
	if id != ClientID || !same(secret, p.secret) {
		write(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	var s signIn
	ok := false
	switch r.PostFormValue("grant_type") {
	case "authorization_code":
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		s, ok = p.take(r.PostFormValue("code"), true)
		ok = ok && same(s.challenge, base64.RawURLEncoding.EncodeToString(sum[:]))
	case "refresh_token":
		for i := range p.people {
			if same(r.PostFormValue("refresh_token"), p.refreshToken(&p.people[i])) {
				s, ok = signIn{person: &p.people[i]}, true
			}
		}
	}
	if !ok {
		write(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	signed, err := p.idToken(s)
	if err != nil {
		write(w, http.StatusInternalServerError, map[string]any{"error": "server_error"})
		return
	}
	write(w, http.StatusOK, map[string]any{
		"access_token": rand.Text(), "token_type": "Bearer", "expires_in": int(tokenLife.Seconds()),
		"id_token": signed, "refresh_token": p.refreshToken(s.person),
	})
}

// refreshToken returns the refresh token of a person, which stays the same.
func (p *Provider) refreshToken(person *Person) string {
	sum := sha256.Sum256([]byte("refresh\x00" + p.secret + "\x00" + person.Subject))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// idToken says who somebody is.
// https://openid.net/specs/openid-connect-core-1_0.html#IDToken
func (p *Provider) idToken(s signIn) (string, error) {
	more := map[string]any{
		"name": s.person.Name, GroupsClaim: s.person.Groups, RolesClaim: s.person.Roles,
	}
	if s.nonce != "" {
		more["nonce"] = s.nonce
	}
	now := time.Now()
	return auth.Sign(p.key, "EdDSA", auth.Claims{
		Issuer: p.Issuer(), Subject: s.person.Subject, Audience: ClientID, IssuedAt: now,
		Expiry: now.Add(tokenLife), Extra: more,
	})
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// write answers with a document.
func write(w http.ResponseWriter, status int, document map[string]any) {
	data, err := strictjson.Marshal(document)
	if err != nil {
		panic("toylogin: a document that cannot be written: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data) // the gateway is gone
}
