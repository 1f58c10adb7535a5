package provider

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/drawbridge-mcp/drawbridge/internal/fetch"
)

const (
	documentStale = 24 * time.Hour // that a document serves while no newer one can be fetched
	// that keys serve before they are fetched again, so that one that was taken back does
	// not stay
	keysFresh = time.Hour
)

// discovered is what the document of a provider says. It is never changed.
type discovered struct {
	provider *oidc.Provider
	keys     *signers
	endpoint oauth2.Endpoint
	document document
	fetched  time.Time
}

// document has the members of a document that go-oidc has no place for.
// https://openid.net/specs/openid-connect-discovery-1_0.html#ProviderMetadata
type document struct {
	Keys            string   `json:"jwks_uri"`
	TellsIssuer     bool     `json:"authorization_response_iss_parameter_supported"`
	ClientMethods   []string `json:"token_endpoint_auth_methods_supported"`
	ScopesSupported []string `json:"scopes_supported"`
	ClaimsSupported []string `json:"claims_supported"`
}

// discover returns what the provider's document says. Reach looks for a newer one, so
// that the one in force serves until it is too old.
func (p *OIDC) discover(ctx context.Context) (*discovered, error) {
	old := p.found.Load()
	if old != nil && p.cfg.Now().Sub(old.fetched) < documentStale {
		return old, nil
	}
	return p.renew(ctx, old)
}

// renew fetches another document than old.
func (p *OIDC) renew(ctx context.Context, old *discovered) (*discovered, error) {
	found, err := p.flights.Do(ctx, "", func(ctx context.Context) (*discovered, error) {
		if made := p.found.Load(); made != old {
			return made, nil // a flight has landed since this one was wanted
		}
		made, err := p.fetch(ctx)
		if err == nil {
			p.found.Store(made)
		}
		return made, err
	})
	if err != nil && ctx.Err() != nil {
		err = bare("get the provider's document", ctx.Err())
	}
	return found, err
}

// fetch gets the document from the provider and checks it.
func (p *OIDC) fetch(ctx context.Context) (*discovered, error) {
	ctx = p.with(ctx)
	found, document, err := documentOf(ctx, p.cfg.Issuer)
	if err != nil {
		return nil, err
	}
	d := &discovered{provider: found, endpoint: found.Endpoint(), document: document, fetched: p.cfg.Now()}
	for name, address := range map[string]string{
		"authorization_endpoint": d.endpoint.AuthURL, "token_endpoint": d.endpoint.TokenURL,
		"jwks_uri": d.document.Keys, "userinfo_endpoint": found.UserInfoEndpoint(),
	} {
		if address == "" && name == "userinfo_endpoint" {
			continue
		}
		if err := checkEndpoint(address, p.cfg.Plain); err != nil {
			return nil, fmt.Errorf("%s of the provider's document: %w", name, err)
		}
	}
	if d.endpoint.AuthStyle, err = p.style(d.document.ClientMethods); err != nil {
		return nil, err
	}
	d.keys = newSigners(p, d.document.Keys, d.fetched)
	if old := p.found.Load(); old != nil && old.keys.address == d.keys.address &&
		d.fetched.Sub(old.keys.made) < keysFresh {
		d.keys = old.keys
	}
	return d, nil
}

// documentOf gets the document of an issuer, which must name that very issuer.
func documentOf(ctx context.Context, issuer string) (found *oidc.Provider, d document, err error) {
	found, err = oidc.NewProvider(ctx, issuer)
	if other, ok := errors.AsType[*oidc.IssuerMismatchError](err); ok {
		return nil, d, fmt.Errorf("the provider's document is of the issuer %q, and the config names %q: "+
			"they must be equal, character by character", fetch.Clean(other.Discovered, maxSays, nil), issuer)
	}
	if err != nil {
		return nil, d, bare("get the provider's document", err)
	}
	if err := found.Claims(&d); err != nil {
		return nil, d, errors.New("the provider's document is not of the form of OpenID Connect Discovery")
	}
	return found, d, nil
}

// checkEndpoint returns an error unless secrets may be sent to the address.
func checkEndpoint(address string, plain bool) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return errors.New("it is missing or no address")
	case u.Scheme != "https" && (u.Scheme != "http" || !plain):
		return errors.New("it is not https; plain http is only for an issuer with private_addresses: true")
	}
	return nil
}

// style tells how the client proves itself. The library could find out by trying; but
// then it would send a code twice.
func (p *OIDC) style(methods []string) (oauth2.AuthStyle, error) {
	if p.cfg.ClientKey != nil {
		if len(methods) > 0 && !slices.Contains(methods, "private_key_jwt") {
			return 0, errors.New("the provider does not take private_key_jwt; use client_secret_file")
		}
		return oauth2.AuthStyleInParams, nil
	}
	switch {
	// Without the member it is client_secret_basic.
	case len(methods) == 0 || slices.Contains(methods, "client_secret_basic"):
		return oauth2.AuthStyleInHeader, nil
	case slices.Contains(methods, "client_secret_post"):
		return oauth2.AuthStyleInParams, nil
	}
	return 0, errors.New("the provider takes no client secret; use client_key_file")
}
