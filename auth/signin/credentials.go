package signin

import (
	"net/http"
	"net/url"

	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
)

// credentials are who a client says that it is, and what it proves that by.
type credentials struct {
	id    string
	fixed *clients.Fixed // nil: a public client
}

// credentials returns the client of a request. One that the operator has configured with
// a secret must prove it. All others are public, and prove by PKCE and by their tokens
// that they are the same as before. Many programs do not encode what they send by Basic.
// https://www.rfc-editor.org/rfc/rfc6749#section-2.3.1
func (s *core) credentials(r *http.Request, form url.Values) (credentials, error) {
	id, secret := form.Get("client_id"), form.Get("client_secret")
	asSent := secret
	if r.Header.Get("Authorization") != "" {
		name, password, ok := r.BasicAuth()
		plain, err := url.QueryUnescape(name)
		plainSecret, _ := url.QueryUnescape(password) // "" unless it is encoded
		if !ok || err != nil || secret != "" || id != "" && id != plain {
			return credentials{}, errClient
		}
		id, secret, asSent = plain, plainSecret, password
	}
	if id == "" {
		return credentials{}, errRepeated
	}
	fixed := s.registry.FixedBy(id)
	if fixed != nil && fixed.Secret != "" && !fixed.Proves(secret) && !fixed.Proves(asSent) {
		return credentials{}, errClient
	}
	return credentials{id, fixed}, nil
}

// is tells whether the client is the one of a family.
func (c credentials) is(f *family) bool { return f.Ask.Client.Digest == clients.DigestOf(c.id) }

// isGone tells whether the operator has taken the client of a family out of the config.
// Without its secret, nobody can prove to be that client.
func (c credentials) isGone(f *family) bool {
	return f.Ask.Client.Kind == clients.Configured && c.fixed == nil
}
