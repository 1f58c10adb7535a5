package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
)

// ofToken is principal for a token. Where the keys of its issuer have to be fetched and
// -online is not given, the claims are judged as if the signature were good.
func (w *walk) ofToken(ctx context.Context) (p auth.Principal, refused *auth.Error, err error) {
	var data []byte
	if w.tokenFile == "-" {
		data, err = readLimited(os.Stdin)
	} else {
		data, err = readFileLimited(w.tokenFile)
	}
	if err != nil {
		return p, nil, err
	}
	plain := make([]auth.Issuer, 0, len(w.cfg.Issuers))
	fetched := map[string]bool{}
	for i := range w.cfg.Issuers {
		iss := w.cfg.Issuers[i].Issuer
		if iss.JWKSURL != "" {
			fetched[iss.Issuer] = true
			if set := w.keySet(ctx, &w.cfg.Issuers[i]); set != nil {
				iss.JWKSURL, iss.JWKS = "", set
				fetched[iss.Issuer] = false
			}
		}
		plain = append(plain, iss)
	}
	verifier, err := auth.New(auth.Config{Issuers: plain, Client: noClient()})
	if err != nil {
		return p, nil, err
	}
	token := strings.TrimSpace(string(data))
	checked := "its signature is good"
	p, err = verifier.Verify(ctx, token)
	if unavailable, ok := errors.AsType[*auth.Error](err); ok && unavailable.Reason == "unavailable" {
		checked = "its signature was not checked, for the keys are fetched: see -online"
		p, err = verifier.Unverified(token)
	}
	if refused, ok := errors.AsType[*auth.Error](err); ok {
		w.refusedToken(refused)
		return p, refused, nil
	}
	if err != nil {
		return p, nil, err
	}
	return w.caller(p, checked)
}

// caller writes whom a token speaks for, and at which of its tenants. checked says how
// far the token was verified.
func (w *walk) caller(p auth.Principal, checked string) (auth.Principal, *auth.Error, error) {
	w.line("issuer", "%s (%s), %s", p.Issuer, place(w.cfg.Place("issuer "+p.Issuer)), checked)
	all := p.Tenants
	if len(all) == 0 {
		all = []string{p.TenantID}
	}
	w.line("tenant", "%s, by %s", strings.Join(all, ", "), w.tenantSource(p.Issuer, all[0]))
	w.line("caller", "%s#%s%s%s, until %s", p.Issuer, p.Subject, named(p.Name), scopesIn(p.Scopes),
		p.Expiry.UTC().Format("2006-01-02 15:04:05 MST"))
	if w.tenant == "" {
		return p, nil, nil
	}
	chosen, is := p.At(w.tenant)
	if !is {
		return p, nil, fmt.Errorf("the token is not for tenant %q, so /t/%s/mcp answers DB-NOT-FOUND",
			w.tenant, w.tenant)
	}
	return chosen, nil, nil
}

// named is a person's name behind the subject, "" for none.
func named(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" (%q)", name)
}

// tenantSource says what makes a tenant of an issuer's tokens.
func (w *walk) tenantSource(issuer, tenant string) string {
	for i := range w.cfg.Issuers {
		iss := &w.cfg.Issuers[i]
		if iss.Issuer.Issuer == issuer && slices.Contains(iss.AllTenants(), tenant) {
			return tenantSource(iss)
		}
	}
	return "the issuer"
}

// refusedToken writes why a token is refused, in words that a client never reads.
func (w *walk) refusedToken(refused *auth.Error) {
	code := gateway.CodeOf(outcomeUnauthenticated, refused.Reason, "")
	fmt.Fprintf(&w.out, "refused: %s, %s (the client reads %s)\n\n", outcomeUnauthenticated, refused.Reason,
		code)
	detail := ""
	if refused.Err != nil {
		detail = ": " + refused.Err.Error()
	}
	w.line("token", "%s%s", meaningOf(outcomeUnauthenticated+", "+refused.Reason).means, detail)
	if refused.Claimed != "" {
		w.line("claimed", "the token names the issuer %q", refused.Claimed)
	}
	if refused.Issuer != "" {
		w.line("issuer", "%s (%s)", refused.Issuer, place(w.cfg.Place("issuer "+refused.Issuer)))
	}
	if len(refused.Audience) > 0 {
		w.line("audience", "the token is for %q, expected is %q", refused.Audience, refused.Expected)
	}
	if refused.Claim != "" {
		w.line("claim", "%s", claimAtFault(refused))
	}
	w.line("change", "%s", meaningOf(code).cure)
}

// claimAtFault says which claim was the fault, what stands there and what was expected.
func claimAtFault(refused *auth.Error) string {
	found := "is not there"
	if refused.Found != "" {
		found = fmt.Sprintf("is %q", refused.Found)
	}
	if len(refused.Expected) > 0 {
		found += fmt.Sprintf(", expected is one of %q", refused.Expected)
	}
	return refused.Claim + " " + found
}
