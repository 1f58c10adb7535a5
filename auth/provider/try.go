package provider

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/oauth2"

	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/internal/fetch"
)

// Trier is a provider that an operator can try before anybody signs in.
type Trier interface {
	signin.Provider
	// Try asks the provider for its document and keys, and whether it sends people back
	// to the callback. The error says what the config or the provider lacks, the notes
	// what works and may not be meant. claims are the names of those that the config
	// reads.
	Try(ctx context.Context, callback string, claims []string) (notes []string, err error)
}

var (
	_ Trier = (*OIDC)(nil)
	_ Trier = (*GitHub)(nil)
)

// Try implements Trier.
func (p *OIDC) Try(ctx context.Context, callback string, claims []string) (notes []string, err error) {
	d, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.keys.renew(ctx); err != nil {
		return nil, bare("get the keys", err)
	}
	if err := p.tryCallback(ctx, callback); err != nil {
		return nil, err
	}
	return d.document.notes(&p.cfg, claims), nil
}

// tryCallback begins a sign-in that must not show a page. A provider that knows the
// client and the callback sends the browser back there at once, with an error that says
// that nobody is signed in. One that does not know them may send nobody there.
// https://openid.net/specs/openid-connect-core-1_0.html#AuthRequest
func (p *OIDC) tryCallback(ctx context.Context, callback string) error {
	address, err := p.authURL(ctx, signin.Attempt{
		State: oauth2.GenerateVerifier(), Nonce: oauth2.GenerateVerifier(),
		Verifier: oauth2.GenerateVerifier(), Callback: callback,
	}, oauth2.SetAuthURLParam("prompt", "none"))
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	response, _, err := p.transport.once(request)
	if err != nil {
		return bare("begin a sign-in", err)
	}
	_ = response.Body.Close() // it is in memory
	target, found := strings.CutPrefix(response.Header.Get("Location"), callback+"?")
	if !found {
		return fmt.Errorf("the provider does not send people back to %s (status %d): register this address "+
			"there, and compare the client id", callback, response.StatusCode)
	}
	back, err := url.ParseQuery(target)
	if err != nil {
		return fmt.Errorf("the provider sends people back to %s with what is no query", callback)
	}
	switch code := back.Get("error"); {
	case code == "" || slices.Contains(waiting, code):
		return nil
	default:
		return &Error{
			Doing: "begin a sign-in", Status: response.StatusCode, Code: fetch.Clean(code, maxCode, nil),
			Says: fetch.Clean(back.Get("error_description"), maxSays, nil),
		}
	}
}

// waiting are the errors that say no more than that nobody is signed in.
var waiting = []string{
	"login_required", "interaction_required", "consent_required", "account_selection_required",
	"immediate_failed", // of Google
}

// notes returns what of a document does not fit the config, for people.
func (d *document) notes(cfg *Config, claims []string) []string {
	var notes []string
	listed := func(list []string, name string) bool {
		return len(list) == 0 || slices.Contains(list, name) // without a list the provider does not say
	}
	for _, scope := range cfg.Scopes {
		if !listed(d.ScopesSupported, scope) {
			notes = append(notes, fmt.Sprintf("the provider does not list the scope %q among those that it "+
				"knows",
				scope))
		}
	}
	if !slices.Contains(cfg.Scopes, "offline_access") && cfg.Issuer != google {
		notes = append(notes, "without the scope offline_access most providers give no refresh token; "+
			"then people sign in again every 8 hours")
	}
	for _, name := range claims {
		if !strings.Contains(name, "://") && !listed(d.ClaimsSupported, name) {
			notes = append(notes, fmt.Sprintf("the provider does not list the claim %q; it may need a "+
				"setting there to be in the ID token", name))
		}
	}
	return notes
}
