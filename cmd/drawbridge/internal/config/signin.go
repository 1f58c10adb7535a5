package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/provider"
	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
)

const (
	minClientSecret = 16   // bytes; shorter ones can be guessed
	maxClientSecret = 4096 // bytes
	maxClients      = 1000
	maxTitle        = 60 // characters
)

// loginName is the form of the names of logins: they stand in addresses.
var loginName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// signIn returns the rows of a table of keys that say how people sign in.
func (r *reader) signIn(login *Login) fields {
	return fields{
		"name": func(n *node) {
			if login.Name = r.text(n); login.Name != "" && !loginName.MatchString(login.Name) {
				r.fault(n, "%q: a name is of a to z, digits and dashes, at most 40; it stands in the "+
					"address of the callback", n.raw)
			}
		},
		"title": func(n *node) {
			if login.Title = r.text(n); utf8.RuneCountInString(login.Title) > maxTitle {
				r.fault(n, "a title has at most %d characters", maxTitle)
			}
		},
		"client_id":          into(&login.ClientID, r.text),
		"client_secret_file": into(&login.Secret, fromFile(r, parseClientSecret)),
	}
}

// signInOf reads sign_in of an issuer.
func (r *reader) signInOf(login *Login) func(*node) {
	return func(n *node) {
		known := r.signIn(login)
		known["client_key_file"] = into(&login.Key, fromFile(r, parseClientKey))
		known["scopes"] = into(&login.Scopes, r.textsOf("scopes"))
		if r.object(n, "sign_in", known) && r.need(n, "sign_in", "client_id") {
			r.oneOf(n, "sign_in", "client_secret_file", "client_key_file")
		}
	}
}

// finishSignIn completes a login whose issuer was read, and checks what follows from its
// name. at is the value of sign_in, issuer that of the issuer's name.
func (r *reader) finishSignIn(login *Login, at, issuer *node) {
	address := login.Issuer.Issuer
	host := parsedURL(address).Hostname()
	login.Name = cmp.Or(login.Name, asName(host, 40))
	if at.kind != mapping || issuer == nil || address == "" {
		return
	}
	r.checkIssuerAddress(issuer, address, login.PrivateAddresses)
	r.faultFirst(wrong{
		host != "" && login.Name == "", at,
		`sign_in lacks "name": none can be made of the host of the issuer`,
	})
	scopes := at.member("scopes")
	if scopes == nil {
		login.Scopes = provider.DefaultScopes(address)
		return
	}
	if !slices.Contains(login.Scopes, "openid") && scopes.kind == list {
		r.fault(scopes, "without the scope openid the provider says nothing of who somebody is")
	}
	for _, item := range scopes.items {
		if address == "https://accounts.google.com" &&
			(item.text == "offline_access" || item.text == "groups") {
			r.fault(item,
				"Google refuses the scope %s; it gives refresh tokens without it, and has no groups",
				item.text)
		}
	}
}

// checkIssuerAddress reports an issuer at which no document can be found.
func (r *reader) checkIssuerAddress(n *node, address string, private bool) {
	u := parsedURL(address)
	everybody := func(path string) bool { return strings.Contains(address, "microsoftonline.com/"+path+"/") }
	if !r.faultFirst(
		wrong{
			u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil ||
				u.RawQuery != "" || u.Fragment != "", n,
			"sign_in needs an issuer that is an https address: its document is found there",
		},
		wrong{
			u.Scheme == "http" && !private, n,
			"an issuer where people sign in is an https address; plain http is only for one with " +
				"private_addresses: true",
		},
		wrong{
			everybody("common") || everybody("organizations"), n,
			"this address is for all organisations, and its tokens have other issuers; name the id of " +
				"yours: https://login.microsoftonline.com/ID/v2.0",
		},
		wrong{
			u.Hostname() == "github.com", n,
			"GitHub has no OpenID Connect; write an entry with github in place of issuer",
		}) {
		r.checkReachable(n, private)
	}
}

// github reads an entry of issuers that is GitHub, which signs no tokens.
func (r *reader) github(n *node) {
	login := Login{
		Issuer: auth.Issuer{Issuer: provider.GitHubIssuer}, GitHub: true,
		Scopes: provider.DefaultScopes(provider.GitHubIssuer),
	}
	before := len(r.problems)
	known := r.signIn(&login)
	maps.Copy(known, r.claims(&login.Issuer))
	if !r.object(n, "github", known) || !r.need(n, "github", "client_id", "client_secret_file") {
		return
	}
	r.checkTenantSource(n)
	said := provider.GitHubClaims()
	for _, name := range login.ClaimsRead() {
		r.faultFirst(wrong{
			!slices.Contains(said, name), n,
			fmt.Sprintf("GitHub says nothing of %q, so nobody would be let in; it says %s", name,
				strings.Join(said, ", ")),
		})
	}
	login.Name = cmp.Or(login.Name, "github")
	r.addLogin(&login, n, len(r.problems) == before)
}

// addLogin adds a login to the config. checks says that package auth is to have a look at
// its claims.
func (r *reader) addLogin(login *Login, at *node, checks bool) {
	for i := range r.cfg.Logins {
		if r.cfg.Logins[i].Name == login.Name {
			r.fault(at, "two logins have the name %q, and one address of a callback; give one of them "+
				"another with name", login.Name)
		}
	}
	if checks {
		_, err := auth.NewReader(login.Issuer)
		r.faultAll(at, err)
	}
	r.cfg.Logins = append(r.cfg.Logins, *login)
	r.cfg.positions["login "+login.Name] = at.problem("")
}

// parseClientSecret returns the secret in a file, without a line break at its end.
func parseClientSecret(data []byte) (string, error) {
	secret := strings.TrimRight(string(data), "\r\n")
	switch {
	case len(secret) < minClientSecret || len(secret) > maxClientSecret:
		return secret, fmt.Errorf("a client secret has %d to %d characters", minClientSecret, maxClientSecret)
	case strings.ContainsFunc(secret, func(c rune) bool { return c <= ' ' || c > '~' }):
		return secret, errors.New("a client secret is one line of visible characters")
	}
	return secret, nil
}

// parseClientKey returns the private key in a file.
func parseClientKey(data []byte) (*auth.Key, error) {
	keys, err := auth.ParseKeys(data)
	if err == nil && (len(keys) != 1 || keys[0].Private == nil) {
		err = errors.New("one private key is wanted here")
	}
	if err != nil {
		return nil, err
	}
	return &keys[0], nil
}

// clients reads the clients that need not register themselves.
func (r *reader) clients(n *node) {
	if n.kind == list && len(n.items) > maxClients {
		r.fault(n, "more than %d clients; let them register themselves", maxClients)
		return
	}
	grants := r.filled("an empty list of grants; leave it out for authorization_code and refresh_token",
		r.textsAmong("grants", codeGrant, refreshGrant, machineGrant))
	r.sequence(n, "clients", func(item *node) {
		var c clients.Fixed
		known := fields{
			"client_id":          into(&c.ID, r.text),
			"client_secret_file": into(&c.Secret, fromFile(r, parseClientSecret)),
			"redirect_uris":      into(&c.Redirects, r.checkedTexts("redirect_uris", clients.CheckRedirect)),
			"grants":             into(&c.Grants, grants),
			"tenant":             into(&c.Tenant, r.tenantName),
			"scopes":             into(&c.Scopes, r.checkedTexts("scopes", checkScope)),
		}
		if !r.object(item, "a client", known) || !r.need(item, "the client", "client_id") {
			return
		}
		r.checkClient(&c, item)
		same := func(other clients.Fixed) bool { return other.ID == c.ID && c.ID != "" }
		if slices.ContainsFunc(r.cfg.Clients, same) {
			r.fault(item.member("client_id"), "two clients have the id %q", c.ID)
		}
		r.cfg.Clients = append(r.cfg.Clients, c)
		r.cfg.positions["clients"] = n.problem("")
	})
}

const (
	codeGrant    = "authorization_code"
	refreshGrant = "refresh_token"
	machineGrant = "client_credentials"
)

// checkClient reports what of a client does not go together.
func (r *reader) checkClient(c *clients.Fixed, n *node) {
	machine := slices.Contains(c.Grants, machineGrant)
	people := n.member("grants") == nil || slices.Contains(c.Grants, codeGrant)
	r.faultFirst(
		wrong{
			len(c.ID) > clients.MaxShort, n.member("client_id"),
			fmt.Sprintf("a client_id has at most %d bytes", clients.MaxShort),
		},
		wrong{
			machine && n.member("client_secret_file") == nil, n,
			"a client with client_credentials needs client_secret_file: it signs in by that alone",
		},
		wrong{
			machine && n.member("tenant") == nil, n,
			"a client with client_credentials needs a tenant, which its tokens are for",
		},
		wrong{
			!machine && n.member("tenant") != nil, n.member("tenant"),
			"tenant is for client_credentials; here the tenant is that of whoever signs in",
		},
		wrong{
			!machine && n.member("scopes") != nil, n.member("scopes"),
			"scopes are for client_credentials; here they are those of whoever signs in",
		},
		wrong{
			people && len(c.Redirects) == 0 && !broken(n.member("redirect_uris")), n,
			"a client of people needs redirect_uris, to which the browser goes back",
		},
		wrong{
			slices.Contains(c.Grants, refreshGrant) && !people, n.member("grants"),
			"refresh_token goes with authorization_code: tokens of client_credentials are asked for anew",
		},
		wrong{
			people && !r.hasLogins(), n,
			"a client of people needs sign_in of an issuer: nobody could sign in",
		})
}

// broken tells whether a list has items, which then were at fault.
func broken(n *node) bool { return n != nil && (n.kind != list || len(n.items) > 0) }

// checkScope tells why a text is no scope.
// https://www.rfc-editor.org/rfc/rfc6749#section-3.3
func checkScope(text string) error {
	if strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }) {
		return errors.New("a scope has no spaces, quotation marks, backslashes or letters beyond ASCII")
	}
	return nil
}

// SignInKeyword stands in advertise for the gateway's own sign-in.
const SignInKeyword = "sign_in"

// checkAdvertised reports what of advertise is no authorization server.
func (r *reader) checkAdvertised() {
	for _, name := range r.cfg.Advertise {
		at := itemOf(r.root.child("advertise"), name)
		switch {
		case name == SignInKeyword && !r.hasLogins() && len(r.cfg.Clients) == 0:
			r.fault(at, "there is no sign_in to advertise")
		case name != SignInKeyword && !slices.Contains(r.index.issuers, name):
			r.faultHint(at, nearest(name, r.index.issuers), "%q is no issuer of this config, and not %s",
				at.raw, SignInKeyword)
		}
	}
}

// hasLogins tells whether any issuer of the file has a sign_in or is GitHub, good or not.
func (r *reader) hasLogins() bool {
	return slices.ContainsFunc(r.root.child("issuers").items, func(item *node) bool {
		return item.member("sign_in") != nil || item.member("github") != nil
	})
}
