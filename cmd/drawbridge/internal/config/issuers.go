package config

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/dial"
)

// Issuer is one issuer whose tokens are accepted: what verifying them takes, and from where its keys may be fetched. Its
// audiences are never empty: those that the file leaves out follow from the address of the gateway.
type Issuer struct {
	auth.Issuer
	PrivateAddresses bool // private_addresses: its key set may be on a loopback or private address
}

// issuerPlaces are the nodes of an issuer that are looked at again when the whole config is known.
type issuerPlaces struct {
	name    *node // nil: the issuer has none
	tenants []*node
}

// algorithms are the JWS names that a config may list.
func algorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "HS256", "HS384", "HS512"}
}

func (r *reader) issuers(cfg *Config, n *node) {
	if n.kind == list && len(n.items) == 0 {
		r.fault(n, "without an issuer nobody can log in")
	}
	seen := make(map[string]*node, len(n.items))
	r.sequence(n, "issuers", func(item *node) {
		before := len(r.problems)
		iss, at := r.issuer(item)
		if first, repeated := seen[iss.Issuer.Issuer]; repeated && iss.Issuer.Issuer != "" {
			r.fault(at.name, "a second issuer %q, first %s", at.name.raw, first.seenFrom(at.name))
			return
		}
		if at.name != nil {
			seen[iss.Issuer.Issuer] = at.name
			cfg.places["issuer "+iss.Issuer.Issuer] = Problem{File: at.name.file, Line: at.name.line, Column: at.name.col}
		}
		whole := len(r.problems) == before
		r.later = append(r.later, func() { r.finishIssuer(cfg, iss, at, whole) })
	})
}

// issuer reads one issuer.
func (r *reader) issuer(n *node) (Issuer, issuerPlaces) {
	var iss Issuer
	var at issuerPlaces
	known := fields{
		"issuer":            func(n *node) { iss.Issuer.Issuer, at.name = r.text(n), n },
		"algorithms":        func(n *node) { iss.Algorithms = r.algorithms(n) },
		"audiences":         func(n *node) { iss.Audiences = r.audiences(n) },
		"tenant":            func(n *node) { iss.Tenant, at.tenants = r.text(n), append(at.tenants, n) },
		"tenant_claim":      func(n *node) { iss.TenantClaim = r.text(n) },
		"scope_claim":       func(n *node) { iss.ScopeClaim = r.text(n) },
		"private_addresses": func(n *node) { iss.PrivateAddresses = r.boolean(n) },
		"jwks_url":          func(n *node) { iss.JWKSURL = r.text(n) },
		"jwks_file":         func(n *node) { iss.JWKS = r.read(n) },
		"public_key_file":   func(n *node) { iss.Keys = r.keys(n) },
		"hmac_secret_file":  func(n *node) { iss.Keys = r.secret(n) },
		"tenants_allowed": func(n *node) {
			r.eachText(n, "tenants_allowed", func(item *node, id string) {
				iss.TenantsAllowed, at.tenants = append(iss.TenantsAllowed, id), append(at.tenants, item)
			})
		},
	}
	if !r.object(n, "an issuer", known) || !r.need(n, "the issuer", "issuer", "algorithms") {
		return iss, at
	}
	source := r.oneOf(n, "the issuer", "jwks_url", "jwks_file", "public_key_file", "hmac_secret_file")
	if value := n.member(source); source != "" && value != nil {
		r.checkSource(&iss, source, value, n.member("algorithms"))
	}
	r.checkTenantSource(n)
	return iss, at
}

// checkTenantSource reports an issuer whose tokens do not say for sure which tenant they are for. The tenant comes from
// the issuer itself, or from a claim within a list; a claim alone would let the issuer name any tenant.
func (r *reader) checkTenantSource(n *node) {
	switch r.oneOf(n, "the issuer", "tenant", "tenant_claim") {
	case "tenant_claim":
		if allowed := n.member("tenants_allowed"); allowed == nil || allowed.kind == list && len(allowed.items) == 0 {
			r.fault(n.member("tenant_claim"), "tenant_claim needs tenants_allowed: which tenants this issuer may name")
		}
	case "tenant":
		if allowed := n.member("tenants_allowed"); allowed != nil {
			r.fault(allowed, "tenants_allowed goes with tenant_claim; this issuer has a fixed tenant")
		}
	}
}

func (r *reader) algorithms(n *node) []string {
	var out []string
	r.eachText(n, "algorithms", func(at *node, name string) {
		if !slices.Contains(algorithms(), name) {
			r.faultHint(at, nearest(at.raw, algorithms()), "%q is not one of %s", at.raw, strings.Join(algorithms(), ", "))
			return
		}
		out = append(out, name)
	})
	if n.kind == list && len(n.items) == 0 {
		r.fault(n, "without an algorithm no token can be verified")
	}
	return out
}

func (r *reader) audiences(n *node) []string {
	if n.kind == list && len(n.items) == 0 {
		r.fault(n, "an empty list of audiences; leave it out for <public_url>/mcp")
	}
	return r.texts(n, "audiences")
}

// checkSource checks what a source of keys and the algorithms say about each other.
func (r *reader) checkSource(iss *Issuer, source string, value, algs *node) {
	shared := source == "hmac_secret_file"
	for _, item := range algs.items {
		if slices.Contains(algorithms(), item.text) && strings.HasPrefix(item.text, "HS") != shared {
			r.fault(item, "%s does not go with %s", item.raw, source)
		}
	}
	if source != "jwks_url" || iss.JWKSURL == "" {
		return
	}
	u, err := url.Parse(iss.JWKSURL)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") || u.Fragment != "":
		r.fault(value, "jwks_url is not an https address")
	case !validPort(u.Port()):
		r.fault(value, "jwks_url: %s", errPort)
	case u.User != nil:
		r.fault(value, "jwks_url must not hold a user name or password")
	case u.Scheme == "http" && !iss.PrivateAddresses:
		r.fault(value, "jwks_url must be https; plain http is only for an issuer with private_addresses: true")
	default:
		r.checkReachable(value, iss.PrivateAddresses)
	}
}

func (r *reader) keys(n *node) []auth.Key {
	data := r.read(n)
	if data == nil {
		return nil
	}
	keys, err := auth.ParseKeys(data)
	if err != nil {
		r.fault(n, "%s: %s", n.raw, err)
	}
	return keys
}

func (r *reader) secret(n *node) []auth.Key {
	data := r.read(n)
	if data == nil {
		return nil
	}
	key, err := auth.ParseSecret(data)
	if err != nil {
		r.fault(n, "%s: %s", n.raw, err)
	}
	return []auth.Key{key}
}

// finishIssuer does what needs the rest of the config: the audience that follows from public_url, and the names of
// tenants.
func (r *reader) finishIssuer(cfg *Config, iss Issuer, places issuerPlaces, whole bool) {
	for _, at := range places.tenants {
		if at.text != "" && at.kind == scalar && !r.index.tenant[at.text] && !r.full() {
			r.faultHint(at, nearest(at.raw, r.index.tenants), "there is no tenant %q", at.raw)
		}
	}
	if len(iss.Audiences) == 0 {
		iss.Audiences = audiencesOf(cfg.PublicAddress(), iss.Issuer)
	}
	if whole {
		_, err := auth.New(auth.Config{Issuers: []auth.Issuer{iss.Issuer}, Client: dial.Client(dial.Config{})})
		for _, e := range split(err) {
			r.fault(places.name, "%s", e)
		}
	}
	cfg.Issuers = append(cfg.Issuers, iss)
}

// audiencesOf returns what the metadata calls this gateway: the endpoint, and the paths of the tenants that the issuer's
// tokens can be for.
func audiencesOf(address string, iss auth.Issuer) []string {
	audiences := []string{address + "/mcp"}
	for _, tenant := range append([]string{iss.Tenant}, iss.TenantsAllowed...) {
		if tenant != "" {
			audiences = append(audiences, address+"/t/"+url.PathEscape(tenant)+"/mcp")
		}
	}
	return audiences
}

// split returns the single errors of a joined one.
func split(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// KeepAddress makes the audiences that follow from listen those of the config that the process was started with: only a
// restart changes the address that clients reach. It is called once, before anybody else sees the config.
func (c *Config) KeepAddress(started *Config) {
	if c.PublicURL != "" {
		return
	}
	wrong, right := c.PublicAddress()+"/", started.PublicAddress()+"/"
	for i := range c.Issuers {
		for j, audience := range c.Issuers[i].Audiences {
			if rest, ok := strings.CutPrefix(audience, wrong); ok {
				c.Issuers[i].Audiences[j] = right + rest
			}
		}
	}
}
