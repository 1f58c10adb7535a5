package config

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/provider"
)

// algorithms returns the names of the JWS algorithms that a config may list. The name
// none is not among them: whoever may use it needs no key.
func algorithms() []string {
	return []string{
		"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
		"HS256", "HS384", "HS512",
	}
}

// issuers reads the list of issuers. All else but the tenants has been read, because the
// audiences of an issuer may depend on public_url.
func (r *reader) issuers(n *node) {
	r.faultEmpty(n, "without an issuer nobody can log in")
	r.sequence(n, "issuers", func(item *node) {
		if github := item.member("github"); github != nil {
			r.object(item, "an entry with github", fields{"github": r.github})
			return
		}
		before := len(r.problems)
		iss, login := r.issuer(item)
		if login != nil {
			login.Issuer, login.PrivateAddresses = iss.Issuer, iss.PrivateAddresses
			r.finishSignIn(login, item.member("sign_in"), item.member("issuer"))
			r.addLogin(login, item.member("sign_in"), false)
		}
		r.finishIssuer(iss, item.member("issuer"), len(r.problems) == before)
	})
}

// issuer reads one issuer, and checks what can be checked without the rest of the config.
// The login is nil if people do not sign in there with a browser.
func (r *reader) issuer(n *node) (iss Issuer, login *Login) {
	if n.member("sign_in") != nil {
		login = &Login{}
	}
	known := r.claims(&iss.Issuer)
	maps.Copy(known, fields{
		"issuer": into(&iss.Issuer.Issuer, r.text),
		"algorithms": into(&iss.Algorithms, r.filled("without an algorithm no token can be verified",
			r.textsAmong("algorithms", algorithms()...))),
		// An empty list is not taken for a missing one.
		"audiences": into(&iss.Audiences, r.filled(
			"an empty list of audiences; leave it out for <public_url>/mcp", r.textsOf("audiences"))),
		"max_token_life":    into(&iss.MaxLifetime, r.duration),
		"private_addresses": into(&iss.PrivateAddresses, r.boolean),
		"jwks_url":          into(&iss.JWKSURL, r.text),
		"keys_refresh":      into(&iss.KeysRefresh, r.duration),
		"keys_stale":        into(&iss.KeysStale, r.duration),
		"jwks_file":         into(&iss.JWKS, r.read),
		"public_key_file":   into(&iss.Keys, fromFile(r, auth.ParseKeys)),
		"hmac_secret_file":  into(&iss.Keys, fromFile(r, parseSecret)),
		"sign_in":           r.signInOf(login),
	})
	if !r.object(n, "an issuer", known) || !r.need(n, "the issuer", "issuer", "algorithms") {
		return iss, nil
	}
	sources := []string{"jwks_url", "jwks_file", "public_key_file", "hmac_secret_file"}
	if login != nil &&
		!slices.ContainsFunc(sources, func(name string) bool { return n.member(name) != nil }) {
		iss.JWKSURL, iss.Discover = provider.DocumentURL(iss.Issuer.Issuer), true
		r.checkAlgorithms("sign_in", false, n.member("algorithms"))
		r.checkKeyTimes(&iss, "jwks_url", n)
	} else if source := r.oneOf(n, "the issuer", sources...); source != "" {
		r.checkSource(&iss, source, n.member(source), n.member("algorithms"))
		r.checkKeyTimes(&iss, source, n)
	}
	r.checkTenantSource(n)
	return iss, login
}

// claims returns the rows of a table of keys that say what claims mean, whatever they
// came in.
func (r *reader) claims(iss *auth.Issuer) fields {
	return fields{
		"tenant": into(&iss.Tenant, r.tenantName),
		"tenants": r.section("tenants", fields{
			"claim": into(&iss.TenantClaim, r.text),
			"map":   into(&iss.TenantMap, named(r, "map", r.tenantName)),
		}),
		"scopes": r.section("scopes", fields{
			"claims": into(&iss.ScopeClaims, r.filled(
				"an empty list of claims; leave it out for the claim scope", r.textsOf("claims"))),
			"map": into(&iss.ScopeMap, named(r, "map", r.text)),
		}),
		"require":       into(&iss.Require, named(r, "require", r.text)),
		"subject_claim": into(&iss.SubjectClaim, r.text),
		"name_claim":    into(&iss.NameClaim, r.text),
		"tenants_allowed": func(n *node) {
			r.eachText(n, "tenants_allowed", func(item *node, _ string) {
				iss.TenantsAllowed = append(iss.TenantsAllowed, r.tenantName(item))
			})
		},
	}
}

// checkTenantSource reports an issuer whose tokens do not say for sure which tenant they
// are for. The tenant is either fixed for the issuer or taken from a claim, and then what
// the claim may say is listed: without that, the issuer of one tenant could write tokens
// for any other.
func (r *reader) checkTenantSource(n *node) {
	from, allowed := n.child("tenants"), n.member("tenants_allowed")
	claim, mapped := from.member("claim"), from.member("map")
	source := r.oneOf(n, "the issuer", "tenant", "tenants")
	named := source == "tenants" && from.kind == mapping
	listed := allowed != nil && (allowed.kind != list || len(allowed.items) > 0)
	r.faultFirst(
		wrong{
			source == "tenant" && allowed != nil, allowed,
			"tenants_allowed goes with tenants; this issuer has a fixed tenant",
		},
		wrong{named && claim == nil, from, `tenants lacks "claim": which claim names the tenants`},
		wrong{
			named && listed && mapped != nil, allowed,
			"tenants_allowed goes with a claim that names tenants themselves; map says already which " +
				"tenants there are",
		},
		wrong{
			named && mapped != nil && mapped.kind == mapping && len(mapped.members) == 0, mapped,
			"an empty map leads to no tenant",
		},
		wrong{
			named && !listed && mapped == nil, claim,
			"the claim needs tenants_allowed, which tenants this issuer may name, or a map from what it " +
				"says to tenants",
		})
}

// checkSource checks an issuer's source of keys together with its algorithms. The HS
// algorithms verify with a shared secret and all others with public keys. A mixture is
// refused: a public key taken for a shared secret would let everybody sign.
func (r *reader) checkSource(iss *Issuer, source string, value, algs *node) {
	r.checkAlgorithms(source, source == "hmac_secret_file", algs)
	if source != "jwks_url" || iss.JWKSURL == "" {
		return
	}
	u := parsedURL(iss.JWKSURL)
	if !r.faultFirst(
		wrong{
			u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") || u.Fragment != "", value,
			"jwks_url is not an https address",
		},
		wrong{!validPort(u.Port()), value, "jwks_url: " + errPort.Error()},
		wrong{u.User != nil, value, "jwks_url must not hold a user name or password"},
		wrong{
			u.Scheme == "http" && !iss.PrivateAddresses, value,
			"jwks_url must be https; plain http is only for an issuer with private_addresses: true",
		}) {
		r.checkReachable(value, iss.PrivateAddresses)
	}
}

// checkAlgorithms reports the algorithms that do not go with where the keys come from;
// shared says that there is a shared secret.
func (r *reader) checkAlgorithms(source string, shared bool, algs *node) {
	for _, item := range algs.items {
		if slices.Contains(algorithms(), item.text) && strings.HasPrefix(item.text, "HS") != shared {
			r.fault(item, "%s does not go with %s", item.raw, source)
		}
	}
}

// checkKeyTimes checks how often an issuer's keys are fetched and how long they serve,
// and reports a fault of either setting at its place. While keys_refresh is at fault,
// keys_stale is measured by the least that keys_refresh may be, so that it is reported if
// it is wrong whatever keys_refresh will be.
func (r *reader) checkKeyTimes(iss *Issuer, source string, n *node) {
	refresh, stale := n.member("keys_refresh"), n.member("keys_stale")
	if source != "jwks_url" {
		const why = " goes with jwks_url; the keys of this issuer are in a file, and a reload reads it again"
		r.faultEach(wrong{refresh != nil, refresh, "keys_refresh" + why},
			wrong{stale != nil, stale, "keys_stale" + why})
		return
	}
	every := iss.KeysRefresh
	if err := auth.CheckKeyTimes(every, 0); refresh != nil && err != nil {
		r.fault(refresh, "keys_refresh: %s", err)
		every = auth.MinRefresh
	}
	if err := auth.CheckKeyTimes(every, iss.KeysStale); stale != nil && err != nil {
		r.fault(stale, "keys_stale: %s", err)
	}
}

// parseSecret returns a shared secret as the only key.
func parseSecret(data []byte) ([]auth.Key, error) {
	key, err := auth.ParseSecret(data)
	return []auth.Key{key}, err
}

// finishIssuer fills in what follows from the rest of the config, such as the audiences,
// and adds the issuer to the config. at is the value of its name, nil if it has none.
// Whole says that the issuer was read without a problem. Only then is it given to package
// auth for a last check, which would otherwise complain about values that the file does
// not have.
func (r *reader) finishIssuer(iss Issuer, at *node, whole bool) {
	iss.Recorded = r.cfg.Records.Claims
	if len(iss.Audiences) == 0 {
		iss.Audiences = audiencesOf(r.runningAddress(), iss.Issuer)
	}
	if whole {
		// With those of the same name before it, since a token's audience chooses among
		// them.
		issuers := []auth.Issuer{iss.Issuer}
		for i := range r.cfg.Issuers {
			if same := r.cfg.Issuers[i].Issuer; same.Issuer == iss.Issuer.Issuer {
				issuers = append(issuers, same)
			}
		}
		_, err := auth.New(auth.Config{Issuers: issuers})
		r.faultAll(at, err)
	}
	if at != nil {
		r.cfg.positions[EntryName(len(r.cfg.Issuers))] = at.problem("")
	}
	r.cfg.Issuers = append(r.cfg.Issuers, iss)
}

// tenantName reads the name of a tenant, which must be there.
func (r *reader) tenantName(n *node) string {
	name := r.text(n)
	if name != "" && r.index.tenants != nil && !r.index.tenants[name] && !r.full() {
		r.faultHint(n, nearestKey(n.raw, r.index.tenants), "there is no tenant %q", n.raw)
	}
	return name
}

// audiencesOf returns the audiences of an issuer that lists none: the resources that the
// gateway's metadata names, which are the common endpoint and the path of each tenant
// that the issuer's tokens may be for.
func audiencesOf(address string, iss auth.Issuer) []string {
	audiences := []string{address + "/mcp"}
	for _, tenant := range slices.Sorted(slices.Values(iss.AllTenants())) {
		audiences = append(audiences, address+"/t/"+url.PathEscape(tenant)+"/mcp")
	}
	return audiences
}
