package credential

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// assertionLife is how long an assertion is good by which the gateway proves who it is.
const assertionLife = time.Minute

// assertionType is that of https://www.rfc-editor.org/rfc/rfc7523#section-2.2
const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// Client is what the gateway is to an authorization server, and what it asks for there.
type Client struct {
	TokenURL string // of the token endpoint; "": Issuer says where it is
	Issuer   string // of the authorization server, whose metadata is read; "": TokenURL is known

	ID string
	// Exactly one proves who the gateway is: a secret, a private key in PEM, or a token
	// that the platform gives, read again when it changes.
	SecretFile, KeyFile, AssertionFile string
	KeyID                              string // kid of the key; "": none is named

	// What is asked for. Scopes and Resource may be empty.
	Scopes   []string
	Resource string
}

// prover proves to an endpoint who the gateway is.
type prover struct {
	spec *Client
	now  func() time.Time
	last atomic.Pointer[[]byte] // what could be read of the file last; nil: nothing could
}

// prove puts the proof into a request: into its header, or into its form. audience is for
// whom an assertion is; methods are those that the endpoint says it takes, nil: it does
// not say. It returns the texts that no log may have.
func (p *prover) prove(header http.Header, form url.Values, audience string,
	methods []string,
) (secrets []string, err error) {
	// one of them is set
	content, err := readSecret(p.spec.SecretFile + p.spec.KeyFile + p.spec.AssertionFile)
	if err == nil {
		p.last.Store(&content)
	}
	last := p.last.Load() // goes on while the file is being replaced
	if last == nil {
		return nil, failed(FaultMissing, "file of the client: %w", err)
	}
	secret := string(*last)
	if p.spec.KeyFile != "" {
		if secret, err = p.assertion(*last, audience); err != nil {
			return nil, failed(FaultMissing, "key of the client: %w", err)
		}
	}
	switch {
	case p.spec.AssertionFile != "", p.spec.KeyFile != "":
		form.Set("client_id", p.spec.ID)
		form.Set("client_assertion_type", assertionType)
		form.Set("client_assertion", secret)
	case methods != nil && !slices.Contains(methods, "client_secret_basic") &&
		slices.Contains(methods, "client_secret_post"):
		form.Set("client_id", p.spec.ID)
		form.Set("client_secret", secret)
	default: // https://www.rfc-editor.org/rfc/rfc6749#section-2.3.1
		r := &http.Request{Header: header}
		r.SetBasicAuth(url.QueryEscape(p.spec.ID), url.QueryEscape(secret))
		return []string{secret, header.Get(authorization)}, nil
	}
	return []string{secret}, nil
}

// assertion signs one assertion. https://www.rfc-editor.org/rfc/rfc7523#section-3
func (p *prover) assertion(pem []byte, audience string) (string, error) {
	key, err := privateKey(pem)
	if err != nil {
		return "", err
	}
	key.ID = p.spec.KeyID
	now := p.now()
	return auth.Sign(key, key.Algorithm(), auth.Claims{
		Issuer: p.spec.ID, Subject: p.spec.ID, Audience: audience, IssuedAt: now,
		Expiry: now.Add(assertionLife), Extra: map[string]any{"jti": rand.Text()},
	})
}

// CheckKey returns why a file has no private key with which assertions can be signed, nil
// if it has one.
func CheckKey(path string) error {
	content, err := readSecret(path)
	if err != nil {
		return err
	}
	_, err = privateKey(content)
	return err
}

var errNoPrivate = errors.New("the file has no one private key in PEM: RSA, EC or Ed25519")

// privateKey reads a key in PEM.
func privateKey(pem []byte) (auth.Key, error) {
	keys, err := auth.ParseKeys(pem)
	if err != nil || len(keys) != 1 || keys[0].Private == nil {
		return auth.Key{}, errNoPrivate
	}
	return keys[0], nil
}
