package main

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
)

// maxChangesShown bounds how many changes the log names for one reload.
const maxChangesShown = 20

// changes is changeList in one line for the log, with at most maxChangesShown of them.
func changes(started, before, after *config.Config) string {
	all := changeList(started, before, after)
	if len(all) == 0 {
		return "nothing changed"
	}
	if more := len(all) - maxChangesShown; more > 0 {
		all = append(all[:maxChangesShown], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, "; ")
}

// changeList says in what the config after a reload differs from the one before: which
// servers, tenants and issuers were added, removed or changed, and in which keys. It
// never says a value, because a value may be a secret.
//
// A setting that only a restart changes is compared twice: with the config before, for
// whether it changed, and with started, the config that the process runs with, for
// whether the process now needs a restart. An operator who undoes such a change reads
// that it is back at what runs.
func changeList(started, before, after *config.Config) []string {
	all := slices.Concat(
		compared("server", before.Servers, after.Servers, serverName, serverChanges),
		compared("tenant", before.Tenants, after.Tenants, tenantName, tenantChanges),
		compared("issuer", before.Issuers, after.Issuers, entryName(before, after), issuerChanges),
		compared("login", before.Logins, after.Logins,
			func(l *config.Login) string { return l.Name }, loginChanges),
		compared("client", before.Clients, after.Clients,
			clientName, func(a, b *clients.Fixed) []string {
				return differing(map[string]bool{"settings": reflect.DeepEqual(a, b)})
			}),
	)
	for _, name := range differing(map[string]bool{
		"access_keys":      before.AccessKeys == after.AccessKeys,
		"registration":     before.Registration == after.Registration,
		"spent_tokens":     before.SpentTokens == after.SpentTokens,
		"advertise":        reflect.DeepEqual(before.Advertise, after.Advertise),
		"scopes_supported": reflect.DeepEqual(before.ScopesSupported, after.ScopesSupported),
		"public_url":       before.PublicURL == after.PublicURL,
		"allowed_origins":  slices.Equal(before.AllowedOrigins, after.AllowedOrigins),
		"allowed_hosts":    slices.Equal(before.AllowedHosts, after.AllowedHosts),
		"trusted_proxies":  slices.Equal(before.TrustedProxies, after.TrustedProxies),
		"log.level":        before.LogLevel == after.LogLevel,
		"audit.claims":     slices.Equal(before.Records.Claims, after.Records.Claims),
		"keys_file": reflect.DeepEqual(before.Sessions.Keys, after.Sessions.Keys) ||
			len(before.Sessions.Keys) == 0 || len(after.Sessions.Keys) == 0,
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
	return all
}

// compared says which things of one kind were added, removed or changed, in this order:
// added, removed, changed. Two things are the same if their names are. The function keys
// returns the keys in which two things of one name differ, none when they are equal.
func compared[T any](kind string, before, after []T, name func(*T) string,
	keys func(a, b *T) []string,
) []string {
	old := byName(before, name)
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
			changed = append(changed, fmt.Sprintf("%s %s changed (%s)", kind, called,
				strings.Join(differ, ", ")))
		}
	}
	for _, called := range slices.Sorted(maps.Keys(old)) {
		removed = append(removed, kind+" "+called+" removed")
	}
	return slices.Concat(added, removed, changed)
}

// byName returns things by their names.
func byName[T any](all []T, name func(*T) string) map[string]*T {
	named := make(map[string]*T, len(all))
	for i := range all {
		named[name(&all[i])] = &all[i]
	}
	return named
}

// Names of things of a config.
func serverName(s *config.Server) string        { return s.Name }
func tenantName(t *gateway.TenantConfig) string { return t.ID }
func clientName(c *clients.Fixed) string        { return c.ID }

// differing returns the names whose value is false, which are those that are not the
// same, sorted.
func differing(same map[string]bool) []string {
	maps.DeleteFunc(same, func(_ string, is bool) bool { return is })
	return slices.Sorted(maps.Keys(same))
}

// serverChanges names the keys in which two states of a server differ. Any difference at
// all restarts a server.
func serverChanges(a, b *config.Server) []string {
	return differing(map[string]bool{
		"builtin":       reflect.DeepEqual(a.BuiltinKeys(), b.BuiltinKeys()),
		"command":       a.Command == b.Command,
		"args":          slices.Equal(a.Args, b.Args),
		"cwd":           a.Dir == b.Dir,
		"env":           reflect.DeepEqual(a.Env, b.Env),
		"user":          a.Rights.User == b.Rights.User,
		"limits":        a.Rights.Limits == b.Rights.Limits,
		"max_children":  a.MaxChildren == b.MaxChildren,
		"start_timeout": a.StartTimeout == b.StartTimeout,
		"url":           a.URL == b.URL,
		"type":          a.Transport == b.Transport,
		"headers":       reflect.DeepEqual(a.Headers, b.Headers),
		"auth":          reflect.DeepEqual(a.Auth, b.Auth),
		"revision":      a.Revision == b.Revision,
		"shared":        a.Shared == b.Shared,
		"prefix":        a.Prefix == b.Prefix,
		"openapi":       reflect.DeepEqual(a.API, b.API),
		"timeout":       a.Timeout == b.Timeout && reflect.DeepEqual(a.ToolTimeouts, b.ToolTimeouts),
		"idempotent":    slices.Equal(a.Idempotent, b.Idempotent),
		"grace":         a.Grace == b.Grace,
		"released":      slices.Equal(a.Released, b.Released),
		"acknowledge":   a.IdleReleases == b.IdleReleases,
		"pinned":        a.Pinned == b.Pinned,

		"private_addresses": a.PrivateAddresses == b.PrivateAddresses,
	})
}

// loginChanges names the keys in which two states of a login differ.
func loginChanges(a, b *config.Login) []string {
	return differing(map[string]bool{
		"client_id":          a.ClientID == b.ClientID,
		"client_secret_file": a.Secret == b.Secret,
		"client_key_file":    reflect.DeepEqual(a.Key, b.Key),
		"scopes":             slices.Equal(a.Scopes, b.Scopes),
		"title":              a.Title == b.Title,
		"claims":             a.GitHub == b.GitHub && reflect.DeepEqual(a.Issuer, b.Issuer),
		"private_addresses":  a.PrivateAddresses == b.PrivateAddresses,
	})
}

// tenantChanges names the keys in which two states of a tenant differ.
func tenantChanges(a, b *gateway.TenantConfig) []string {
	return differing(map[string]bool{
		"servers":     slices.Equal(a.Servers, b.Servers),
		"rules":       slices.EqualFunc(a.Rules, b.Rules, sameRule),
		"limits":      reflect.DeepEqual(a.Limits, b.Limits),
		"output":      reflect.DeepEqual(a.Output, b.Output),
		"inline_refs": a.InlineRefs == b.InlineRefs,
		"card":        a.Card == b.Card,
	})
}

// sameRule tells whether two rules say the same, wherever they stand.
func sameRule(a, b gateway.Rule) bool {
	b.Line = a.Line
	return reflect.DeepEqual(a, b)
}

// entryName returns what names an entry of an issuer: with an audience if a config has
// several of that issuer.
func entryName(before, after *config.Config) func(*config.Issuer) string {
	several := make(map[string]bool)
	for _, cfg := range []*config.Config{before, after} {
		seen := make(map[string]bool)
		for i := range cfg.Issuers {
			name := cfg.Issuers[i].Issuer.Issuer
			several[name] = several[name] || seen[name]
			seen[name] = true
		}
	}
	return func(i *config.Issuer) string {
		if several[i.Issuer.Issuer] {
			return i.Issuer.Issuer + " for " + i.Audiences[0]
		}
		return i.Issuer.Issuer
	}
}

// issuerChanges names the keys in which two states of an issuer differ. The word keys
// stands for its key files: their names may be unchanged although their contents are not.
func issuerChanges(a, b *config.Issuer) []string {
	return differing(map[string]bool{
		"keys":              reflect.DeepEqual(a.Keys, b.Keys) && slices.Equal(a.JWKS, b.JWKS),
		"jwks_url":          a.JWKSURL == b.JWKSURL,
		"keys_refresh":      a.KeysRefresh == b.KeysRefresh,
		"keys_stale":        a.KeysStale == b.KeysStale,
		"algorithms":        slices.Equal(a.Algorithms, b.Algorithms),
		"audiences":         slices.Equal(a.Audiences, b.Audiences),
		"tenant":            a.Tenant == b.Tenant,
		"tenants":           a.TenantClaim == b.TenantClaim && maps.Equal(a.TenantMap, b.TenantMap),
		"tenants_allowed":   slices.Equal(a.TenantsAllowed, b.TenantsAllowed),
		"scopes":            slices.Equal(a.ScopeClaims, b.ScopeClaims) && maps.Equal(a.ScopeMap, b.ScopeMap),
		"require":           maps.Equal(a.Require, b.Require),
		"subject_claim":     a.SubjectClaim == b.SubjectClaim,
		"name_claim":        a.NameClaim == b.NameClaim,
		"max_token_life":    a.MaxLifetime == b.MaxLifetime,
		"private_addresses": a.PrivateAddresses == b.PrivateAddresses,
	})
}

// restartNeeded names the settings in which next differs from started, the config of the
// process, and which only a restart changes.
func restartNeeded(started, next *config.Config) []string {
	return differing(map[string]bool{
		"listen":               started.Listen == next.Listen,
		"operator":             started.Operator == next.Operator,
		"revisions.legacy_sse": started.LegacySSE == next.LegacySSE,
		"audit.file":           started.Audit.File == next.Audit.File,
		"audit.when_full":      started.Audit.Drop == next.Audit.Drop,
		"audit.sync":           started.Audit.Always == next.Audit.Always,
		"audit.arguments":      reflect.DeepEqual(started.Records.Arguments, next.Records.Arguments),
		"audit.key_file":       reflect.DeepEqual(started.Records.Keys, next.Records.Keys),
		"limits":               started.Limits == next.Limits,
		"extensions":           slices.Equal(started.PassedExtensions, next.PassedExtensions),
		"card":                 started.Card == next.Card,
		"lists.page_size":      started.PageSize == next.PageSize,
		"replicas":             max(started.Replicas, 1) == max(next.Replicas, 1),
		"redis":                reflect.DeepEqual(started.Redis, next.Redis),
		"link":                 started.Link == next.Link,
		"sessions":             reflect.DeepEqual(withoutKeys(started.Sessions), withoutKeys(next.Sessions)),
		"sessions.keys_file":   (len(started.Sessions.Keys) == 0) == (len(next.Sessions.Keys) == 0),
		"key_sets_dir":         started.KeySetsDir == next.KeySetsDir,
		"data":                 started.Data == next.Data,
		"sign_in":              started.SignsIn() || !next.SignsIn(),
		"log.format":           started.LogFormat == next.LogFormat,
	})
}

// withoutKeys returns the settings of sessions without the keys, which a reload may
// replace by others.
func withoutKeys(s config.Sessions) config.Sessions {
	s.Keys, s.KeysFile = nil, ""
	return s
}
