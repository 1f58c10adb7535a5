package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
)

// tokenRequest is what is asked of a token.
type tokenRequest struct {
	issuer          string // "": the first one that can sign for the tenant
	tenant, subject string
	scopes          []string
	ttl             time.Duration // over zero, at most auth.MaxLifetime
}

// tokenHelp is the help of the command token.
var tokenHelp = help{
	"-config F -tenant T -subject S [-scopes a,b] [-ttl 1h] | -explain F",
	"Signs a token, for trials, with an issuer of the config whose private or shared key is in the config. " +
		"The token alone goes to standard output.\n" +
		"With -explain it says what becomes of a token that somebody has: tenants, scopes, or which claim " +
		"is at fault.",
}

// tokenCommand is the command token. The token alone goes to standard output, so that a
// script can take it; all that is said about it goes to standard error.
func tokenCommand(flags *flag.FlagSet) action {
	file := flags.String("config", defaultConfigFile, "the config `file`")
	var request tokenRequest
	flags.StringVar(&request.issuer, "issuer", "", "which issuer signs (the first one that can)")
	flags.StringVar(&request.tenant, "tenant", "", "the `id` of the tenant")
	flags.StringVar(&request.subject, "subject", "", "who the token is for")
	scopes := flags.String("scopes", "", "scopes, separated by commas")
	flags.DurationVar(&request.ttl, "ttl", time.Hour, "how long it lives, at most 24h")
	explain := flags.String("explain", "",
		"a `file` with a token to be explained, and nothing signed; - is standard input")
	online := flags.Bool("online", false, "with -explain: fetch the keys of issuers, to check the signature")
	return func(ctx context.Context, _ []string, s streams) error {
		if *explain != "" {
			if err := without(flags, "-explain", "issuer", "subject", "scopes", "ttl"); err != nil {
				return err
			}
			return explainToken(ctx, asked{
				file: *file, tokenFile: *explain, tenant: request.tenant,
				online: *online,
			}, s)
		}
		if err := refusedFirst(
			wrong{request.tenant == "" || request.subject == "", "-tenant and -subject are needed"},
			wrong{*online, "-online goes with -explain alone"},
			wrong{
				request.ttl <= 0 || request.ttl > auth.MaxLifetime,
				"-ttl must be over zero and at most 24h",
			}); err != nil {
			return err
		}
		request.scopes = scopesOf(*scopes)
		cfg, err := config.LoadSigners(*file, config.ProcessEnvironment())
		if err != nil {
			return refusedConfig(err)
		}
		token, iss, err := signToken(cfg, request, time.Now())
		if err != nil {
			return err
		}
		s.complain("A token for trials, signed as %s for tenant %s, good for %s. Whoever holds it is "+
			"%[1]s#%[4]s.\n",
			iss.Issuer.Issuer, request.tenant, request.ttl, request.subject)
		s.say("%s\n", token)
		return nil
	}
}

// explainToken says whom a token speaks for, or why it is refused.
func explainToken(ctx context.Context, q asked, s streams) error {
	cfg, err := config.Load(q.file, config.ProcessEnvironment())
	if err != nil {
		return refusedConfig(err)
	}
	w := &walk{cfg: cfg, asked: q}
	_, why, err := w.principal(ctx)
	s.say("%s", w.out.String())
	if err == nil && why != nil {
		return errUnsaid
	}
	return err
}

// signToken signs a token with the first issuer of the config that serves the tenant and
// whose private or shared key the config has. It returns that issuer too. Real issuers
// keep their private keys to themselves, so it works with keys for trials only.
func signToken(cfg *config.Config, request tokenRequest, now time.Time) (string, config.Issuer, error) {
	if err := cmp.Or(checkTenant(cfg, request.tenant), checkIssuer(cfg, request.issuer),
		subjectAlone(cfg, request.subject)); err != nil {
		return "", config.Issuer{}, err
	}
	for _, iss := range cfg.Issuers {
		if request.issuer != "" && request.issuer != iss.Issuer.Issuer || !serves(&iss, request.tenant) {
			continue
		}
		for _, key := range iss.Keys {
			if algorithm := key.AlgorithmAmong(iss.Algorithms); algorithm != "" {
				if life := cmp.Or(iss.MaxLifetime, auth.MaxLifetime); request.ttl > life {
					return "", iss, fmt.Errorf("the gateway would refuse it: max_token_life of the issuer "+
						"%s is %s; write -ttl %[2]s", iss.Issuer.Issuer, life)
				}
				claims, err := claimsOf(iss, request, now)
				if err != nil {
					return "", iss, err
				}
				token, err := auth.Sign(key, algorithm, claims)
				return token, iss, err
			}
		}
	}
	return "", config.Issuer{},
		errors.New(
			"no issuer of this tenant has its private or shared key in the config; ask the issuer for a " +
				"token")
}

// checkIssuer returns an error unless the config has an issuer of that name. The name ""
// stands for any issuer.
func checkIssuer(cfg *config.Config, name string) error {
	var names []string
	for _, iss := range cfg.Issuers {
		names = append(names, iss.Issuer.Issuer)
	}
	if name == "" || slices.Contains(names, name) {
		return nil
	}
	return unknownIssuer(name, names)
}

// unknownIssuer returns the error for an issuer that is none of names, which may have one
// more than once.
func unknownIssuer(name string, names []string) error {
	near := cmp.Or(hint(name, names), "; there are "+strings.Join(distinct(names), ", "))
	return fmt.Errorf("there is no issuer %q%s", name, near)
}

// serves tells whether tokens of the issuer may be for the tenant.
func serves(iss *config.Issuer, tenant string) bool {
	return slices.Contains(iss.AllTenants(), tenant)
}

// claimsOf returns the claims of a token: those that the config makes the verifier look
// for, where it looks for them.
func claimsOf(iss config.Issuer, request tokenRequest, now time.Time) (auth.Claims, error) {
	extra := map[string]any{}
	value := request.tenant
	for _, from := range slices.Sorted(maps.Keys(iss.TenantMap)) {
		if iss.TenantMap[from] == request.tenant {
			value = from
			break
		}
	}
	faults := []error{auth.PutClaim(extra, iss.TenantClaim, value), auth.PutClaim(extra, iss.SubjectClaim,
		request.subject)}
	for at, want := range iss.Require {
		faults = append(faults, auth.PutClaim(extra, at, want))
	}
	if len(request.scopes) > 0 {
		at := "scope"
		if len(iss.ScopeClaims) > 0 {
			at = iss.ScopeClaims[0]
		}
		faults = append(faults, auth.PutClaim(extra, at, strings.Join(request.scopes, " ")))
	}
	return auth.Claims{
		Issuer:   iss.Issuer.Issuer,
		Subject:  request.subject,
		Audience: iss.Audiences[0],
		Extra:    extra,
		IssuedAt: now,
		Expiry:   now.Add(request.ttl),
	}, errors.Join(faults...)
}
