package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// serverAuth returns a function that reads the block auth of a server.
func (r *reader) serverAuth(s *Server) func(*node) {
	lists := fields{"lists": into(&s.Auth.OwnLists, r.is("user", "user", "operator"))}
	return r.auth(&s.Auth.Spec, lists, s)
}

// auth returns a function that reads a block auth for a server, of which is known whether
// its addresses may be private. more are the keys that it has beside those of tenants.
func (r *reader) auth(spec *credential.Spec, more fields, s *Server) func(*node) {
	return func(n *node) {
		known := fields{
			"header":     into(&spec.Header, r.authHeader),
			"token_file": into(&spec.TokenFile, r.tokenFile),
			"client_credentials": func(n *node) {
				spec.ClientCredentials = &credential.Client{}
				r.authClient(spec.ClientCredentials, n, "client_credentials", nil, s)
			},
			"identity":       into(&spec.Identity, r.identity),
			"token_exchange": func(n *node) { spec.Exchange = r.tokenExchange(n, s) },
		}
		kinds := slices.Sorted(maps.Keys(known))
		maps.Copy(known, more)
		if r.object(n, "auth", known) {
			r.oneOf(n, "auth", kinds...)
		}
	}
}

// secretFile returns the path of a file with a secret, which must be there. It is not one
// of the files of the config: it is read again without a reload when it changes.
func (r *reader) secretFile(n *node) string {
	return r.checkedFile(n, credential.CheckFile)
}

// tokenFile is secretFile for a file with a token.
func (r *reader) tokenFile(n *node) string { return r.checkedFile(n, credential.CheckToken) }

// checkedFile returns the path of a file in which check finds no fault.
func (r *reader) checkedFile(n *node, check func(path string) error) string {
	path := r.path(n)
	if path == "" {
		return ""
	}
	r.secrets = append(r.secrets, path)
	if err := check(path); err != nil {
		r.fault(n, "%s: %s", n.raw, err)
		r.await(path)
	}
	return path
}

// headerName reads the name of a header that the gateway does not set itself.
func (r *reader) headerName(n *node) string {
	name := r.text(n)
	if reason := checkHeader(name, ""); name != "" && reason != "" {
		r.fault(n, "%s", reason)
	}
	return name
}

func (r *reader) authHeader(n *node) *credential.Header {
	header := &credential.Header{}
	if r.object(n, "header", fields{
		"name": into(&header.Name, r.headerName),
		"file": into(&header.File, r.secretFile),
	}) {
		r.need(n, "header", "name", "file")
	}
	return header
}

// authClient reads what the gateway is to an authorization server. more are the keys that
// the block has beside that.
func (r *reader) authClient(c *credential.Client, n *node, what string, more fields, s *Server) {
	known := fields{
		"token_url":             func(n *node) { c.TokenURL = r.endpoint(n, s) },
		"issuer":                func(n *node) { c.Issuer = r.endpoint(n, s) },
		"client_id":             into(&c.ID, r.text),
		"client_secret_file":    into(&c.SecretFile, r.secretFile),
		"client_key_file":       func(n *node) { c.KeyFile = r.checkedFile(n, credential.CheckKey) },
		"client_assertion_file": into(&c.AssertionFile, r.tokenFile),
		"client_key_id":         into(&c.KeyID, r.text),
		"scopes":                into(&c.Scopes, r.textsOf("scopes")),
		"resource":              into(&c.Resource, r.text),
	}
	maps.Copy(known, more)
	if !r.object(n, what, known) {
		return
	}
	r.need(n, what, "client_id")
	r.oneOf(n, what, "token_url", "issuer")
	proof := r.oneOf(n, what, "client_secret_file", "client_key_file", "client_assertion_file")
	if id := n.member("client_key_id"); id != nil && proof != "client_key_file" {
		r.fault(id, "client_key_id goes with client_key_file")
	}
}

// endpoint reads an address to which secrets are sent: https, or for trials http on this
// machine.
func (r *reader) endpoint(n *node, s *Server) string {
	text := r.text(n)
	if text == "" {
		return ""
	}
	plain := isLoopbackHost(parsedURL(text).Hostname())
	if err := credential.CheckEndpoint(text, plain); err != nil {
		r.fault(n, "%s", err)
		return text
	}
	r.checkReachable(n, s.PrivateAddresses)
	return text
}

func (r *reader) identity(n *node) *credential.Identity {
	id := &credential.Identity{}
	trusted := false
	ok := r.object(n, "identity", fields{
		"audience": into(&id.Audience, r.text),
		"claims":   into(&id.Claims, r.textsOf("claims")),
		"header":   into(&id.Header, r.headerName),

		"plain_headers":   into(&id.Plain, r.pairs("plain_headers", checkHeaderOnce())),
		"trusted_network": into(&trusted, r.boolean),
	})
	if !ok {
		return id
	}
	if strings.EqualFold(id.Header, "Authorization") {
		id.Header = "" // behind Bearer, as without the key
	}
	for _, item := range n.child("claims").items {
		if slices.Contains(credential.Reserved(), item.text) {
			r.fault(item, "the gateway writes the claim %s itself", item.raw)
		}
	}
	plain := n.member("plain_headers")
	r.faultFirst(
		wrong{
			plain == nil && n.member("audience") == nil, n,
			`identity lacks "audience": for whom the token is`,
		},
		wrong{
			plain == nil && n.member("trusted_network") != nil, n.member("trusted_network"),
			"trusted_network goes with plain_headers",
		},
		wrong{
			plain != nil && !trusted, plain,
			"plain headers are signed by nobody: say trusted_network: true if nobody but this gateway " +
				"reaches the server",
		},
		wrong{
			id.Audience == "" && n.member("header") != nil, n.member("header"),
			"header goes with audience",
		})
	r.checkPlain(id, n.child("plain_headers"))
	if at := n.member("audience"); at != nil {
		r.identities = append(r.identities, at)
	}
	return id
}

// checkPlain reports plain headers of claims that an identity does not have, and one that
// is that of the identity.
func (r *reader) checkPlain(id *credential.Identity, n *node) {
	there := append([]string{"sub", "tenant", "client_id"}, id.Claims...)
	for _, m := range n.members {
		if m.value.kind == scalar && m.value.broken == "" && !slices.Contains(there, m.value.text) {
			r.faultHint(m.value, nearest(m.value.raw, there), "an identity has no claim %q; it has %s",
				m.value.raw, strings.Join(there, ", "))
		}
		if id.Audience != "" && strings.EqualFold(m.name, cmp.Or(id.Header, "Authorization")) {
			r.fault(m.key, "the header %s stands twice", m.name)
		}
	}
}

// checkAudience reports an identity that would be for this gateway: a server could take
// it and come back with it as its caller. at is the audience.
func (r *reader) checkAudience(at *node) {
	own := r.cfg.PublicAddress()
	taken := func(i Issuer) bool { return slices.Contains(i.Audiences, at.text) }
	r.faultFirst(
		wrong{
			at.text == own || strings.HasPrefix(at.text, own+"/"), at,
			"this is the gateway's own address; say the server's",
		},
		wrong{
			slices.ContainsFunc(r.cfg.Issuers, taken), at,
			"this gateway takes tokens with this audience; say the server's",
		})
}

func (r *reader) tokenExchange(n *node, s *Server) *credential.Exchange {
	x := &credential.Exchange{}
	r.authClient(&x.Client, n, "token_exchange", fields{
		"audience": into(&x.Audience, r.text),
		"actor":    into(&x.Actor, r.boolean),
		"style":    into(&x.Entra, r.is("entra", "standard", "entra")),
	}, s)
	if n.kind != mapping {
		return x
	}
	actor := n.member("actor")
	r.faultEach(
		wrong{
			n.member("audience") == nil && n.member("resource") == nil && n.member("scopes") == nil, n,
			"token_exchange needs one of audience, resource and scopes: what the token is for",
		},
		wrong{
			x.Entra && x.Audience == "" && x.Resource == "", n,
			`token_exchange with style: entra lacks "audience": the application id URI of the server`,
		},
		wrong{
			actor != nil && x.Entra, actor,
			"actor does not go with style: entra, where the client is the actor",
		})
	return x
}

// checkAuth reports an auth that does not go with the server. at is the block.
func (r *reader) checkAuth(s *Server, spec credential.Spec, at *node) {
	if s.URL == "" && s.API.BaseURL == "" {
		r.fault(at, "auth goes with url or openapi; a program gets its secrets by env")
		return
	}
	lists := at.member("lists")
	r.faultEach(
		wrong{
			spec.Personal() && s.Shared, at,
			"this auth tells the server who calls, and shared: true has one session for all; leave one of " +
				"them out",
		},
		wrong{
			lists != nil && s.Auth.OwnLists && (s.URL == "" || !spec.Personal()), lists,
			"lists: user goes with url, and with identity or token_exchange",
		})
	for _, name := range spec.Names() {
		for header := range s.Headers {
			if folded(header) == folded(name) {
				r.fault(at, "auth and headers both set %s; keep one", name)
			}
		}
	}
}

// folded returns the form in which the name of a header is compared: without case, and
// with _ as -, because some servers take the two for the same.
func folded(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// tenantAuth returns a function that reads the block auth of a tenant: what it has in
// place of a server's own.
func (r *reader) tenantAuth(tenant string, servers []string) func(*node) {
	return func(n *node) {
		r.entries(n, "auth", func(m member) {
			i := slices.IndexFunc(r.cfg.Servers, func(s Server) bool { return s.Name == m.name })
			if i < 0 {
				r.fault(m.key, "there is no server %q", m.name)
				return
			}
			var spec credential.Spec
			server := &r.cfg.Servers[i]
			r.auth(&spec, nil, server)(m.value)
			r.checkAuth(server, spec, m.value)
			if !slices.Contains(servers, m.name) {
				r.fault(m.key, "the tenant does not use the server %s", m.name)
			}
			if server.Auth.Tenants == nil {
				server.Auth.Tenants = map[string]credential.Spec{}
			}
			server.Auth.Tenants[tenant] = spec
		})
	}
}

// finishAuth tells issuers what of their tokens goes on with a caller, and identities
// whose they are. It runs when all else has been read.
func (r *reader) finishAuth() {
	for _, at := range r.identities {
		r.checkAudience(at)
	}
	for i := range r.cfg.Servers {
		own := &r.cfg.Servers[i].Auth
		if slices.ContainsFunc(own.specs(), func(s credential.Spec) bool { return s.Identity != nil }) {
			own.Issuer = r.runningAddress()
		}
	}
	claims := r.cfg.IdentityClaims()
	for i := range r.cfg.Issuers {
		r.cfg.Issuers[i].KeepClaims, r.cfg.Issuers[i].KeepToken = claims, r.cfg.ExchangesTokens()
	}
}
