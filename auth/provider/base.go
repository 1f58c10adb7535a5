package provider

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/drawbridge-mcp/drawbridge/auth/signin"
)

// base is what all providers have: the client of the gateway there, and what becomes of
// an answer.
type base struct {
	cfg      Config
	reported sync.Map // what was told to the logger already, by text
	// why the provider does not take the gateway for its client; nil: nothing says so
	refusal atomic.Pointer[Error]
}

// Name implements signin.Provider.
func (b *base) Name() string { return b.cfg.Name }

// Issuer implements signin.Provider.
func (b *base) Issuer() string { return b.cfg.Issuer }

// oauthAt returns the client as the library wants it.
func (b *base) oauthAt(callback string, endpoint oauth2.Endpoint) *oauth2.Config {
	return &oauth2.Config{
		ClientID: b.cfg.ClientID, ClientSecret: b.cfg.ClientSecret, Endpoint: endpoint,
		RedirectURL: callback, Scopes: b.cfg.Scopes,
	}
}

// with returns a context by which both libraries find the client.
func (b *base) with(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, b.cfg.Client)
}

// answered returns the error of a request to the token endpoint, nil if there is none,
// without anything that was sent. It notes whether the provider takes the gateway for its
// client.
func (b *base) answered(doing string, err error, secrets ...string) error {
	if err != nil {
		err = withoutSecrets(doing, err, append(secrets, b.cfg.ClientSecret)...)
	}
	refused, _ := errors.AsType[*Error](err) // nil without an error
	if err == nil || errors.Is(err, signin.ErrClientRefused) {
		b.refusal.Store(refused)
	}
	return err
}

// takesClient returns an error if the provider has refused the gateway as its client, and
// has not taken it since.
func (b *base) takesClient() error {
	refused := b.refusal.Load()
	if refused == nil {
		return nil
	}
	return fmt.Errorf(
		"it answers, and refuses the client of the gateway; has its secret or key expired? (%w)", refused)
}

// signedIn returns who a token is of, with what is to be kept until the next refresh.
func (b *base) signedIn(token *oauth2.Token, claims []byte, keep refreshState) (signin.Identity, error) {
	keep.Client, keep.Issuer = b.cfg.ClientID, b.cfg.Issuer
	text, err := keep.text()
	if err != nil {
		return signin.Identity{}, err
	}
	return signin.Identity{
		Claims: claims, Subject: keep.Subject, RefreshToken: text, AccessToken: token.AccessToken,
		Expiry: token.Expiry,
	}, nil
}

// tellOnce logs what a provider leaves out, once in the life of the process.
func (b *base) tellOnce(ctx context.Context, what string) {
	if _, before := b.reported.LoadOrStore(what, true); !before {
		b.cfg.Logger.WarnContext(ctx, "provider leaves something out", "issuer", b.cfg.Issuer, "warning",
			what)
	}
}
