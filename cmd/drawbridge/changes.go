package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
)

// maxChangesShown bounds the changes that the log names of one reload.
const maxChangesShown = 20

// changes says for the log in what one config differs from the one before it: what came, went or changed, by names of
// the config. None of its values is told, because it may be a secret. started is the config that the process runs with
// where only a restart changes a setting: what is again as it runs needs none.
func changes(started, before, after *config.Config) string {
	var all []string
	all = append(all, compared("server", before.Servers, after.Servers, func(s *config.Server) string { return s.Name }, serverChanges)...)
	all = append(all, compared("tenant", before.Tenants, after.Tenants, func(t *gateway.TenantConfig) string { return t.ID }, tenantChanges)...)
	all = append(all, compared("issuer", before.Issuers, after.Issuers, func(i *config.Issuer) string { return i.Issuer.Issuer }, issuerChanges)...)
	for _, name := range differing(map[string]bool{
		"public_url":      before.PublicURL == after.PublicURL,
		"allowed_origins": slices.Equal(before.AllowedOrigins, after.AllowedOrigins),
		"allowed_hosts":   slices.Equal(before.AllowedHosts, after.AllowedHosts),
		"trusted_proxies": slices.Equal(before.TrustedProxies, after.TrustedProxies),
		"log.level":       before.LogLevel == after.LogLevel,
	}) {
		all = append(all, name+" changed")
	}
	restart := restartNeeded(started, after)
	for _, name := range restartNeeded(before, after) {
		if slices.Contains(restart, name) {
			all = append(all, name+" changed (needs a restart)")
		} else {
			all = append(all, name+" changed back to what runs")
		}
	}
	if len(all) == 0 {
		return "nothing changed"
	}
	if more := len(all) - maxChangesShown; more > 0 {
		all = append(all[:maxChangesShown], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, "; ")
}

// compared says which things of one kind came, went or changed. keys returns the names of the keys in which two of one
// name differ, none when they are the same.
func compared[T any](kind string, before, after []T, name func(*T) string, keys func(a, b *T) []string) []string {
	old := make(map[string]*T, len(before))
	for i := range before {
		old[name(&before[i])] = &before[i]
	}
	var added, changed, removed []string
	for i := range after {
		called := name(&after[i])
		was := old[called]
		delete(old, called)
		if was == nil {
			added = append(added, kind+" "+called+" added")
			continue
		}
		if differ := keys(was, &after[i]); len(differ) > 0 {
			changed = append(changed, fmt.Sprintf("%s %s changed (%s)", kind, called, strings.Join(differ, ", ")))
		}
	}
	for called := range old {
		removed = append(removed, kind+" "+called+" removed")
	}
	slices.Sort(removed)
	return slices.Concat(added, removed, changed)
}

// differing returns the names that are not the same, in order.
func differing(same map[string]bool) []string {
	var names []string
	for name, is := range same {
		if !is {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// serverChanges names the keys in which two states of a server differ. Any other difference restarts it too, and is
// called settings.
func serverChanges(a, b *config.Server) []string {
	if reflect.DeepEqual(a, b) {
		return nil
	}
	names := differing(map[string]bool{
		"builtin":       slices.Equal(a.Builtin, b.Builtin),
		"command":       a.Command == b.Command,
		"args":          slices.Equal(a.Args, b.Args),
		"cwd":           a.Dir == b.Dir,
		"env":           reflect.DeepEqual(a.Env, b.Env),
		"max_children":  a.MaxChildren == b.MaxChildren,
		"start_timeout": a.StartTimeout == b.StartTimeout,
		"url":           a.URL == b.URL,
		"type":          a.Transport == b.Transport,
		"headers":       reflect.DeepEqual(a.Headers, b.Headers),
		"revision":      a.Revision == b.Revision,
		"shared":        a.Shared == b.Shared,
		"prefix":        a.Prefix == b.Prefix,
		"openapi":       reflect.DeepEqual(a.API, b.API),
		"timeout":       a.Timeout == b.Timeout && reflect.DeepEqual(a.ToolTimeouts, b.ToolTimeouts),
		"idempotent":    slices.Equal(a.Idempotent, b.Idempotent),
	})
	if len(names) == 0 {
		return []string{"settings"}
	}
	return names
}

// tenantChanges names the keys in which two states of a tenant differ.
func tenantChanges(a, b *gateway.TenantConfig) []string {
	return differing(map[string]bool{
		"servers":     slices.Equal(a.Servers, b.Servers),
		"rules":       reflect.DeepEqual(a.Rules, b.Rules),
		"limits":      reflect.DeepEqual(a.Limits, b.Limits),
		"output":      reflect.DeepEqual(a.Output, b.Output),
		"inline_refs": a.InlineRefs == b.InlineRefs,
	})
}

// issuerChanges names the keys in which two states of an issuer differ; keys are those of its files, whose names may be
// the same.
func issuerChanges(a, b *config.Issuer) []string {
	return differing(map[string]bool{
		"keys":              reflect.DeepEqual(a.Keys, b.Keys) && slices.Equal(a.JWKS, b.JWKS),
		"jwks_url":          a.JWKSURL == b.JWKSURL,
		"algorithms":        slices.Equal(a.Algorithms, b.Algorithms),
		"audiences":         slices.Equal(a.Audiences, b.Audiences),
		"tenant":            a.Tenant == b.Tenant && a.TenantClaim == b.TenantClaim && slices.Equal(a.TenantsAllowed, b.TenantsAllowed),
		"scope_claim":       a.ScopeClaim == b.ScopeClaim,
		"private_addresses": a.PrivateAddresses == b.PrivateAddresses,
	})
}
