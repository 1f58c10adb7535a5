package provider

import (
	"fmt"

	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// refreshState is what a provider must remember of a person until it is asked again. It
// travels as the refresh token of a signin.Identity, whose holder keeps it sealed.
type refreshState struct {
	// Token is the refresh token of the provider or, of GitHub without one, its access
	// token.
	Token string `json:"token"`
	// Client is the client id that the token was given to. Another one cannot use it.
	Client  string `json:"client"`
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
	// Claims are those of the last ID token, as JSON text: a provider may give none at a
	// refresh.
	Claims string `json:"claims,omitempty"`
	Access bool   `json:"access,omitempty"` // Token is an access token
}

// text returns k for a signin.Identity, "" if there is no token.
func (k *refreshState) text() (string, error) {
	if k.Token == "" {
		return "", nil
	}
	data, err := strictjson.Marshal(k)
	return string(data), err
}

// next returns an identity that has the provider's next refresh token and nothing else,
// for when the provider failed after it gave that. Without one k stays as it is.
func (k *refreshState) next(token string) signin.Identity {
	after := *k
	after.Token, after.Access = token, false
	text, err := after.text()
	if err != nil {
		return signin.Identity{}
	}
	return signin.Identity{RefreshToken: text}
}

// remembered returns what the text of a refreshState says. It is worth nothing if it was
// made for another provider or client than cfg has.
func remembered(text string, cfg *Config) (refreshState, error) {
	var k refreshState
	if err := strictjson.Unmarshal([]byte(text), &k); err != nil {
		return refreshState{}, fmt.Errorf("%w: what was kept of it is not readable", signin.ErrSignInAgain)
	}
	if k.Issuer != cfg.Issuer || k.Client != cfg.ClientID || k.Token == "" {
		return refreshState{}, fmt.Errorf("%w: its client or issuer is another now", signin.ErrSignInAgain)
	}
	return k, nil
}
